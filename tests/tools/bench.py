"""A directory to work in, and what a call has been showing."""

from pathlib import Path

from coppice.format.messages import JsonObject, ToolCallId, text_of
from coppice.tools.base import Tool, ToolContext, ToolResult


class Bench:
    """Runs tools in a directory of its own; ``shown`` are the texts of partial results so far."""

    def __init__(self, directory: Path) -> None:
        self.cwd = directory / "work"
        self.cwd.mkdir()
        self.output_dir = directory / "state" / "outputs"
        self.shown: list[str] = []
        self.context = ToolContext(self.cwd, self.output_dir, ToolCallId("call_1"), self._show)

    def _show(self, partial: ToolResult) -> None:
        self.shown.append(text_of(partial.content))

    def file(self, name: str, content: str | bytes = "") -> Path:
        path = self.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return path

    async def result(self, tool: Tool, arguments: JsonObject) -> ToolResult:
        return await tool.run(arguments, self.context)

    async def text(self, tool: Tool, arguments: JsonObject) -> str:
        return text_of((await self.result(tool, arguments)).content)
