"""The ls tool: the names in one directory."""

import os
import threading
from pathlib import Path
from typing import Annotated

import msgspec

from coppice.tools.background import in_thread
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.listing import listing, one_line
from coppice.tools.paths import resolved_existing, told_to_the_model
from coppice.tools.typed_tool import TypedTool
from coppice.tools.walk import searched_directory

DEFAULT_LIMIT = 500
"""Names listed when the call does not say. Source: what users of Pi know."""


class LsArguments(msgspec.Struct, frozen=True):
    """What ls takes."""

    path: Annotated[str | None, msgspec.Meta(description="Directory to list; the working directory when left out")] = (
        None
    )
    limit: Annotated[int | None, msgspec.Meta(description=f"How many names at most; {DEFAULT_LIMIT} when left out")] = (
        None
    )


async def ls(arguments: LsArguments, context: ToolContext) -> ToolResult:
    """List a directory.

    Raises:
        ToolError: there is no such directory, or it cannot be read.
    """
    named = arguments.path or "."
    directory = resolved_existing(named, context.cwd)

    def work(_: threading.Event) -> ToolResult:
        with told_to_the_model("list", named):
            return _listed(searched_directory(directory, named), max(1, arguments.limit or DEFAULT_LIMIT))

    return await in_thread(work)


LS: Tool = TypedTool(
    name="ls",
    description=(
        "List a directory, sorted by name, dotfiles included; directories end in /. At most "
        f"{DEFAULT_LIMIT} names unless limit says otherwise."
    ),
    arguments=LsArguments,
    call=ls,
)


def _listed(directory: Path, limit: int) -> ToolResult:
    with os.scandir(directory) as entries:
        names = sorted((one_line(entry.name) + ("/" if entry.is_dir() else "") for entry in entries), key=_order)
    if not names:
        return text_result("(empty directory)")
    if len(names) <= limit:
        return listing(names)
    note = f"{limit} of {len(names)} names shown. Use limit={len(names)} for all"
    return listing(names[:limit], notes=[note], details={"entryLimitReached": limit})


def _order(name: str) -> tuple[str, str]:
    return name.casefold(), name
