"""The tree of one session, held as columns of small numbers: an entry is its ordinal, its place in file order.

Here: ids, parents, kinds, places in the log, and what is true of the whole file (leaf, labels, name, damage). Not here:
bodies (decoded when asked, see cache.py) and files (a batch of lines comes in, see storage). Everything is incremental
and iterative: one pass over the heads, then constant work for each entry that is added.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from coppice.format.codec import decode_object
from coppice.format.heads import Head, Kind, damaged_head, head_of, read_damaged, read_head, read_head_of_copy
from coppice.format.messages import EntryId, JsonObject
from coppice.format.migrate import migrated_id
from coppice.tree.family import NONE, Family, NewestAbove, is_branching

_NOTED = int(Kind.LABEL)
"""Kinds from here on say something about the whole file, see `TreeIndex._note`."""

MAX_DAMAGES = 1000
"""How many damages are kept one by one; beyond it they are only counted."""


class Damage(NamedTuple):
    """What could not be read, or not as it stood: ``line`` counts from 1."""

    line: int
    text: str


class Place(NamedTuple):
    """Where an entry's JSON lies in the log (for a file: byte offset and length in bytes) and its line, from 1."""

    offset: int
    size: int
    line: int


class Label(NamedTuple):
    """A label in force: its text and the ordinal of the label entry."""

    text: str
    ordinal: int


class Jumps:
    """The ordinals of entries that do not hang on the entry right before them, and whether one begins a branch."""

    __slots__ = ("_branched", "_seen", "ordinals")

    def __init__(self) -> None:
        self.ordinals = array("q")
        self._seen = 0
        self._branched = False

    def have_branched(self, parents: "array[int]", kinds: bytearray) -> bool:
        """Whether the entries so far are more than one line of conversation; asked only where a parent is lost."""
        while not self._branched and self._seen < len(self.ordinals):
            self._branched = is_branching(parents, kinds, self.ordinals[self._seen])
            self._seen += 1
        return self._branched


@dataclass(slots=True)
class Facts:
    """What is true of the whole file, in file order, last one wins.

    ``bridges`` are the ordinals of orphans that were tied to the entry before them → whether that is certain (a single
    chain came before).
    """

    labels: dict[EntryId, Label] = field(default_factory=dict[EntryId, Label])
    name: str | None = None
    leaf: int = NONE
    damages: list[Damage] = field(default_factory=list[Damage])
    damage_count: int = 0
    bridges: dict[int, bool] = field(default_factory=dict[int, bool])
    jumps: Jumps = field(default_factory=Jumps)


class Where:
    """Where each entry lies: columns of offsets, sizes and line numbers."""

    __slots__ = ("numbers", "offsets", "sizes")

    def __init__(self) -> None:
        self.offsets = array("q")
        self.sizes = array("q")
        self.numbers = array("q")


class TreeIndex:
    """The index of one session. Add lines in file order; ask by id or ordinal."""

    __slots__ = ("_family", "_newest", "by_id", "facts", "ids", "kinds", "parents", "where")

    def __init__(self) -> None:
        self.ids: list[EntryId] = []
        self.by_id: dict[EntryId, int] = {}
        self.parents = array("q")
        self.kinds = bytearray()
        self.where = Where()
        self.facts = Facts()
        self._family = Family()
        self._newest = NewestAbove()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def family(self) -> Family:
        """Children and depth, brought up to date."""
        self._family.fill(self.parents)
        return self._family

    @property
    def newest(self) -> NewestAbove:
        """Newest compaction, level and model above each entry, brought up to date."""
        self._newest.fill(self.parents, self.kinds)
        return self._newest

    @property
    def leaf(self) -> int:
        """The leaf the file opens at: its last readable entry, or the target of a leaf marker that stands there."""
        return self.facts.leaf

    def place(self, ordinal: int) -> Place:
        """Where an entry lies."""
        return Place(self.where.offsets[ordinal], self.where.sizes[ordinal], self.where.numbers[ordinal])

    def parent_id(self, ordinal: int) -> EntryId | None:
        """The id of the entry's parent in the tree."""
        parent = self.parents[ordinal]
        return None if parent == NONE else self.ids[parent]

    # --- adding ------------------------------------------------------------------------------

    def extend(
        self, lines: Sequence[bytes], offsets: Sequence[int], first_number: int, *, are_copies: bool = False
    ) -> None:
        """Add the lines after those already added; `offsets` are their places, `first_number` the first one's number.

        `are_copies` says that they were copied whole from lines that were read before.
        """
        head_of_line = read_head_of_copy if are_copies else read_head
        by_id, ids, parents, kinds = self.by_id, self.ids, self.parents, self.kinds
        where, facts = self.where, self.facts
        for number, (line, offset) in enumerate(zip(lines, offsets, strict=True), first_number):
            head = head_of_line(line)
            if head is None:
                self._add_odd(line, offset, number)
                continue
            parent_id, entry_id = head.parent_id, head.id
            parent = NONE if parent_id is None else by_id.get(parent_id, NONE)
            is_plain = parent != NONE or parent_id is None
            if entry_id is None or entry_id in by_id or head.kind >= _NOTED or not is_plain:
                self.add(head, Place(offset, len(line), number))
                continue
            ordinal = len(ids)  # what `add` does, written out: this is the loop a large file spends its time in
            ids.append(entry_id)
            by_id[entry_id] = ordinal
            parents.append(parent)
            kinds.append(head.kind)
            facts.leaf = ordinal
            if parent != ordinal - 1:
                facts.jumps.ordinals.append(ordinal)
            where.offsets.append(offset)
            where.sizes.append(len(line))
            where.numbers.append(number)

    def add(self, head: Head, place: Place) -> int | None:
        """Add one entry; its ordinal, or None where it has no usable id or one that is taken (which is a damage)."""
        if head.id is None:
            self.damaged(place.line, "an entry without a usable id was left out")
            return None
        if head.id in self.by_id:
            self.damaged(place.line, f"the id {head.id!r} is there twice; the first entry counts")
            return None
        ordinal = len(self.ids)
        parent = self._parent_of(head, ordinal, place.line)
        self.ids.append(head.id)
        self.by_id[head.id] = ordinal
        self.parents.append(parent)
        self.kinds.append(head.kind)
        self.facts.leaf = ordinal
        if parent != ordinal - 1:
            self.facts.jumps.ordinals.append(ordinal)
        self.where.offsets.append(place.offset)
        self.where.sizes.append(place.size)
        self.where.numbers.append(place.line)
        self._note(head, ordinal, parent)
        return ordinal

    def _parent_of(self, head: Head, ordinal: int, line: int) -> int:
        if head.parent_id is None and not head.bad_parent:
            return NONE
        parent = self.by_id.get(head.parent_id, NONE) if head.parent_id is not None else NONE
        if parent != NONE:
            return parent
        certain = not self.facts.jumps.have_branched(self.parents, self.kinds)
        self.facts.bridges[ordinal] = certain
        where = "the entry before it" if ordinal else "the start, as nothing comes before it"
        doubt = "" if certain else "; the tree has branches there, so this is a guess"
        self.damaged(line, f"the parent of {head.id!r} is not in the file before it; tied to {where}{doubt}")
        return ordinal - 1

    def _note(self, head: Head, ordinal: int, parent: int) -> None:
        facts = self.facts
        if head.kind == Kind.LABEL and head.target is not None:
            facts.labels.pop(head.target, None)
            if head.text:
                facts.labels[head.target] = Label(head.text, ordinal)
        elif head.kind == Kind.SESSION_INFO:
            facts.name = (head.text or "").strip() or None
        elif head.kind == Kind.LEAF:
            facts.leaf = parent

    def damaged(self, line: int, text: str) -> None:
        """Record a damage."""
        self.facts.damage_count += 1
        if len(self.facts.damages) < MAX_DAMAGES:
            self.facts.damages.append(Damage(line, text))

    def _add_odd(self, line: bytes, offset: int, number: int) -> None:
        if not line.strip():
            return
        try:
            fields, _ = decode_object(line)
        except ValueError:
            self._add_damaged(line, offset, number)
            return
        if fields.get("type") == "session":
            self.damaged(number, "a second header was left out")
        else:
            self.add(head_of(fields), Place(offset, len(line), number))

    def _add_damaged(self, line: bytes, offset: int, number: int) -> None:
        pieces = [piece for piece in read_damaged(line) if piece.fields.get("type") != "session"]
        size = pieces[0].start if pieces else len(line)
        head = damaged_head(line[:size])
        if pieces:
            self.damaged(number, f"not one JSON object; {len(pieces)} whole entries in the line were read")
        elif head is None:
            self.damaged(number, "not a JSON object; the line was left out")
        else:
            self.damaged(number, f"not a JSON object; the entry {head.id!r} stays without its content")
        if head is not None and head.id not in self.by_id:
            before = self.facts.leaf
            self.add(head, Place(offset, size, number))
            self.facts.leaf = before  # what has no content is never where a conversation goes on
        for piece in pieces:
            self.add(piece.head, Place(offset + piece.start, piece.end - piece.start, number))


class OldList:
    """Reads a version-1 list: each entry hangs on the one before, under an id that is a function of the file.

    ``by_position`` maps what a compaction's ``firstKeptEntryIndex`` counts (parsed lines, the header being 0) to
    ordinals, NONE where no entry stands.
    """

    __slots__ = ("by_position", "index", "session_id")

    def __init__(self, index: TreeIndex, session_id: str) -> None:
        self.index = index
        self.session_id = session_id
        self.by_position = array("q", [NONE])

    def extend(self, lines: Sequence[bytes], offsets: Sequence[int], first_number: int) -> None:
        """Add the lines after those already added, as `TreeIndex.extend`."""
        for number, (line, offset) in enumerate(zip(lines, offsets, strict=True), first_number):
            if not line.strip():
                continue
            try:
                fields, _ = decode_object(line)
            except ValueError:
                self.index.damaged(number, "not a JSON object; the line was left out")
                continue
            self.by_position.append(self._add(fields, Place(offset, len(line), number)))

    def _add(self, fields: JsonObject, place: Place) -> int:
        if fields.get("type") == "session":
            self.index.damaged(place.line, "a second header was left out")
            return NONE
        head = head_of(fields)
        attempt = 0
        while (entry_id := migrated_id(self.session_id, place.line, attempt)) in self.index.by_id:
            attempt += 1
        head.id, head.bad_parent = entry_id, False
        head.parent_id = self.index.ids[-1] if self.index.ids else None
        ordinal = self.index.add(head, place)
        return NONE if ordinal is None else ordinal

    def first_kept(self, fields: JsonObject) -> EntryId | None:
        """The id that a compaction's ``firstKeptEntryIndex`` names; None where it names none."""
        position = fields.get("firstKeptEntryIndex")
        if not isinstance(position, int) or not 0 < position < len(self.by_position):
            return None
        ordinal = self.by_position[position]
        return None if ordinal == NONE else self.index.ids[ordinal]
