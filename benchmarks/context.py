"""The context at the leaf: read before and for the first time, without a compaction and behind one."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.figure import Bar, Figure, Scale, Spread, seconds_each
from benchmarks.workload import KEPT, OUT, Shape, cached_session
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup

ENTRIES = 1_000
BEHIND_COMPACTION = Shape(3 * (ENTRIES - KEPT), compactions=1)
"""Its context is the compaction, what that kept, and the third of the session that comes after it: about `ENTRIES`."""

MILLI = 1e3


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure of building a context."""
    path = cached_session(Shape(ENTRIES))
    size = f"{ENTRIES} entries"
    yield Figure(f"context of {size}, read before", "ms", _again(scale, path)[0], bar=Bar(0.5))
    compacted, entries = _again(scale, cached_session(BEHIND_COMPACTION))
    yield Figure(f"context of {entries} entries behind a compaction, read before", "ms", compacted, bar=Bar(0.5))
    runs = [_first_reading(path) for _ in range(10 if scale.quick else 40)]
    yield Figure(f"context of {size}, first reading", "ms", Spread.of([run[1] for run in runs], MILLI), bar=Bar(8))
    both = Spread.of([sum(run) for run in runs], MILLI)
    yield Figure(f"open and context of {size}", "ms", both)


def opened(path: Path) -> SessionManager:
    """A session of the workload, open to read along."""
    return SessionManager.open(path, mode="read", setup=Setup(OUT / "home"))


def _again(scale: Scale, path: Path) -> tuple[Spread, int]:
    """Milliseconds of building a context that was built before, and how many entries it has."""
    manager = opened(path)
    entries = len(manager.build_context_entries())
    taken = [seconds_each(20, manager.build_session_context) for _ in range(scale.count(100))]
    manager.close()
    return Spread.of(taken, MILLI), entries


def _first_reading(path: Path) -> tuple[float, float]:
    """Seconds of opening, and of the first context after it."""
    gc.collect()
    start = time.perf_counter()
    manager = opened(path)
    between = time.perf_counter()
    manager.build_session_context()
    end = time.perf_counter()
    manager.close()
    return between - start, end - between
