"""`SessionManager`: one session's durable history, its tree and its leaf.

It owns what was said and done, and where we are. Every append is on disk before it returns. It never calls a model.
Places, locks and damage are as docs/format.md says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import NamedTuple, TypeAlias

from coppice.errors import LeafMoved
from coppice.format.entries import (
    LEAF_MARKER,
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    Header,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UsageEntry,
)
from coppice.format.heads import Kind
from coppice.format.messages import (
    Content,
    EntryId,
    JsonValue,
    Message,
    RequestMessage,
    ToolCallId,
    ToolResultMessage,
    Usage,
)
from coppice.session import bridges, copying
from coppice.session.context import context_at
from coppice.session.listing import SessionInfo, list_all, list_for, most_recent
from coppice.session.opening import Mode, open_file
from coppice.session.store import SessionStore
from coppice.session.writer import Make, SessionWriter, Setup, memory_store
from coppice.storage.directory import session_file_name
from coppice.tree import context as contexts
from coppice.tree.context import ContextView, ModelRef, SessionContext
from coppice.tree.family import NONE
from coppice.tree.index import TreeIndex
from coppice.tree.pairing import Reader, request_messages
from coppice.tree.path import children_of, is_on_path, path_to


class Cursor(Enum):
    """Stands for "this manager's leaf, wherever it is" where an entry id or None is expected."""

    HERE = "here"


HERE = Cursor.HERE
Expect: TypeAlias = EntryId | Cursor | None
"""The leaf an append was computed for: an entry id, None for "before the first entry", or HERE for no expectation."""


class TreeNode(NamedTuple):
    """An entry in the tree: its id, what it is, its label and its children in file order."""

    id: EntryId
    kind: Kind
    label: str | None
    children: "list[TreeNode]"


@dataclass(frozen=True, slots=True)
class CompactionDraft:
    """A compaction to be stored: what `CompactionEntry` holds beside its place."""

    summary: str
    first_kept_entry_id: EntryId | None
    tokens_before: int
    details: JsonValue = None
    usage: Usage | None = None
    from_hook: bool | None = None


class SessionManager:
    """One session. Make one with `create`, `open`, `continue_recent`, `in_memory` or `fork_from`; `close` it after."""

    __slots__ = ("_leaf_id", "_writer")

    def __init__(self, writer: SessionWriter) -> None:
        self._writer = writer
        index = writer.store.index
        self._leaf_id = None if index.leaf == NONE else index.ids[index.leaf]

    # --- making one --------------------------------------------------------------------------

    @classmethod
    def create(
        cls,
        cwd: str | Path,
        session_dir: str | Path | None = None,
        *,
        parent_session: str | None = None,
        setup: Setup | None = None,
    ) -> "SessionManager":
        """A new session for a directory. Its file appears with the first message, name or label."""
        chosen = _setup(session_dir, "write", setup)
        header = copying.child_header(str(Path(cwd).resolve()), parent_session)
        path = chosen.directory(header.cwd) / session_file_name(header.timestamp, header.id)
        return cls(SessionWriter(memory_store(header), chosen, path))

    @classmethod
    def in_memory(cls, cwd: str | Path = ".") -> "SessionManager":
        """A session without a file."""
        header = copying.child_header(str(Path(cwd).resolve()), None)
        return cls(SessionWriter(memory_store(header), Setup(), None))

    @classmethod
    def open(
        cls,
        path: str | Path,
        session_dir: str | Path | None = None,
        *,
        mode: Mode = "write",
        setup: Setup | None = None,
    ) -> "SessionManager":
        """Open a session file, Pi's too, where it was left.

        ``mode``: ``write`` takes the holder lock; ``read`` reads along, appends raise ReadOnlySession; ``shared``
        appends beside the holder. `session_dir` is where a new file goes if this one must not grow (old versions).

        Raises:
            SessionNotFound, NotASession, SessionHeld, StorageFailure: see `coppice.session.opening.open_file`.
        """
        chosen = _setup(session_dir, mode, setup)
        real = Path(path).expanduser().absolute()
        opened = open_file(real, mode, home=chosen.home, sync=chosen.sync)
        return cls(SessionWriter.opened(opened, chosen, real))

    @classmethod
    def continue_recent(
        cls, cwd: str | Path, session_dir: str | Path | None = None, *, mode: Mode = "write", setup: Setup | None = None
    ) -> "SessionManager":
        """The session of a directory that was used last, or a new one where there is none."""
        chosen = _setup(session_dir, mode, setup)
        path = most_recent(cwd, chosen.directory(str(cwd)))
        if path is None:
            return cls.create(cwd, setup=chosen)
        return cls.open(path, mode=mode, setup=chosen)

    @classmethod
    def fork_from(
        cls, source: str | Path, cwd: str | Path, session_dir: str | Path | None = None, *, setup: Setup | None = None
    ) -> "SessionManager":
        """A new session for `cwd` with the path of another session file; that one stays as it is.

        Raises:
            SessionNotFound, NotASession: the source cannot be used; no file was made.
        """
        chosen = _setup(session_dir, "write", setup)
        origin = cls.open(source, mode="read", setup=chosen)
        try:
            return origin._copied(origin._leaf_id, str(Path(cwd).resolve()), chosen)
        finally:
            origin.close()

    @staticmethod
    def list(
        cwd: str | Path, session_dir: str | Path | None = None, *, home: Path | None = None
    ) -> "list[SessionInfo]":
        """The sessions of a directory, the one used last first."""
        setup = _setup(session_dir, "read", Setup(home) if home else None)
        return list_for(cwd, setup.directory(str(cwd)), setup.home)

    @staticmethod
    def list_all(session_dir: str | Path | None = None, *, home: Path | None = None) -> "list[SessionInfo]":
        """The sessions of every directory, the one used last first."""
        return list_all(_setup(session_dir, "read", Setup(home) if home else None))

    # --- what it is --------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        """The session's id, from its header."""
        return self._writer.store.header.id

    @property
    def cwd(self) -> str:
        """The directory the session was begun in, from its header."""
        return self._writer.store.header.cwd

    @property
    def session_file(self) -> Path | None:
        """The file's path, also before it exists; None for a session in memory."""
        return self._writer.path

    @property
    def is_stored(self) -> bool:
        """Whether the file exists."""
        return self._writer.is_stored

    @property
    def setup(self) -> Setup:
        """How this session is kept; its ``mode`` says whether appends are allowed."""
        return self._writer.setup

    @property
    def store(self) -> SessionStore:
        """The stored entries, for programs that read them by ordinal."""
        return self._writer.store

    @property
    def index(self) -> TreeIndex:
        """The tree as columns, for outlines and programs that walk it."""
        return self._writer.store.index

    @property
    def leaf(self) -> int:
        """The leaf's ordinal; NONE before the first entry."""
        return NONE if self._leaf_id is None else self.index.by_id[self._leaf_id]

    def get_header(self) -> Header:
        """Line 1 of the file."""
        return self.store.header

    def get_session_name(self) -> str | None:
        """The session's name."""
        return self.index.facts.name

    def get_leaf_id(self) -> EntryId | None:
        """Where we are; None before the first entry."""
        return self._leaf_id

    def get_label(self, entry_id: EntryId) -> str | None:
        """The label of an entry."""
        label = self.index.facts.labels.get(entry_id)
        return label.text if label else None

    def get_entry(self, entry_id: EntryId) -> Entry | None:
        """An entry by id; None if there is none."""
        ordinal = self.index.by_id.get(entry_id)
        return None if ordinal is None else self.store.entry(ordinal)

    def get_children(self, entry_id: EntryId | None) -> "list[Entry]":
        """The children of an entry, of None the roots, in file order; what hangs on a leaf marker hangs on its target."""
        ordinal = NONE if entry_id is None else self.store.ordinal(entry_id)
        return self.store.entries(children_of(self.index, ordinal))

    def get_branch(self, from_id: Expect = HERE) -> "list[Entry]":
        """The path from a root to an entry, by default to the leaf."""
        return self.store.entries(path_to(self.index, self._at(from_id)))

    def path_after(self, since: EntryId | None) -> "list[Entry]":
        """The path's entries after `since` (all of them for None), or all if `since` is not on the path."""
        index = self.index
        above = NONE if since is None else self.store.ordinal(since)
        if above != NONE and not is_on_path(index, above, self.leaf):
            above = NONE
        return self.store.entries(path_to(index, self.leaf, above=above))

    def turn_after(self, since: EntryId | None) -> "list[Entry]":
        """The path's entries from the newest reply after `since` on, or all after `since` where there is none."""
        index = self.index
        above = NONE if since is None else self.store.ordinal(since)
        found: list[int] = []
        at = self.leaf
        while at not in (NONE, above):
            found.append(at)
            if index.kinds[at] == Kind.ASSISTANT:
                break
            at = index.parents[at]
        return self.store.entries(found[::-1])

    def get_tree(self) -> "list[TreeNode]":
        """The whole tree, leaf markers left out: its roots, each with its children."""
        index, labels = self.index, self.index.facts.labels
        kinds, parents, marker = index.kinds, index.parents, int(Kind.LEAF)
        named = {int(kind): kind for kind in Kind}
        nodes = [TreeNode(i, named[k], None, []) for i, k in zip(index.ids, kinds, strict=True)]
        for entry_id, label in labels.items():
            at = index.by_id.get(entry_id)
            if at is not None:
                nodes[at] = nodes[at]._replace(label=label.text)
        roots: list[TreeNode] = []
        for node, kind, parent in zip(nodes, kinds, parents, strict=True):
            above = parent
            while above != NONE and kinds[above] == marker:  # what Pi hung on a marker hangs on its target
                above = parents[above]
            if kind != marker:
                (roots if above == NONE else nodes[above].children).append(node)
        return roots

    def entries(self) -> Iterator[Entry]:
        """Every entry in file order, read in pieces."""
        for start in range(0, len(self.index), 1000):
            yield from self.store.entries([*range(start, min(start + 1000, len(self.index)))])

    def refresh(self) -> int:
        """Read what other programs appended; how many entries that were. Appending does this by itself.

        A session that is open to read along follows the file's leaf, if that is where it was.

        Raises:
            StorageFailure: the file cannot be read.
        """
        before = self.index.leaf
        grown = self.store.refresh()
        if self.setup.mode == "read" and self.leaf == before and self.index.leaf != before:
            self._leaf_id = self.index.ids[self.index.leaf] if self.index.leaf != NONE else None
        return grown

    def take_notices(self) -> "list[str]":
        """What the user has to be told since the last call: damage, a second writer, a file written anew."""
        return self._writer.take_notices()

    # --- the context -------------------------------------------------------------------------

    def _at(self, leaf_id: Expect) -> int:
        if isinstance(leaf_id, Cursor):
            return self.leaf
        return NONE if leaf_id is None else self.store.ordinal(leaf_id)

    def build_context(self, leaf_id: Expect = HERE) -> ContextView:
        """The context at a leaf in full: its entries, and its messages with the ids of their entries."""
        view, problems = context_at(self.store, self._at(leaf_id))
        for problem in problems:
            self._writer.notice_once(f"{self.session_file or 'session'}: {problem}")
        return view

    def build_context_entries(self, leaf_id: Expect = HERE) -> "list[Entry]":
        """The entries of the context at a leaf (docs/format.md, step 2)."""
        return self.build_context(leaf_id).entries

    def build_session_context(self, leaf_id: Expect = HERE) -> SessionContext:
        """Messages, thinking level and model at a leaf (docs/format.md, steps 1 to 4)."""
        messages = [message for _, message in self.build_context(leaf_id).pairs]
        return SessionContext(messages, self.thinking_level(leaf_id), self.model(leaf_id))

    def thinking_level(self, leaf_id: Expect = HERE) -> str:
        """The thinking level in force at a leaf; ``off`` where none was set."""
        leaf = self._at(leaf_id)
        found = NONE if leaf == NONE else self.index.newest.level[leaf]
        return contexts.level_of(None if found == NONE else self.store.entry(found))

    def model(self, leaf_id: Expect = HERE) -> ModelRef | None:
        """The model in force at a leaf: the newest model change or reply on its path."""
        leaf = self._at(leaf_id)
        found = NONE if leaf == NONE else self.index.newest.model[leaf]
        return contexts.model_of(None if found == NONE else self.store.entry(found))

    def request_messages(self, reader: Reader, leaf_id: Expect = HERE) -> tuple[RequestMessage, ...]:
        """What a provider is sent at a leaf (docs/format.md, step 5)."""
        leaf = self._at(leaf_id)
        store = self.store

        def find(reply_id: EntryId, call_id: ToolCallId) -> ToolResultMessage | None:
            reply = store.ordinal(reply_id)
            return store.results.find(store.index, reply, call_id, leaf=leaf, entry_of=store.entry)

        return request_messages(self.build_context(leaf_id).pairs, reader, find)

    def uncertain_bridges(self) -> "list[EntryId]":
        """Entries on the path whose parent is lost and was guessed where the tree has branches."""
        return bridges.uncertain_bridges(self.index, self.leaf)

    def check_bridges(self) -> None:
        """Refuse to build a request over a guess.

        Raises:
            BridgeNeedsConsent: the path crosses such a gap.
        """
        bridges.check_bridges(self.index, self.leaf, self.session_file)

    def accept_bridges(self) -> None:
        """The user's yes to the guessed bridges on the path, for as long as this session is open."""
        bridges.accept_bridges(self.index, self.leaf)

    # --- appending ---------------------------------------------------------------------------

    def _check(self, expect: Expect) -> None:
        if not isinstance(expect, Cursor) and expect != self._leaf_id:
            now, wanted = self._leaf_id or "before the first entry", expect or "before the first entry"
            raise LeafMoved(f"the leaf is {now} now, not {wanted}; nothing was stored")

    def _append(self, make: Make, expect: Expect, entry_id: EntryId | None = None) -> EntryId:
        self._check(expect)
        self._leaf_id = self._writer.append(make, self._leaf_id, entry_id=entry_id, session_wide=False)
        return self._leaf_id

    def append_message(self, message: Message, *, expect: Expect = HERE, entry_id: EntryId | None = None) -> EntryId:
        """Store a message after the leaf; it is on disk when this returns its entry's id.

        `entry_id` is for a message that was pending under the id its entry was to have.

        Raises (as every append):
            LeafMoved: `expect` is not the leaf any more.
            ReadOnlySession: the session is open to read along.
            StorageFailure: it could not be stored; the leaf did not move.
        """
        return self._append(lambda i, p, t: MessageEntry(i, p, t, message), expect, entry_id)

    def append_model_change(self, provider: str, model_id: str, *, expect: Expect = HERE) -> EntryId:
        """Store the model from here on."""
        return self._append(lambda i, p, t: ModelChangeEntry(i, p, t, provider, model_id), expect)

    def append_thinking_level_change(self, thinking_level: str, *, expect: Expect = HERE) -> EntryId:
        """Store the thinking level from here on."""
        return self._append(lambda i, p, t: ThinkingLevelChangeEntry(i, p, t, thinking_level), expect)

    def append_compaction(self, draft: CompactionDraft, *, expect: Expect) -> EntryId:
        """Store a compaction computed for the leaf `expect`. A `first_kept_entry_id` of None keeps nothing."""
        return self._append(
            lambda i, p, t: CompactionEntry(
                i,
                p,
                t,
                draft.summary,
                draft.first_kept_entry_id or i,
                draft.tokens_before,
                draft.details,
                draft.usage,
                draft.from_hook,
            ),
            expect,
        )

    def append_custom_entry(self, custom_type: str, data: JsonValue = None, *, expect: Expect = HERE) -> EntryId:
        """Store an extension's state."""
        return self._append(lambda i, p, t: CustomEntry(i, p, t, custom_type, data), expect)

    def append_custom_message_entry(
        self, custom_type: str, content: Content, *, display: bool, details: JsonValue = None, expect: Expect = HERE
    ) -> EntryId:
        """Store what an extension says to the model."""
        return self._append(lambda i, p, t: CustomMessageEntry(i, p, t, custom_type, content, display, details), expect)

    def append_usage(self, kind: str, provider: str, model: str, usage: Usage, *, expect: Expect = HERE) -> EntryId:
        """Store the usage of a request that is no reply."""
        return self._append(lambda i, p, t: UsageEntry(i, p, t, kind, provider, model, usage), expect)

    def append_context_edit(self, target_id: EntryId, replacement: Content | None, *, expect: Expect = HERE) -> EntryId:
        """Hide an entry from the model (None) or replace its content for it.

        Raises:
            UnknownEntryId: there is no such entry.
        """
        self.store.ordinal(target_id)
        new = None if replacement is None else Replacement(replacement)
        return self._append(lambda i, p, t: ContextEditEntry(i, p, t, target_id, new), expect)

    def append_label_change(self, target_id: EntryId, label: str | None, *, expect: Expect = HERE) -> EntryId:
        """Label an entry; None or an empty label clears it. The leaf stays.

        Raises:
            UnknownEntryId: there is no such entry.
            LeafMoved: `expect` is not the leaf any more.
        """
        self.store.ordinal(target_id)
        text = (label or "").strip() or None
        return self._session_wide(lambda i, p, t: LabelEntry(i, p, t, target_id, text), expect)

    def append_session_info(self, name: str, *, expect: Expect = HERE) -> EntryId:
        """Name the session; an empty name clears it. The leaf stays."""
        return self._session_wide(lambda i, p, t: SessionInfoEntry(i, p, t, name.strip()), expect)

    def _session_wide(self, make: Make, expect: Expect) -> EntryId:
        self._check(expect)
        return self._writer.append(make, self._leaf_id, entry_id=None, session_wide=True)

    # --- moving ------------------------------------------------------------------------------

    def branch(self, entry_id: EntryId | None, *, expect: Expect = HERE) -> None:
        """Move the leaf to an entry, durably; None is before the first entry. Moving to where we are writes nothing.

        Raises:
            UnknownEntryId: there is no such entry.
            LeafMoved, StorageFailure: as every append; the leaf stays.
        """
        entry_id = self._target(entry_id)
        self._check(expect)
        if entry_id != self._leaf_id and self.setup.mode != "read" and self.session_file is not None:
            old = self._leaf_id
            self._writer.append(
                lambda i, p, t: CustomEntry(i, p, t, LEAF_MARKER, {"from": old}),
                entry_id,
                entry_id=None,
                session_wide=False,
            )
        self._leaf_id = entry_id

    def _target(self, entry_id: EntryId | None) -> EntryId | None:
        """Where going to an entry leads: a leaf marker stands for its target, nothing of ours hangs on one."""
        at = self._at(entry_id)
        while at != NONE and self.index.kinds[at] == Kind.LEAF:
            at = self.index.parents[at]
        return None if at == NONE else self.index.ids[at]

    def reset_leaf(self) -> None:
        """Move the leaf before the first entry, as `branch`."""
        self.branch(None)

    def branch_with_summary(
        self,
        entry_id: EntryId | None,
        summary: str,
        *,
        details: JsonValue = None,
        usage: Usage | None = None,
        from_hook: bool | None = None,
        expect: Expect = HERE,
    ) -> EntryId:
        """Move the leaf to an entry and store there a summary of the branch that is left; the entry is the move."""
        entry_id = self._target(entry_id)
        self._check(expect)
        left = self._leaf_id or "root"
        self._leaf_id = self._writer.append(
            lambda i, p, t: BranchSummaryEntry(i, p, t, left, summary, details, usage, from_hook),
            entry_id,
            entry_id=None,
            session_wide=False,
        )
        return self._leaf_id

    append_branch_summary = branch_with_summary

    # --- other sessions ----------------------------------------------------------------------

    def new_session(self) -> "SessionManager":
        """A new session beside this one: same directory, same setup."""
        if self.session_file is None:
            return SessionManager.in_memory(self.cwd)
        return SessionManager.create(self.cwd, setup=self._for_new_files())

    def create_branched_session(self, leaf_id: Expect = HERE) -> "SessionManager":
        """A new session with the path to an entry (by default the leaf), labels on it and the name. This one stays.

        Raises:
            UnknownEntryId: there is no such entry.
            StorageFailure: the new file cannot be written; nothing is left behind.
        """
        target = self._leaf_id if isinstance(leaf_id, Cursor) else leaf_id
        return self._copied(target, self.cwd, self._for_new_files())

    def _for_new_files(self) -> Setup:
        return Setup(self.setup.home, self.setup.session_dir, "write", self.setup.sync)

    def _copied(self, leaf_id: EntryId | None, cwd: str, setup: Setup) -> "SessionManager":
        source = str(self.session_file) if self.is_stored else None
        leaf = copying.nearest_copied(self.index, self._at(leaf_id))
        if leaf == NONE and self.session_file is not None:
            return SessionManager.create(cwd, parent_session=source, setup=setup)
        copy = copying.copy_of_path(self.store, leaf, copying.child_header(cwd, source))
        if self.session_file is None:
            return SessionManager(SessionWriter(copying.copy_in_memory(copy), setup, None))
        path = copying.write_copy(copy, setup.directory(cwd), setup.home)
        is_sound = Kind.DAMAGED not in self.index.kinds
        opened = open_file(path, setup.mode, home=setup.home, sync=setup.sync, is_copy=is_sound)
        return SessionManager(SessionWriter.opened(opened, setup, path))

    def sync(self) -> None:
        """Sync what was appended, for sessions that do not sync each entry.

        Raises:
            StorageFailure: the sync failed; what was appended since the last one may be lost in a power cut.
        """
        self._writer.sync()

    def close(self) -> None:
        """Give back the file and the lock. Safe to call twice."""
        self._writer.close()


def _setup(session_dir: str | Path | None, mode: Mode, given: Setup | None) -> Setup:
    base = given or Setup()
    directory = base.session_dir if session_dir is None else Path(session_dir).expanduser().absolute()
    return Setup(base.home, directory, mode, base.sync)
