"""Telling that two programs wrote one session at once (docs/format.md, "Which leaf a file opens at"). Pure."""

from typing import NamedTuple

from coppice.format.heads import CONVERSATION, Kind
from coppice.tree.family import NONE, line_of
from coppice.tree.index import TreeIndex

_BOOKKEEPING = frozenset({Kind.LABEL, Kind.SESSION_INFO, Kind.USAGE, Kind.CUSTOM, Kind.UNKNOWN})


class Interleaving(NamedTuple):
    """Entry `at` went on from an older tip, while `other` was the end of another line of work (ordinals)."""

    at: int
    other: int


def find_interleaving(index: TreeIndex) -> Interleaving | None:
    """Where, since the last leaf marker, two lines of work are interleaved; the last such place.

    Either a conversation entry continues an older tip instead of the line before it, or the last entry is bookkeeping
    whose parent was not the leaf then. Results of one reply stored side by side are no such thing.
    """
    kinds = index.kinds
    marker = kinds.rfind(bytes([Kind.LEAF]))
    last = len(index) - 1
    for at in reversed(index.facts.jumps.ordinals):
        if at <= marker:
            break
        goes_on = kinds[at] in CONVERSATION and kinds[at] != Kind.BRANCH_SUMMARY
        if not goes_on and not (at == last and kinds[at] in _BOOKKEEPING):
            continue
        before = _tip_before(index, at, marker)
        line = _line_of(index, index.parents[at])
        if _goes_on_elsewhere(index, line, before) and not (goes_on and _has_line(index, line, at)):
            return Interleaving(at, before)
    return None


def _line_of(index: TreeIndex, ordinal: int) -> int:
    return line_of(index.parents, index.kinds, ordinal)


def _tip_before(index: TreeIndex, at: int, marker: int) -> int:
    """The conversation entry that the file ended with before entry `at`, or that the last marker stands for."""
    kinds = index.kinds
    before = at - 1
    while before > marker and kinds[before] not in CONVERSATION:
        before -= 1
    if before > marker:
        return before
    return NONE if marker == NONE else _line_of(index, index.parents[marker])


def _goes_on_elsewhere(index: TreeIndex, line: int, tip: int) -> bool:
    if tip == NONE or line in (NONE, tip):
        return False
    both_results = index.kinds[line] == index.kinds[tip] == Kind.TOOL_RESULT
    return not (both_results and index.parents[line] == index.parents[tip])


def _has_line(index: TreeIndex, line: int, before: int) -> bool:
    """Whether the conversation went on below `line` already before entry `before` (which then is a branch, no clash)."""
    family = index.family
    waiting = [line]
    while waiting:
        child = family.first_child[waiting.pop()]
        while child != NONE and child < before:
            if index.kinds[child] in CONVERSATION:
                return True
            waiting.append(child)
            child = family.next_sibling[child]
    return False
