"""The benchmark's own workload: what it makes is a sound session, and always the same one."""

import json
from itertools import islice
from pathlib import Path

import pytest
from benchmarks.workload import LARGE, Shape, cached_directory, cached_session, session_lines, write_session

from coppice.format.heads import Kind
from coppice.format.messages import EntryId
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tree.path import path_to, tips

SHAPE = Shape(2_000, branches=10, compactions=4)


@pytest.fixture
def session(tmp_path: Path) -> SessionManager:
    path = write_session(tmp_path / "session.jsonl", SHAPE)
    return SessionManager.open(path, mode="read", setup=Setup(home=tmp_path / "home"))


def test_a_generated_file_opens_without_a_notice(session: SessionManager) -> None:
    assert (session.take_notices(), session.index.facts.damage_count) == ([], 0)
    for _ in session.entries():
        pass
    assert session.take_notices() == []


@pytest.mark.parametrize("entries", [0, 1, 2, 3, 7, 50, 2_000])
def test_a_generated_file_has_the_number_of_entries_asked_for(tmp_path: Path, entries: int) -> None:
    path = write_session(tmp_path / "session.jsonl", Shape(entries, branches=3, compactions=2))
    assert len(SessionManager.open(path, mode="read", setup=Setup(home=tmp_path)).index) == entries


def test_the_same_shape_gives_the_same_bytes_and_another_seed_gives_others() -> None:
    first, again = (list(session_lines(SHAPE)) for _ in range(2))
    assert first == again
    assert first != list(session_lines(Shape(2_000, branches=10, compactions=4, seed=2)))


def test_branches_are_left_behind_and_compactions_stand_on_the_path(session: SessionManager) -> None:
    index = session.index
    path = path_to(index, session.leaf)
    assert [index.kinds[ordinal] for ordinal in path].count(Kind.COMPACTION) == SHAPE.compactions
    assert len(tips(index)) == SHAPE.branches + 1
    assert 0.6 < len(path) / len(index) < 0.9


def test_a_context_holds_what_a_compaction_kept_and_every_call_has_its_result(session: SessionManager) -> None:
    entries = session.build_context_entries()
    assert index_kind(session, entries[0].id) == Kind.COMPACTION
    assert [index_kind(session, entry.id) for entry in entries[1:5]] == [
        Kind.USER,
        Kind.ASSISTANT,
        Kind.TOOL_RESULT,
        Kind.ASSISTANT,
    ]


def index_kind(session: SessionManager, entry_id: EntryId) -> int:
    return session.index.kinds[session.index.by_id[entry_id]]


def test_the_large_session_is_of_the_size_the_bars_are_for() -> None:
    sizes = [len(line) for line in islice(session_lines(LARGE), 10_000)]
    assert 265e6 < sum(sizes) / 10_000 * LARGE.entries < 295e6


def test_a_cached_session_is_made_once_and_replaces_what_an_older_generator_made(tmp_path: Path) -> None:
    old = tmp_path / "session-20-0-0-1-00000000.jsonl"
    old.write_bytes(b"")
    path = cached_session(Shape(20), tmp_path)
    made = path.stat().st_mtime_ns
    assert cached_session(Shape(20), tmp_path) == path
    assert (path.stat().st_mtime_ns, list(tmp_path.iterdir())) == (made, [path])


def test_a_directory_of_sessions_lists_as_that_many(tmp_path: Path) -> None:
    directory = cached_directory(30, tmp_path)
    rows = SessionManager.list_all(directory, home=tmp_path)
    assert (len(rows), {row.problem for row in rows}, len({row.id for row in rows})) == (30, {None}, 30)
    assert all(row.messages > 0 and row.first_prompt for row in rows)


def test_every_line_is_one_json_object_that_ends_with_a_newline() -> None:
    for line in session_lines(Shape(100, branches=2, compactions=1)):
        assert line.endswith(b"\n")
        assert isinstance(json.loads(line), dict)
