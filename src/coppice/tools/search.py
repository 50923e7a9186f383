"""Searching file contents in plain Python: a program of its own, ``python -m coppice.tools.search QUERY TARGET``.

It stands in for ripgrep and prints rows as ripgrep does with ``--null --line-number``. A program, because a regular
expression can run for ever, holds the interpreter lock while it does, and has to be ended all the same.
"""

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from coppice.errors import ToolError
from coppice.tools.glob import path_matcher
from coppice.tools.walk import walk

MAX_LINE_BYTES = 256 * 1024
"""Bytes of a line that are looked at; what follows in the same line is passed over. Ours."""

FAILED = 2
"""Exit code when the pattern or the glob cannot be used. Ripgrep's."""

_SNIFFED = 8192


class Query(msgspec.Struct, frozen=True):
    """What is searched for. ``glob`` filters the files of a directory; ``context`` is lines around a match."""

    pattern: str
    is_literal: bool = False
    ignores_case: bool = False
    glob: str | None = None
    context: int = 0


def main() -> int:
    """Search and print the rows; the exit code."""
    query, target = msgspec.json.decode(sys.argv[1], type=Query), Path(sys.argv[2])
    try:
        for row in search(query, target):
            sys.stdout.buffer.write(row)
    except ToolError as error:
        sys.stderr.buffer.write(str(error).encode("utf-8", "replace"))
        return FAILED
    return 0


def search(query: Query, target: Path) -> Iterator[bytes]:
    """The rows: ``./path``, NUL, line number, ``:`` for a match or ``-`` for a line beside one, text, newline.

    Raises:
        ToolError: the pattern or the glob cannot be used.
    """
    matcher = _matcher(query)
    for path, file_path in _files(query, target):
        head = b"./" + os.fsencode(path) + b"\0"
        for number, text, is_match in _hits(_lines(file_path), matcher, query.context):
            yield head + f"{number}{':' if is_match else '-'}{text}\n".encode()


def _matcher(query: Query) -> re.Pattern[str]:
    pattern = re.escape(query.pattern) if query.is_literal else query.pattern
    try:
        return re.compile(pattern, re.IGNORECASE if query.ignores_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"Not a usable regular expression: {error}. Use literal=true for plain text") from error


def _files(query: Query, target: Path) -> Iterator[tuple[str, Path]]:
    if not target.is_dir():
        yield target.name, target
        return
    negated = query.glob is not None and query.glob.startswith("!")
    glob = None if query.glob is None else path_matcher(query.glob[negated:])
    for found in walk(target, threading.Event()):
        if found.is_regular and (glob is None or (glob.fullmatch(found.path) is None) == negated):
            yield found.path, target / found.path


def _lines(path: Path) -> Iterator[str]:
    """The lines of a text file; none of a binary one, nor of one that cannot be read: ripgrep, too, passes over it."""
    try:
        with open(path, "rb") as file:
            if b"\0" in file.read(_SNIFFED):
                return
            file.seek(0)
            while raw := file.readline(MAX_LINE_BYTES):
                _pass_over_rest(file, raw)
                yield raw.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")
    except OSError:
        return


def _pass_over_rest(file: BinaryIO, raw: bytes) -> None:
    while raw and not raw.endswith(b"\n"):
        raw = file.readline(MAX_LINE_BYTES)


def _hits(lines: Iterator[str], matcher: re.Pattern[str], context: int) -> Iterator[tuple[int, str, bool]]:
    before: deque[tuple[int, str, bool]] = deque(maxlen=context)
    after = 0
    for number, text in enumerate(lines, 1):
        is_match = matcher.search(text) is not None
        if is_match:
            yield from before
            before.clear()
            after = context
            yield number, text, True
        elif after:
            after -= 1
            yield number, text, False
        else:
            before.append((number, text, False))


if __name__ == "__main__":
    sys.exit(main())
