"""The output of a command in bounded memory: the tail as text, all of it in a file once it is too long to show."""

import codecs
import os
from dataclasses import replace
from pathlib import Path

from coppice.tools.files import new_private_file
from coppice.tools.truncate import MAX_BYTES, MAX_LINES, Shortened, byte_length, keep_tail

MAX_FILE_BYTES = 2 * 1024**3
"""Bytes of output a file takes at most, so that a command that never stops printing does not fill the disk. Ours."""

_TAIL_CHARS = 2 * MAX_BYTES
"""Characters of the tail that stay in memory: more than can be shown, so that the shown part begins at a line."""


class OutputFile:
    """Owns the file with the whole output: bytes wait in memory until the file is wanted, then all go there.

    ``failure`` says why the file could not be written, None as long as it could.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting = bytearray()
        self._descriptor: int | None = None
        self._room = MAX_FILE_BYTES
        self.path: Path | None = None
        self.failure: str | None = None

    def add(self, chunk: bytes, *, wanted: bool) -> None:
        """Take a chunk; ``wanted`` makes the file if there is none yet."""
        if self.failure is not None:
            return
        if self._descriptor is None and not wanted:
            self._waiting += chunk
            return
        try:
            self._write(chunk)
        except OSError as error:
            self._failed(error.strerror or str(error))

    def close(self) -> None:
        """Close the file; safe to call again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, chunk: bytes) -> None:
        if self._descriptor is None:
            self.path, self._descriptor = new_private_file(self._directory, "output", ".log")
            chunk = bytes(self._waiting) + chunk
            self._waiting.clear()
        rest = memoryview(chunk)[: self._room]
        self._room -= len(rest)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]
        if not self._room:
            self._failed(f"it is longer than {MAX_FILE_BYTES // 1024**3} GB")

    def _failed(self, reason: str) -> None:
        self.failure = reason
        self._waiting.clear()
        self.close()


class Capture:
    """Owns what is remembered of an output; guards that memory stays bounded and characters whole."""

    def __init__(self, directory: Path) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._tail = ""
        self._newlines = 0
        self._ends_open = False
        self.total_bytes = 0
        self.file = OutputFile(directory)

    def feed(self, chunk: bytes, *, final: bool = False) -> str:
        """Take the next bytes; the text they complete."""
        text = self._decoder.decode(chunk, final)
        self.total_bytes += byte_length(text)
        self._newlines += text.count("\n")
        if text:
            self._ends_open = not text.endswith("\n")
            self._tail += text
        self.file.add(chunk, wanted=self.total_bytes > MAX_BYTES or self.total_lines > MAX_LINES)
        if len(self._tail) > 2 * _TAIL_CHARS:
            self._tail = self._tail[-_TAIL_CHARS:]
        return text

    @property
    def total_lines(self) -> int:
        """Lines so far, an unfinished one included."""
        return self._newlines + (1 if self._ends_open else 0)

    def shortened(self) -> Shortened:
        """The tail within the limits of truncate.py, with the counts of the whole output."""
        kept = keep_tail(self._tail)
        truncation = replace(kept.truncation, total_lines=self.total_lines, total_bytes=self.total_bytes)
        return replace(kept, truncation=truncation)
