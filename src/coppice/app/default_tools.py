"""Which tools a model is offered when nobody chose, and that none works in a directory that is gone."""

from collections.abc import Iterable
from dataclasses import dataclass

from coppice.errors import ToolError
from coppice.format.messages import JsonObject
from coppice.providers.base import ModelInfo
from coppice.tools.base import Tool, ToolContext, ToolResult
from coppice.tools.toolset import DEFAULT_TOOLS, make_tools

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


@dataclass(frozen=True, slots=True)
class InItsDirectory:
    """A tool that fails where the session's directory is gone, so that it cannot make that directory anew."""

    tool: Tool

    @property
    def name(self) -> str:
        """See `Tool`."""
        return self.tool.name

    @property
    def description(self) -> str:
        """See `Tool`."""
        return self.tool.description

    @property
    def parameters(self) -> JsonObject:
        """See `Tool`."""
        return self.tool.parameters

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """See `Tool`.

        Raises:
            ToolError: the directory is gone.
        """
        if not context.cwd.is_dir():
            raise ToolError(f"The session's directory {context.cwd} is gone; no tool works there")
        return await self.tool.run(arguments, context)


def tools_in_directory(names: Iterable[str]) -> tuple[Tool, ...]:
    """The tools of these names, each failing where the session's directory is gone.

    Raises:
        UsageError: there is no tool of one of the names.
    """
    return tuple(InItsDirectory(tool) for tool in make_tools(names).values())
