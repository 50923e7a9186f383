"""Versions 1 and 2 in memory: ids that are a function of the file, positions, renamed roles, nothing else changed."""

import json
from hashlib import sha256

import pytest

from coppice.format.messages import EntryId
from coppice.format.migrate import migrated_id, upgraded, upgraded_line, version_of

A, B = EntryId("aaaaaaaa"), EntryId("bbbbbbbb")


def test_a_migrated_id_is_a_hash_of_session_id_and_line_number() -> None:
    assert migrated_id("s", 7) == sha256(b"s:7").hexdigest()[:8]
    assert len({migrated_id("s", 7), migrated_id("s", 8), migrated_id("t", 7), migrated_id("s", 7, 1)}) == 4
    assert len(migrated_id("\ud800", 1)) == 8


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({}, 1),
        ({"version": 2}, 2),
        ({"version": 3}, 3),
        ({"version": 9}, 9),
        ({"version": 3.0}, 3),
        ({"version": 2.5}, 1),
        ({"version": "3"}, 1),
        ({"version": True}, 1),
    ],
    ids=str,
)
def test_a_header_without_a_usable_version_is_of_version_1(fields: dict, version: int) -> None:
    assert version_of(fields) == version


def test_an_upgrade_keeps_every_field_it_does_not_have_to_change() -> None:
    old = {"type": "message", "timestamp": "t", "message": {"role": "hookMessage", "x": [1]}, "extra": {"a": None}}
    assert upgraded(old, A, B, None) == {
        "type": "message",
        "id": A,
        "parentId": B,
        "timestamp": "t",
        "message": {"role": "custom", "x": [1]},
        "extra": {"a": None},
    }
    assert old["message"] == {"role": "hookMessage", "x": [1]}


def test_a_position_becomes_an_id_or_nothing() -> None:
    old = {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 3}
    assert upgraded(old, A, None, B) == {
        "type": "compaction",
        "id": A,
        "parentId": None,
        "summary": "s",
        "firstKeptEntryId": B,
    }
    assert "firstKeptEntryId" not in upgraded(old, A, None, None)


def test_an_upgraded_line_keeps_text_and_half_characters() -> None:
    assert upgraded_line({"a": "ä\u2028"}) == '{"a":"ä\u2028"}\n'.encode()
    assert upgraded_line({"a": "ä\ud800"}) == b'{"a":"\\u00e4\\ud800"}\n'
    assert json.loads(upgraded_line({"big": 2**100})) == {"big": 2**100}
