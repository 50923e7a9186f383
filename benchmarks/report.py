"""Figures as a table to read and as JSON to keep."""

import json
import os
import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.figure import Bar, Figure, Spread

HEADINGS = ("figure", "ours", "floor or peer", "ratio", "bar", "")


def machine() -> dict[str, Any]:
    """Where and when the figures were taken."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
    }


def cells(figure: Figure) -> tuple[str, ...]:
    """The cells of a figure's line."""
    if figure.ours is None:
        return (figure.name, f"skipped: {figure.note}", "", "", "", "")
    ratio = f"{figure.ratio:.2f}" if figure.ratio is not None else ""
    beside = f"{_spread(figure.beside.spread, figure.unit)} {figure.beside.name}" if figure.beside else ""
    return (figure.name, _spread(figure.ours, figure.unit), beside, ratio, _bar(figure), figure.verdict)


def table(title: str, figures: Sequence[Figure]) -> Iterator[str]:
    """The lines of a group: a heading, then a line for each figure and one for its note."""
    rows = [(title, *HEADINGS[1:]), *(cells(figure) for figure in figures)]
    whole = [row for row in rows if not row[1].startswith("skipped")]
    widths = [max(len(row[column]) for row in whole) for column in range(len(HEADINGS))]
    for at, row in enumerate(rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        if at and figures[at - 1].ours is not None and figures[at - 1].note:
            yield f"    ({figures[at - 1].note})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _spread(spread: Spread, unit: str) -> str:
    return f"{_number(spread.median)} {unit} [{_number(spread.low)}..{_number(spread.high)}]"


def _bar(figure: Figure) -> str:
    match figure.bar:
        case Bar(limit, "ratio"):
            return f"≤ {limit:g}x"
        case Bar(limit, _):
            return f"≤ {limit:g} {figure.unit}"
        case None:
            return ""


def as_json(group: str, figure: Figure) -> dict[str, Any]:
    """A figure as JSON, with what follows from it."""
    return {"group": group} | asdict(figure) | {"ratio": figure.ratio, "verdict": figure.verdict}


def write_json(figures: Sequence[dict[str, Any]], *paths: Path) -> None:
    """Write the figures and the machine they were taken on."""
    text = json.dumps({"machine": machine(), "arguments": sys.argv[1:], "figures": figures}, indent=1) + "\n"
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
