"""Fork and clone of a large session, synced, beside a plain copy of as many bytes with fdatasync."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.figure import Figure, Reference, Scale, Spread, interleaved, seconds
from benchmarks.opening import large_session
from benchmarks.workload import OUT
from coppice.format.heads import Kind
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.storage.directory import sync_data
from coppice.tree.path import path_to


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure of copying a session."""
    path, size = large_session(scale)
    with TemporaryDirectory(dir=OUT) as folder:
        setup = Setup(OUT / "home", Path(folder))
        manager = SessionManager.open(path, mode="read", setup=setup)
        fork_at = manager.index.ids[_last_prompt(manager)]
        works: dict[str, Callable[[], SessionManager]] = {
            f"clone at the leaf of {size}": manager.create_branched_session,
            f"fork at the last prompt of {size}": lambda: manager.create_branched_session(fork_at),
        }
        for name, work in works.items():
            yield _beside_plain_copy(scale, name, work, path)
        whole = [_copy(lambda: SessionManager.fork_from(path, folder, setup=setup))[0] for _ in range(scale.rounds)]
        yield Figure(f"fork_from the file of {size}: opens it first", "s", Spread.of(whole))
        manager.close()


def _last_prompt(manager: SessionManager) -> int:
    index = manager.index
    return next(at for at in reversed(path_to(index, manager.leaf)) if index.kinds[at] == Kind.USER)


def _copy(work: Callable[[], SessionManager]) -> tuple[float, int]:
    """Seconds and bytes of a copy, which is deleted."""
    made: list[SessionManager] = []
    taken = seconds(lambda: made.append(work()))
    made[0].close()
    file = made[0].session_file
    assert file is not None
    size = file.stat().st_size
    file.unlink()
    return taken, size


def _beside_plain_copy(scale: Scale, name: str, work: Callable[[], SessionManager], source: Path) -> Figure:
    _, size = _copy(work)
    ours, floor = interleaved(scale.rounds, lambda: _copy(work)[0], lambda: _plain_copy(source, size))
    copied, plain = Spread.of(ours), Spread.of(floor)
    rates = f"{size / 1e6 / copied.median:.0f} MB/s of {size / 1e6:.0f} MB, plain {size / 1e6 / plain.median:.0f} MB/s"
    return Figure(name, "s", copied, Reference("plain copy, fdatasync", plain), scale.bar(0.5), rates)


def _plain_copy(source: Path, size: int) -> float:
    target = OUT / f"plain-copy-{os.getpid()}"
    try:
        return seconds(lambda: _copy_bytes(source, target, size))
    finally:
        target.unlink()


def _copy_bytes(source: Path, target: Path, size: int) -> None:
    """The first bytes of a file, in the kernel where it can, synced."""
    with source.open("rb", buffering=0) as read, target.open("wb", buffering=0) as write:
        left = size
        while left > 0:
            if hasattr(os, "copy_file_range"):
                left -= os.copy_file_range(read.fileno(), write.fileno(), left)
            else:
                left -= write.write(read.read(min(left, 8 << 20))) or 0
        sync_data(write.fileno())
