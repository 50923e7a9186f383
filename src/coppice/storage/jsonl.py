"""A session's log as a JSONL file: appended to under a lock, never rewritten, never truncated.

One ``os.write`` of whole lines on a held O_APPEND descriptor, after a look whether others appended. A fragment that a
torn or failed write left is closed by a newline before the next line, so it becomes a damaged line of its own.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

from coppice.errors import StorageFailure
from coppice.storage.directory import link_into_place, new_file, sync_data, write_all
from coppice.storage.locks import lock_exclusive, lock_shared, unlock
from coppice.storage.log import Batch, Stored, TailMoved

CHUNK_BYTES = 1024 * 1024
"""Bytes read at once while scanning (measured: smaller is slower, larger only takes memory)."""

GAP_BYTES = 16 * 1024
"""Lines that lie no further apart than this are read in one go."""

RUN_BYTES = 8 * 1024 * 1024
"""The most bytes read in one go for a set of places."""


class JsonlLog:
    """One session file, open."""

    __slots__ = ("_end", "_fd", "_lines", "_torn", "births", "failed", "path", "sync")

    def __init__(self, path: Path, fd: int, *, sync: bool = True) -> None:
        self.path = path
        self.sync = sync
        self._fd = fd
        self._end = 0
        self._lines = 0
        self._torn = False
        self.births = 0
        """How often the file had to be written anew because it was deleted while in use."""
        self.failed = False
        """Whether the last write or its sync failed, so that what is left of it may stand at the end of the file."""

    @classmethod
    def open(cls, path: Path, *, writable: bool, sync: bool = True) -> "JsonlLog":
        """Open an existing file; no byte is read or written yet.

        Raises:
            StorageFailure: it cannot be opened.
        """
        flags = (os.O_RDWR | os.O_APPEND) if writable else os.O_RDONLY
        try:
            fd = os.open(path, flags | os.O_CLOEXEC)
        except OSError as error:
            wish = "opened for writing" if writable else "opened"
            raise StorageFailure(f"{path}: cannot be {wish}: {error.strerror}") from error
        return cls(path, fd, sync=sync)

    def fileno(self) -> int:
        """The file descriptor."""
        return self._fd

    @property
    def end(self) -> int:
        """Bytes this log has read or written."""
        return self._end

    # --- reading -----------------------------------------------------------------------------

    def read_tail(self) -> Iterator[Batch]:
        """See `SessionLog`. What a writer under the lock is about to finish is waited for."""
        lock_shared(self._fd)
        try:
            size = os.fstat(self._fd).st_size
        finally:
            unlock(self._fd)
        if size < self._end:
            raise self._shortened(size)
        return self._batches(size)

    def _shortened(self, size: int) -> StorageFailure:
        return StorageFailure(f"{self.path}: ends at byte {size} now; something else shortened it")

    def _batches(self, size: int) -> Iterator[Batch]:
        rest: list[bytes] = []
        begin = position = self._end
        while position < size:
            data = self._pread(min(CHUNK_BYTES, size - position), position)
            position += len(data)
            if self._torn:  # the newline that closes a fragment read earlier
                self._torn = False
                if data[:1] == b"\n":
                    data, begin = data[1:], begin + 1
            lines = data.split(b"\n")
            if len(lines) == 1:
                rest.append(data)
                continue
            rest.append(lines[0])
            lines[0] = b"".join(rest)
            tail = lines.pop()
            rest = [tail] if tail else []
            yield self._batch(lines, begin)
            begin = self._end
        fragment = b"".join(rest)
        if fragment:
            self._torn = True
            yield self._batch([fragment], begin, newline=0)

    def _batch(self, lines: list[bytes], begin: int, newline: int = 1) -> Batch:
        offsets = list(accumulate((len(line) + newline for line in lines), initial=begin))
        self._end = offsets.pop()
        first, self._lines = self._lines + 1, self._lines + len(lines)
        return Batch(lines, offsets, first)

    def _pread(self, size: int, position: int) -> bytes:
        try:
            data = os.pread(self._fd, size, position)
        except OSError as error:
            raise StorageFailure(f"{self.path}: cannot be read: {error.strerror}") from error
        if not data:
            raise self._shortened(position)
        return data

    def read(self, places: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `SessionLog`; places that lie close together are read in one go."""
        found: list[bytes] = []
        at = 0
        while at < len(places):
            start, end, upto = places[at][0], sum(places[at]), at + 1
            while upto < len(places):
                offset, size = places[upto]
                if not end <= offset <= end + GAP_BYTES or offset + size - start > RUN_BYTES:
                    break
                end, upto = offset + size, upto + 1
            data = self._read_whole(start, end - start)
            found += [data[offset - start : offset - start + size] for offset, size in places[at:upto]]
            at = upto
        return found

    def _read_whole(self, start: int, size: int) -> bytes:
        data = self._pread(size, start) if size else b""
        while len(data) < size:
            data += self._pread(size - len(data), start + len(data))
        return data

    # --- writing -----------------------------------------------------------------------------

    def append(self, lines: Sequence[bytes]) -> list[Stored]:
        """See `SessionLog`."""
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        fd = self._fd
        lock_exclusive(fd)
        try:
            status = os.fstat(fd)
            if status.st_size != self._end:
                raise TailMoved
            if status.st_nlink == 0:
                self._come_back()
                fd = self._fd
            if self._torn:
                data = b"\n" + data
            self.failed = True
            written = os.write(fd, data)
        except OSError as error:
            raise StorageFailure(f"{self.path}: not stored: {error.strerror}") from error
        finally:
            unlock(self._fd)
        if written != len(data):
            raise StorageFailure(
                f"{self.path}: not stored: only {written} of {len(data)} bytes were written (disk full?)"
            )
        if self.sync:
            self.sync_now()
        self.failed = False
        return self._stored(lines)

    def sync_now(self) -> None:
        """Sync what was written.

        Raises:
            StorageFailure: the sync failed; what it was to cover counts as not stored.
        """
        try:
            sync_data(self._fd)
        except OSError as error:
            raise StorageFailure(f"{self.path}: not stored: the sync failed: {error.strerror}") from error

    def _stored(self, lines: Sequence[bytes]) -> list[Stored]:
        if self._torn:
            self._torn, self._end = False, self._end + 1
        stored: list[Stored] = []
        for line in lines:
            self._lines += 1
            stored.append(Stored(self._end, len(line) - 1, self._lines))
            self._end += len(line)
        return stored

    def _come_back(self) -> None:
        """The file was deleted while in use: write all of it anew under its name, and go on in the new one."""
        try:
            write_file(self.path, [Span(self._fd, 0, self._end)])
            fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileExistsError as error:
            raise StorageFailure(
                f"{self.path}: not stored: another file took its place. Clone the session to keep it."
            ) from error
        except OSError as error:
            raise StorageFailure(
                f"{self.path}: not stored: the file was deleted and cannot be written anew: {error.strerror}"
            ) from error
        lock_exclusive(fd)
        os.close(self._fd)
        self._fd = fd
        self.births += 1

    def close(self) -> None:
        """See `SessionLog`. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Span(NamedTuple):
    """Bytes of an open file: its descriptor, where they begin and how many they are."""

    fd: int
    start: int
    size: int


def write_file(path: Path, parts: Iterable[bytes | Span]) -> None:
    """Write a new file of these parts: beside it, synced, then linked into place; the directory is synced too.

    Raises:
        FileExistsError: the name is taken; nothing was replaced.
        OSError: it cannot be written; nothing is left behind.
    """
    fd, beside = new_file(path)
    try:
        for part in parts:
            if isinstance(part, Span):
                _copy(part, fd)
            else:
                write_all(fd, part)
        sync_data(fd)
        link_into_place(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


def _copy(span: Span, target: int) -> None:
    """Copy a span to the end of `target`, in the kernel where it can."""
    start, left = span.start, span.size
    in_kernel = hasattr(os, "copy_file_range")
    while left > 0:
        if in_kernel:
            try:
                copied = os.copy_file_range(span.fd, target, left, start)
            except OSError:
                in_kernel = False
                continue
        else:
            data = os.pread(span.fd, min(left, RUN_BYTES), start)
            write_all(target, data)
            copied = len(data)
        if copied == 0:
            raise OSError(0, f"the source ends at byte {start}")
        start, left = start + copied, left - copied
