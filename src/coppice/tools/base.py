"""What a tool is: a name, a schema and an async function of its arguments.

A tool knows its directory and its call, nothing of sessions, models or the loop.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from coppice.format.messages import JsonObject, JsonValue, TextBlock, ToolCallId, UserBlock


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool call gave. ``details`` is for people and programs, the model is not sent it."""

    content: tuple[UserBlock, ...]
    details: JsonValue = None
    is_error: bool = False


def text_result(text: str, details: JsonValue = None, *, is_error: bool = False) -> ToolResult:
    """A result of one text block."""
    return ToolResult((TextBlock(text),), details, is_error)


def _ignore(_: ToolResult) -> None:
    return None


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Where a call runs.

    ``cwd`` is the session's directory: relative paths resolve from it. ``output_dir`` takes files with full outputs
    (made with mode 0700 when first needed). ``update`` shows a partial result; each replaces the one before.
    """

    cwd: Path
    output_dir: Path
    call_id: ToolCallId = ToolCallId("")
    update: Callable[[ToolResult], None] = _ignore


class Tool(Protocol):
    """Something the model can call."""

    @property
    def name(self) -> str:
        """The name the model calls it by: letters, digits, ``_`` and ``-``."""
        ...

    @property
    def description(self) -> str:
        """What the model is told the tool does."""
        ...

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema (type object) of the arguments."""
        ...

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Do it. Cancellation must stop whatever was started, and propagates.

        Raises:
            ToolError: it failed in a way the model should hear of; the text is what the model is told.
            InvalidArguments: the arguments do not fit `parameters`.
        """
        ...
