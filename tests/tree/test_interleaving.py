"""Two programs that wrote one session at once are told of; branches are not."""

import pytest

from coppice.tree.interleaving import find_interleaving
from tests.session.build import Fields, assistant, call, entry, label, marker, result, user
from tests.tree.world import World

BASE = [user("u1", None), assistant("a1", "u1"), user("u2", "a1"), assistant("a2", "u2")]


def found(lines: list[Fields]) -> tuple[str, str] | None:
    """Where the second line of work goes on, and the end of the other."""
    world = World(lines)
    crossing = find_interleaving(world.index)
    return None if crossing is None else (world.index.ids[crossing.at], world.index.ids[crossing.other])


@pytest.mark.parametrize(
    "lines",
    [
        [],
        BASE,
        [*BASE, user("x", "u1")],
        [*BASE, user("x", None)],
        [*BASE, user("x", "u1"), marker("m", "a2", "x"), user("y", "a2")],
        [*BASE, label("l", "a2", "u1", "x"), user("x", "a2")],
        [*BASE, label("l", "a2", "u1", "x"), user("x", "l")],
        [*BASE, marker("m", "a1", "a2"), label("l", "a1", "a2", "x"), user("x", "a1")],
        [*BASE, entry("branch_summary", "b", "u1", fromId="a2", summary="s"), user("x", "b")],
        [*BASE, marker("m", None, "a2"), user("x", None)],
    ],
    ids=[
        "empty",
        "chain",
        "branch",
        "root",
        "marker",
        "label",
        "label in the chain",
        "label after a move",
        "summary",
        "top",
    ],
)
def test_a_branch_a_move_or_a_label_is_no_clash(lines: list[Fields]) -> None:
    assert found(lines) is None


def test_an_older_tip_that_goes_on_is_a_clash() -> None:
    assert found([*BASE, user("A1", "a2"), user("B1", "a2"), assistant("A2", "A1")]) == ("A2", "B1")


def test_a_clash_before_the_last_marker_is_forgotten() -> None:
    lines = [*BASE, user("A1", "a2"), user("B1", "a2"), assistant("A2", "A1"), marker("m", "A2", "B1"), user("x", "A2")]
    assert found(lines) is None


def test_going_on_beside_a_move_of_somebody_else_is_a_clash() -> None:
    assert found([*BASE, marker("m", "a1", "a2"), user("x", "a2")]) == ("x", "a1")


def test_parallel_results_stored_side_by_side_are_no_clash() -> None:
    lines = [user("u1", None), assistant("a1", "u1", call("c1"), call("c2"))]
    lines += [result("r1", "a1", "c1"), result("r2", "a1", "c2"), assistant("a2", "r1")]
    assert found(lines) is None


@pytest.mark.parametrize("kind", ["label", "session_info", "usage", "custom", "future"])
def test_bookkeeping_at_the_end_that_hangs_on_an_older_tip_is_told_of(kind: str) -> None:
    lines = [*BASE, user("A1", "a2"), user("B1", "a2"), entry(kind, "x", "A1", targetId="u1", name="n")]
    assert found(lines) == ("x", "B1")
    assert found([*lines, user("B2", "B1")]) is None
