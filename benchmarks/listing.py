"""Listing a directory of small sessions."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Scale, Spread, seconds
from benchmarks.workload import OUT, Shape, cached_directory
from coppice.session.manager import SessionManager


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure of listing."""
    sessions = scale.count(1_000)
    directory = cached_directory(sessions)

    def rows() -> int:
        return len(SessionManager.list(Shape(0).cwd, directory, home=OUT / "home"))

    assert rows() == sessions
    taken = [seconds(rows) for _ in range(scale.rounds)]
    yield Figure(f"list {sessions} sessions of 6 to 30 entries", "ms", Spread.of(taken, 1e3))
