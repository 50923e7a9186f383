"""Fork, clone and succession: new session files made of another one's lines (docs/format.md, Fork and clone).

The bytes of the path are copied as they are; only ids that name a line left out are spliced.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from coppice.errors import StorageFailure
from coppice.format.codec import decode_object, encode_line
from coppice.format.entries import SESSION_VERSION, Header, LabelEntry, SessionInfoEntry
from coppice.format.heads import Kind
from coppice.format.messages import EntryId
from coppice.format.migrate import upgraded_line
from coppice.format.splice import with_parent, with_value
from coppice.session.drafts import new_entry_id, new_session_id, timestamp
from coppice.session.store import SessionStore
from coppice.storage.directory import private_directory, session_file_name, sweep
from coppice.storage.jsonl import JsonlLog, Span, write_file
from coppice.storage.log import Batch
from coppice.storage.memory import MemoryLog
from coppice.tree.family import NONE
from coppice.tree.index import TreeIndex
from coppice.tree.path import path_to


class Copy(NamedTuple):
    """A copy to be written: its header and what it is made of."""

    header: Header
    parts: Iterable[bytes | Span]


def child_header(cwd: str, parent: str | None) -> Header:
    """The header of a new session that comes from `parent` (a path)."""
    return Header(SESSION_VERSION, new_session_id(), timestamp(), cwd, parent)


def nearest_copied(index: TreeIndex, leaf: int) -> int:
    """The entry at or above `leaf` that a copy of its path ends with; NONE if all of it is left out."""
    while leaf != NONE and index.kinds[leaf] in _LEFT_OUT:
        leaf = index.parents[leaf]
    return leaf


def copy_of_path(store: SessionStore, leaf: int, header: Header) -> Copy:
    """A copy of the path to `leaf`, with the labels in force on it and the name."""
    path = path_to(store.index, leaf)
    return Copy(header, _with_labels(store, path, _lines_of_path(store, path)))


def copy_of_everything(store: SessionStore, header: Header) -> Copy:
    """A copy of every readable entry under the ids it has here, as version 3.

    What hung on a damaged entry hangs on the nearest readable one above it.
    """
    index = store.index
    readable = [at for at in range(len(index)) if index.kinds[at] != Kind.DAMAGED]
    return Copy(header, (_as_version_3(store, ordinal, _readable_parent(index, ordinal)) for ordinal in readable))


def _readable_parent(index: TreeIndex, ordinal: int) -> int:
    parent = index.parents[ordinal]
    while parent != NONE and index.kinds[parent] == Kind.DAMAGED:
        parent = index.parents[parent]
    return parent


def write_copy(copy: Copy, directory: Path, home: Path) -> Path:
    """Write a copy as a new session file, synced; its path.

    Raises:
        StorageFailure: it cannot be written; nothing is left behind.
    """
    path = private_directory(directory, home) / session_file_name(copy.header.timestamp, copy.header.id)
    if path.is_relative_to(home):
        sweep(directory)
    try:
        write_file(path, _after(encode_line(copy.header), copy.parts))
    except OSError as error:
        raise StorageFailure(f"{path}: cannot be written: {error.strerror}") from error
    return path


def copy_in_memory(copy: Copy) -> SessionStore:
    """A copy as a store in memory, for sessions without a file."""
    log = MemoryLog()
    header = encode_line(copy.header)
    log.append([header])
    store = SessionStore(log, copy.header, SESSION_VERSION)
    for part in copy.parts:
        if isinstance(part, bytes) and part.strip():
            stored = log.append([part])[0]
            store.take_in(Batch([part[:-1]], [stored.offset], stored.number))
    return store


def _after(first: bytes, parts: Iterable[bytes | Span]) -> Iterator[bytes | Span]:
    yield first
    yield from parts


_LEFT_OUT = (Kind.LABEL, Kind.LEAF)
_WITH_IDS = (Kind.COMPACTION, Kind.BRANCH_SUMMARY)
"""Kinds that name other entries, which may be left out."""


def _lines_of_path(store: SessionStore, path: list[int]) -> Iterator[bytes | Span]:
    """The lines of a path; what lies side by side in the file and needs no splice is one span."""
    index, log = store.index, store.log
    fd = log.fileno() if isinstance(log, JsonlLog) and store.version >= SESSION_VERSION else -1
    last, run_start, run_end, run_line = NONE, -1, -1, -1
    on_path = set(path)
    for position, ordinal in enumerate(path):
        kind = index.kinds[ordinal]
        if kind in _LEFT_OUT:
            continue
        place = index.place(ordinal)
        splice = fd < 0 or index.parents[ordinal] != last or ordinal in index.facts.bridges or kind in _WITH_IDS
        if splice or place.offset != run_end or place.line != run_line + 1:
            if run_end > run_start:
                yield from _span(fd, run_start, run_end)
            run_start = run_end = -1
        if splice:
            yield _spliced(store, ordinal, last, _Left(path, position, on_path))
        else:
            run_start = place.offset if run_end < 0 else run_start
            run_end, run_line = place.offset + place.size + 1, place.line
        last = ordinal
    if run_end > run_start:
        yield from _span(fd, run_start, run_end)


def _span(fd: int, start: int, end: int) -> Iterator[bytes | Span]:
    """A span of whole lines; its last newline is written out, as a torn tail may lack it."""
    yield Span(fd, start, end - start - 1)
    yield b"\n"


class _Left(NamedTuple):
    """Where on the path a line stands that is copied, and which ordinals the path has."""

    path: list[int]
    position: int
    on_path: set[int]


def _spliced(store: SessionStore, ordinal: int, last: int, left: _Left) -> bytes:
    """A line with the ids that name a line left out replaced."""
    line = _as_version_3(store, ordinal)[:-1] if store.version < SESSION_VERSION else store.lines([ordinal])[0]
    index = store.index
    parent = None if last == NONE else index.ids[last]
    if index.parents[ordinal] != last or ordinal in index.facts.bridges:
        line = with_parent(line, parent)
    if index.kinds[ordinal] == Kind.COMPACTION:
        line = _with_first_kept(store, line, left)
    elif index.kinds[ordinal] == Kind.BRANCH_SUMMARY:
        line = _with_from_id(store, line, parent, left)
    return line + b"\n"


def _with_first_kept(store: SessionStore, line: bytes, left: _Left) -> bytes:
    index = store.index
    named = decode_object(line)[0].get("firstKeptEntryId")
    first = index.by_id.get(EntryId(named), NONE) if isinstance(named, str) else NONE
    if first not in left.on_path or index.kinds[first] not in _LEFT_OUT:
        return line
    start = left.path.index(first)
    copied = (at for at in left.path[start : left.position + 1] if index.kinds[at] not in _LEFT_OUT)
    return with_value(line, ("firstKeptEntryId",), index.ids[next(copied)])


def _with_from_id(store: SessionStore, line: bytes, parent: EntryId | None, left: _Left) -> bytes:
    origin = decode_object(line)[0].get("fromId")
    ordinal = store.index.by_id.get(EntryId(origin), NONE) if isinstance(origin, str) else NONE
    if origin == "root" or (ordinal in left.on_path and store.index.kinds[ordinal] not in _LEFT_OUT):
        return line
    return with_value(line, ("fromId",), parent or "root")


def _as_version_3(store: SessionStore, ordinal: int, parent: int | None = None) -> bytes:
    """An entry's line as version 3; with `parent`, under that ordinal."""
    fields = store.raw([ordinal])[0].fields
    if parent is not None and parent != store.index.parents[ordinal]:
        fields = fields | {"parentId": store.index.ids[parent] if parent != NONE else None}
    return upgraded_line(fields)


def _with_labels(store: SessionStore, path: list[int], lines: Iterable[bytes | Span]) -> Iterator[bytes | Span]:
    yield from lines
    index = store.index
    copied = [ordinal for ordinal in path if index.kinds[ordinal] not in _LEFT_OUT]
    ids = {index.ids[ordinal] for ordinal in copied}
    parent = index.ids[copied[-1]] if copied else None
    taken = set(ids)
    in_force = sorted(index.facts.labels.items(), key=lambda item: item[1].ordinal)
    for target, label in in_force:
        if target in ids:
            entry_id = new_entry_id(taken)
            taken.add(entry_id)
            yield encode_line(LabelEntry(entry_id, parent, timestamp(), target, label.text))
            parent = entry_id
    if _name_in(store, copied) != index.facts.name:
        yield encode_line(SessionInfoEntry(new_entry_id(taken), parent, timestamp(), index.facts.name or ""))


def _name_in(store: SessionStore, copied: list[int]) -> str | None:
    """The name that the copied lines give by themselves; one that was cleared elsewhere must not come back."""
    names = [at for at in copied if store.index.kinds[at] == Kind.SESSION_INFO]
    entry = store.entry(names[-1]) if names else None
    return (entry.name.strip() or None) if isinstance(entry, SessionInfoEntry) else None
