"""Where files lie, and with which rights: `COPPICE_HOME`, session directories, new files linked into place.

Files are 0600, directories 0700. Inside COPPICE_HOME looser modes are tightened; elsewhere they are reported.
"""

import os
import re
import secrets
import time
from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from coppice.errors import StorageFailure

SLUG_LENGTH = 60
"""Characters of a directory's path that go into its slug (our choice: readable, and short of every file system's limit)."""

STALE_SECONDS = 24 * 3600
"""A file being made that nobody wrote to for so long belongs to a process that is gone (our choice)."""

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")


def coppice_home(environ: Mapping[str, str] = os.environ) -> Path:
    """`COPPICE_HOME`, else ``~/.coppice``. It need not exist."""
    named = environ.get("COPPICE_HOME")
    return Path(named).expanduser() if named else Path.home() / ".coppice"


def private_directory(path: Path, home: Path | None = None) -> Path:
    """The directory, made with mode 0700 where it is missing (parents too).

    A looser mode is tightened: the directory's own, or with `home` that of every directory from it up to `home`, and
    then none outside `home`.

    Raises:
        StorageFailure: it cannot be made.
    """
    try:
        missing = [step for step in (path, *path.parents) if not step.exists()]
        for step in reversed(missing):
            step.mkdir(mode=0o700, exist_ok=True)
        ours = [path] if home is None else [step for step in (path, *path.parents) if step.is_relative_to(home)]
        for step in ours:
            if step.stat().st_mode & 0o077 and step.stat().st_uid == os.getuid():
                step.chmod(0o700)
    except OSError as error:
        raise StorageFailure(f"{path}: the directory cannot be made: {error.strerror}") from error
    return path


def tighten(path: Path, home: Path) -> str | None:
    """Take others' rights from a file inside `home`; elsewhere say that they have them."""
    mode = path.stat().st_mode & 0o777
    if not mode & 0o077:
        return None
    if path.resolve().is_relative_to(home.resolve()):
        with suppress(OSError):  # another user's file: reported
            path.chmod(0o600)
            return None
    return f"{path}: others on this machine can read this session (mode {mode:04o}); chmod 600 it to keep it private"


def directory_for(cwd: Path, home: Path) -> Path:
    """The directory of the sessions of `cwd`: a readable slug and a hash of the real path, so two never share one."""
    real = os.path.realpath(cwd)
    slug = re.sub(r"[^A-Za-z0-9._]+", "-", real).strip("-.")[-SLUG_LENGTH:].lstrip("-.") or "root"
    return home / "sessions" / f"{slug}-{sha256(os.fsencode(real)).hexdigest()[:12]}"


def safe_name(text: str) -> str:
    """A file name for an id that may come from a foreign file: the id itself where it is plain, else its hash."""
    return text if _SAFE_ID.fullmatch(text) else sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def session_file_name(timestamp: str, session_id: str) -> str:
    """``<timestamp>_<session id>.jsonl``; `timestamp` is ISO 8601."""
    return f"{re.sub(r'[^0-9TZ]', '-', timestamp)}_{safe_name(session_id)}.jsonl"


def session_files(directory: Path) -> list[Path]:
    """The session files in a directory, in name order; none where it does not exist."""
    try:
        names = sorted(os.listdir(directory))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StorageFailure(f"{directory}: cannot be read: {error.strerror}") from error
    return [directory / name for name in names if name.endswith(".jsonl") and not name.startswith(".")]


def sync_directory(path: Path) -> None:
    """Make a directory's entries durable, where the platform can."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, AttributeError):  # no O_DIRECTORY on Windows
        return
    try:
        os.fsync(fd)
    except OSError:
        return
    finally:
        os.close(fd)


def sync_data(fd: int) -> None:
    """fdatasync where there is one, else fsync. It promises what the drive promises, no more."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def write_all(fd: int, data: bytes | memoryview) -> None:
    """Write every byte, or raise OSError."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def new_file(path: Path) -> tuple[int, Path]:
    """An open file beside `path`, to be filled and then put into place by `link_into_place`: its descriptor and path."""
    beside = path.with_name(f".{path.name[:100]}.{secrets.token_hex(6)}.tmp")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(beside, flags, 0o600), beside


def sweep(directory: Path) -> None:
    """Take away what killed processes left of files they were making: those that nobody wrote to for a day."""
    for path in directory.glob(".*.tmp"):
        try:
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                path.unlink()
        except OSError:
            continue  # another process swept it, or it is not ours


def link_into_place(beside: Path, path: Path) -> None:
    """Give a finished file its name without replacing anything, and make the name durable.

    Raises:
        FileExistsError: the name is taken.
        OSError: it cannot be linked.
    """
    try:
        os.link(beside, path)
    except OSError as error:
        if isinstance(error, FileExistsError):
            raise
        _rename_exclusive(beside, path, error)
    else:
        os.unlink(beside)
    sync_directory(path.parent)


def _rename_exclusive(beside: Path, path: Path, cause: OSError) -> None:
    """For file systems without hard links: claim the name, then rename over the claim."""
    if cause.errno not in _NO_LINKS:
        raise cause
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    os.replace(beside, path)


_NO_LINKS = frozenset({1, 38, 45, 95})
"""EPERM, ENOSYS, ENOTSUP (macOS 45, Linux 95): what file systems without hard links answer."""


def replace_file(path: Path, data: bytes) -> None:
    """Write a small file anew, durably: beside it, then renamed over it. Not for session files.

    Raises:
        StorageFailure: it cannot be written; the old one is as it was.
    """
    try:
        fd, beside = new_file(path)
        try:
            write_all(fd, data)
            sync_data(fd)
        finally:
            os.close(fd)
        os.replace(beside, path)
    except OSError as error:
        raise StorageFailure(f"{path}: cannot be written: {error.strerror}") from error
    sync_directory(path.parent)
