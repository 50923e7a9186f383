"""The tree as rows: order, filters, folds, labels, the active path, rails."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.format.messages import EntryId
from coppice.tree.outline import Filter, Row, View, outline, rails
from tests.session.build import Fields, assistant, call, entry, label, marker, message, result, user
from tests.tree.world import World

TREE = [
    user("u1", None),
    assistant("a1", "u1", "a1", call("c1")),
    result("r1", "a1", "c1"),
    user("u2", "r1"),
    assistant("a2", "u2"),
    marker("k1", "r1", "a2"),
    user("u3", "r1"),
    entry("model_change", "m1", "u3", provider="p", modelId="m"),
    assistant("a3", "m1"),
    label("l1", "a3", "a2", "good"),
    entry("session_info", "n1", "l1", name="x"),
    message("s1", "n1", role="system", content="x"),
    entry("custom", "k2", "s1", customType="x"),
    user("u4", "k2"),
]


def shape(rows: list[Row]) -> list[str]:
    """Rows as text: depth as indentation, * on the path, < here, | not the last of several, + folded."""
    return [
        "  " * row.depth
        + row.id
        + ("*" if row.on_path else "")
        + ("<" if row.here else "")
        + ("" if not row.branch else "L" if row.last else "|")
        + (f"+{row.hidden}" if row.hidden else "")
        + (f" [{row.label}]" if row.label else "")
        for row in rows
    ]


def shown(leaf: str, show: Filter = Filter.DEFAULT, *folded: str) -> list[str]:
    world = World(TREE)
    view = View(world.at(leaf), show, tuple(EntryId(each) for each in folded))
    return shape(outline(world.index, view))


def test_the_default_shows_what_people_said_and_did() -> None:
    assert shown("u4") == ["u1*", "a1*", "r1*", "u2|", "  a2 [good]", "u3*L", "  a3*", "  u4*<"]


@pytest.mark.parametrize(
    ("show", "rows"),
    [
        (Filter.NO_TOOLS, ["u1*", "a1*", "u2|", "  a2 [good]", "u3*L", "  a3*", "  u4*<"]),
        (Filter.USER, ["u1*", "u2|", "u3*L", "  u4*<"]),
        (Filter.LABELLED, ["a2 [good]"]),
        (
            Filter.ALL,
            ["u1*", "a1*", "r1*", "u2|", "  a2 [good]", "u3*L"]
            + [f"  {each}*" for each in ("m1", "a3", "l1", "n1", "s1", "k2")]
            + ["  u4*<"],
        ),
    ],
)
def test_a_filter_hides_rows_and_ties_what_is_below_to_the_nearest_shown(show: Filter, rows: list[str]) -> None:
    assert shown("u4", show) == rows


def test_a_leaf_that_is_not_shown_is_marked_at_the_nearest_row_above() -> None:
    assert shown("n1")[-2:] == ["  a3*<", "  u4"]
    assert shown("a2", Filter.USER) == ["u1*", "u2*<|", "u3L", "  u4"]


def test_a_fold_hides_what_is_below_and_counts_it() -> None:
    assert shown("u4", Filter.DEFAULT, "u3") == ["u1*", "a1*", "r1*", "u2|", "  a2 [good]", "u3*L+2"]
    assert shown("u4", Filter.DEFAULT, "u1") == ["u1*+7"]
    assert shown("u4", Filter.DEFAULT, "u4") == shown("u4")


def test_roots_are_siblings() -> None:
    world = World([user("a", None), user("b", None), user("c", "a")])
    assert shape(outline(world.index, View(world.at("c")))) == ["a*|", "  c*<", "bL"]


def test_an_empty_tree_has_no_rows() -> None:
    assert outline(World([]).index, View()) == []


def test_rails_say_where_a_line_runs_on_below() -> None:
    lines = [
        user("a", None),
        user("b", "a"),
        user("c", "b"),
        user("d", "c"),
        user("e", "c"),
        user("f", "b"),
        user("g", "a"),
    ]
    world = World(lines)
    rows = outline(world.index, View())
    assert [(row.id, rails(rows, at)) for at, row in enumerate(rows)] == [
        ("a", ()),
        ("b", ()),
        ("c", (True,)),
        ("d", (True, True)),
        ("e", (True, True)),
        ("f", (True,)),
        ("g", ()),
    ]
    assert rails(rows, 3, limit=1) == (True,)


@st.composite
def forests(draw: st.DrawFn) -> tuple[World, View]:
    lines: list[Fields] = []
    size = draw(st.integers(1, 20))
    for number in range(size):
        at = draw(st.integers(-1, number - 1))
        parent = None if at < 0 else f"{at:08x}"
        make = draw(st.sampled_from([user, assistant, marker]))
        lines.append(make(f"{number:08x}", parent))
    world = World(lines)
    folded = draw(st.sets(st.sampled_from(world.index.ids)))
    return world, View(draw(st.integers(-1, size - 1)), draw(st.sampled_from([Filter.ALL, Filter.USER])), folded)


@given(forests())
def test_every_shown_entry_is_a_row_once_or_behind_one_fold(made: tuple[World, View]) -> None:
    world, view = made
    rows = outline(world.index, view)
    everything = outline(world.index, View(view.leaf, view.show))
    assert len({row.ordinal for row in rows}) == len(rows)
    assert len(rows) + sum(row.hidden for row in rows) == len(everything)
    assert sum(row.here for row in everything) <= 1
    for row in rows:
        assert row.rail < 0 or rows[row.rail].branch
        assert row.depth == (0 if row.rail < 0 else rows[row.rail].depth + 1)
