"""The outline of trees of 100,000 entries: one chain, one entry with all others below it, a comb."""

from collections.abc import Callable, Iterator

from benchmarks.figure import Figure, Scale, Spread, seconds
from coppice.tree.index import TreeIndex
from coppice.tree.outline import Filter, View, outline

Parent = Callable[[int], int]
"""Ordinal of an entry -> ordinal of its parent."""

SHAPES: dict[str, Parent] = {
    "chain": lambda at: at - 1,
    "star": lambda _: 0,
    "comb": lambda at: at - 1 if at % 2 else max(at - 2, 0),  # a spine of even entries, a tooth on each
}


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure of the tree view."""
    entries = scale.count(100_000)
    for name, parent in SHAPES.items():
        index = _index(entries, parent)
        view = View(leaf=entries - 1, show=Filter.DEFAULT)
        assert len(outline(index, view)) == entries
        taken = [seconds(lambda: outline(index, view)) for _ in range(scale.rounds)]  # noqa: B023  (called at once)
        yield Figure(f"outline of {entries} entries, {name}", "s", Spread.of(taken))


def _index(entries: int, parent: Parent) -> TreeIndex:
    lines = [_line(at, parent(at) if at else None) for at in range(entries)]
    index = TreeIndex()
    index.extend(lines, range(entries), 2)
    return index


def _line(at: int, parent: int | None) -> bytes:
    above = "null" if parent is None else f'"{parent:08x}"'
    stamp = "2026-01-02T03:04:05.678Z"
    message = '{"role":"user","content":"x","timestamp":1767323045678}'
    text = f'{{"type":"message","id":"{at:08x}","parentId":{above},"timestamp":"{stamp}","message":{message}}}'
    return text.encode()
