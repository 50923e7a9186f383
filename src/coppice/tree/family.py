"""Columns derived from parents and kinds: children, depth, and the newest setting above each entry.

They are filled on demand, in one pass over what was added since, so that opening a large file does not pay for them.
"""

from array import array

from coppice.format.heads import CONVERSATION, Kind

NONE = -1
"""The ordinal that stands for "before the first entry" (null)."""


class Family:
    """Children in file order, as linked lists in columns, and each entry's depth (a root has depth 0)."""

    __slots__ = ("_last_child", "_last_root", "depth", "first_child", "first_root", "next_sibling")

    def __init__(self) -> None:
        self.first_child = array("q")
        self.next_sibling = array("q")
        self.depth = array("q")
        self.first_root = NONE
        self._last_child = array("q")
        self._last_root = NONE

    def fill(self, parents: "array[int]") -> None:
        """Take in the entries added since the last call."""
        for ordinal in range(len(self.depth), len(parents)):
            parent = parents[ordinal]
            self.first_child.append(NONE)
            self._last_child.append(NONE)
            self.next_sibling.append(NONE)
            if parent == NONE:
                self.depth.append(0)
                before, self._last_root = self._last_root, ordinal
                if before == NONE:
                    self.first_root = ordinal
            else:
                self.depth.append(self.depth[parent] + 1)
                before, self._last_child[parent] = self._last_child[parent], ordinal
                if before == NONE:
                    self.first_child[parent] = ordinal
            if before != NONE:
                self.next_sibling[before] = ordinal

    def children(self, parent: int) -> list[int]:
        """The children of an entry, of NONE the roots, in file order."""
        found: list[int] = []
        child = self.first_root if parent == NONE else self.first_child[parent]
        while child != NONE:
            found.append(child)
            child = self.next_sibling[child]
        return found


class NewestAbove:
    """For each entry the newest compaction, thinking level and model source on its path, itself included."""

    __slots__ = ("compaction", "level", "model")

    def __init__(self) -> None:
        self.compaction = array("q")
        self.level = array("q")
        self.model = array("q")

    def fill(self, parents: "array[int]", kinds: bytearray) -> None:
        """Take in the entries added since the last call."""
        start = len(self.model)
        compaction = level = model = NONE
        if start:
            compaction, level, model = self.compaction[-1], self.level[-1], self.model[-1]
        for ordinal in range(start, len(parents)):
            parent, kind = parents[ordinal], kinds[ordinal]
            if parent == NONE:
                compaction = level = model = NONE
            elif parent != ordinal - 1:
                compaction, level, model = self.compaction[parent], self.level[parent], self.model[parent]
            if kind in _MODEL_KINDS:
                model = ordinal
            elif kind == _COMPACTION:
                compaction = ordinal
            elif kind == _LEVEL:
                level = ordinal
            self.compaction.append(compaction)
            self.level.append(level)
            self.model.append(model)


_MODEL_KINDS = (int(Kind.ASSISTANT), int(Kind.MODEL_CHANGE))
_COMPACTION = int(Kind.COMPACTION)
_LEVEL = int(Kind.THINKING_LEVEL)


def line_of(parents: "array[int]", kinds: bytearray, ordinal: int) -> int:
    """The nearest conversation entry at or above an entry; NONE if there is none."""
    while ordinal != NONE and kinds[ordinal] not in CONVERSATION:
        ordinal = parents[ordinal]
    return ordinal


def is_branching(parents: "array[int]", kinds: bytearray, at: int) -> bool:
    """Whether entry `at` begins another branch or tree: it does not go on from the conversation entry before it.

    Results of one reply stored side by side, and bookkeeping beside them, begin none.
    """
    if kinds[at] in (Kind.LABEL, Kind.SESSION_INFO, Kind.LEAF):
        return False
    tip = at - 1
    while tip != NONE and kinds[tip] not in CONVERSATION:
        tip -= 1
    line = line_of(parents, kinds, parents[at])
    if tip in (NONE, line):
        return False
    if kinds[tip] != Kind.TOOL_RESULT or line == NONE:
        return True
    are_siblings = kinds[line] == Kind.TOOL_RESULT and parents[line] == parents[tip]
    is_beside = line == parents[tip] and (kinds[at] == Kind.TOOL_RESULT or kinds[at] not in CONVERSATION)
    return not (are_siblings or is_beside)
