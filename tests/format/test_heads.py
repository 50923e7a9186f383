"""Heads: the fast way and the slow way agree, and damaged lines give what is whole in them and nothing else."""

import json

import pytest

from coppice.format.heads import Head, Kind, damaged_head, head_of, read_damaged, read_head
from coppice.format.messages import EntryId
from tests.session.build import assistant, call, compaction, entry, header, label, line, marker, result, user

A, B = EntryId("aaaaaaaa"), EntryId("bbbbbbbb")

KINDS = [
    (user(A, None), Kind.USER),
    (assistant(A, B), Kind.ASSISTANT),
    (result(A, B, "c"), Kind.TOOL_RESULT),
    (entry("message", A, B, message={"role": "bashExecution"}), Kind.BASH),
    (entry("message", A, B, message={"role": "custom"}), Kind.CUSTOM_ROLE),
    (entry("message", A, B, message={"role": "hookMessage"}), Kind.CUSTOM_ROLE),
    (entry("message", A, B, message={"role": "system"}), Kind.SYSTEM),
    (entry("message", A, B, message={"role": "oracle"}), Kind.OTHER_MESSAGE),
    (entry("message", A, B, message="text"), Kind.OTHER_MESSAGE),
    (entry("custom_message", A, B), Kind.CUSTOM_MESSAGE),
    (compaction(A, B, B), Kind.COMPACTION),
    (entry("branch_summary", A, B), Kind.BRANCH_SUMMARY),
    (entry("context_edit", A, B), Kind.CONTEXT_EDIT),
    (entry("model_change", A, B), Kind.MODEL_CHANGE),
    (entry("thinking_level_change", A, B), Kind.THINKING_LEVEL),
    (entry("usage", A, B), Kind.USAGE),
    (entry("custom", A, B, customType="x"), Kind.CUSTOM),
    (marker(A, B), Kind.LEAF),
    (label(A, B, B, "l"), Kind.LABEL),
    (entry("session_info", A, B, name="n"), Kind.SESSION_INFO),
    (entry("future", A, B), Kind.UNKNOWN),
]


@pytest.mark.parametrize(("fields", "kind"), KINDS, ids=lambda value: value.name if isinstance(value, Kind) else "")
def test_the_fast_head_equals_the_head_of_the_whole_object_in_any_order_of_keys(fields: dict, kind: Kind) -> None:
    expected = head_of(fields)
    assert expected.kind == kind
    assert read_head(line(fields)) == expected
    assert read_head(line(dict(reversed(fields.items())))) == expected
    assert read_head(json.dumps(fields, indent=1).replace("\n", " ").encode()) == expected


@pytest.mark.parametrize(
    "fields", [header(), entry("x", "", None), user(A, None) | {"id": 7}, user(A, None) | {"parentId": 7}, {}]
)
def test_what_is_not_plainly_an_entry_has_no_fast_head(fields: dict) -> None:
    assert read_head(line(fields)) is None


def test_two_entries_in_one_line_are_both_found() -> None:
    one, two = line(user(A, None)), line(result(B, A, "c"))
    pieces = read_damaged(one + two)
    assert [(piece.start, piece.end, piece.head.id) for piece in pieces] == [
        (0, len(one), A),
        (len(one), len(one) + len(two), B),
    ]


@pytest.mark.parametrize("before", [b"\0\0\0", b'{"type":"message","id":"', line(user(A, None))[:90]], ids=[0, 1, 2])
def test_an_entry_after_zero_bytes_or_after_a_fragment_is_found(before: bytes) -> None:
    whole = line(user(B, A))
    assert [(piece.start, piece.head) for piece in read_damaged(before + whole)] == [
        (len(before), Head(Kind.USER, B, A))
    ]


def test_no_cut_of_a_line_makes_an_entry_of_what_stands_inside_it() -> None:
    inside = {"entries": [user(B, A), compaction("cccccccc", B, B)], "note": "the end"}
    whole = line(assistant(A, None, "text", {"type": "thinking", "thinking": "t"}, call("c1"), x=inside))
    for cut in range(1, len(whole)):
        found = [piece.head.id for piece in read_damaged(whole[:cut])]
        assert found == [] or whole[:cut].endswith(b"}"), whole[:cut]
        assert "c1" not in found


def test_a_cut_line_keeps_its_place_as_soon_as_its_parent_is_whole() -> None:
    whole = line(assistant(B, A, "äöü", call("c1")))
    place = whole.index(b'"timestamp"')
    heads = [damaged_head(whole[:cut]) for cut in range(len(whole))]
    assert heads == [None] * place + [Head(Kind.DAMAGED, B, A)] * (len(whole) - place)


def test_many_starts_of_entries_in_one_line_take_no_time_to_speak_of() -> None:
    assert read_damaged(b'{"type":"x",' * 20_000) == []
