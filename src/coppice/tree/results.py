"""Finding the stored result of a call that has none on the path: parallel results stored side by side. Pure."""

from collections.abc import Callable

from coppice.format.entries import Entry, MessageEntry
from coppice.format.heads import Kind
from coppice.format.messages import ToolCallId, ToolResultMessage
from coppice.tree.index import TreeIndex
from coppice.tree.path import is_on_path


class ResultFinder:
    """Results by call id, for the part of the file asked about so far. It holds ordinals, no messages."""

    __slots__ = ("_by_call", "_from", "_upto")

    def __init__(self) -> None:
        self._by_call: dict[ToolCallId, list[int]] = {}
        self._from = 0
        self._upto = 0

    def find(
        self, index: TreeIndex, reply: int, call_id: ToolCallId, *, leaf: int, entry_of: Callable[[int], Entry]
    ) -> ToolResultMessage | None:
        """The first stored result for a call among the descendants of its reply that are not on the path to `leaf`."""
        self._learn(index, reply + 1, entry_of)
        for ordinal in self._by_call.get(call_id, []):
            if ordinal > reply and is_on_path(index, reply, ordinal) and not is_on_path(index, ordinal, leaf):
                entry = entry_of(ordinal)
                if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage):
                    return entry.message
        return None

    def _learn(self, index: TreeIndex, start: int, entry_of: Callable[[int], Entry]) -> None:
        """Make sure that every result from ordinal `start` on is known; what lies before is read only when asked."""
        if start < self._from or not self._upto:
            self._by_call, self._from, self._upto = {}, start, start
        for ordinal in range(self._upto, len(index)):
            if index.kinds[ordinal] == Kind.TOOL_RESULT:
                entry = entry_of(ordinal)
                if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage):
                    self._by_call.setdefault(entry.message.tool_call_id, []).append(ordinal)
        self._upto = len(index)
