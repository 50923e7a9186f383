"""How entries get into a session: the file's birth, appends beside other writers, and going on in a new file.

The writer owns the store and the lock; it knows no leaf. See docs/format.md, Old versions, Two programs, Where files lie.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from coppice.errors import ReadOnlySession, StorageFailure, UnknownEntryId
from coppice.format.codec import decode_entry, encode_line
from coppice.format.entries import SESSION_VERSION, Header, KnownEntry
from coppice.format.heads import Kind, head_of_entry
from coppice.format.messages import EntryId
from coppice.session import copying
from coppice.session.drafts import new_entry_id, timestamp
from coppice.session.opening import Mode, Opened, damage_notices, open_file
from coppice.session.store import SessionStore
from coppice.storage.directory import coppice_home, directory_for, private_directory
from coppice.storage.jsonl import JsonlLog, write_file
from coppice.storage.locks import HolderLock
from coppice.storage.log import Stored, TailMoved
from coppice.storage.memory import MemoryLog
from coppice.tree.family import NONE

Make: TypeAlias = Callable[[EntryId, EntryId | None, str], KnownEntry]
"""Makes an entry from its id, its parent and the time."""

STARTS_A_FILE = frozenset(
    {Kind.USER, Kind.ASSISTANT, Kind.TOOL_RESULT, Kind.BASH, Kind.CUSTOM_ROLE, Kind.OTHER_MESSAGE, Kind.COMPACTION}
    | {Kind.BRANCH_SUMMARY, Kind.LABEL, Kind.SESSION_INFO}
)
"""A file appears with the first of these; settings before it wait in memory (docs/format.md)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """How a session is kept: where files lie (`session_dir` None: under `home`), how it is opened, whether each entry
    is synced."""

    home: Path = field(default_factory=coppice_home)
    session_dir: Path | None = None
    mode: Mode = "write"
    sync: bool = True

    def directory(self, cwd: str | Path) -> Path:
        """Where session files of `cwd` lie."""
        return directory_for(Path(cwd), self.home) if self.session_dir is None else self.session_dir


class SessionWriter:
    """Appends to one session and holds its lock."""

    __slots__ = ("_appendable", "_births", "_holder", "_told", "notices", "path", "setup", "store")

    def __init__(self, store: SessionStore, setup: Setup, path: Path | None) -> None:
        self.store = store
        self.setup = setup
        self.path = path
        self.notices: list[str] = []
        self._appendable = True
        self._holder: HolderLock | None = None
        self._births = 0
        self._told: set[str] = set()

    @classmethod
    def opened(cls, opened: Opened, setup: Setup, path: Path) -> "SessionWriter":
        """A writer for a file that was opened."""
        writer = cls(opened.store, setup, path)
        writer.notices = opened.notices
        writer._appendable = opened.appendable
        writer._holder = opened.holder
        return writer

    @property
    def is_stored(self) -> bool:
        """Whether the session has a file."""
        return isinstance(self.store.log, JsonlLog)

    def notice_once(self, text: str) -> None:
        """Have the user told of something, once for each opening."""
        if text not in self._told:
            self._told.add(text)
            self.notices.append(text)

    # --- appending ---------------------------------------------------------------------------

    def take_notices(self) -> list[str]:
        """What the user has to be told since the last call."""
        taken = self.notices + damage_notices(self.store, self.path or Path("session"))
        self.notices = []
        return taken

    def append(self, make: Make, parent_id: EntryId | None, *, entry_id: EntryId | None, session_wide: bool) -> EntryId:
        """Append an entry; it is on disk when this returns. `session_wide` puts it on the file's own leaf.

        Raises:
            ReadOnlySession: the session is open to read along.
            UnknownEntryId: `entry_id` is taken.
            StorageFailure: it could not be stored; nothing changed here.
        """
        if self.setup.mode == "read":
            raise ReadOnlySession(f"{self.path}: open to read along; fork it to go on")
        if not self._appendable:
            self._move_to_new_file(parent_id)
        while True:
            index = self.store.index
            if entry_id in index.by_id:
                raise UnknownEntryId(f"the id {entry_id!r} is taken; nothing was stored")
            if session_wide:
                parent_id = None if index.leaf == NONE else index.ids[index.leaf]
            entry = make(entry_id or new_entry_id(index.by_id), parent_id, timestamp())
            try:
                return self._store(entry)
            except TailMoved:
                self._read_others()

    def _store(self, entry: KnownEntry) -> EntryId:
        line = encode_line(entry)
        head = head_of_entry(entry)
        log = self.store.log
        if isinstance(log, MemoryLog) and self.path is not None and head.kind in STARTS_A_FILE:
            stored = self._be_born(log, self.path, line)
        elif isinstance(log, JsonlLog) and log.end == 0:  # an empty file becomes a session
            stored = log.append([encode_line(self.store.header), line])[1]
        else:
            stored = log.append([line])[0]
        self.store.add(_as_stored(entry, line), head, stored)
        if isinstance(self.store.log, JsonlLog) and self.store.log.births != self._births:
            self._hold_new_inode(self.store.log)
        return entry.id

    def _read_others(self) -> None:
        grown = self.store.refresh()
        log = self.store.log
        ours = isinstance(log, JsonlLog) and log.failed  # a write that failed left at most one line, and was told of
        if grown > ours:
            self.notices.append(
                f"{self.path}: another program appended {grown} entries to this session; both lines of work are in /tree"
            )

    def sync(self) -> None:
        """Sync the file, if there is one."""
        if isinstance(self.store.log, JsonlLog):
            self.store.log.sync_now()

    # --- files -------------------------------------------------------------------------------

    def _be_born(self, memory: MemoryLog, path: Path, line: bytes) -> Stored:
        """Write the session's file: the header, what waited, and this line; take the writer's lock."""
        private_directory(path.parent, self.setup.home)
        try:
            write_file(path, [memory.content(), line])
        except OSError as error:
            raise StorageFailure(f"{path}: not stored: {error.strerror}") from error
        log = JsonlLog.open(path, writable=True, sync=self.setup.sync)
        lines = sum(len(batch.lines) for batch in log.read_tail())
        self.store.log = log
        try:
            self._holder = HolderLock.take(self.setup.home, log.fileno(), path)
        except StorageFailure as error:  # the entry is stored all the same
            self.notices.append(f"{path}: the writer's lock could not be taken, others may write too: {error}")
        return Stored(log.end - len(line), len(line) - 1, lines)

    def _hold_new_inode(self, log: JsonlLog) -> None:
        """The file was deleted while in use and written anew: hold the new one, and say so."""
        self._births = log.births
        if self._holder is not None:
            self._holder.release()
            self._holder = HolderLock.take(self.setup.home, log.fileno(), log.path)
        self.notices.append(f"{self.path}: the file had been deleted while in use; it was written anew, complete")

    def _move_to_new_file(self, leaf_id: EntryId | None) -> None:
        """Go on in a new version-3 file: an old session moves whole, one of a newer version forks at the leaf."""
        old, cwd = self.path, self.store.header.cwd
        header = copying.child_header(cwd, str(old))
        if self.store.version > SESSION_VERSION:
            leaf = NONE if leaf_id is None else self.store.ordinal(leaf_id)
            copy = copying.copy_of_path(self.store, leaf, header)
        else:
            copy = copying.copy_of_everything(self.store, header)
        path = copying.write_copy(copy, self.setup.directory(cwd), self.setup.home)
        opened = open_file(path, "write", home=self.setup.home, sync=self.setup.sync)
        self.close()
        self.store, self.path, self._holder, self._appendable = opened.store, path, opened.holder, True
        self.notices.append(f"{old}: stays as it is; the session goes on in {path}")

    def close(self) -> None:
        """Give back file and lock. Safe to call twice."""
        self.store.close()
        if self._holder is not None:
            self._holder.release()
            self._holder = None


def _as_stored(entry: KnownEntry, line: bytes) -> KnownEntry:
    """The entry as a reader of the file gets it, so that no list or dict of the caller's can change it later."""
    return decode_entry(line, entry.id, entry.parent_id).entry  # pyright: ignore[reportReturnType]  (it was just encoded)


def memory_store(header: Header) -> SessionStore:
    """An empty store in memory, its header in place."""
    log = MemoryLog()
    log.append([encode_line(header)])
    return SessionStore(log, header, SESSION_VERSION)
