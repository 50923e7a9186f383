"""The tree as numbered lines, for the conversation: a number goes where it stands. Nothing is printed here."""

from collections.abc import Iterator, Sequence

from coppice.interfaces.cli.printable import columns, cut, first_line, printable
from coppice.interfaces.cli.session_rows import said_in
from coppice.session.store import SessionStore
from coppice.tree.outline import Row, rails

TEXT_COLUMNS = 40
"""Columns that connectors leave to the text at least; deeper levels are an ellipsis."""


def numbered_tree(store: SessionStore, rows: Sequence[Row], width: int) -> Iterator[str]:
    """A line for each row, numbered from 1, with connectors, the active path and where we are."""
    digits = len(str(len(rows)))
    levels = max(2, (width - digits - TEXT_COLUMNS) // 3)
    entries = store.entries([row.ordinal for row in rows])
    for number, (row, entry) in enumerate(zip(rows, entries, strict=True), 1):
        drawn = _connectors(rows, number - 1, levels)
        start = f"{number:>{digits}} {drawn}{'●' if row.on_path else ' '} {printable(row.id)} "
        end = f" [{first_line(row.label)}]" if row.label else ""
        end += " (its parent is lost)" if row.ordinal in store.index.facts.bridges else ""
        end += " ← you are here" if row.here else ""
        said = said_in(entry)
        room = max(TEXT_COLUMNS // 2, width - columns(start) - columns(end))
        yield f"{start}{cut(f'{said.who}: {said.text}', room)}{end}"


def _connectors(rows: Sequence[Row], position: int, levels: int) -> str:
    row, above = rows[position], rails(rows, position, levels)
    drawn = "… " if row.depth > len(above) else ""
    drawn += "".join("│  " if runs_on else "   " for runs_on in above)
    if row.branch:
        drawn += "└─ " if row.last else "├─ "
    return drawn
