"""Which models there are: a name such as ``anthropic/claude-sonnet-5-5`` becomes a `Model`.

Importing this costs nothing: the adapters and their libraries are imported when a model of theirs is resolved.
"""

from collections.abc import Mapping
from urllib.parse import urlsplit

from coppice.errors import UnknownModel
from coppice.providers.address import is_loopback, is_server_address
from coppice.providers.auth import KEY_VARIABLES, key_from
from coppice.providers.base import Model

DEFAULT_MODELS = {"anthropic": "anthropic/claude-sonnet-5-5", "openai": "openai/gpt-6.1-sol"}
"""Provider -> the model to begin with: its middle model for coding, by the model descriptions in genai-prices 0.2.3
("the best combination of speed and intelligence", "complex coding and professional work at a lower cost")."""

BASE_URL_VARIABLES = {"anthropic": "ANTHROPIC_BASE_URL", "openai": "OPENAI_BASE_URL"}
"""Provider -> the environment variable its own SDK reads another server's address from."""

EXAMPLES = "anthropic/ID, openai/ID, demo, scripted/PATH"

OFFICIAL_OPENAI_HOST = "api.openai.com"


def find_default_model(environ: Mapping[str, str]) -> str | None:
    """The name of the model to use when nobody chose one: of the first provider there is a key for; None for none."""
    return next((name for provider, name in DEFAULT_MODELS.items() if key_from(environ, provider)), None)


def resolve_model(
    name: str,
    *,
    base_url: str | None = None,
    environ: Mapping[str, str],
    remote_compaction: tuple[str, ...] | None = None,
) -> Model:
    """The model of a name ``provider/id``. ``base_url`` is another server that speaks the provider's protocol.

    ``demo`` is the model in the package, ``scripted/PATH`` plays a script. ``remote_compaction`` names the forms of
    compaction the server offers, None for what is known of it: only the providers' own servers offer any. A server
    other than OpenAI's that is said to offer one speaks Responses, for the forms are of that API.

    Raises:
        UnknownModel: no such provider, no id, no key, or an address that is none.
    """
    provider, _, model_id = name.partition("/")
    key, server = access_to(name, base_url=base_url, environ=environ)
    if provider == "demo":
        from coppice.providers.demo import DemoModel

        return DemoModel()
    if provider == "scripted":
        from coppice.providers.scripted import load_script

        return load_script(model_id)
    make = anthropic if provider == "anthropic" else openai
    return make(name, key, server, remote_compaction)


def access_to(name: str, *, base_url: str | None, environ: Mapping[str, str]) -> tuple[str | None, str | None]:
    """The key and the server's address for a model, None where it needs none; no library is loaded.

    Raises:
        UnknownModel: as `resolve_model`.
    """
    provider, _, model_id = name.partition("/")
    if provider == "demo":
        return None, None
    if provider not in ("anthropic", "openai", "scripted"):
        raise UnknownModel(f"no model {name!r}: a model is named provider/id, one of {EXAMPLES}")
    if not model_id:
        raise UnknownModel(f"no model {name!r}: the id after {provider}/ is missing")
    if provider == "scripted":
        return None, None
    server = checked(base_url or environ.get(BASE_URL_VARIABLES[provider], "").strip() or None)
    key = key_from(environ, provider)
    return (key if is_loopback(server) else needed(key, name)), server


def warm_up(name: str) -> None:
    """Load the library a model needs, which takes a second: for a thread, while the user still types."""
    match name.partition("/")[0]:
        case "anthropic":
            pass
        case "openai":
            pass
        case _:
            pass


def anthropic(name: str, key: str | None, base_url: str | None, forms: tuple[str, ...] | None) -> Model:
    """Anthropic, or another server that speaks its Messages API; one on this machine needs no key."""
    from coppice.providers.pydantic_ai.anthropic import anthropic_model

    return anthropic_model(name.partition("/")[2], key, base_url, remote_compaction=forms)


def openai(name: str, key: str | None, base_url: str | None, forms: tuple[str, ...] | None) -> Model:
    """OpenAI itself speaks Responses, every other server Chat Completions; one on this machine needs no key."""
    from coppice.providers.pydantic_ai.openai import completions_model, responses_model

    model_id = name.partition("/")[2]
    if base_url is None or urlsplit(base_url).hostname == OFFICIAL_OPENAI_HOST:
        return responses_model(model_id, key, remote_compaction=forms)
    if forms:
        return responses_model(model_id, key, base_url, remote_compaction=forms)
    return completions_model(model_id, key, base_url)


def needed(key: str | None, name: str) -> str:
    """The key, which the model of this name cannot do without."""
    if key is None:
        variable = KEY_VARIABLES[name.partition("/")[0]]
        raise UnknownModel(f"no key for {name}: set {variable}, or take --model demo, which needs none")
    return key


def checked(base_url: str | None) -> str | None:
    """The address itself, if it is one."""
    if base_url is not None and not is_server_address(base_url):
        raise UnknownModel(f"{base_url!r} is no address of a server: expected http://HOST or https://HOST")
    return base_url
