"""Where files lie and who can read them: modes right after creation, names that never become paths, no replacing."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.errors import StorageFailure
from coppice.storage.directory import (
    coppice_home,
    directory_for,
    link_into_place,
    new_file,
    private_directory,
    replace_file,
    safe_name,
    session_file_name,
    session_files,
    tighten,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def umask_022() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_the_home_is_what_the_environment_says() -> None:
    assert coppice_home({"COPPICE_HOME": "/x/y"}) == Path("/x/y")
    assert coppice_home({}) == coppice_home({"COPPICE_HOME": ""}) == Path.home() / ".coppice"


@pytest.mark.case("P30")
def test_a_new_directory_and_every_new_one_above_it_is_private(tmp_path: Path) -> None:
    made = private_directory(tmp_path / "a" / "b" / "c")
    assert [mode(made), mode(made.parent), mode(made.parent.parent)] == [0o700] * 3


@pytest.mark.case("P30")
def test_looser_directories_are_tightened_inside_the_home_and_left_alone_elsewhere(tmp_path: Path) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    for path in (home, home / "sessions", home / "sessions" / "x", other):
        path.mkdir()
        path.chmod(0o755)
    private_directory(home / "sessions" / "x", home)
    private_directory(other, home)
    assert [mode(home), mode(home / "sessions"), mode(home / "sessions" / "x"), mode(other)] == [0o700] * 3 + [0o755]


@pytest.mark.case("P30")
def test_a_looser_file_is_tightened_inside_the_home_and_reported_elsewhere(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    inside, outside = home / "s.jsonl", tmp_path / "s.jsonl"
    for path in (inside, outside):
        path.write_bytes(b"")
        path.chmod(0o644)
    assert (tighten(inside, home), mode(inside)) == (None, 0o600)
    assert tighten(inside, home) is None
    assert tighten(outside, home) == (
        f"{outside}: others on this machine can read this session (mode 0644); chmod 600 it to keep it private"
    )
    assert mode(outside) == 0o644


def test_a_directory_that_cannot_be_made_is_an_error_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailure, match="file/below: the directory cannot be made"):
        private_directory(tmp_path / "file" / "below")


@pytest.mark.case("P27")
def test_no_two_directories_share_one_for_their_sessions(tmp_path: Path) -> None:
    names = ["w/a-b/c", "w/a/b-c", "w/a b", "w/ä", "w/a", "w/a-b-c", "w"]
    for name in names:
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    places = {directory_for(tmp_path / name, tmp_path / "home") for name in names}
    assert len(places) == len(names)
    assert {place.parent for place in places} == {tmp_path / "home" / "sessions"}


def test_a_link_leads_to_the_sessions_of_the_real_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert directory_for(tmp_path / "link", tmp_path) == directory_for(tmp_path / "real", tmp_path)


@given(st.text())
def test_no_id_becomes_a_path(text: str) -> None:
    name = session_file_name("2026-01-02T03:04:05.678Z", text)
    assert name.startswith("2026-01-02T03-04-05-678Z_")
    assert name.endswith(".jsonl")
    assert "/" not in name
    assert "\0" not in name
    assert len(os.fsencode(name)) < 255
    assert safe_name(text) == text or len(safe_name(text)) == 64


def test_session_files_are_those_that_are_finished(tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", ".a.jsonl.123.tmp", ".hidden.jsonl", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert session_files(tmp_path) == [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    assert session_files(tmp_path / "nowhere") == session_files(tmp_path / "notes.txt") == []


@pytest.mark.case("P30")
def test_a_file_made_beside_is_private_from_its_first_moment(tmp_path: Path) -> None:
    fd, beside = new_file(tmp_path / "s.jsonl")
    os.close(fd)
    assert mode(beside) == 0o600
    link_into_place(beside, tmp_path / "s.jsonl")
    assert (os.listdir(tmp_path), mode(tmp_path / "s.jsonl")) == (["s.jsonl"], 0o600)


def test_a_name_that_is_taken_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"old")
    fd, beside = new_file(path)
    os.close(fd)
    with pytest.raises(FileExistsError):
        link_into_place(beside, path)
    assert path.read_bytes() == b"old"


def test_a_small_file_is_replaced_whole_or_stays(tmp_path: Path) -> None:
    path = tmp_path / "pending.jsonl"
    replace_file(path, b"one")
    replace_file(path, b"two")
    assert (path.read_bytes(), mode(path), os.listdir(tmp_path)) == (b"two", 0o600, ["pending.jsonl"])
    with pytest.raises(StorageFailure, match="cannot be written"):
        replace_file(tmp_path / "nowhere" / "x", b"")
