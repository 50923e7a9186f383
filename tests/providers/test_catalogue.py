"""Names of models, and what they need."""

import subprocess
import sys
from pathlib import Path

import pytest

from coppice.errors import UnknownModel
from coppice.providers.base import ModelInfo
from coppice.providers.catalogue import find_default_model, resolve_model

LOCAL = "http://127.0.0.1:8080/v1"
KEYS = {"ANTHROPIC_API_KEY": "sk-a-secret", "OPENAI_API_KEY": "sk-o-secret"}


def test_anthropic_and_openai_resolve_to_their_own_apis_with_known_windows() -> None:
    assert resolve_model("anthropic/claude-sonnet-4-5", environ=KEYS).info == ModelInfo(
        provider="anthropic",
        id="claude-sonnet-4-5",
        api="anthropic-messages",
        context_window=200_000,
        max_output=64_000,
        base_url="https://api.anthropic.com",
        account="b927fb48b4c65ae9",
    )
    assert resolve_model("openai/gpt-6.1-sol", environ=KEYS).info == ModelInfo(
        provider="openai",
        id="gpt-6.1-sol",
        api="openai-responses",
        context_window=1_050_000,
        base_url="https://api.openai.com/v1",
        account="a38f243475132d71",
        remote_compaction=("openai-v1", "openai-v2"),
    )


@pytest.mark.parametrize("environ", [{}, {"OPENAI_BASE_URL": "http://ignored:1/v1"}])
def test_a_server_on_this_machine_speaks_chat_completions_and_needs_no_key(environ: dict[str, str]) -> None:
    assert resolve_model("openai/qwen/qwen3:4b", base_url=LOCAL, environ=environ).info == ModelInfo(
        provider="openai", id="qwen/qwen3:4b", api="openai-completions", base_url=LOCAL
    )


def test_the_address_of_a_server_can_stand_in_the_environment() -> None:
    assert resolve_model("openai/local", environ={"OPENAI_BASE_URL": LOCAL}).info.base_url == LOCAL
    with_key = KEYS | {"ANTHROPIC_BASE_URL": "https://proxy.example"}
    assert resolve_model("anthropic/claude-opus-5-5", environ=with_key).info.base_url == "https://proxy.example"


@pytest.mark.parametrize(
    ("name", "base_url", "text"),
    [
        ("gpt-6.1-sol", None, "no model 'gpt-6.1-sol': a model is named provider/id, one of"),
        ("mistral/large", None, "no model 'mistral/large': a model is named provider/id, one of"),
        ("", None, "no model '': a model is named provider/id, one of"),
        ("anthropic", None, "no model 'anthropic': the id after anthropic/ is missing"),
        ("openai/", None, "no model 'openai/': the id after openai/ is missing"),
        ("anthropic/claude-opus-5-5", None, "no key for anthropic/claude-opus-5-5: set ANTHROPIC_API_KEY"),
        ("openai/gpt-6.1-sol", None, "no key for openai/gpt-6.1-sol: set OPENAI_API_KEY"),
        ("openai/m", "https://gateway.example/v1", "no key for openai/m: set OPENAI_API_KEY"),
        ("openai/m", "localhost:8080", "'localhost:8080' is no address of a server"),
        ("openai/m", "http://[::1", "'http://[::1' is no address of a server"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_in_one_line(name: str, base_url: str | None, text: str) -> None:
    with pytest.raises(UnknownModel) as caught:
        resolve_model(name, base_url=base_url, environ={"ANTHROPIC_API_KEY": "  ", "OTHER_API_KEY": "x"})
    assert str(caught.value).startswith(text)
    assert "\n" not in str(caught.value)


def test_the_default_model_is_of_the_first_provider_there_is_a_key_for() -> None:
    assert find_default_model({}) is None
    assert find_default_model({"ANTHROPIC_API_KEY": ""}) is None
    assert find_default_model(KEYS) == "anthropic/claude-sonnet-5-5"
    assert find_default_model({"OPENAI_API_KEY": "k"}) == "openai/gpt-6.1-sol"


def test_the_default_models_are_known_to_the_price_data() -> None:
    names = [find_default_model({variable: "k"}) for variable in KEYS]
    windows = [resolve_model(name, environ=KEYS).info.context_window for name in names if name is not None]
    assert windows == [1_000_000, 1_050_000]


def test_the_demo_model_and_a_script_resolve_without_a_key(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"replies": [{"text": "Hello."}]}')
    assert resolve_model("demo", environ={}).info.provider == "demo"
    assert resolve_model(f"scripted/{script}", environ={}).info.provider == "scripted"


def test_a_key_shows_in_no_repr_of_a_model() -> None:
    models = [resolve_model(name, environ=KEYS) for name in ("anthropic/claude-opus-5-5", "openai/gpt-6.1-sol")]
    assert "secret" not in repr(models)


def test_importing_the_catalogue_loads_no_provider_library() -> None:
    heavy = "{'pydantic_ai', 'pydantic', 'openai', 'anthropic', 'httpx', 'httpx2', 'genai_prices', 'asyncio'}"
    code = f"import sys; import coppice.providers.catalogue; print(sorted({heavy} & set(sys.modules)))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "[]\n"
