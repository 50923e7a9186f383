"""``python -m benchmarks [--quick] [--only NAME]... [--json FILE] [--strict]``: every figure beside its bar.

Nothing fails because a figure is over its bar, unless ``--strict`` is given; figures go to ``benchmarks/out`` too.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks import (
    appends,
    compactions,
    context,
    copies,
    listing,
    opening,
    pi_peer,
    report,
    start_up,
    token_error,
    trees,
)
from benchmarks.figure import Figure, Scale
from benchmarks.workload import OUT

GROUPS: dict[str, Callable[[Scale], Iterator[Figure]]] = {
    "start-up": start_up.figures,
    "append": appends.figures,
    "context": context.figures,
    "open": opening.figures,
    "copy": copies.figures,
    "tree": trees.figures,
    "list": listing.figures,
    "compaction": compactions.figures,
    "tokens": token_error.figures,
    "pi": pi_peer.figures,
}


def main(words: list[str]) -> int:
    """Measure and report; the value is the exit code."""
    wish = _wish(words)
    scale = Scale(wish.quick)
    OUT.mkdir(mode=0o700, exist_ok=True)
    print("  ".join(f"{name} {value}" for name, value in report.machine().items()))
    print(
        "medians [lowest..highest]"
        + ("; quick: a tenth of the sizes, bars of full sizes left out" if wish.quick else "")
    )
    found: list[dict[str, Any]] = []
    for name in wish.only or GROUPS:
        figures = list(GROUPS[name](scale))
        print("", *report.table(name, figures), sep="\n", flush=True)
        found += [report.as_json(name, figure) for figure in figures]
    report.write_json(found, OUT / "figures.json", *([wish.json] if wish.json else []))
    over = [figure["name"] for figure in found if figure["verdict"] == "OVER"]
    print(f"\n{len(over)} over their bar" + "".join(f"\n  {name}" for name in over))
    return 1 if over and wish.strict else 0


def _wish(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Our figures beside their bars.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the sizes and fewer runs")
    parser.add_argument("--only", action="append", choices=GROUPS, metavar="NAME", help=f"one of {', '.join(GROUPS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a figure is over its bar")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
