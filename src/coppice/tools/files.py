"""Putting whole files on disk: one writer per file at a time within this process, and all or nothing.

Not for session files, which are appended to (storage/).
"""

import os
import secrets
import stat
import threading
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from errno import EACCES, EBUSY, EPERM
from pathlib import Path
from weakref import WeakValueDictionary

from coppice.errors import ToolError

_FileKey = tuple[int, int, str]


class _Lock:
    """A lock that can be referred to weakly."""

    __slots__ = ("__weakref__", "held")

    def __init__(self) -> None:
        self.held = threading.Lock()


_locks: WeakValueDictionary[_FileKey, _Lock] = WeakValueDictionary()
_locks_guard = threading.Lock()


@contextmanager
def exclusive(target: Path) -> Generator[None, None, None]:
    """Hold the file ``target`` (a real path whose directory exists) against other writers of this process.

    Blocks; for threads, not for the event loop. Names that differ only in case or in Unicode form share a lock, because
    on some file systems they are one file.

    Raises:
        OSError: the directory does not exist.
    """
    directory = os.stat(target.parent)
    key = (directory.st_dev, directory.st_ino, unicodedata.normalize("NFC", target.name).casefold())
    with _locks_guard:
        lock = _locks.get(key)
        if lock is None:
            lock = _locks[key] = _Lock()
    with lock.held:
        yield


def real_target(path: Path, named: str) -> Path:
    """The file that writing to ``path`` writes: of a symbolic link its target, which need not exist.

    Raises:
        ToolError: there is something else than a regular file, or it is write-protected.
        OSError: the path cannot be looked at.
    """
    target = Path(os.path.realpath(path))
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return target
    if stat.S_ISDIR(mode):
        raise ToolError(f"{named} is a directory")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{named} is not a regular file")
    if not os.access(target, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
        raise ToolError(f"Cannot write {named}: the file is write-protected")
    return target


@dataclass(frozen=True, slots=True)
class _Temporary:
    path: Path
    descriptor: int


def replace_file(target: Path, data: bytes) -> None:
    """Write ``data`` as the whole content of ``target`` (a real path): all of it or nothing, also when power fails.

    A temporary file beside it takes its place. An existing file keeps its mode, and its owner where we may set it; a
    new one gets what the umask allows. Hard links to the old content keep that. Where the directory takes no new file
    or the file cannot be replaced (a mount point), an existing file is written in place instead, which is not atomic.

    Raises:
        OSError: it could not be written; the target is as it was.
    """
    try:
        before = os.stat(target)
    except FileNotFoundError:
        before = None
    try:
        _replace_beside(target, data, before)
    except OSError as error:
        if before is None or error.errno not in (EACCES, EPERM, EBUSY):
            raise
        _overwrite(target, data)


def _replace_beside(target: Path, data: bytes, before: os.stat_result | None) -> None:
    temporary = _new_file_beside(target, 0o666 if before is None else 0o600)
    try:
        with open(temporary.descriptor, "wb") as file:
            if before is not None:
                _keep_owner_and_mode(file.fileno(), before)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary.path, target)
    except BaseException:
        temporary.path.unlink(missing_ok=True)
        raise


def _keep_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with suppress(PermissionError):  # only root may give files away; the content matters more
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))


def _new_file_beside(target: Path, mode: int) -> _Temporary:
    path = target.with_name(f".coppice-{secrets.token_hex(8)}.tmp")
    return _Temporary(path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))


def _overwrite(target: Path, data: bytes) -> None:
    with open(target, "r+b") as file:
        file.write(data)
        file.truncate()


def private_directory(directory: Path) -> None:
    """Make the directory and its missing parents, each with mode 0700.

    Raises:
        OSError: it could not be made.
    """
    if directory.is_dir():
        return
    private_directory(directory.parent)
    directory.mkdir(mode=0o700, exist_ok=True)


def new_private_file(directory: Path, prefix: str, suffix: str) -> tuple[Path, int]:
    """A new file of mode 0600 under a random name, and its descriptor for writing.

    Raises:
        OSError: it could not be made.
    """
    private_directory(directory)
    path = directory / f"{prefix}-{secrets.token_hex(8)}{suffix}"
    return path, os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
