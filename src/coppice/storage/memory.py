"""A session's log in memory: for sessions without a file, and for those whose file does not exist yet."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from coppice.errors import StorageFailure
from coppice.storage.log import Batch, Stored


class MemoryLog:
    """Lines in memory, at the offsets they would have in a file."""

    __slots__ = ("_end", "_lines", "_offsets")

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._offsets: list[int] = []
        self._end = 0

    def content(self) -> bytes:
        """Every line, as it would stand in a file."""
        return b"".join(self._lines)

    def read_tail(self) -> Iterator[Batch]:
        """See `SessionLog`: nobody else appends to memory."""
        return iter(())

    def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `SessionLog`."""
        found: list[bytes] = []
        for offset, size in places:
            at = bisect_right(self._offsets, offset) - 1
            if at < 0:
                raise StorageFailure(f"nothing is stored at {offset}")
            start = offset - self._offsets[at]
            found.append(self._lines[at][start : start + size])
        return found

    def append(self, lines: Sequence[bytes]) -> list[Stored]:
        """See `SessionLog`."""
        stored: list[Stored] = []
        for line in lines:
            self._lines.append(line)
            self._offsets.append(self._end)
            stored.append(Stored(self._end, len(line) - 1, len(self._lines)))
            self._end += len(line)
        return stored

    def close(self) -> None:
        """See `SessionLog`."""
