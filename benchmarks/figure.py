"""What a measurement is: a spread of several runs, beside a reference taken in the same sitting, and the bar for it.

Times differ by a quarter between sittings, so what is compared is run alternately (`interleaved`), never one after the
other.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Literal

Verdict = Literal["ok", "OVER", "", "skipped"]


@dataclass(frozen=True, slots=True)
class Spread:
    """Median, lowest and highest of several runs."""

    median: float
    low: float
    high: float
    runs: int

    @classmethod
    def of(cls, values: list[float], scale: float = 1) -> "Spread":
        """The spread of values, each times `scale`."""
        scaled = [value * scale for value in values]
        return cls(median(scaled), min(scaled), max(scaled), len(scaled))


@dataclass(frozen=True, slots=True)
class Bar:
    """The most a figure may be: itself (in its unit), or its ratio to the reference."""

    limit: float
    of: Literal["ours", "ratio"] = "ours"


@dataclass(frozen=True, slots=True)
class Reference:
    """What ours stands beside: a floor (the same work, bare) or a peer."""

    name: str
    spread: Spread


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the report. Without `ours` it is skipped, and `note` says why."""

    name: str
    unit: str = ""
    ours: Spread | None = None
    beside: Reference | None = None
    bar: Bar | None = None
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Ours to the reference, medians."""
        if self.ours is None or self.beside is None or not self.beside.spread.median:
            return None
        return self.ours.median / self.beside.spread.median

    @property
    def verdict(self) -> Verdict:
        """Whether the median is within the bar; empty where there is none."""
        if self.ours is None:
            return "skipped"
        if self.bar is None:
            return ""
        measured = self.ours.median if self.bar.of == "ours" else self.ratio
        return "OVER" if measured is None or measured > self.bar.limit else "ok"


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: everything, or (`quick`) a tenth of the sizes and fewer runs, where size bars don't hold."""

    quick: bool = False
    rounds: int = field(init=False)
    """Runs of what takes long (a second or so)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rounds", 3 if self.quick else 7)

    def count(self, full: int) -> int:
        """A tenth of a number when quick."""
        return full // 10 if self.quick else full

    def bar(self, limit: float, of: Literal["ours", "ratio"] = "ours") -> Bar | None:
        """A bar that holds at full size only."""
        return None if self.quick else Bar(limit, of)


def interleaved(rounds: int, *takers: Callable[[], float]) -> list[list[float]]:
    """What each taker measured, a list for each; they run in turns, every second round in reverse order."""
    found: list[list[float]] = [[] for _ in takers]
    for number in range(rounds):
        order = range(len(takers)) if number % 2 == 0 else reversed(range(len(takers)))
        for at in order:
            found[at].append(takers[at]())
    return found


def seconds(work: Callable[[], object]) -> float:
    """How long a call takes; earlier garbage is collected first, so that it does not count."""
    gc.collect()
    return _seconds(work)


def _seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def usual_seconds(count: int, work: Callable[[], object]) -> float:
    """The median of `count` calls, for work that now and then takes many times as long, such as a sync."""
    gc.collect()
    return median(_seconds(work) for _ in range(count))


def seconds_each(count: int, work: Callable[[], object]) -> float:
    """How long one of `count` calls takes on average."""
    numbers = range(count)
    gc.collect()
    start = time.perf_counter()
    for _ in numbers:
        work()
    return (time.perf_counter() - start) / count
