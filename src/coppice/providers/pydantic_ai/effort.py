"""Our thinking levels as pydantic-ai's."""

from typing import Literal

from pydantic_ai.settings import ThinkingEffort

EFFORTS: dict[str, ThinkingEffort | Literal[False]] = {
    "off": False,
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
"""The levels of THINKING_LEVELS, and ``max``, which sessions of Pi may hold."""


def effort_of(level: str) -> ThinkingEffort | Literal[False] | None:
    """The effort of a thinking level; None for a level nobody here knows: the model then does as it does by default."""
    return EFFORTS.get(level)
