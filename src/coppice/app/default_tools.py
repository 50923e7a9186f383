"""Which tools a model is offered when nobody chose. Pure."""

from coppice.providers.base import ModelInfo
from coppice.tools.toolset import DEFAULT_TOOLS

READING_TOOLS = ("read", "grep", "find", "ls")
"""The tools that change nothing."""


def default_tools(model: ModelInfo, setting: tuple[str, ...]) -> tuple[str, ...]:
    """The tools for a model: what the settings say, and for the demo model only those that read."""
    return READING_TOOLS if model.provider == "demo" and setting == DEFAULT_TOOLS else setting


def tools_after_switch(
    before: ModelInfo, after: ModelInfo, on: tuple[str, ...], setting: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The tools after a switch of models; None where someone chose them, so that they stay."""
    return default_tools(after, setting) if on == default_tools(before, setting) else None
