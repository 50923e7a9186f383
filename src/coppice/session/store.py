"""One session as it is stored: log, index and decoded entries joined. No leaf, no decisions.

The index holds places and ids; bodies are read and decoded when asked for, and kept in the entry cache.
"""

from collections.abc import Sequence

from coppice.errors import UnknownEntryId
from coppice.format.codec import decode_entry, decode_object
from coppice.format.entries import CompactionEntry, Entry, Header, KnownEntry
from coppice.format.heads import Head
from coppice.format.lenient import entry_from
from coppice.format.messages import EntryId, JsonObject
from coppice.format.migrate import upgraded
from coppice.storage.log import Batch, SessionLog, Stored
from coppice.tree.cache import EntryCache
from coppice.tree.family import NONE
from coppice.tree.index import OldList, Place, TreeIndex
from coppice.tree.projection import RawEntry
from coppice.tree.results import ResultFinder


class SessionStore:
    """The entries of one session."""

    __slots__ = ("cache", "header", "index", "log", "old", "results", "told", "version")

    def __init__(self, log: SessionLog, header: Header, version: int) -> None:
        self.log = log
        self.header = header
        self.version = version
        self.index = TreeIndex()
        self.old = OldList(self.index, header.id) if version == 1 else None
        self.cache = EntryCache()
        self.results = ResultFinder()
        self.told = 0
        """How many of the damages the user has been told of."""

    # --- growing -----------------------------------------------------------------------------

    def take_in(self, batch: Batch, skip: int = 0, *, are_copies: bool = False) -> None:
        """Add lines that were read from the log, without the first `skip`. `are_copies`: see `TreeIndex.extend`."""
        lines, offsets = (batch.lines[skip:], batch.offsets[skip:]) if skip else (batch.lines, batch.offsets)
        if self.old is not None:
            self.old.extend(lines, offsets, batch.first_number + skip)
        else:
            self.index.extend(lines, offsets, batch.first_number + skip, are_copies=are_copies)

    def refresh(self) -> int:
        """Read what others appended; how many entries that were."""
        before = len(self.index)
        for batch in self.log.read_tail():
            self.take_in(batch)
        return len(self.index) - before

    def add(self, entry: KnownEntry, head: Head, stored: Stored) -> int:
        """Take in an entry that was just appended; its ordinal."""
        ordinal = self.index.add(head, Place(stored.offset, stored.size, stored.number))
        if ordinal is None:  # cannot be: the id was made for this index, under the log's own check
            raise UnknownEntryId(f"the id {entry.id!r} is taken")
        self.cache.put(ordinal, entry, stored.size)
        return ordinal

    # --- asking ------------------------------------------------------------------------------

    def ordinal(self, entry_id: EntryId) -> int:
        """The ordinal of an entry.

        Raises:
            UnknownEntryId: the session has none of this id.
        """
        found = self.index.by_id.get(entry_id)
        if found is None:
            raise UnknownEntryId(f"no entry {entry_id!r} in this session")
        return found

    def entry(self, ordinal: int) -> Entry:
        """The entry at an ordinal."""
        return self.cache.get(ordinal) or self.entries([ordinal])[0]

    def entries(self, ordinals: list[int]) -> list[Entry]:
        """The entries at these ordinals, in this order; what is not cached is read in as few reads as can be."""
        cached, missing = self.cache.many(ordinals)
        if missing:
            fresh = dict(zip(missing, self._decoded(missing), strict=True))
            cached = [
                fresh[ordinal] if entry is None else entry for ordinal, entry in zip(ordinals, cached, strict=True)
            ]
        return cached  # pyright: ignore[reportReturnType]  (nothing is missing any more)

    def _decoded(self, ordinals: list[int]) -> list[Entry]:
        index, put = self.index, self.cache.put
        found: list[Entry] = []
        for ordinal, line in zip(ordinals, self.lines(ordinals), strict=True):
            entry_id, parent_id = index.ids[ordinal], index.parent_id(ordinal)
            if self.old is not None:
                entry = self._old_entry(line, entry_id, parent_id)
            else:
                entry, replaced = decode_entry(line, entry_id, parent_id)
                if replaced:
                    index.damaged(index.where.numbers[ordinal], f"invalid UTF-8 in {entry_id!r} reads as U+FFFD")
            put(ordinal, entry, len(line))
            found.append(entry)
        return found

    def _old_entry(self, line: bytes, entry_id: EntryId, parent_id: EntryId | None) -> Entry:
        fields, _ = decode_object(line)
        return entry_from(self._upgraded(fields, entry_id, parent_id), entry_id, parent_id)

    def _upgraded(self, fields: JsonObject, entry_id: EntryId, parent_id: EntryId | None) -> JsonObject:
        first_kept = self.old.first_kept(fields) if self.old is not None else None
        return upgraded(fields, entry_id, parent_id, first_kept)

    def lines(self, ordinals: Sequence[int]) -> list[bytes]:
        """The raw bytes of these entries, without newlines."""
        offsets, sizes = self.index.where.offsets, self.index.where.sizes
        return self.log.read([(offsets[ordinal], sizes[ordinal]) for ordinal in ordinals])

    def raw(self, ordinals: Sequence[int]) -> list[RawEntry]:
        """The JSON objects of these entries as they stand in the file, with migrated and bridged ids put in."""
        found: list[RawEntry] = []
        for ordinal, line in zip(ordinals, self.lines(ordinals), strict=True):
            entry_id = self.index.ids[ordinal]
            try:
                fields, _ = decode_object(line)
            except ValueError:
                fields = {"type": "damaged", "id": entry_id, "parentId": self.index.parent_id(ordinal)}
            found.append(RawEntry(entry_id, self._current(fields, ordinal)))
        return found

    def _current(self, fields: JsonObject, ordinal: int) -> JsonObject:
        entry_id, parent_id = self.index.ids[ordinal], self.index.parent_id(ordinal)
        if self.version < 3:
            return self._upgraded(fields, entry_id, parent_id)
        if fields.get("parentId") != parent_id:
            return fields | {"parentId": parent_id}
        return fields

    def newest_compaction(self, leaf: int) -> CompactionEntry | None:
        """The newest compaction on the path to a leaf."""
        found = NONE if leaf == NONE else self.index.newest.compaction[leaf]
        entry = None if found == NONE else self.entry(found)
        return entry if isinstance(entry, CompactionEntry) else None

    def close(self) -> None:
        """Give back the log."""
        self.log.close()
