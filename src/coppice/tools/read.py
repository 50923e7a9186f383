"""The read tool: a text file by lines, or an image. Memory does not grow with the file.

Directories are ls's, searching is grep's.
"""

import base64
import os
import stat
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO

import msgspec

from coppice.errors import ToolError
from coppice.format.messages import ImageBlock, TextBlock
from coppice.tools.background import in_thread
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.paths import resolved_existing, told_to_the_model
from coppice.tools.truncate import MAX_BYTES, MAX_LINES, Shortened, keep_head, size_text
from coppice.tools.typed_tool import TypedTool

MAX_IMAGE_BYTES = 20 * 1024 * 1024
"""Bytes of an image file that is still read. Ours: above what any provider takes as one image."""

_CHUNK = 256 * 1024
_SNIFFED = 8192
_ENOUGH = MAX_BYTES + 4
"""Bytes of one line that are kept: one character past what can be shown, so that the cut is noticed."""


class ReadArguments(msgspec.Struct, frozen=True):
    """What read takes."""

    path: Annotated[str, msgspec.Meta(description="File to read, relative or absolute")]
    offset: Annotated[int | None, msgspec.Meta(description="Line to start at, counted from 1")] = None
    limit: Annotated[int | None, msgspec.Meta(description="How many lines to read at most")] = None


@dataclass(frozen=True, slots=True)
class _Selection:
    """Lines of a file: as many bytes as could be shown, and how many lines there are."""

    shown: bytes
    selected_lines: int
    first_line_bytes: int
    file_lines: int


async def read(arguments: ReadArguments, context: ToolContext) -> ToolResult:
    """Read a file for the model.

    Raises:
        ToolError: no such file, not a regular file, binary, an image too large, or an offset beyond the last line.
    """
    path = resolved_existing(arguments.path, context.cwd)

    def work(stop: threading.Event) -> ToolResult:
        with told_to_the_model("read", arguments.path), _opened(path, arguments.path) as file:
            return _read_open_file(file, arguments, stop)

    return await in_thread(work)


READ: Tool = TypedTool(
    name="read",
    description=(
        "Read a file. Text comes back as it stands, images (png, jpeg, gif, webp) as an attachment. At most "
        f"{MAX_LINES} lines or {MAX_BYTES // 1024} KB are returned; when there is more, the result names the offset "
        "to go on with."
    ),
    arguments=ReadArguments,
    call=read,
)


def _opened(path: Path, named: str) -> BinaryIO:
    mode = os.stat(path).st_mode
    if stat.S_ISDIR(mode):
        raise ToolError(f"{named} is a directory; use ls to list it")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{named} is not a regular file")
    return open(path, "rb")


def _read_open_file(file: BinaryIO, arguments: ReadArguments, stop: threading.Event) -> ToolResult:
    beginning = file.read(_SNIFFED)
    if mime_type := image_type(beginning):
        return _image(beginning, file, mime_type, arguments.path)
    if b"\0" in beginning:
        raise ToolError(f"{arguments.path} is a binary file; it was not read")
    file.seek(0)
    first = max(1, arguments.offset or 1)
    count = None if arguments.limit is None else max(1, arguments.limit)
    selection = _select(_chunks(file, stop), first, count)
    if first > max(1, selection.file_lines):
        raise ToolError(f"Offset {first} is beyond the end of {arguments.path}, which has {selection.file_lines} lines")
    return _text(selection, arguments.path, first)


def image_type(beginning: bytes) -> str | None:
    """The MIME type of an image by its first bytes, None for everything that is no png, jpeg, gif or webp."""
    if beginning.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if beginning.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if beginning.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    return None


def _image(beginning: bytes, file: BinaryIO, mime_type: str, named: str) -> ToolResult:
    size = os.fstat(file.fileno()).st_size
    if size > MAX_IMAGE_BYTES:
        raise ToolError(f"{named} is an image of {size_text(size)}; at most {size_text(MAX_IMAGE_BYTES)} can be read")
    data = base64.b64encode(beginning + file.read(MAX_IMAGE_BYTES)).decode("ascii")
    return ToolResult((TextBlock(f"Image {named} [{mime_type}]"), ImageBlock(data, mime_type)))


def _chunks(file: BinaryIO, stop: threading.Event) -> Iterator[bytes]:
    while not stop.is_set() and (chunk := file.read(_CHUNK)):
        yield chunk


def _select(chunks: Iterator[bytes], first: int, count: int | None) -> _Selection:
    """Lines ``first`` to ``first + count - 1`` (to the end without a count); the rest is only counted."""
    taken = _Taken(first, None if count is None else first + count)
    for chunk in chunks:
        taken.feed(chunk)
    return taken.selection()


class _Taken:
    """Owns the lines taken so far; guards that they stay within what can be shown, plus one line."""

    def __init__(self, first: int, end: int | None) -> None:
        self._first = first
        self._end = end
        self._kept = bytearray()
        self._line = 1
        self._line_bytes = 0
        self._first_line_bytes = 0

    def feed(self, chunk: bytes) -> None:
        start = 0
        while start < len(chunk):
            if not self._is_wanted():
                start = self._skip(chunk, start)
                continue
            newline = chunk.find(b"\n", start)
            stop = len(chunk) if newline < 0 else newline + 1
            self._take(chunk, start, stop)
            if newline >= 0:
                self._line += 1
                self._line_bytes = 0
            start = stop

    def selection(self) -> _Selection:
        lines = self._line - (0 if self._line_bytes else 1)
        last = lines if self._end is None else min(lines, self._end - 1)
        return _Selection(bytes(self._kept), max(0, last - self._first + 1), self._first_line_bytes, lines)

    def _is_wanted(self) -> bool:
        return (
            self._line >= self._first
            and (self._end is None or self._line < self._end)
            and self._line - self._first <= MAX_LINES
            and len(self._kept) < _ENOUGH
        )

    def _take(self, chunk: bytes, start: int, stop: int) -> None:
        self._kept += chunk[start : min(stop, start + _ENOUGH)]
        self._line_bytes += stop - start
        if self._line == self._first:
            self._first_line_bytes += stop - start

    def _skip(self, chunk: bytes, start: int) -> int:
        """Count the lines up to the first wanted one, or up to the chunk's end."""
        if self._line >= self._first:
            return self._count_rest(chunk, start)
        newline = chunk.find(b"\n", start)
        if newline < 0:
            self._line_bytes += len(chunk) - start
            return len(chunk)
        self._line += 1
        self._line_bytes = 0
        return newline + 1

    def _count_rest(self, chunk: bytes, start: int) -> int:
        newlines = chunk.count(b"\n", start)
        rest = len(chunk) - (chunk.rfind(b"\n", start) + 1 if newlines else start)
        if self._line == self._first:
            first_end = chunk.find(b"\n", start)
            self._first_line_bytes += (len(chunk) if first_end < 0 else first_end) - start
        self._line += newlines
        self._line_bytes = rest if newlines else self._line_bytes + rest
        return len(chunk)


def _text(selection: _Selection, named: str, first: int) -> ToolResult:
    shown = selection.shown.decode("utf-8", "replace")
    kept = keep_head(shown.removeprefix("\ufeff") if first == 1 else shown)
    if not selection.file_lines:
        return text_result(f"[{named} is empty]")
    shown_lines = kept.truncation.output_lines
    note = _note(kept, selection, named, first)
    text = kept.text if not note else f"{kept.text.removesuffix(chr(10))}\n\n[{note}]"
    if not kept.truncation.truncated and shown_lines == selection.selected_lines:
        return text_result(text)
    return text_result(text, {"truncation": kept.truncation.as_details() | {"totalLines": selection.selected_lines}})


def _note(kept: Shortened, selection: _Selection, named: str, first: int) -> str:
    """How to see what is missing; empty when nothing is."""
    if kept.truncation.partial_line:
        return (
            f"Line {first} is {size_text(selection.first_line_bytes)} long, only its first {size_text(MAX_BYTES)} are "
            f"shown. See more with bash: sed -n '{first}p' FILE | tail -c +{MAX_BYTES + 1} | head -c {MAX_BYTES}"
            + (f". Use offset={first + 1} for the next line" if first < selection.file_lines else "")
        )
    last = first + kept.truncation.output_lines - 1
    if last >= selection.file_lines:
        return ""
    return f"Lines {first}-{last} of {selection.file_lines} in {named}. Use offset={last + 1} to go on"
