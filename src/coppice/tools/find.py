"""The find tool: files and directories by a glob pattern."""

import threading
from pathlib import Path
from typing import Annotated

import msgspec

from coppice.errors import ToolError
from coppice.tools.background import in_thread
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.glob import path_matcher
from coppice.tools.listing import listing, one_line
from coppice.tools.paths import resolved_existing, told_to_the_model
from coppice.tools.typed_tool import TypedTool
from coppice.tools.walk import searched_directory, walk

DEFAULT_LIMIT = 1000
"""Paths returned when the call does not say. Source: what users of Pi know."""


class FindArguments(msgspec.Struct, frozen=True):
    """What find takes."""

    pattern: Annotated[
        str,
        msgspec.Meta(
            description="Glob: without / it matches names at any depth (*.py), else paths from the search directory "
            "(src/**/*.py)"
        ),
    ]
    path: Annotated[
        str | None, msgspec.Meta(description="Directory to search; the working directory when left out")
    ] = None
    limit: Annotated[int | None, msgspec.Meta(description=f"How many paths at most; {DEFAULT_LIMIT} when left out")] = (
        None
    )


async def find(arguments: FindArguments, context: ToolContext) -> ToolResult:
    """Find files and directories.

    Raises:
        ToolError: there is no such directory, or the pattern is not a glob.
    """
    if not arguments.pattern:
        raise ToolError("The pattern is empty; use * for everything")
    named = arguments.path or "."
    directory = resolved_existing(named, context.cwd)

    def work(stop: threading.Event) -> ToolResult:
        with told_to_the_model("search", named):
            limit = max(1, arguments.limit or DEFAULT_LIMIT)
            return _found(searched_directory(directory, named), arguments.pattern, limit, stop)

    return await in_thread(work)


FIND: Tool = TypedTool(
    name="find",
    description=(
        "Find files and directories by a glob pattern. Paths come back relative to the search directory, sorted, "
        "directories with a closing /. What .gitignore leaves out is left out. At most "
        f"{DEFAULT_LIMIT} paths unless limit says otherwise."
    ),
    arguments=FindArguments,
    call=find,
)


def _found(directory: Path, pattern: str, limit: int, stop: threading.Event) -> ToolResult:
    matcher = path_matcher(pattern.rstrip("/") or pattern)
    directories_only = pattern.endswith("/")
    rows: list[str] = []
    for found in walk(directory, stop):
        if not matcher.fullmatch(found.path) or (directories_only and not found.is_directory):
            continue
        if len(rows) == limit:
            note = f"{limit} paths shown, there are more. Use limit={2 * limit} or a narrower pattern"
            return listing(rows, notes=[note], details={"resultLimitReached": limit})
        rows.append(one_line(found.path) + ("/" if found.is_directory else ""))
    return listing(rows) if rows else text_result("No files found")
