"""The tree as rows to look at: filtered, folded, with the active path. Pure, iterative, without bodies.

A row is drawn from its entry's text when it is shown; here are only places and shapes, so 100,000 entries are cheap.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from coppice.format.heads import Kind
from coppice.format.messages import EntryId
from coppice.tree.family import NONE
from coppice.tree.index import TreeIndex
from coppice.tree.path import path_to


class Filter(Enum):
    """Which entries an outline shows."""

    DEFAULT = "default"
    """Everything people said and did: without settings and bookkeeping."""
    NO_TOOLS = "no-tools"
    """As the default, without tool results."""
    USER = "user-only"
    LABELLED = "labelled"
    ALL = "all"
    """Every entry but leaf markers."""


_BOOKKEEPING = frozenset(
    {Kind.CONTEXT_EDIT, Kind.MODEL_CHANGE, Kind.THINKING_LEVEL, Kind.USAGE, Kind.CUSTOM, Kind.LABEL, Kind.SESSION_INFO}
    | {Kind.SYSTEM}
)
_SAID = frozenset(Kind) - _BOOKKEEPING - {Kind.LEAF}


class Row(NamedTuple):
    """One line of the outline.

    ``depth`` counts the branchings above it; ``rail`` is the position of the nearest row above that is one of several
    siblings (NONE if there is none), see `rails`.
    ``branch`` marks one of several siblings, ``last`` the last of them. ``hidden`` is the number of shown entries
    behind its fold (0: not folded). ``here`` marks the leaf (or, where the leaf is not shown, the nearest shown above).
    """

    ordinal: int
    id: EntryId
    kind: Kind
    depth: int
    rail: int
    branch: bool
    last: bool
    on_path: bool
    here: bool
    hidden: int
    label: str | None


@dataclass(frozen=True, slots=True)
class View:
    """How to look at a tree: which entries, which of them folded, from which leaf."""

    leaf: int = NONE
    show: Filter = Filter.DEFAULT
    folded: Collection[EntryId] = ()


class _Shown(NamedTuple):
    """The shown entries as a tree of their own: children of each ordinal (NONE for the roots) and subtree sizes."""

    children: dict[int, list[int]]
    below: dict[int, int]


class _Waiting(NamedTuple):
    ordinal: int
    depth: int
    rail: int
    branch: bool
    last: bool


def outline(index: TreeIndex, view: View) -> list[Row]:
    """The rows of the tree, in depth-first order, children in file order."""
    shown = _shown(index, view.show)
    path = set(path_to(index, view.leaf))
    here = _nearest_shown(index, view.leaf, shown)
    rows: list[Row] = []
    waiting = _siblings(shown.children.get(NONE, []), 0, NONE)
    while waiting:
        at = waiting.pop()
        entry_id, below = index.ids[at.ordinal], shown.below[at.ordinal]
        folded = below > 0 and entry_id in view.folded
        label = index.facts.labels.get(entry_id)
        rows.append(
            Row(
                ordinal=at.ordinal,
                id=entry_id,
                kind=Kind(index.kinds[at.ordinal]),
                depth=at.depth,
                rail=at.rail,
                branch=at.branch,
                last=at.last,
                on_path=at.ordinal in path,
                here=at.ordinal == here,
                hidden=below if folded else 0,
                label=label.text if label else None,
            )
        )
        if not folded:
            rail = len(rows) - 1 if at.branch else at.rail
            waiting += _siblings(shown.children.get(at.ordinal, []), at.depth + at.branch, rail)
    return rows


def rails(rows: Sequence[Row], position: int, limit: int = 1_000) -> tuple[bool, ...]:
    """For the nearest `limit` levels above a row, outermost first: whether a line runs on below that level."""
    found: list[bool] = []
    at = rows[position].rail
    while at != NONE and len(found) < limit:
        found.append(not rows[at].last)
        at = rows[at].rail
    return tuple(reversed(found))


def _siblings(ordinals: Sequence[int], depth: int, rail: int) -> list[_Waiting]:
    """Siblings as they wait to be drawn, the first one on top of the stack."""
    branch, last = len(ordinals) > 1, len(ordinals) - 1
    return [_Waiting(ordinals[i], depth, rail, branch, i == last) for i in range(last, -1, -1)]


def _shown(index: TreeIndex, show: Filter) -> _Shown:
    labels = index.facts.labels
    kinds, parents = index.kinds, index.parents
    anchor = [NONE] * len(index)
    children: dict[int, list[int]] = {}
    below: dict[int, int] = {}
    for ordinal in range(len(index)):
        parent = parents[ordinal]
        above = NONE if parent == NONE else anchor[parent]
        if _is_shown(kinds[ordinal], show, index.ids[ordinal] in labels):
            children.setdefault(above, []).append(ordinal)
            below[ordinal] = 0
            anchor[ordinal] = ordinal
        else:
            anchor[ordinal] = above
    for ordinal in reversed(below):
        parent = parents[ordinal]
        above = NONE if parent == NONE else anchor[parent]
        if above != NONE:
            below[above] += below[ordinal] + 1
    return _Shown(children, below)


def _is_shown(kind: int, show: Filter, labelled: bool) -> bool:
    match show:
        case Filter.ALL:
            return kind != Kind.LEAF
        case Filter.LABELLED:
            return labelled
        case Filter.USER:
            return kind == Kind.USER
        case Filter.NO_TOOLS:
            return kind in _SAID and kind != Kind.TOOL_RESULT
        case Filter.DEFAULT:
            return kind in _SAID


def _nearest_shown(index: TreeIndex, leaf: int, shown: _Shown) -> int:
    while leaf != NONE and leaf not in shown.below:
        leaf = index.parents[leaf]
    return leaf
