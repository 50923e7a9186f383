"""Keys of providers: which environment variable holds one.

Keys from a file come here later. Nothing here sends, stores or prints a key.
"""

from collections.abc import Mapping

KEY_VARIABLES = {"anthropic": "ANTHROPIC_API_KEY", "openai": "OPENAI_API_KEY"}
"""Provider -> the environment variable its own SDK reads its key from."""


def key_from(environ: Mapping[str, str], provider: str) -> str | None:
    """The key for ``provider``, None when there is none. A blank variable counts as not set."""
    variable = KEY_VARIABLES.get(provider)
    if variable is None:
        return None
    return environ.get(variable, "").strip() or None
