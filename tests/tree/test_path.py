"""Paths, ancestors, descendants and tips, against the plainest way to find them."""

from hypothesis import given
from hypothesis import strategies as st

from coppice.tree.family import NONE
from coppice.tree.path import common_ancestor, descendants, is_on_path, path_to, those_on_path, tips
from tests.session.build import Fields, marker, user
from tests.tree.world import World


@st.composite
def forests(draw: st.DrawFn) -> World:
    size = draw(st.integers(1, 25))
    lines: list[Fields] = []
    for number in range(size):
        parent = draw(st.integers(-1, number - 1))
        lines.append(user(f"{number:08x}", None if parent < 0 else f"{parent:08x}"))
    return World(lines)


def slow_path(world: World, leaf: int) -> list[int]:
    return [] if leaf == NONE else [*slow_path(world, world.index.parents[leaf]), leaf]


@given(forests(), st.data())
def test_every_question_about_paths_has_the_plain_answer(world: World, data: st.DataObject) -> None:
    ordinals = st.integers(NONE, len(world.index) - 1)
    one, other = data.draw(ordinals), data.draw(ordinals)
    path, second = slow_path(world, one), slow_path(world, other)
    assert path_to(world.index, one) == path
    shared = [ordinal for ordinal in path if ordinal in second]
    assert common_ancestor(world.index, one, other) == (shared[-1] if shared else NONE)
    everything = range(len(world.index))
    assert [o for o in everything if is_on_path(world.index, o, one)] == path
    some = data.draw(st.sets(st.sampled_from(everything)))
    assert those_on_path(world.index, some, one) == some & set(path)
    below = [o for o in everything if one in slow_path(world, o) and o != one]
    assert descendants(world.index, one) == (list(everything) if one == NONE else below)
    with_children = set(world.index.parents)
    assert tips(world.index) == [o for o in everything if o not in with_children]
    if one in second:
        assert path_to(world.index, other, above=one) == second[second.index(one) + 1 :]


@given(forests())
def test_children_stand_in_file_order(world: World) -> None:
    parents = list(world.index.parents)
    for parent in range(NONE, len(parents)):
        expected = [ordinal for ordinal, above in enumerate(parents) if above == parent]
        assert world.index.family.children(parent) == expected


def test_markers_are_no_tips_and_take_none_away() -> None:
    world = World([user("a", None), user("b", "a"), marker("c", "b")])
    assert world.ids(tips(world.index)) == ["b"]
