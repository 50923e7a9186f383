"""What a session's log is to the rest of coppice: lines that only ever grow in number.

Implementations: a JSONL file (jsonl.py) and memory (memory.py). A log knows lines, not entries.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol


class Batch(NamedTuple):
    """Consecutive lines without their newlines, where each begins, and the number of the first (from 1)."""

    lines: list[bytes]
    offsets: list[int]
    first_number: int


class Stored(NamedTuple):
    """Where a line that was appended lies: offset and size in the log's own units (bytes for a file), line number."""

    offset: int
    size: int
    number: int


class TailMoved(Exception):
    """Others appended since this log last read its tail: nothing was written. Read the tail, then append again."""


class SessionLog(Protocol):
    """One session's lines."""

    def read_tail(self) -> Iterator[Batch]:
        """The lines after those this log has read or written, all of them at first. Reading never changes a byte.

        Raises:
            StorageFailure: the log cannot be read.
        """
        ...

    def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes at these places (offset, size), in the order asked for.

        Raises:
            StorageFailure: the log cannot be read, or is shorter than that.
        """
        ...

    def append(self, lines: Sequence[bytes]) -> list[Stored]:
        """Append whole lines (each with its newline) in one write, if nobody else appended since the tail was read.

        Raises:
            TailMoved: somebody did; nothing was written.
            StorageFailure: the write or its sync failed; the lines count as not stored.
        """
        ...

    def close(self) -> None:
        """Give back what is held. Nothing is written."""
        ...
