"""Paths through the tree, as ordinals. Constant work for each step; no recursion."""

from collections.abc import Collection

from coppice.format.heads import Kind
from coppice.tree.family import NONE
from coppice.tree.index import TreeIndex


def path_to(index: TreeIndex, leaf: int, above: int = NONE) -> list[int]:
    """The ordinals from a root to `leaf`; with `above`, only those after that ancestor."""
    found: list[int] = []
    parents = index.parents
    while leaf not in (NONE, above):
        found.append(leaf)
        leaf = parents[leaf]
    found.reverse()
    return found


def common_ancestor(index: TreeIndex, one: int, other: int) -> int:
    """The deepest entry on both paths; NONE if they share none."""
    depth, parents = index.family.depth, index.parents
    while one != other:
        if one == NONE or other == NONE:
            return NONE
        if depth[one] >= depth[other]:
            one = parents[one]
        else:
            other = parents[other]
    return one


def is_on_path(index: TreeIndex, ordinal: int, leaf: int) -> bool:
    """Whether `ordinal` stands on the path to `leaf` (an entry stands on its own path)."""
    depth, parents = index.family.depth, index.parents
    while leaf != NONE and depth[leaf] > depth[ordinal]:
        leaf = parents[leaf]
    return leaf == ordinal


def those_on_path(index: TreeIndex, ordinals: Collection[int], leaf: int) -> set[int]:
    """Those of `ordinals` that stand on the path to `leaf`, found in one walk up to the highest of them."""
    if not ordinals:
        return set()
    depth, parents = index.family.depth, index.parents
    wanted, found = set(ordinals), set[int]()
    highest = min(depth[ordinal] for ordinal in wanted)
    while leaf != NONE and depth[leaf] >= highest:
        if leaf in wanted:
            found.add(leaf)
        leaf = parents[leaf]
    return found


def children_of(index: TreeIndex, ordinal: int) -> list[int]:
    """The children of an entry (of NONE the roots) in file order; a leaf marker is none, its children stand for it."""
    family, kinds = index.family, index.kinds
    found: list[int] = []
    waiting = family.children(ordinal)
    while waiting:
        at = waiting.pop()
        if kinds[at] == Kind.LEAF:
            waiting.extend(family.children(at))
        else:
            found.append(at)
    found.sort()
    return found


def descendants(index: TreeIndex, ordinal: int) -> list[int]:
    """Everything below an entry, in file order."""
    family = index.family
    found: list[int] = []
    waiting = family.children(ordinal)
    while waiting:
        at = waiting.pop()
        found.append(at)
        waiting.extend(family.children(at))
    found.sort()
    return found


def tips(index: TreeIndex) -> list[int]:
    """Every entry without children, in file order; leaf markers do not count, as entries or as children."""
    from_kind = index.kinds
    has_child = bytearray(len(index))
    marker = Kind.LEAF
    for ordinal, parent in enumerate(index.parents):
        if parent != NONE and from_kind[ordinal] != marker:
            has_child[parent] = 1
    return [ordinal for ordinal in range(len(index)) if not has_child[ordinal] and from_kind[ordinal] != marker]
