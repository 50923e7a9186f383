"""Which tools a model is offered when nobody chose. Pure."""

from coppice.tools.toolset import DEFAULT_TOOLS

READING_TOOLS = ("read", "grep", "find", "ls")
"""The tools that change nothing."""


def default_tools(model_name: str, setting: tuple[str, ...]) -> tuple[str, ...]:
    """The tools for a model by its name: what the settings say, and for the demo model only those that read."""
    return READING_TOOLS if is_demo(model_name) and setting == DEFAULT_TOOLS else setting


def is_demo(model_name: str) -> bool:
    """Whether a name ``provider/id`` is the demo model's."""
    return model_name.partition("/")[0] == "demo"


def tools_after_switch(
    before: str, after: str, on: tuple[str, ...], setting: tuple[str, ...]
) -> tuple[str, ...] | None:
    """The tools after a switch of models, given by name; None where someone chose them, so that they stay."""
    return default_tools(after, setting) if on == default_tools(before, setting) else None
