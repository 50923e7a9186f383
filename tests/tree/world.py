"""A tree of given lines, without files: the index, and the entries at its ordinals."""

from collections.abc import Sequence

from coppice.format.codec import decode_entry
from coppice.format.entries import CompactionEntry, Entry
from coppice.format.messages import EntryId, Message, RequestMessage, ToolCallId, ToolResultMessage
from coppice.tree.context import Selection, message_pairs, messages_of, select
from coppice.tree.family import NONE
from coppice.tree.index import TreeIndex
from coppice.tree.pairing import Reader, request_messages
from coppice.tree.results import ResultFinder
from tests.session.build import Fields, line

READER = Reader("p", "a", "m")


class World:
    """The lines and their index; line 1 would be the header, so entries are counted from line 2."""

    def __init__(self, lines: Sequence[Fields | bytes]) -> None:
        self.raw = b""
        self.index = TreeIndex()
        self.finder = ResultFinder()
        self.add(lines)

    def add(self, lines: Sequence[Fields | bytes]) -> None:
        made = [each if isinstance(each, bytes) else line(each) for each in lines]
        first = self.raw.count(b"\n") + 2
        offsets: list[int] = []
        for each in made:
            offsets.append(len(self.raw))
            self.raw += each + b"\n"
        self.index.extend(made, offsets, first)

    def at(self, entry_id: str | None) -> int:
        return NONE if entry_id is None else self.index.by_id[EntryId(entry_id)]

    def entry(self, ordinal: int) -> Entry:
        place, index = self.index.place(ordinal), self.index
        raw = self.raw[place.offset : place.offset + place.size]
        return decode_entry(raw, index.ids[ordinal], index.parent_id(ordinal)).entry

    def ids(self, ordinals: Sequence[int]) -> list[str]:
        return [str(self.index.ids[ordinal]) for ordinal in ordinals]

    def selected(self, leaf: str | None) -> Selection:
        at = self.at(leaf)
        newest = NONE if at == NONE else self.index.newest.compaction[at]
        entry = None if newest == NONE else self.entry(newest)
        return select(self.index, at, entry if isinstance(entry, CompactionEntry) else None)

    def context_ids(self, leaf: str | None) -> list[str]:
        return self.ids(self.selected(leaf).ordinals)

    def messages(self, leaf: str | None) -> list[Message]:
        return messages_of([self.entry(ordinal) for ordinal in self.selected(leaf).ordinals])

    def sent(self, leaf: str | None, reader: Reader = READER) -> tuple[RequestMessage, ...]:
        def find(reply_id: EntryId, call_id: ToolCallId) -> ToolResultMessage | None:
            return self.finder.find(self.index, self.at(reply_id), call_id, leaf=self.at(leaf), entry_of=self.entry)

        pairs = message_pairs([self.entry(ordinal) for ordinal in self.selected(leaf).ordinals])
        return request_messages(pairs, reader, find)

    def damages(self) -> list[tuple[int, str]]:
        return [(damage.line, damage.text) for damage in self.index.facts.damages]
