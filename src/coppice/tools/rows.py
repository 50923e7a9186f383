"""The rows of a search as they come in: the limit of matches, the size, the form of a row. Pure."""

from dataclasses import dataclass, replace

from coppice.tools.listing import one_line
from coppice.tools.truncate import MAX_BYTES, MAX_LINE_CHARS, byte_length, cut_line


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
