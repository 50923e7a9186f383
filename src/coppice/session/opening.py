"""Opening a session file: telling a session from any other file, reading its heads once, saying what is damaged."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from coppice.errors import NotASession, SessionNotFound
from coppice.format.codec import decode_object
from coppice.format.entries import SESSION_VERSION, Header
from coppice.format.heads import damaged_head, read_damaged
from coppice.format.messages import JsonObject
from coppice.format.migrate import version_of
from coppice.session.drafts import new_session_id, timestamp
from coppice.session.store import SessionStore
from coppice.storage.directory import coppice_home, tighten
from coppice.storage.jsonl import JsonlLog
from coppice.storage.locks import HolderLock
from coppice.storage.log import Batch
from coppice.tree.interleaving import find_interleaving

Mode = Literal["write", "read", "shared"]
"""How a session is opened: alone as its writer, to read along, or to append beside its holder."""

SHOWN_DAMAGES = 5
"""Damages named one by one in the notice; the rest is counted."""

BOM = b"\xef\xbb\xbf"


class Opened(NamedTuple):
    """An open session: its store, the writer's lock (None unless mode is write) and what the user has to be told.

    ``appendable`` is False where the file must not grow (old or newer version, no header): the first write goes on in
    a new file.
    """

    store: SessionStore
    holder: HolderLock | None
    notices: list[str]
    appendable: bool


def open_file(path: Path, mode: Mode, *, home: Path | None = None, sync: bool = True, is_copy: bool = False) -> Opened:
    """Open a session file and read the heads of its entries. No byte of it changes.

    `is_copy` says that its lines were just copied from a session that is open and sound: they are not checked again.

    Raises:
        SessionNotFound: there is no such file.
        NotASession: it is something else; it was left untouched.
        SessionHeld: mode is write and another process is the writer.
        StorageFailure: it cannot be read (or, unless mode is read, written).
    """
    home = coppice_home() if home is None else home
    if not path.is_file():
        raise SessionNotFound(f"{path}: " + ("is a directory" if path.is_dir() else "no such session file"))
    log = JsonlLog.open(path, writable=mode != "read", sync=sync)
    holder = None
    try:
        store, appendable = _read(path, log, is_copy)
        holder = HolderLock.take(home, log.fileno(), path) if mode == "write" else None
        loose = tighten(path, home)
    except BaseException:
        log.close()
        raise
    notices = damage_notices(store, path) + notices_of(store, path)
    return Opened(store, holder, notices + ([loose] if loose else []), appendable)


def _read(path: Path, log: JsonlLog, is_copy: bool) -> tuple[SessionStore, bool]:
    batches = log.read_tail()
    start = _read_start(path, batches)
    store = SessionStore(log, start.header, start.version)
    for number, what in start.damages:
        store.index.damaged(number, what)
    if start.batch is not None:
        store.take_in(start.batch, start.skip, are_copies=is_copy)
    for batch in batches:
        store.take_in(batch, are_copies=is_copy)
    if start.is_guess and not len(store.index):
        raise NotASession(f"{path}: not a session file: line 1 is not a session header. It was left untouched.")
    return store, start.version == SESSION_VERSION and not start.is_guess


class _Start(NamedTuple):
    header: Header
    version: int
    batch: Batch | None
    skip: int
    damages: list[tuple[int, str]]
    is_guess: bool


def _read_start(path: Path, batches: Iterator[Batch]) -> _Start:
    """Find the header: the first line that can be read. A damaged first line before good entries is put up with."""
    damages: list[tuple[int, str]] = []
    first = next(batches, None)
    if first is None:
        return _Start(Header(SESSION_VERSION, new_session_id(), timestamp(), str(Path.cwd())), 3, None, 0, [], False)
    if first.lines[0].startswith(BOM):
        first.lines[0], first.offsets[0] = first.lines[0][len(BOM) :], first.offsets[0] + len(BOM)
    for at, line in enumerate(first.lines):
        if not line.strip():
            continue
        try:
            fields, _ = decode_object(line.lstrip(b"\0"))
        except ValueError:
            joined = [piece.fields for piece in read_damaged(line)][:1]
            if joined and _is_header(joined[0]):  # and an entry: the line is read again as a damaged one
                return _Start(_header(joined[0]), version_of(joined[0]), first, at, damages, False)
            if at == 0 and _entries_follow(first.lines[1:]):
                damages.append((1, "the header is damaged; what is left of it was read"))
                return _Start(_guessed_header(line, path), SESSION_VERSION, first, 1, damages, True)
            break
        if _is_header(fields):
            return _Start(_header(fields), version_of(fields), first, at + 1, damages, False)
        break
    raise NotASession(f"{path}: not a session file: line 1 is not a session header. It was left untouched.")


def _is_header(fields: JsonObject) -> bool:
    return fields.get("type") == "session" and isinstance(fields.get("id"), str)


def _header(fields: JsonObject) -> Header:
    def text(key: str) -> str:
        value = fields.get(key)
        return value if isinstance(value, str) else ""

    parent = fields.get("parentSession") or fields.get("branchedFrom")  # version 1's name of it
    return Header(
        version_of(fields), text("id"), text("timestamp"), text("cwd"), parent if isinstance(parent, str) else None
    )


def _entries_follow(lines: list[bytes]) -> bool:
    return any(damaged_head(line) is not None for line in lines[:20])


def _guessed_header(line: bytes, path: Path) -> Header:
    """What a header cut off in the middle still says."""

    def text(key: bytes) -> str:
        found = re.search(rb'"' + key + rb'"\s*:\s*"([^"\\]*)"', line)
        return found[1].decode("utf-8", "replace") if found else ""

    return Header(SESSION_VERSION, text(b"id") or path.stem, text(b"timestamp"), text(b"cwd"))


def damage_notices(store: SessionStore, path: Path) -> list[str]:
    """The damage nobody has been told of yet, with file and line."""
    facts, since = store.index.facts, store.told
    store.told = facts.damage_count
    notices = [f"{path}:{damage.line}: {damage.text}" for damage in facts.damages[since : since + SHOWN_DAMAGES]]
    more = facts.damage_count - since - len(notices)
    if more > 0:
        notices.append(f"{path}: {more} more damaged lines (coppice sessions show lists them)")
    return notices


def notices_of(store: SessionStore, path: Path) -> list[str]:
    """What the user has to be told of a session beside its damage: two writers, a newer version."""
    notices: list[str] = []
    crossing = find_interleaving(store.index) if store.version >= 2 else None
    if crossing is not None:
        other, at = store.index.ids[crossing.other], store.index.where.numbers[crossing.at]
        notices.append(
            f"{path}:{at}: this session was written by two programs at once: the other line of work ends at {other}; "
            "both are branches in /tree"
        )
    if store.version > SESSION_VERSION:
        notices.append(
            f"{path}: version {store.version} is newer than coppice knows; read as version {SESSION_VERSION}. "
            "Going on makes a new file."
        )
    return notices
