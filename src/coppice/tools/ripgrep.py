"""Searching file contents with ripgrep, told to see what search.py sees."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path

from coppice.errors import ToolError
from coppice.tools.background import settle
from coppice.tools.environment import child_environment
from coppice.tools.search import MAX_LINE_BYTES, Line, Query, Rows
from coppice.tools.truncate import well_formed

_CHUNK = 64 * 1024

_FIXED = (
    "--no-config",
    "--no-messages",
    "--null",
    "--line-number",
    "--no-heading",
    "--with-filename",
    "--color=never",
    "--sort=path",
    "--hidden",
    "--crlf",
    "--no-require-git",
    "--no-ignore-global",
    "--no-ignore-exclude",
    "--no-ignore-dot",
)
"""``--sort`` makes results the same each time; the ``--no-ignore-*`` leave the .gitignore files as the one source."""

_ROW = re.compile(rb"\./(?P<path>[^\0]*)\0(?P<number>[0-9]+)(?P<mark>[:-])(?P<text>.*)", re.DOTALL)


async def ripgrep(program: str, query: Query, rows: Rows) -> None:
    """Search with the ripgrep at ``program``.

    Raises:
        ToolError: ripgrep cannot use the pattern or the glob; the text is its own.
    """
    directory, arguments = _arguments(query)
    process = await asyncio.create_subprocess_exec(
        program,
        *arguments,
        cwd=directory,
        env=child_environment(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        wants_more = await _collect(process, rows)
        if wants_more:
            _, errors = await process.communicate()
            if process.returncode == 2 and errors.strip() and not rows.rows:
                raise ToolError(f"The search failed: {errors.decode('utf-8', 'replace').strip()}")
    finally:
        await _end(process)


def _arguments(query: Query) -> tuple[Path, list[str]]:
    arguments = [*_FIXED, f"--context={query.context}"]
    if query.ignores_case:
        arguments.append("--ignore-case")
    if query.is_literal:
        arguments.append("--fixed-strings")
    arguments.append(f"--regexp={well_formed(query.pattern)}")
    if not query.target.is_dir():
        return query.target.parent, [*arguments, "--", f"./{query.target.name}"]
    if query.glob is not None:
        glob = re.sub(r"^(!?)[.]/", r"\1", well_formed(query.glob))
        arguments.append(f"--glob={glob}")
    return query.target, [*arguments, "--glob=!.git", "--", "."]


async def _collect(process: asyncio.subprocess.Process, rows: Rows) -> bool:
    """Add the rows ripgrep prints; False when no more are wanted."""
    assert process.stdout is not None  # it was started with a pipe
    before = b""
    async for raw in _lines(process.stdout):
        # Every row begins with "./"; what does not goes on with a path that holds a newline.
        whole = raw if raw.startswith(b"./") else before + b"\n" + raw
        row = _ROW.fullmatch(whole)
        before = whole if row is None else b""
        if row is None:
            continue  # half a path, a separator, or the note about a binary file
        path, text = row["path"].decode("utf-8", "replace"), row["text"].decode("utf-8", "replace")
        if not rows.add(Line(path, int(row["number"]), text.removesuffix("\r"), row["mark"] == b":")):
            return False
    return True


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """The lines without their newline, each cut at MAX_LINE_BYTES."""
    waiting = bytearray()
    while chunk := await stream.read(_CHUNK):
        first, *more = chunk.split(b"\n")
        for piece in more:
            yield bytes(waiting + first[: MAX_LINE_BYTES - len(waiting)])
            waiting.clear()
            first = piece
        waiting += first[: MAX_LINE_BYTES - len(waiting)]


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
        await settle(asyncio.ensure_future(process.communicate()))
