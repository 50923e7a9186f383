"""The environment of the commands that tools start: ours without the keys of model providers.

A command a model wrote has no business with the keys that pay for the model. This is hygiene, no sandbox: a command can
still read whatever files the user can.
"""

import os
import re
from collections.abc import Mapping

KEY_OWNERS = (
    "AI_GATEWAY",
    "ANTHROPIC",
    "AZURE_OPENAI",
    "CEREBRAS",
    "CO",
    "COHERE",
    "COPPICE",
    "DEEPSEEK",
    "FIREWORKS",
    "GEMINI",
    "GOOGLE",
    "GROK",
    "GROQ",
    "HEROKU",
    "KIMI",
    "MINIMAX",
    "MISTRAL",
    "MOONSHOT",
    "MOONSHOTAI",
    "NEBIUS",
    "NVIDIA",
    "OLLAMA",
    "OPENAI",
    "OPENCODE",
    "OPENROUTER",
    "PERPLEXITY",
    "SAMBANOVA",
    "TOGETHER",
    "VERCEL",
    "XAI",
    "ZAI",
    "ZHIPU",
)
"""Beginnings of the names of variables that hold a provider's key; the one place to add another."""

KEY_ENDINGS = ("API_KEY", "AUTH_TOKEN", "ACCESS_TOKEN", "OAUTH_TOKEN")

KEY_NAMES = ("AWS_BEARER_TOKEN_BEDROCK", "GOOGLE_APPLICATION_CREDENTIALS_JSON")
"""Provider keys whose names do not follow the pattern."""

_KEY = re.compile(f"({'|'.join(KEY_OWNERS)})_({'|'.join(KEY_ENDINGS)})(_[0-9]+)?|{'|'.join(KEY_NAMES)}")


def is_provider_key(name: str) -> bool:
    """Whether a variable of this name holds a model provider's key, e.g. ``OPENAI_API_KEY``."""
    return _KEY.fullmatch(name.upper()) is not None


def child_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables a command is started with."""
    return {name: value for name, value in environ.items() if not is_provider_key(name)}
