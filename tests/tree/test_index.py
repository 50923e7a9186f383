"""The tree of a file: leaf, labels, name, and what is done with every kind of damage."""

from typing import Any

import pytest

from coppice.format.heads import Kind
from coppice.tree.index import MAX_DAMAGES, OldList, TreeIndex
from tests.session.build import chain, entry, header, label, line, marker, user
from tests.tree.world import World

A, B, C, D, E = ("aaaaaaaa", "bbbbbbbb", "cccccccc", "dddddddd", "eeeeeeee")


def tree(world: World) -> dict[str, str | None]:
    return {str(i): world.index.parent_id(ordinal) for ordinal, i in enumerate(world.index.ids)}


def leaf(world: World) -> str | None:
    return str(world.index.ids[world.index.leaf]) if world.index.leaf >= 0 else None


def test_a_sound_file_has_no_damage_and_opens_at_its_last_entry() -> None:
    world = World([user(A, None), user(B, A), user(C, A), label(D, C, A, "x")])
    assert tree(world) == {A: None, B: A, C: A, D: C}
    assert (leaf(world), world.damages()) == (D, [])


def test_a_marker_stands_for_its_target() -> None:
    world = World([user(A, None), user(B, A), marker(C, A, B)])
    assert leaf(world) == A
    world.add([marker(D, None, A)])
    assert leaf(world) is None
    world.add([user(E, None)])
    assert leaf(world) == E


def test_what_pi_parented_on_a_marker_is_read_like_any_child() -> None:
    world = World([user(A, None), user(B, A), marker(C, A, B), user(D, C)])
    assert (tree(world), leaf(world)) == ({A: None, B: A, C: A, D: C}, D)


def test_labels_and_the_name_come_from_the_whole_file_last_one_wins() -> None:
    lines = [user(A, None), label("l1", A, A, "one"), user(B, A), label("l2", B, B, "two"), label("l3", A, A, "three")]
    lines += [entry("session_info", "n1", B, name=" first "), entry("session_info", "n2", A, name="  ")]
    world = World(lines[:-1])
    assert {target: found.text for target, found in world.index.facts.labels.items()} == {B: "two", A: "three"}
    assert world.index.facts.name == "first"
    world.add([*lines[-1:], label("l4", A, B, ""), label("l5", A, A, None)])
    assert (world.index.facts.labels, world.index.facts.name) == ({}, None)


@pytest.mark.case("P06")
def test_of_several_lines_with_one_id_the_first_counts_for_the_leaf_too() -> None:
    lines: list[Any] = chain(200)
    doubled = World([*lines[:4], *lines[1:4], *lines[4:]])
    assert doubled.index.ids == World(lines).index.ids
    assert [number for number, _ in doubled.damages()] == [6, 7, 8]
    at_end = World([user(A, None), user(B, A), user(A, B, "again")])
    assert (leaf(at_end), tree(at_end)) == (B, {A: None, B: A})


@pytest.mark.case("P06")
def test_after_a_lost_line_the_chain_is_bridged_in_file_order() -> None:
    lines = chain(200)
    world = World(lines[:99] + lines[100:])
    assert len(world.index) == 199
    assert world.index.parent_id(99) == "e0000099"
    assert world.damages() == [
        (101, "the parent of 'e0000101' is not in the file before it; tied to the entry before it")
    ]
    assert world.index.facts.bridges == {99: True}


def test_where_the_tree_branched_before_a_gap_the_bridge_is_a_guess() -> None:
    world = World([user(A, None), user(B, A), user(C, A), user(E, D)])
    assert (tree(world)[E], world.index.facts.bridges) == (C, {3: False})
    assert world.damages()[0][1].endswith("; the tree has branches there, so this is a guess")


def test_a_parent_that_is_itself_or_comes_later_or_is_no_text_is_bridged_and_no_walk_loops() -> None:
    world = World([user(A, A), user(B, C), user(C, B), user(D, None) | {"parentId": 7}])
    assert tree(world) == {A: None, B: A, C: B, D: C}
    assert [number for number, _ in world.damages()] == [2, 3, 5]


@pytest.mark.case("P06")
def test_an_entry_without_a_usable_id_is_left_out_and_told_of() -> None:
    lines = [user(A, None), user("x", A) | {"id": 7}, user("x", A), user(B, A)]
    del lines[2]["id"]
    world = World(lines)
    assert tree(world) == {A: None, B: A}
    assert world.damages() == [
        (3, "an entry without a usable id was left out"),
        (4, "an entry without a usable id was left out"),
    ]


def test_a_second_header_is_left_out() -> None:
    world = World([user(A, None), header(), user(B, A)])
    assert (tree(world), world.damages()) == ({A: None, B: A}, [(3, "a second header was left out")])


@pytest.mark.parametrize("odd", [b"garbage", b"[1]", b"7", b"null", b'{"type":"message"', b"\xff\xfe"])
def test_a_line_that_is_no_entry_is_counted_and_left_out(odd: bytes) -> None:
    world = World([user(A, None), odd, user(B, A)])
    assert (tree(world), [number for number, _ in world.damages()]) == ({A: None, B: A}, [3])


@pytest.mark.parametrize("blank", [b"", b"  ", b"\r"])
def test_blank_lines_are_no_damage(blank: bytes) -> None:
    world = World([user(A, None), blank, user(B, A)])
    assert (tree(world), world.damages()) == ({A: None, B: A}, [])


def test_a_torn_line_that_tells_its_place_stays_and_its_children_need_no_bridge() -> None:
    world = World([user(A, None), line(user(B, A))[:-3], user(C, B)])
    assert (tree(world), world.index.kinds[1]) == ({A: None, B: A, C: B}, Kind.DAMAGED)
    assert world.damages() == [(3, "not a JSON object; the entry 'bbbbbbbb' stays without its content")]


def test_a_torn_line_at_the_end_is_never_the_leaf() -> None:
    world = World([user(A, None), line(user(B, A))[:-3]])
    assert leaf(world) == A


def test_two_lines_joined_and_zero_bytes_before_a_line_are_read() -> None:
    world = World([user(A, None), line(user(B, A)) + line(user(C, B)), b"\0\0" + line(user(D, C))])
    assert tree(world) == {A: None, B: A, C: B, D: C}
    assert [number for number, _ in world.damages()] == [3, 4]
    assert world.entry(2) == World([user(A, None), user(B, A), user(C, B)]).entry(2)


def test_a_fragment_joined_to_a_line_keeps_its_place_too() -> None:
    world = World([user(A, None), line(user(B, A))[:-3] + line(user(C, B)), user(D, C)])
    assert (tree(world), leaf(world)) == ({A: None, B: A, C: B, D: C}, D)
    assert [number for number, _ in world.damages()] == [3]


def test_crlf_lines_are_sound() -> None:
    world = World([line(user(A, None)) + b"\r", line(user(B, A)) + b"\r"])
    assert (tree(world), world.damages()) == ({A: None, B: A}, [])


def test_beyond_a_thousand_damages_are_only_counted() -> None:
    world = World([b"garbage"] * (MAX_DAMAGES + 5))
    assert (len(world.damages()), world.index.facts.damage_count) == (MAX_DAMAGES, MAX_DAMAGES + 5)


def test_growing_line_by_line_gives_the_same_tree_as_reading_it_at_once() -> None:
    lines = [user(A, None), user(B, A), marker("m", A), user(C, A), user(D, "lost"), label(E, D, A, "x")]
    grown = World([])
    for each in lines:
        grown.add([each])
        assert len(grown.index.family.depth) == len(grown.index.newest.model) == len(grown.index)
    assert tree(grown) == tree(World(lines))
    assert grown.damages() == World(lines).damages()


# --- version 1 -----------------------------------------------------------------------------------


def old_list(lines: list[bytes]) -> OldList:
    old = OldList(TreeIndex(), "s")
    old.extend(lines, [0] * len(lines), 2)
    return old


def test_a_version_1_list_is_one_chain_under_ids_that_every_reading_gives_again() -> None:
    lines = [line({"type": "message", "message": {"role": "user"}}) for _ in range(5)]
    first, second = old_list(lines), old_list(lines)
    assert first.index.ids == second.index.ids
    assert len(set(first.index.ids)) == 5
    assert list(first.index.parents) == [-1, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("position", "kept"),
    [(0, None), (1, 0), (2, 1), (3, None), (4, 2), (5, None), (-1, None), ("1", None), (None, None)],
)
def test_a_position_counts_parsed_lines_the_header_being_0(position: Any, kept: int | None) -> None:
    message = line({"type": "message", "message": {"role": "user"}})
    old = old_list([message, b"", b"broken", message, line(header(1)), message])
    expected = None if kept is None else old.index.ids[kept]
    assert old.first_kept({"firstKeptEntryIndex": position}) == expected
    assert [damage.line for damage in old.index.facts.damages] == [4, 6]
