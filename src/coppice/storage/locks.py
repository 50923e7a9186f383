"""The two locks of a session (docs/format.md, Two programs): one for each append, one for a writer's life.

Both are advisory and die with their process, so nothing is ever cleaned up. All that differs between platforms is here;
Windows is best effort (byte-range locks of the C runtime).
"""

import json
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from coppice.errors import Holder, SessionHeld, StorageFailure
from coppice.storage.directory import private_directory

if sys.platform == "win32":  # pragma: no cover  (best effort, see the module's docstring)
    import msvcrt

    _BYTE = 0x7FFF_0000  # a byte far behind any content: locking it locks nobody out of reading

    def lock_shared(fd: int) -> None:
        """Wait for the append lock, to look at the end of the file."""
        lock_exclusive(fd)

    def lock_exclusive(fd: int) -> None:
        """Wait for the append lock."""
        os.lseek(fd, _BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_LOCK, 1)

    def try_lock(fd: int) -> bool:
        """Take the lock if nobody has it."""
        os.lseek(fd, _BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Give the lock back."""
        os.lseek(fd, _BYTE, os.SEEK_SET)
        msvcrt.locking(fd, msvcrt.LK_UNLCK, 1)
else:
    import fcntl

    def lock_shared(fd: int) -> None:
        """Wait for the append lock, to look at the end of the file."""
        fcntl.flock(fd, fcntl.LOCK_SH)

    def lock_exclusive(fd: int) -> None:
        """Wait for the append lock."""
        fcntl.flock(fd, fcntl.LOCK_EX)

    def try_lock(fd: int) -> bool:
        """Take the lock if nobody has it."""
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(fd: int) -> None:
        """Give the lock back."""
        fcntl.flock(fd, fcntl.LOCK_UN)


class HolderLock:
    """A writer's lock on one session file, held until `release`; it tells others who holds it."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def take(cls, home: Path, session_fd: int, path: Path) -> "HolderLock":
        """Take the lock of the open session file `session_fd`; `path` is for the message.

        Raises:
            SessionHeld: another writer has it.
            StorageFailure: it cannot be opened.
        """
        status = os.fstat(session_fd)
        lock = private_directory(home / "locks", home) / f"{status.st_dev}-{status.st_ino}"
        try:
            fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageFailure(f"{lock}: the lock cannot be opened: {error.strerror}") from error
        if not try_lock(fd):
            holder = _read_holder(fd)
            os.close(fd)
            raise SessionHeld(
                f"{path}: held by {holder}. Fork it (--fork), read along (--read-only) or share it (--shared).", holder
            )
        with suppress(OSError):  # disk full: the lock holds all the same, others only cannot be told who has it
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps(_this_process()).encode(), 0)
        return cls(fd)

    def release(self) -> None:
        """Let others write. Safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder_of(home: Path, session_path: Path) -> Holder | None:
    """Who holds a session file now; None if nobody does."""
    try:
        status = session_path.stat()
        fd = os.open(home / "locks" / f"{status.st_dev}-{status.st_ino}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return None if try_lock(fd) else _read_holder(fd)
    finally:
        os.close(fd)


def _this_process() -> dict[str, object]:
    start = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    command = Path(sys.argv[0]).name or "python"
    return {"pid": os.getpid(), "host": socket.gethostname(), "start": start, "command": command}


def _read_holder(fd: int) -> Holder:
    try:
        record = json.loads(os.pread(fd, 4096, 0))
        return Holder(int(record["pid"]), _plain(record["host"]), _plain(record["start"]), _plain(record["command"]))
    except (ValueError, KeyError, TypeError):
        return Holder(0, "unknown", "unknown", "unknown")


def _plain(value: object) -> str:
    return "".join(character for character in str(value)[:200] if character.isprintable())
