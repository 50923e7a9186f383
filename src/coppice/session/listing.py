"""Which sessions there are: one row for each file, read from the file itself.

`last used` is the time of a session's last entry, not the file's mtime. The catalogue of a later version makes this
fast for thousands of sessions; the files stay the truth.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from coppice.errors import AmbiguousSession, CoppiceError, NotASession, SessionNotFound, UsageError
from coppice.format.codec import decode_object
from coppice.format.entries import Entry, MessageEntry
from coppice.format.heads import Kind
from coppice.format.messages import UserMessage, text_of
from coppice.session.opening import open_file
from coppice.session.writer import Setup
from coppice.storage.directory import session_files

TAIL_BYTES = 64 * 1024
"""Bytes looked at from the end for the last entry's time; doubled while no whole line is in them."""

_STAMP = rb'"timestamp":"(\d{4}-\d\d-\d\dT[0-9:.]+Z)"'
_STAMP_FIRST = re.compile(rb'\{"type":"[^"\\]*","id":"[^"\\]*","parentId":(?:null|"[^"\\]*"),' + _STAMP)
_STAMP_LAST = re.compile(_STAMP + rb"\}\s*\Z")
"""Where an entry's own time stands: after its parent, or at the very end. Others' times may stand in its data."""


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A row of the list.

    ``created`` and ``last_used`` are ISO 8601; ``messages`` counts messages of all branches; ``first_prompt`` is the
    first user message's text, cut to 200 characters. ``problem`` says why a file could not be read.
    """

    path: Path
    id: str
    cwd: str
    name: str | None
    created: str
    last_used: str
    messages: int
    first_prompt: str
    parent_session: str | None = None
    problem: str | None = None


_MESSAGES = frozenset({Kind.USER, Kind.ASSISTANT, Kind.TOOL_RESULT, Kind.BASH, Kind.CUSTOM_ROLE})


def session_info(path: Path, home: Path | None = None) -> SessionInfo:
    """The row of one session file.

    Raises:
        NotASession, SessionNotFound, StorageFailure: it cannot be read.
    """
    opened = open_file(path, "read", home=home)
    store = opened.store
    try:
        index, header = store.index, store.header
        first = index.kinds.find(bytes([Kind.USER]))
        prompt = _text_of(store.entry(first)) if first >= 0 else ""
        return SessionInfo(
            path=path,
            id=header.id,
            cwd=header.cwd,
            name=index.facts.name,
            created=header.timestamp,
            last_used=last_used(path) or header.timestamp,
            messages=sum(index.kinds.count(bytes([kind])) for kind in _MESSAGES),
            first_prompt=prompt[:200],
            parent_session=header.parent_session,
        )
    finally:
        store.close()


def _text_of(entry: Entry) -> str:
    match entry:
        case MessageEntry(message=UserMessage(content=content)):
            return text_of(content)
        case _:
            return ""


def last_used(path: Path) -> str:
    """The time of the last entry of a file (or its header), as it stands there; empty if there is none."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        span = TAIL_BYTES
        while True:
            start = max(0, size - span)
            file.seek(start)
            lines = file.read(size - start).split(b"\n")
            stamps = (_stamp(line) for line in reversed(lines if start == 0 else lines[1:]) if line.strip())
            found = next((stamp for stamp in stamps if stamp), "")
            if found or start == 0:
                return found
            span *= 2


def _stamp(line: bytes) -> str:
    found = _STAMP_FIRST.match(line) or _STAMP_LAST.search(line, max(0, len(line) - 200))
    if found is not None:
        return found[1].decode()
    try:
        stamp = decode_object(line)[0].get("timestamp")
    except ValueError:
        return ""
    return stamp if isinstance(stamp, str) else ""


def _header_cwd(path: Path) -> str | None:
    """The directory in a file's header; None where it has no header."""
    with path.open("rb") as file:
        line = file.readline(1024 * 1024)
    try:
        fields, _ = decode_object(line.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        return None
    cwd = fields.get("cwd")
    return cwd if fields.get("type") == "session" and isinstance(cwd, str) else None


def _belongs(path: Path, cwd: str) -> bool:
    try:
        recorded = _header_cwd(path)
    except OSError:
        return False
    return recorded is not None and (recorded == cwd or os.path.realpath(recorded) == os.path.realpath(cwd))


def _rows(paths: Iterator[Path], home: Path | None) -> list[SessionInfo]:
    rows: list[SessionInfo] = []
    for path in paths:
        try:
            rows.append(session_info(path, home))
        except NotASession:
            continue
        except CoppiceError as error:
            rows.append(SessionInfo(path, path.stem, "", None, "", "", 0, "", problem=str(error)))
    rows.sort(key=lambda row: (row.last_used, row.path.name), reverse=True)
    return rows


def list_for(cwd: str | Path, directory: Path, home: Path | None = None) -> list[SessionInfo]:
    """The sessions of `cwd` in a directory of sessions, the one used last first."""
    here = os.path.realpath(cwd)
    return _rows((path for path in session_files(directory) if _belongs(path, here)), home)


def list_all(setup: Setup) -> list[SessionInfo]:
    """The sessions of all directories, the one used last first."""
    return _rows(iter(all_session_files(setup)), setup.home)


def all_session_files(setup: Setup) -> list[Path]:
    """Every session file: of the session directory if one is set, else of every directory under the home."""
    if setup.session_dir is not None:
        return session_files(setup.session_dir)
    try:
        directories = sorted(path for path in (setup.home / "sessions").iterdir() if path.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for directory in directories for path in session_files(directory)]


def most_recent(cwd: str | Path, directory: Path) -> Path | None:
    """The session of `cwd` that was used last; None where there is none."""
    here = os.path.realpath(cwd)
    stamped = [(last_used(path), path.name, path) for path in session_files(directory) if _belongs(path, here)]
    return max(stamped)[2] if stamped else None


def find_session(wanted: str, setup: Setup) -> Path:
    """The session file that a path, an id or the beginning of an id names.

    Raises:
        UsageError: nothing was named.
        SessionNotFound: nothing has it.
        AmbiguousSession: several ids begin so.
    """
    if not wanted.strip():
        raise UsageError("--session needs a path or the beginning of a session id; it was empty")
    if "/" in wanted or os.sep in wanted or wanted.endswith(".jsonl"):
        path = Path(wanted).expanduser()
        if not path.exists():
            raise SessionNotFound(f"{wanted}: no such session file")
        return path
    found = [path for path in all_session_files(setup) if id_in_name(path).startswith(wanted)]
    exact = [path for path in found if id_in_name(path) == wanted]
    if len(exact) == 1 or len(found) == 1:
        return (exact or found)[0]
    if not found:
        raise SessionNotFound(f"no session has an id that begins with {wanted!r} (coppice sessions list --all)")
    names = tuple(f"{id_in_name(path)} ({path})" for path in found)
    raise AmbiguousSession(f"{wanted!r} fits {len(found)} sessions: " + ", ".join(names), names)


def id_in_name(path: Path) -> str:
    """The session id in the name of its file."""
    return path.stem.rpartition("_")[2]
