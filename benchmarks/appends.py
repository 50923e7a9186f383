"""Appends: one entry beside the bare locked write of the same bytes, and whether the 20,000th costs what the first did."""

import fcntl
import gc
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.figure import Bar, Figure, Reference, Scale, Spread, interleaved, seconds_each, usual_seconds
from benchmarks.workload import OUT
from coppice.format.messages import TextBlock, UserMessage
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.session.writer import Setup
from coppice.storage.directory import sync_data

MESSAGE_BYTES = 3_000
WINDOW = 2_000
"""Appends at each end of the long session that are compared, and from one compaction to the next."""

WORK_SECONDS = 10e-6
"""About what an append does beside the write: making the line before it, keeping the entry after it."""

MICRO, MILLI = 1e6, 1e3


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure of appending."""
    yield from _not_synced(scale)
    yield from _synced(scale)
    yield from _long_session(scale)


@contextmanager
def new_session(*, sync: bool) -> Iterator[SessionManager]:
    """A new session in a directory that is deleted afterwards."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        directory = Path(folder)
        manager = SessionManager.create(directory, setup=Setup(directory / "home", directory / "s", sync=sync))
        try:
            yield manager
        finally:
            manager.close()


def message(number: int = 0) -> UserMessage:
    """A prompt of `MESSAGE_BYTES` characters."""
    text = f"{number:06d} " + "append this line to the log. " * (MESSAGE_BYTES // 29 + 1)
    return UserMessage((TextBlock(text[:MESSAGE_BYTES]),), 1_767_312_000_000 + number)


def _not_synced(scale: Scale) -> Iterator[Figure]:
    with new_session(sync=False) as manager:
        append, file, line = _first_append(manager)
        with _bare_write(file.with_name("floor"), line, sync=False) as write:
            takers = [partial(seconds_each, 100, work) for work in (append, write)]
            ours, floor = (Spread.of(taken, MICRO) for taken in interleaved(scale.count(200), *takers))
    beside = Reference("lock, write, unlock", floor)
    yield Figure("append_message of 3 kB, not synced", "µs", ours, beside, Bar(6, "ratio"))


def _synced(scale: Scale) -> Iterator[Figure]:
    with new_session(sync=True) as manager:
        append, file, line = _first_append(manager)
        floor_files = file.with_name("floor"), file.with_name("floor-after-work")
        with (
            _bare_write(floor_files[0], line, sync=True) as write,
            _bare_write(floor_files[1], line, sync=True) as other,
        ):
            takers = [partial(usual_seconds, 20, work) for work in (append, write, lambda: _after_work(other))]
            spreads = [Spread.of(taken, MICRO) for taken in interleaved(scale.count(100), *takers)]
    ours, floor, later = spreads
    beside = Reference("lock, write, unlock, fdatasync", floor)
    yield Figure("append_message of 3 kB, synced", "µs", ours, beside, Bar(1.3, "ratio"))
    name = f"the same, the bare write after {WORK_SECONDS * MICRO:.0f} µs of work"
    why = "disks may answer later when they were left alone for a moment; sessions always leave them alone for longer"
    yield Figure(name, "µs", ours, Reference("work, lock, write, unlock, fdatasync", later), note=why)


def _after_work(write: Callable[[], None]) -> None:
    """A bare write that has something else to do first, as everyone has."""
    end = time.perf_counter() + WORK_SECONDS
    while time.perf_counter() < end:
        pass
    write()


def _first_append(manager: SessionManager) -> tuple[Callable[[], object], Path, bytes]:
    """Begin the session: a call that appends once more, the file, and the line that such a call writes."""
    prompt = message()
    manager.append_message(prompt)
    file = manager.session_file
    assert file is not None
    return partial(manager.append_message, prompt), file, file.read_bytes().splitlines(keepends=True)[-1]


@contextmanager
def _bare_write(path: Path, line: bytes, *, sync: bool) -> Iterator[Callable[[], None]]:
    """The least an append under a lock can be."""
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)

    def write() -> None:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, line)
        fcntl.flock(fd, fcntl.LOCK_UN)
        if sync:
            sync_data(fd)

    try:
        yield write
    finally:
        os.close(fd)


def _long_session(scale: Scale) -> Iterator[Figure]:
    appends = max(3 * WINDOW, scale.count(20_000))
    runs = [_each_append(appends) for _ in range(2 if scale.quick else 3)]
    first, last = _windows(runs, 0, MICRO), _windows(runs, -1, MICRO)
    beside = Reference(f"the first {WINDOW}", first)
    yield Figure(f"the last {WINDOW} of {appends} appends, each", "µs", last, beside, Bar(1.2, "ratio"))
    runs = [_each_append(appends, context=True) for _ in range(1 if scale.quick else 2)]
    second, last = _windows(runs, 1, MILLI), _windows(runs, -1, MILLI)
    beside = Reference(f"the first {WINDOW} behind a compaction", second)
    before = f"before any compaction {_windows(runs, 0, MILLI).median:.3f} ms; a compaction every {WINDOW}"
    yield Figure(f"the same, each followed by its context, the last {WINDOW}", "ms", last, beside, note=before)


def _windows(runs: list[list[float]], which: int, scale: float) -> Spread:
    """Medians of the appends number ``which * WINDOW`` to ``(which + 1) * WINDOW`` of each run; -1 is the last window."""
    ends = [(which % (len(run) // WINDOW) + 1) * WINDOW for run in runs]
    return Spread.of([median(run[end - WINDOW : end]) for run, end in zip(runs, ends, strict=True)], scale)


def _each_append(count: int, *, context: bool = False) -> list[float]:
    """Seconds of each append in one session, unsynced; with `context` each is followed by building the context."""
    taken: list[float] = []
    clock = time.perf_counter
    with new_session(sync=False) as manager:
        gc.collect()
        for number in range(count):
            prompt = message(number)
            start = clock()
            leaf = manager.append_message(prompt)
            if context:
                manager.build_session_context()
            taken.append(clock() - start)
            if context and number % WINDOW == WINDOW - 1:
                manager.append_compaction(CompactionDraft("A summary. " * 300, leaf, 150_000), expect=leaf)
    return taken
