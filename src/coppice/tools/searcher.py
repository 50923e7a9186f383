"""Running the program that searches file contents, ripgrep or search.py, and reading its rows."""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from coppice.errors import ToolError
from coppice.tools.background import settle
from coppice.tools.environment import child_environment
from coppice.tools.rows import Line, Rows
from coppice.tools.search import FAILED, MAX_LINE_BYTES, Query

_CHUNK = 64 * 1024

_RIPGREP_OPTIONS = (
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


@dataclass(frozen=True, slots=True)
class Searcher:
    """A program that searches, and how it is started. ``variables`` are added to its environment."""

    arguments: tuple[str, ...]
    cwd: Path
    variables: dict[str, str] = field(default_factory=dict[str, str])


def ripgrep(program: str, query: Query, target: Path) -> Searcher:
    """The ripgrep at ``program``, told to see what search.py sees."""
    arguments = [program, *_RIPGREP_OPTIONS, f"--context={query.context}"]
    if query.ignores_case:
        arguments.append("--ignore-case")
    if query.is_literal:
        arguments.append("--fixed-strings")
    arguments.append(f"--regexp={query.pattern}")
    if not target.is_dir():
        return Searcher((*arguments, "--", f"./{target.name}"), target.parent)
    if query.glob is not None:
        glob = re.sub(r"^(!?)[.]/", r"\1", query.glob)
        arguments.append(f"--glob={glob}")
    return Searcher((*arguments, "--glob=!.git", "--", "."), target)


def plain_python(query: Query, target: Path) -> Searcher:
    """search.py, run by this interpreter.

    It imports from where this process does and, with ``-P``, from nowhere else: what is searched is not to be trusted.
    """
    places = [str(Path(__file__).parents[2]), *(place for place in sys.path if os.path.isabs(place))]
    return Searcher(
        (sys.executable, "-P", "-m", "coppice.tools.search", msgspec.json.encode(query).decode(), str(target)),
        Path("/"),
        {"PYTHONPATH": os.pathsep.join(places)},
    )


async def run_search(searcher: Searcher, rows: Rows) -> None:
    """Run the program until it ends or no more rows are wanted.

    Raises:
        ToolError: it cannot use the pattern or the glob; the text is its own.
        OSError: it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *searcher.arguments,
        cwd=searcher.cwd,
        env=child_environment() | searcher.variables,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        if await _collect(process, rows):
            _, errors = await process.communicate()
            if process.returncode == FAILED and errors.strip() and not rows.rows:
                raise ToolError(f"The search failed: {errors.decode('utf-8', 'replace').strip()}")
    finally:
        await _end(process)


async def _collect(process: asyncio.subprocess.Process, rows: Rows) -> bool:
    """Add the rows the program prints; False when no more are wanted."""
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
