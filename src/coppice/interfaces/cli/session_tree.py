"""The tree and a path as lines, for `coppice sessions` and the conversation; only what is printed is read."""

from collections.abc import Iterator, Sequence

from coppice.format.heads import Kind
from coppice.format.messages import EntryId, JsonObject
from coppice.interfaces.cli.output import line_width, write_json, write_line
from coppice.interfaces.cli.printable import columns, cut, first_line, printable
from coppice.interfaces.cli.session_rows import KIND_NAMES, Said, said_in
from coppice.session.manager import SessionManager
from coppice.session.store import SessionStore
from coppice.tree.family import NONE
from coppice.tree.outline import Row, View, outline, rails
from coppice.tree.path import path_to

BATCH_ROWS = 200
BATCH_BYTES = 4 * 1024 * 1024
"""Entries, and bytes of their lines, that are read at once (our choice: a closed pipe should end the work soon)."""

TEXT_COLUMNS = 40
"""Columns that connectors leave to the text at least; deeper levels are drawn as an ellipsis."""

JSON_TEXT = 500
"""Characters of an entry's first line in JSON."""


def print_tree(session: SessionManager, view: View, *, as_json: bool) -> None:
    """Print the tree, a line for each row."""
    store = session.store
    rows = outline(session.index, view)
    if as_json:
        for row, said in zip(rows, _said(store, [row.ordinal for row in rows]), strict=True):
            write_json(_row_json(store, row, said))
        return
    for line in tree_lines(store, rows, line_width()):
        write_line(line)
    if view.leaf == NONE:
        write_line("← you are here: before the first entry")


def tree_lines(store: SessionStore, rows: Sequence[Row], width: int, *, are_numbered: bool = False) -> Iterator[str]:
    """A line for each row: connectors, the active path, where we are. Numbered from 1 for the conversation, where a
    number goes where it stands."""
    digits = len(str(len(rows))) if are_numbered else 0
    room = width - digits - bool(digits)
    levels = max(2, (room - TEXT_COLUMNS) // 3)
    for position, said in enumerate(_said(store, [row.ordinal for row in rows])):
        number = f"{position + 1:>{digits}} " if are_numbered else ""
        yield number + _row_text(store, rows, position, said, (levels, room))


def _said(store: SessionStore, ordinals: Sequence[int]) -> Iterator[Said]:
    """What the entries at these ordinals say, in this order, read in batches."""
    for batch in _batches(store, ordinals):
        in_file_order = sorted(batch)
        found = dict(zip(in_file_order, map(said_in, store.entries(in_file_order)), strict=True))
        yield from (found[ordinal] for ordinal in batch)


def _batches(store: SessionStore, ordinals: Sequence[int]) -> Iterator[list[int]]:
    batch: list[int] = []
    size = 0
    for ordinal in ordinals:
        batch.append(ordinal)
        size += store.index.where.sizes[ordinal]
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _row_text(store: SessionStore, rows: Sequence[Row], position: int, said: Said, room: tuple[int, int]) -> str:
    """A row as a line; `room` is how many levels of connectors are drawn, and the width."""
    row, (levels, width) = rows[position], room
    above = rails(rows, position, levels)
    start = "… " if row.depth > len(above) else ""
    start += "".join("│  " if runs_on else "   " for runs_on in above)
    if row.branch:
        start += "└─ " if row.last else "├─ "
    start += f"{'●' if row.on_path else ' '} {printable(row.id)} "
    end = f" [{first_line(row.label)}]" if row.label else ""
    end += f" (+{row.hidden:,} folded)" if row.hidden else ""
    end += _bridge_text(store, row.ordinal)
    end += " ← you are here" if row.here else ""
    text = f"{said.who}: {said.text}"
    return f"{start}{cut(text, max(TEXT_COLUMNS // 2, width - columns(start) - columns(end)))}{end}"


def _bridge_text(store: SessionStore, ordinal: int) -> str:
    certain = store.index.facts.bridges.get(ordinal)
    if certain is None:
        return ""
    return (
        " (its parent is lost: tied to the entry before it)"
        if certain
        else " (its parent is lost: this place is a guess)"
    )


def _row_json(store: SessionStore, row: Row, said: Said) -> JsonObject:
    return {
        "id": row.id,
        "parentId": store.index.parent_id(row.ordinal),
        "kind": KIND_NAMES[row.kind],
        "text": said.text[:JSON_TEXT],
        "label": row.label,
        "depth": row.depth,
        "branch": row.branch,
        "onPath": row.on_path,
        "here": row.here,
        "hidden": row.hidden,
        "bridged": row.ordinal in store.index.facts.bridges,
    }


def print_path(session: SessionManager, leaf_id: EntryId | None, *, as_json: bool) -> None:
    """Print the entries from a root to a leaf, leaf markers left out: a line each, or each one's JSON as it stands."""
    store = session.store
    leaf = NONE if leaf_id is None else store.ordinal(leaf_id)
    marker = Kind.LEAF
    ordinals = [ordinal for ordinal in path_to(store.index, leaf) if store.index.kinds[ordinal] != marker]
    if as_json:
        for batch in _batches(store, ordinals):
            for entry in store.raw(batch):
                write_json(entry.fields)
        return
    width = line_width()
    for ordinal, said in zip(ordinals, _said(store, ordinals), strict=True):
        entry_id = store.index.ids[ordinal]
        label = session.get_label(entry_id)
        end = f" [{first_line(label)}]" if label else ""
        end += _bridge_text(store, ordinal)
        start = f"{printable(entry_id)} "
        text = f"{said.who}: {said.text}"
        write_line(f"{start}{cut(text, max(TEXT_COLUMNS // 2, width - columns(start) - columns(end)))}{end}")
