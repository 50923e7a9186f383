"""Searching file contents: what is asked, the rows that come out, and the search in plain Python.

The same rows come from ripgrep (ripgrep.py) where that is installed.
"""

import re
import threading
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from coppice.errors import ToolError
from coppice.tools.glob import path_matcher
from coppice.tools.listing import one_line
from coppice.tools.truncate import MAX_BYTES, MAX_LINE_CHARS, byte_length, cut_line
from coppice.tools.walk import walk

MAX_LINE_BYTES = 256 * 1024
"""Bytes of a line that are looked at; what follows in the same line is passed over. Ours."""

_SNIFFED = 8192


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for: ``target`` is a directory or one file, ``glob`` filters the files of a directory."""

    pattern: str
    target: Path
    is_literal: bool
    ignores_case: bool
    glob: str | None
    context: int


@dataclass(frozen=True, slots=True)
class Line:
    """A matching line, or one beside it. ``path`` is relative to the directory searched."""

    path: str
    number: int
    text: str
    is_match: bool


class Rows:
    """Owns the rows of a result; guards the limit of matches and the size. ``cut_lines``: some line was cut."""

    def __init__(self, limit: int, context: int) -> None:
        self.rows: list[str] = []
        self.limit_reached = False
        self.cut_lines = False
        self._matches_left = limit
        self._context = context
        self._room = MAX_BYTES + 1
        self._last: Line | None = None

    def add(self, line: Line) -> bool:
        """Take the next line; False when no more are wanted."""
        if self._matches_left == 0 and not self._is_after_last(line):
            self.limit_reached |= line.is_match
            return not self.limit_reached
        if self._matches_left == 0 and line.is_match:  # beside the last match: shown as what is around it
            self.limit_reached = True
            line = replace(line, is_match=False)
        elif line.is_match:
            self._matches_left -= 1
            self._last = line
        self._append(line)
        return self._room > 0

    def _is_after_last(self, line: Line) -> bool:
        last = self._last
        return last is not None and line.path == last.path and line.number <= last.number + self._context

    def _append(self, line: Line) -> None:
        mark = ":" if line.is_match else "-"
        self.cut_lines |= len(line.text) > MAX_LINE_CHARS
        row = f"{one_line(line.path)}{mark}{line.number}{mark} {cut_line(line.text)}"
        self.rows.append(row)
        self._room -= byte_length(row) + 1


def search(query: Query, rows: Rows, stop: threading.Event) -> None:
    """Search with Python's own regular expressions. Files that hold a NUL byte near their beginning are passed over.

    Raises:
        ToolError: the pattern or the glob cannot be used.
    """
    matcher = _matcher(query)
    for path, file_path in _files(query, stop):
        for line in _hits(_lines(file_path), path, matcher, query.context):
            if stop.is_set() or not rows.add(line):
                return


def _matcher(query: Query) -> re.Pattern[str]:
    pattern = re.escape(query.pattern) if query.is_literal else query.pattern
    try:
        return re.compile(pattern, re.IGNORECASE if query.ignores_case else 0)
    except (re.error, OverflowError, RecursionError) as error:
        raise ToolError(f"Not a usable regular expression: {error}. Use literal=true for plain text") from error


def _files(query: Query, stop: threading.Event) -> Iterator[tuple[str, Path]]:
    if not query.target.is_dir():
        yield query.target.name, query.target
        return
    negated = query.glob is not None and query.glob.startswith("!")
    glob = None if query.glob is None else path_matcher(query.glob[negated:])
    for found in walk(query.target, stop):
        if found.is_regular and (glob is None or (glob.fullmatch(found.path) is None) == negated):
            yield found.path, query.target / found.path


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


def _hits(lines: Iterator[str], path: str, matcher: re.Pattern[str], context: int) -> Iterator[Line]:
    before: deque[Line] = deque(maxlen=context)
    after = 0
    for number, text in enumerate(lines, 1):
        line = Line(path, number, text, matcher.search(text) is not None)
        if line.is_match:
            yield from before
            before.clear()
            after = context
            yield line
        elif after:
            after -= 1
            yield line
        else:
            before.append(line)
