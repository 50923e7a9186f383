"""The write tool: a whole file, new or replaced."""

import threading
from typing import Annotated

import msgspec

from coppice.errors import ToolError
from coppice.tools.background import in_thread
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.files import exclusive, real_target, replace_file
from coppice.tools.paths import resolved, told_to_the_model
from coppice.tools.truncate import well_formed
from coppice.tools.typed_tool import TypedTool


class WriteArguments(msgspec.Struct, frozen=True):
    """What write takes."""

    path: Annotated[str, msgspec.Meta(description="File to write, relative or absolute")]
    content: Annotated[str, msgspec.Meta(description="The whole new content of the file")]


async def write(arguments: WriteArguments, context: ToolContext) -> ToolResult:
    """Write a file, with its parent directories where they are missing.

    Raises:
        ToolError: the file cannot be written; it is as it was.
    """
    path = resolved(arguments.path, context.cwd)
    data = well_formed(arguments.content).encode("utf-8")

    def work(stop: threading.Event) -> ToolResult:
        with told_to_the_model("write", arguments.path):
            target = real_target(path, arguments.path)
            target.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(target):
                if stop.is_set():
                    raise ToolError("Cancelled; nothing was written")
                created = not target.exists()
                replace_file(target, data)
        text = f"{'Created' if created else 'Replaced'} {arguments.path} ({len(data)} bytes written)"
        return text_result(text, {"bytes": len(data), "created": created})

    return await in_thread(work)


WRITE: Tool = TypedTool(
    name="write",
    description=(
        "Write a file: it is created, with its parent directories, or replaced as a whole. To change a part of a file, "
        "use edit."
    ),
    arguments=WriteArguments,
    call=write,
)
