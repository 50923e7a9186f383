"""Prompts that wait: in one small private file, whole or not at all, under the id their entry will have."""

import os
import stat
from pathlib import Path

import pytest

from coppice.format.messages import EntryId, ImageBlock, TextBlock, UserMessage
from coppice.storage.pending import Pending, PendingFile

ONE = Pending(EntryId("aaaaaaaa"), "steering", UserMessage("one ä", 1))
TWO = Pending(EntryId("bbbbbbbb"), "followUp", UserMessage((TextBlock("two"), ImageBlock("QUJD", "image/png")), 2))


def test_what_waits_is_read_back_in_order_until_it_is_taken_out(tmp_path: Path) -> None:
    file = PendingFile(tmp_path, "s")
    assert file.read() == []
    file.change(lambda items: [*items, ONE])
    assert file.change(lambda items: [*items, TWO]) == [ONE, TWO]
    assert PendingFile(tmp_path, "s").read() == [ONE, TWO]
    file.change(lambda items: items[1:])
    assert PendingFile(tmp_path, "s").read() == [TWO]
    file.change(lambda items: [])
    assert (PendingFile(tmp_path, "s").read(), os.listdir(tmp_path / "pending")) == ([], [])


@pytest.mark.case("P30")
def test_nobody_else_can_read_what_waits(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        PendingFile(tmp_path / "home", "s").change(lambda items: [ONE])
    finally:
        os.umask(before)
    made = [tmp_path / "home", *(tmp_path / "home").rglob("*")]
    assert {(path.is_dir(), stat.S_IMODE(path.stat().st_mode)) for path in made} == {(True, 0o700), (False, 0o600)}


def test_a_line_that_cannot_be_read_costs_the_others_nothing(tmp_path: Path) -> None:
    file = PendingFile(tmp_path, "s")
    file.change(lambda items: [ONE, TWO])
    path = tmp_path / "pending" / "s.jsonl"
    path.write_bytes(b"garbage\n[]\n{}\n" + path.read_bytes()[:-4])
    assert file.read() == [ONE]


def test_an_id_from_a_foreign_file_never_becomes_a_path(tmp_path: Path) -> None:
    PendingFile(tmp_path / "home", "../../x").change(lambda items: [ONE])
    assert os.listdir(tmp_path) == ["home"]
    assert len(os.listdir(tmp_path / "home" / "pending")) == 1
