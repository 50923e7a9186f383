"""Opening a large session by one scan of its heads, each time in a new process: time and peak memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.child import run_child
from benchmarks.figure import Figure, Reference, Scale, Spread
from benchmarks.workload import LARGE, Shape, cached_session


def large_session(scale: Scale) -> tuple[Path, str]:
    """The large session and its size in words."""
    entries, branches, compactions = (scale.count(n) for n in (LARGE.entries, LARGE.branches, LARGE.compactions))
    path = cached_session(Shape(entries, branches, compactions))
    return path, f"{entries} entries, {path.stat().st_size / 1e6:.0f} MB"


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure of opening."""
    path, size = large_session(scale)
    run_child("lines", path)  # brings the file into the page cache
    ours: list[dict[str, Any]] = []
    floor: list[dict[str, Any]] = []
    for _ in range(scale.rounds):
        floor.append(run_child("lines", path))
        ours.append(run_child("open", path))
    scan = Reference("read and split lines", Spread.of([run["scan_s"] for run in floor]))
    opening = Spread.of([run["open_s"] for run in ours])
    yield Figure(f"open {size}", "s", opening, scan, scale.bar(0.5))
    bare = Reference("read and split lines", Spread.of([run["peak_mib"] for run in floor]))
    peak = Spread.of([run["peak_mib"] for run in ours])
    imported = f"{ours[0]['import_mib']:.0f} MiB of it before opening"
    yield Figure(f"peak memory of opening {size}", "MiB", peak, bare, scale.bar(150), imported)
    yield Figure("peak memory after the first context too", "MiB", Spread.of([run["after_mib"] for run in ours]))
    yield Figure("first context after opening", "ms", Spread.of([run["context_s"] for run in ours], 1e3))
    whole = Spread.of([run["process_s"] for run in ours])
    yield Figure("the whole process: start, import, open, context", "s", whole)
