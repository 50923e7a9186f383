"""How the benchmarks judge and print a figure."""

import pytest
from benchmarks.figure import Bar, Figure, Reference, Spread, interleaved
from benchmarks.report import table

OURS = Spread.of([3.0, 1.0, 2.0])
FLOOR = Reference("the floor", Spread.of([1.0, 1.0, 4.0]))


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure("no bar", "s", OURS), ""),
        (Figure("within", "s", OURS, bar=Bar(2)), "ok"),
        (Figure("over", "s", OURS, bar=Bar(1.9)), "OVER"),
        (Figure("ratio within", "s", OURS, FLOOR, Bar(2, "ratio")), "ok"),
        (Figure("ratio over", "s", OURS, FLOOR, Bar(1.9, "ratio")), "OVER"),
        (Figure("nothing to compare with", "s", OURS, None, Bar(2, "ratio")), "OVER"),
        (Figure("not run", note="no Pi here"), "skipped"),
    ],
)
def test_a_median_is_judged_by_its_bar(figure: Figure, verdict: str) -> None:
    assert figure.verdict == verdict


def test_a_group_is_a_table_with_notes_below_their_figures() -> None:
    figures = [
        Figure("append", "µs", OURS, FLOOR, Bar(6, "ratio"), "of 3 kB"),
        Figure("open", "s", OURS, bar=Bar(1.5)),
        Figure("beside Pi", note="not installed"),
    ]
    assert list(table("group", figures)) == [
        "group   ours         floor or peer          ratio  bar",
        "append  2 µs [1..3]  1 µs [1..4] the floor  2.00   ≤ 6x     ok",
        "    (of 3 kB)",
        "open    2 s [1..3]                                 ≤ 1.5 s  OVER",
        "beside Pi  skipped: not installed",
    ]


def test_what_is_compared_runs_in_turns_every_second_round_in_reverse() -> None:
    order: list[str] = []

    def taker(name: str) -> float:
        order.append(name)
        return len(order)

    assert interleaved(3, lambda: taker("ours"), lambda: taker("floor")) == [[1, 4, 5], [2, 3, 6]]
    assert order == ["ours", "floor", "floor", "ours", "ours", "floor"]
