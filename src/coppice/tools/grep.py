"""The grep tool: lines that match a pattern. With ripgrep where it is on PATH, else in plain Python (search.py)."""

import shutil
from pathlib import Path
from typing import Annotated

import msgspec

from coppice.errors import ToolError
from coppice.format.messages import JsonObject
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.listing import listing
from coppice.tools.paths import resolved_existing, told_to_the_model
from coppice.tools.rows import Rows
from coppice.tools.search import Query
from coppice.tools.searcher import plain_python, ripgrep, run_search
from coppice.tools.truncate import MAX_LINE_CHARS, well_formed
from coppice.tools.typed_tool import TypedTool

DEFAULT_LIMIT = 100
"""Matches returned when the call does not say. Source: what users of Pi know."""

_MAX_CONTEXT = 1000


class GrepArguments(msgspec.Struct, frozen=True, rename="camel"):
    """What grep takes."""

    pattern: Annotated[str, msgspec.Meta(description="Regular expression, or plain text with literal")]
    path: Annotated[
        str | None, msgspec.Meta(description="Directory or file to search; the working directory when left out")
    ] = None
    glob: Annotated[
        str | None,
        msgspec.Meta(description="Only files that match this glob: *.py (names), src/**/*.py (paths), !*.min.js (not)"),
    ] = None
    ignore_case: Annotated[bool | None, msgspec.Meta(description="Take upper and lower case as the same")] = None
    literal: Annotated[bool | None, msgspec.Meta(description="Take the pattern as plain text")] = None
    context: Annotated[int | None, msgspec.Meta(description="Lines to show before and after each match")] = None
    limit: Annotated[
        int | None, msgspec.Meta(description=f"How many matches at most; {DEFAULT_LIMIT} when left out")
    ] = None


async def grep(arguments: GrepArguments, context: ToolContext) -> ToolResult:
    """Search file contents.

    Raises:
        ToolError: there is no such path, or the pattern cannot be used.
    """
    query, target = _query(arguments), _target(arguments.path or ".", context)
    limit = max(1, arguments.limit or DEFAULT_LIMIT)
    rows = Rows(limit, query.context)
    program = shutil.which("rg")
    searcher = plain_python(query, target) if program is None else ripgrep(program, query, target)
    with told_to_the_model("search", arguments.path or "."):
        await run_search(searcher, rows)
    return _told(rows, limit)


GREP: Tool = TypedTool(
    name="grep",
    description=(
        "Search file contents for a pattern. Each row is path:line: text, with context also path-line- text; paths are "
        "relative to the directory searched. What .gitignore leaves out and binary files are not searched. At most "
        f"{DEFAULT_LIMIT} matches unless limit says otherwise; lines are cut after {MAX_LINE_CHARS} characters."
    ),
    arguments=GrepArguments,
    call=grep,
)


def _query(arguments: GrepArguments) -> Query:
    if not arguments.pattern or "\0" in arguments.pattern or "\0" in (arguments.glob or ""):
        raise ToolError("The pattern is empty or holds a NUL character")
    return Query(
        pattern=well_formed(arguments.pattern),
        is_literal=bool(arguments.literal),
        ignores_case=bool(arguments.ignore_case),
        glob=well_formed(arguments.glob) if arguments.glob else None,
        context=min(max(0, arguments.context or 0), _MAX_CONTEXT),
    )


def _target(named: str, context: ToolContext) -> Path:
    target = resolved_existing(named, context.cwd)
    if not target.exists():
        raise ToolError(f"{named} does not exist")
    if not target.is_dir() and not target.is_file():
        raise ToolError(f"{named} is neither a directory nor a regular file")
    return target


def _told(rows: Rows, limit: int) -> ToolResult:
    if not rows.rows:
        return text_result("No matches found")
    notes: list[str] = []
    details: JsonObject = {}
    if rows.limit_reached:
        notes.append(f"{limit} matches shown, there are more. Use limit={2 * limit} or a narrower pattern")
        details["matchLimitReached"] = limit
    if rows.cut_lines:
        notes.append(f"Lines longer than {MAX_LINE_CHARS} characters are cut; use read to see them whole")
        details["linesTruncated"] = True
    return listing(rows.rows, notes=notes, details=details or None)
