"""Which sessions there are, which one is meant, and which one was used last."""

import os
from pathlib import Path

import pytest

from coppice.errors import AmbiguousSession, SessionNotFound, UsageError
from coppice.format.messages import UserMessage
from coppice.session.listing import SessionInfo, find_session, last_used
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from tests.session.build import STAMP, Fields, assistant, chain, entry, header, result, session_file, user


def started(cwd: Path, setup: Setup, text: str) -> Path:
    session = SessionManager.create(cwd, setup=setup)
    session.append_message(UserMessage(text, 1))
    session.close()
    assert session.session_file is not None
    return session.session_file


def test_a_row_tells_what_a_session_is(tmp_path: Path) -> None:
    place = tmp_path / "sessions"
    place.mkdir()
    lines: list[Fields] = [
        entry("model_change", "m1", None, provider="p", modelId="m"),
        user("u1", "m1", [{"type": "text", "text": "x" * 300}]),
        assistant("a1", "u1"),
        result("r1", "a1", "c1"),
        user("u2", "a1"),
        entry("session_info", "n1", "u2", name="the name") | {"timestamp": "2026-03-04T05:06:07.000Z"},
    ]
    path = session_file(place / "t_s.jsonl", lines, header(cwd=str(tmp_path), parentSession="/old.jsonl"))
    [row] = SessionManager.list(tmp_path, place)
    assert row == SessionInfo(
        path=path,
        id=header()["id"],
        cwd=str(tmp_path),
        name="the name",
        created=STAMP,
        last_used="2026-03-04T05:06:07.000Z",
        messages=4,
        first_prompt="x" * 200,
        parent_session="/old.jsonl",
    )


@pytest.mark.case("P27")
def test_each_directory_shows_and_continues_only_its_own(tmp_path: Path, setup: Setup) -> None:
    places = [tmp_path / "w" / name for name in ("a-b/c", "a/b-c", "a b", "ä")]
    files = {}
    for place in places:
        place.mkdir(parents=True)
        files[place] = started(place, setup, f"in {place.name}")
    for place in places:
        assert [row.path for row in SessionManager.list(place, home=setup.home)] == [files[place]]
        session = SessionManager.continue_recent(place, setup=setup)
        assert (session.session_file, session.cwd) == (files[place], str(place))
        session.close()
    assert len(SessionManager.list_all(home=setup.home)) == len(places)
    assert SessionManager.list(tmp_path / "w", home=setup.home) == []


@pytest.mark.case("P27")
def test_after_its_directory_moved_a_session_is_resumed_by_id_and_only_appended_to(
    tmp_path: Path, setup: Setup
) -> None:
    old = tmp_path / "ä"
    old.mkdir()
    path = started(old, setup, "hello")
    before = path.read_bytes()
    old.rename(tmp_path / "z")
    session_id = path.stem.rpartition("_")[2]
    session = SessionManager.open(find_session(session_id, setup), setup=setup)
    session.append_message(UserMessage("again", 1))
    assert (session.session_file, session.cwd) == (path, str(old))
    assert path.read_bytes().startswith(before)
    assert not old.exists()
    assert SessionManager.list(tmp_path / "z", home=setup.home) == []
    assert SessionManager.list(old, home=setup.home)[0].path == path


def test_sessions_of_several_directories_in_one_place_are_told_apart_by_their_header(
    tmp_path: Path, setup: Setup
) -> None:
    place = tmp_path / "all"
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    made = []
    for cwd in (ours, theirs):
        cwd.mkdir()
        session = SessionManager.create(cwd, place, setup=setup)
        session.append_message(UserMessage("x", 1))
        session.close()
        made.append(session.session_file)
    assert [row.path for row in SessionManager.list(ours, place)] == made[:1]
    assert SessionManager.continue_recent(theirs, place, setup=setup).session_file == made[1]


def test_continuing_where_there_is_nothing_begins_a_session(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.continue_recent(tmp_path, setup=setup)
    assert (session.is_stored, session.cwd) == (False, str(tmp_path))
    assert not setup.home.exists()


@pytest.mark.case("P28")
def test_the_session_used_last_is_the_one_with_the_last_entry_whatever_was_touched(
    tmp_path: Path, setup: Setup
) -> None:
    first, second = started(tmp_path, setup, "first"), started(tmp_path, setup, "second")
    older = SessionManager.open(first, setup=setup)
    older.append_message(UserMessage("used last", 1))
    older.close()
    os.utime(second)
    assert [row.path for row in SessionManager.list(tmp_path, home=setup.home)] == [first, second]
    assert SessionManager.continue_recent(tmp_path, setup=setup).session_file == first


@pytest.mark.case("P28")
def test_an_id_is_found_by_its_beginning_and_nothing_else_is_guessed(tmp_path: Path, setup: Setup) -> None:
    place = setup.directory(tmp_path)
    place.mkdir(parents=True)
    one, two, three = (f"01234567-89ab-7{n}00-8000-000000000000" for n in "123")
    for session_id in (one, two, three):
        session_file(place / f"2026-01-02T03-04-05-678Z_{session_id}.jsonl", chain(2), header(id=session_id))
    with pytest.raises(AmbiguousSession) as ambiguous:
        find_session(one[:12], setup)
    assert [each.split()[0] for each in ambiguous.value.candidates] == [one, two, three]
    assert find_session(one[:16], setup).name.endswith(f"{one}.jsonl")
    assert find_session(two, setup).name.endswith(f"{two}.jsonl")
    for nothing in ("", "  "):
        with pytest.raises(UsageError):
            find_session(nothing, setup)
    for unknown in ("ffff", "/nowhere/at/all.jsonl", "nowhere.jsonl"):
        with pytest.raises(SessionNotFound):
            find_session(unknown, setup)
    path = place / f"2026-01-02T03-04-05-678Z_{one}.jsonl"
    assert find_session(str(path), setup) == path
    assert len(list(place.iterdir())) == 3


def test_what_cannot_be_read_is_a_row_with_its_problem_and_no_session_is_no_row(tmp_path: Path, setup: Setup) -> None:
    place = setup.directory(tmp_path)
    place.mkdir(parents=True)
    good = session_file(place / "good.jsonl", chain(2), header(cwd=str(tmp_path)))
    (place / "notes.jsonl").write_text('{"a": 1}\n')
    (place / "binary.jsonl").write_bytes(b"\0\xff" * 100)
    assert [row.path for row in SessionManager.list_all(home=setup.home)] == [good]
    assert [row.path for row in SessionManager.list(tmp_path, home=setup.home)] == [good]


@pytest.mark.parametrize(
    ("last", "stamp"),
    [
        (user("x", "e0000002"), STAMP),
        (
            {"type": "custom", "customType": "x", "data": {"timestamp": "2030-01-01T00:00:00.000Z"}}
            | {"id": "x", "parentId": None, "timestamp": "2026-05-05T00:00:00.000Z"},
            "2026-05-05T00:00:00.000Z",
        ),
        (
            entry("custom", "x", None, data={"timestamp": "2030-01-01T00:00:00.000Z"}),
            STAMP,
        ),
        (
            {"timestamp": "2026-05-05T00:00:00.000Z", "x": {"timestamp": "2030-01-01T00:00:00.000Z"}},
            "2026-05-05T00:00:00.000Z",
        ),
        (user("x", None, "y" * 200_000), STAMP),
    ],
    ids=["plain", "pi's order", "our order", "no order", "long"],
)  # fmt: skip
def test_the_time_of_the_last_entry_is_its_own_and_not_one_in_its_data(
    last: Fields, stamp: str, tmp_path: Path
) -> None:
    path = session_file(tmp_path / "s.jsonl", [*chain(2), last])
    assert last_used(path) == stamp
    path.write_bytes(path.read_bytes()[:-1])
    assert last_used(path) == stamp
