"""Shortening text for a model: the limits, the head or the tail of a text, whole characters only.

Everything here is a pure function of text. Sizes are UTF-8 bytes, lines end with ``\\n``. Files and notes for the model
("use offset=…") belong to the tools.
"""

import re
from dataclasses import dataclass
from typing import Literal

from coppice.format.messages import JsonObject

MAX_LINES = 2000
"""Lines of a result a model gets at most. Source: what users of Pi know."""

MAX_BYTES = 50 * 1024
"""UTF-8 bytes of a result a model gets at most. Source: what users of Pi know."""

MAX_LINE_CHARS = 500
"""Characters of one line of search results. Source: what users of Pi know."""

_PAIR_OR_HALF = re.compile("[\ud800-\udbff][\udc00-\udfff]|[\ud800-\udfff]")

Limit = Literal["lines", "bytes"]


@dataclass(frozen=True, slots=True)
class Truncation:
    """What was kept of a text of ``total_lines`` lines and ``total_bytes`` bytes.

    ``truncated_by`` is the limit that was hit first, None when everything was kept. ``partial_line`` says that the only
    line kept (the first of a head, the last of a tail) is itself cut.
    """

    total_lines: int
    total_bytes: int
    output_lines: int
    output_bytes: int
    truncated_by: Limit | None = None
    partial_line: bool = False
    max_lines: int = MAX_LINES
    max_bytes: int = MAX_BYTES

    @property
    def truncated(self) -> bool:
        """Whether anything was left out."""
        return self.truncated_by is not None

    def as_details(self) -> JsonObject:
        """The JSON object that stands as ``truncation`` in a result's details."""
        return {
            "truncated": self.truncated,
            "truncatedBy": self.truncated_by,
            "totalLines": self.total_lines,
            "totalBytes": self.total_bytes,
            "outputLines": self.output_lines,
            "outputBytes": self.output_bytes,
            "partialLine": self.partial_line,
            "maxLines": self.max_lines,
            "maxBytes": self.max_bytes,
        }


@dataclass(frozen=True, slots=True)
class Shortened:
    """A text within the limits, and what is missing from it."""

    text: str
    truncation: Truncation


def well_formed(text: str) -> str:
    """The text with surrogate pairs joined and lone surrogates replaced by U+FFFD, so that it encodes as UTF-8."""
    if text.isascii():
        return text
    return _PAIR_OR_HALF.sub(_joined, text)


def _joined(match: re.Match[str]) -> str:
    found = match.group()
    if len(found) == 1:
        return "\ufffd"
    return found.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def byte_length(text: str) -> int:
    """The text's size in UTF-8 bytes; a lone surrogate counts as the three bytes of U+FFFD."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def count_lines(text: str) -> int:
    """Number of lines; a newline at the end does not begin another."""
    return text.count("\n") + (1 if text and not text.endswith("\n") else 0)


def head_bytes(text: str, limit: int) -> str:
    """The longest beginning of whole characters within ``limit`` bytes."""
    if byte_length(text) <= limit:
        return text
    return text[:limit].encode("utf-8", "surrogatepass")[:limit].decode("utf-8", "ignore")


def tail_bytes(text: str, limit: int) -> str:
    """The longest end of whole characters within ``limit`` bytes."""
    if byte_length(text) <= limit:
        return text
    return text[-limit:].encode("utf-8", "surrogatepass")[-limit:].decode("utf-8", "ignore") if limit > 0 else ""


def cut_line(line: str, limit: int = MAX_LINE_CHARS) -> str:
    """The line, cut after ``limit`` characters with a mark that says so."""
    return line if len(line) <= limit else f"{line[:limit]}... [line cut]"


def keep_head(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Shortened:
    """The first whole lines within both limits; of a first line longer than ``max_bytes``, its beginning."""
    return _keep(well_formed(text), max_lines, max_bytes, from_end=False)


def keep_tail(text: str, *, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Shortened:
    """The last whole lines within both limits; of a last line longer than ``max_bytes``, its end."""
    return _keep(well_formed(text), max_lines, max_bytes, from_end=True)


def _keep(text: str, max_lines: int, max_bytes: int, *, from_end: bool) -> Shortened:
    total_lines, total_bytes = count_lines(text), byte_length(text)
    if total_lines <= max_lines and total_bytes <= max_bytes:
        return Shortened(text, _truncation(text, (total_lines, total_bytes), (max_lines, max_bytes)))
    lines = _lines(text)
    kept, by = _fitting(lines, max_lines, max_bytes, from_end=from_end)
    partial = not kept
    if partial:
        shown = tail_bytes(lines[-1], max_bytes) if from_end else head_bytes(lines[0], max_bytes)
    else:
        shown = "\n".join(kept)
    truncation = _truncation(shown, (total_lines, total_bytes), (max_lines, max_bytes), by=by, partial=partial)
    return Shortened(shown, truncation)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _fitting(lines: list[str], max_lines: int, max_bytes: int, *, from_end: bool) -> tuple[list[str], Limit | None]:
    kept: list[str] = []
    size = -1  # joined lines have one newline fewer than lines
    by: Limit | None = None
    for line in reversed(lines) if from_end else lines:
        if len(kept) == max_lines:
            by = "lines"
            break
        size += byte_length(line) + 1
        if size > max_bytes:
            by = "bytes"
            break
        kept.append(line)
    return (kept[::-1] if from_end else kept), by


def _truncation(
    shown: str, totals: tuple[int, int], limits: tuple[int, int], *, by: Limit | None = None, partial: bool = False
) -> Truncation:
    return Truncation(
        total_lines=totals[0],
        total_bytes=totals[1],
        output_lines=count_lines(shown),
        output_bytes=byte_length(shown),
        truncated_by=by,
        partial_line=partial,
        max_lines=limits[0],
        max_bytes=limits[1],
    )


def size_text(size: int) -> str:
    """A size in bytes as people write it: ``512 B``, ``50.0 KB``, ``1.5 MB``."""
    if size < 1024:
        return f"{size} B"
    if size < 1024 * 1024:
        return f"{size / 1024:.1f} KB"
    return f"{size / (1024 * 1024):.1f} MB"
