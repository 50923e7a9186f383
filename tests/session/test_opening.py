"""Opening what is damaged, old, newer or no session at all: nothing is destroyed, what can be read is read."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from coppice.errors import BridgeNeedsConsent, NotASession, SessionNotFound
from coppice.format.entries import DamagedEntry
from coppice.format.messages import CompactionSummaryMessage, CustomMessage, EntryId, UserMessage
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from tests.session.build import SESSION_ID, Fields, chain, compaction, header, label, line, objects, session_file, user

A, B, C = "aaaaaaaa", "bbbbbbbb", "cccccccc"


def ids(session: SessionManager) -> list[str]:
    return [str(each.id) for each in session.get_branch()]


def say(session: SessionManager, text: str) -> EntryId:
    return session.append_message(UserMessage(text, 1))


# --- what is no session --------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(range(256)) * 20
JSON_LINES = b'{"level":"info","type":"log","id":"aaaaaaaa","parentId":null}\n' * 50_000


@pytest.mark.case("P02")
@pytest.mark.parametrize(
    "data", [JSON_LINES, PNG, b"{}\n", b"[]", b"text", b"\n\n", b'{"type":"session"}\n', line(user(A, None)) + b"\n"],
    ids=["json lines", "png", "object", "list", "text", "blank", "header without id", "no header"],
)  # fmt: skip
@pytest.mark.parametrize("mode", ["write", "read", "shared"])
def test_a_file_that_is_no_session_is_refused_by_name_and_left_untouched(
    data: bytes, mode: Any, tmp_path: Path, setup: Setup
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    path.chmod(0o644)
    before = path.stat()
    with pytest.raises(NotASession, match=f"^{path}: not a session file"):
        SessionManager.open(path, mode=mode, setup=setup)
    after = path.stat()
    assert (path.read_bytes(), after.st_mtime_ns, after.st_mode) == (data, before.st_mtime_ns, before.st_mode)
    assert not setup.home.exists()


def test_what_is_not_there_or_a_directory_is_told_as_such(tmp_path: Path, setup: Setup) -> None:
    with pytest.raises(SessionNotFound, match="no such session file"):
        SessionManager.open(tmp_path / "nowhere.jsonl", setup=setup)
    with pytest.raises(SessionNotFound, match="is a directory"):
        SessionManager.open(tmp_path, setup=setup)


@pytest.mark.case("P02")
def test_a_header_cut_in_half_costs_no_entry(tmp_path: Path, setup: Setup) -> None:
    whole = session_file(tmp_path / "s.jsonl", chain(50)).read_bytes()
    cut = line(header())[:40]
    path = tmp_path / "cut.jsonl"
    path.write_bytes(cut + whole[len(line(header())) :])
    path.chmod(0o600)
    before = path.read_bytes()
    session = SessionManager.open(path, setup=setup)
    assert len(ids(session)) == 50
    assert session.take_notices() == [f"{path}:1: the header is damaged; what is left of it was read"]
    say(session, "go on")
    assert path.read_bytes() == before
    assert session.session_file != path
    assert len(ids(session)) == 51
    assert session.get_header().parent_session == str(path)


def test_a_header_joined_with_the_first_entry_is_read_and_so_is_the_entry(tmp_path: Path, setup: Setup) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(line(header()) + line(user(A, None)) + b"\n" + line(user(B, A)) + b"\n")
    path.chmod(0o600)
    session = SessionManager.open(path, setup=setup)
    assert (session.session_id, ids(session)) == (SESSION_ID, [A, B])
    assert session.take_notices() == [f"{path}:1: not one JSON object; 1 whole entries in the line were read"]


@pytest.mark.case("P02")
def test_a_file_of_no_bytes_may_become_a_session(tmp_path: Path, setup: Setup) -> None:
    path = tmp_path / "s.jsonl"
    path.touch()
    SessionManager.open(path, setup=setup).close()
    assert path.read_bytes() == b""


# --- damage --------------------------------------------------------------------------------------


@pytest.mark.case("P06")
def test_each_damage_is_told_once_with_file_and_line_and_the_rest_counted(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", [user(A, None), *[b"garbage"] * 8, user(B, A)])
    before = path.read_bytes()
    session = SessionManager.open(path, setup=setup)
    notices = session.take_notices()
    assert notices[:5] == [f"{path}:{n}: not a JSON object; the line was left out" for n in range(3, 8)]
    assert notices[5:] == [f"{path}: 3 more damaged lines (coppice sessions show lists them)"]
    assert (ids(session), session.take_notices(), path.read_bytes()) == ([A, B], [], before)


@pytest.mark.case("P06")
def test_a_lost_line_leaves_the_other_199_in_the_context_with_a_notice(tmp_path: Path, setup: Setup) -> None:
    lines = chain(200)
    path = session_file(tmp_path / "s.jsonl", lines[:99] + lines[100:])
    session = SessionManager.open(path, setup=setup)
    assert len(session.build_session_context().messages) == 199
    session.check_bridges()
    assert session.take_notices() == [
        f"{path}:101: the parent of 'e0000101' is not in the file before it; tied to the entry before it"
    ]


def test_a_guess_over_a_gap_waits_for_a_yes(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", [user(A, None), user(B, A), user(C, A), user("x", "lost")])
    session = SessionManager.open(path, setup=setup)
    assert (ids(session), session.uncertain_bridges()) == ([A, C, "x"], ["x"])
    with pytest.raises(BridgeNeedsConsent, match=f"{path}:5: "):
        session.check_bridges()
    session.branch(EntryId(B))
    session.check_bridges()


def test_a_damaged_entry_keeps_its_place_in_the_tree_and_in_a_fork(tmp_path: Path, setup: Setup) -> None:
    torn = line(user(B, A))[:-4]
    path = session_file(tmp_path / "s.jsonl", [user(A, None), torn, user(C, B)])
    session = SessionManager.open(path, setup=setup)
    assert session.get_branch()[1] == DamagedEntry(EntryId(B), EntryId(A))
    assert session.build_session_context().messages == [UserMessage(A, 1), UserMessage(C, 1)]
    fork = session.create_branched_session()
    assert (ids(fork), fork.session_file.read_bytes().split(b"\n")[2]) == ([A, B, C], torn)  # type: ignore[union-attr]


def test_joined_lines_are_lines_of_their_own_in_a_fork(tmp_path: Path, setup: Setup) -> None:
    for between in (b"", b" ", b"\0", b"\0\0"):
        joined = line(user(A, None)) + between + line(user(B, A))
        path = session_file(tmp_path / "s.jsonl", [joined, user(C, B)])
        session = SessionManager.open(path, setup=setup)
        fork = session.create_branched_session()
        assert (ids(session), ids(fork), fork.take_notices()) == ([A, B, C], [A, B, C], [])
        session.close()
        fork.close()


@pytest.mark.parametrize("value", [None, True, 3, "x", [1], {"a": 1}], ids=repr)
def test_whatever_stands_in_a_field_the_session_opens_answers_and_forks(
    value: Any, tmp_path: Path, setup: Setup
) -> None:
    names = "message content customType display details summary firstKeptEntryId tokensBefore usage fromHook fromId"
    names += " systemMessage targetId replacement provider modelId thinkingLevel kind model data label name"
    kinds = "message custom_message compaction branch_summary context_edit model_change thinking_level_change usage"
    lines: list[Fields] = [user(A, None)]
    for number, kind in enumerate([*kinds.split(), "custom", "label", "session_info", "future"]):
        base = {"type": kind, "id": f"e{number:07d}", "parentId": lines[-1]["id"], "timestamp": "t"}
        lines.append(base | dict.fromkeys(names.split(), value))
    session = SessionManager.open(session_file(tmp_path / "s.jsonl", lines), setup=setup)
    session.build_session_context()
    assert [each.id for each in session.entries()] == [each["id"] for each in lines]
    assert set(ids(session.create_branched_session())) >= {each["id"] for each in lines if each["type"] != "label"}


# --- torn tails ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.case("P01")
@pytest.mark.parametrize("text", ["plain", "äöü€😀 \u2028"])
def test_a_file_cut_at_any_byte_of_its_last_line_goes_on(text: str, tmp_path: Path, setup: Setup) -> None:
    blocks: list[Any] = [
        {"type": "text", "text": text},
        {"type": "toolCall", "id": "call_1", "name": "read", "arguments": {"path": text}},
    ]
    last = user("e0000300", "e0000299", blocks)
    whole = session_file(tmp_path / "whole.jsonl", [*chain(299), last]).read_bytes()
    size = len(line(last)) + 1
    unsynced = Setup(home=setup.home, sync=False)
    for k in range(1, size + 1):
        path = tmp_path / "s.jsonl"
        path.write_bytes(whole[:-k])
        path.chmod(0o600)
        session = SessionManager.open(path, setup=unsynced)
        loaded = 300 if k == 1 else 299
        assert len(session.build_session_context().messages) == loaded, k
        assert len(session.take_notices()) == (1 if 1 < k < size else 0), k
        new = say(session, "go on")
        assert session.take_notices() == []
        session.close()
        after = path.read_bytes()
        assert after.startswith(whole[:-k])
        stored = json.loads(after[:-1].rpartition(b"\n")[2])
        assert (stored["id"], stored["parentId"]) == (new, f"e0000{loaded}")
        again = SessionManager.open(path, mode="read", setup=unsynced)
        assert ids(again) == [*(each["id"] for each in chain(loaded)), new]
        assert len(again.take_notices()) == (1 if 1 < k < size else 0), k


# --- old and newer versions ----------------------------------------------------------------------


def old_lines(*entries: Fields) -> list[Fields]:
    return [{key: value for key, value in each.items() if key not in ("id", "parentId")} for each in entries]


def version_1(path: Path, entries: list[Fields | bytes]) -> Path:
    head = {key: value for key, value in header().items() if key != "version"}
    return session_file(path, entries, head)


def test_version_1_is_read_without_changing_a_byte_and_moves_to_a_new_file_at_the_first_write(
    tmp_path: Path, setup: Setup
) -> None:
    lines: list[Any] = [*old_lines(*chain(3)), b"broken"]
    lines += [{"type": "compaction", "timestamp": "t", "summary": "s", "tokensBefore": 5, "firstKeptEntryIndex": 3}]
    lines += old_lines(user("x", None, "last"))
    path = version_1(tmp_path / "old.jsonl", lines)
    before = path.read_bytes()
    session = SessionManager.open(path, setup=setup)
    messages = session.build_session_context().messages
    assert messages == [CompactionSummaryMessage("s", 5, 0), UserMessage("e0000003", 1), UserMessage("last", 1)]
    old_ids, leaf = ids(session), session.get_leaf_id()
    session.take_notices()
    new = say(session, "go on")
    moved = session.session_file
    assert moved is not None
    assert session.take_notices() == [f"{path}: stays as it is; the session goes on in {moved}"]
    assert path.read_bytes() == before
    head, *rest = objects(moved)
    assert (head["version"], head["parentSession"], head["cwd"]) == (3, str(path), "/w")
    assert [each["id"] for each in rest] == [*old_ids, new]
    assert rest[-1]["parentId"] == leaf
    assert rest[3]["firstKeptEntryId"] == old_ids[2]
    session.close()
    again = SessionManager.open(moved, setup=setup)
    assert again.build_session_context().messages == [*messages, UserMessage("go on", 1)]
    assert again.take_notices() == []
    assert ids(SessionManager.open(path, mode="read", setup=setup)) == old_ids


@pytest.mark.parametrize("position", [0, -1, 99, None, "3"])
def test_a_version_1_compaction_whose_position_is_0_or_outside_keeps_nothing(
    position: Any, tmp_path: Path, setup: Setup
) -> None:
    old = {"type": "compaction", "timestamp": "t", "summary": "s", "tokensBefore": 5, "firstKeptEntryIndex": position}
    path = version_1(tmp_path / "old.jsonl", [*old_lines(*chain(3)), old])
    session = SessionManager.open(path, setup=setup)
    assert session.build_session_context().messages == [CompactionSummaryMessage("s", 5, 0)]


@pytest.mark.parametrize(
    "write",
    [
        lambda session: say(session, "x"),
        lambda session: session.append_session_info("name"),
        lambda session: session.append_label_change(session.get_leaf_id(), "label"),
        lambda session: session.branch(session.get_branch()[0].id),
        lambda session: session.branch_with_summary(None, "s"),
    ],
    ids=["prompt", "name", "label", "move", "branch"],
)
@pytest.mark.parametrize("version", [1, 2])
def test_the_first_write_of_any_kind_to_an_old_session_leaves_it_as_it_was(
    write: Any, version: int, tmp_path: Path, setup: Setup
) -> None:
    path = tmp_path / "old.jsonl"
    if version == 1:
        version_1(path, [*old_lines(*chain(4))])
    else:
        session_file(path, chain(4), header(2))
    before = path.read_bytes()
    session = SessionManager.open(path, setup=setup)
    opened = ids(session)
    write(session)
    leaf = session.get_leaf_id()
    assert (path.read_bytes(), session.get_header().version) == (before, 3)
    assert [each.id for each in session.entries()][:4] == opened
    session.close()
    assert session.session_file is not None
    again = SessionManager.open(session.session_file, setup=setup)
    # a name or a label is the last entry of the file, and so the leaf it opens at
    assert again.get_leaf_id() == leaf or again.get_branch()[-1].parent_id == leaf


def test_version_2_knew_the_custom_role_by_another_name(tmp_path: Path, setup: Setup) -> None:
    hook = {"role": "hookMessage", "customType": "x", "content": "said", "display": True, "timestamp": 5}
    lines = [user(A, None), {"type": "message", "id": B, "parentId": A, "timestamp": "t", "message": hook}]
    path = session_file(tmp_path / "old.jsonl", lines, header(2))
    session = SessionManager.open(path, setup=setup)
    assert session.build_session_context().messages[1] == CustomMessage("x", "said", True, None, 5)
    say(session, "x")
    assert objects(session.session_file)[2]["message"] == hook | {"role": "custom"}  # type: ignore[arg-type]


def test_what_hung_on_a_damaged_entry_of_an_old_session_stays_on_its_branch(tmp_path: Path, setup: Setup) -> None:
    lines = [user(A, None), line(user(B, A))[:-4], user("side", A), user(C, B), label("l", C, C, "x")]
    session = SessionManager.open(session_file(tmp_path / "old.jsonl", lines, header(2)), setup=setup)
    say(session, "x")
    parents = {each["id"]: each["parentId"] for each in objects(session.session_file)[1:]}  # type: ignore[arg-type]
    assert (parents["side"], parents[C], session.get_label(EntryId(C))) == (A, A, "x")
    session.close()
    assert session.session_file is not None
    assert SessionManager.open(session.session_file, setup=setup).take_notices() == []


def test_a_newer_version_is_read_with_a_notice_and_never_appended_to(tmp_path: Path, setup: Setup) -> None:
    lines = [user(A, None), user("side", A), user(B, A), compaction(C, B, B)]
    path = session_file(tmp_path / "new.jsonl", lines, header(4, future=True))
    before = path.read_bytes()
    session = SessionManager.open(path, setup=setup)
    assert session.take_notices() == [
        f"{path}: version 4 is newer than coppice knows; read as version 3. Going on makes a new file."
    ]
    new = say(session, "x")
    assert (path.read_bytes(), ids(session)) == (before, [A, B, C, new])
    head, *rest = objects(session.session_file)  # type: ignore[arg-type]
    assert (head["version"], head["parentSession"]) == (3, str(path))
    assert [each["id"] for each in rest] == [A, B, C, new]


# --- modes ---------------------------------------------------------------------------------------


@pytest.mark.case("P30")
def test_a_file_others_can_read_is_tightened_at_home_and_reported_elsewhere(tmp_path: Path, setup: Setup) -> None:
    outside = session_file(tmp_path / "s.jsonl", chain(1))
    outside.chmod(0o644)
    session = SessionManager.open(outside, setup=setup)
    assert session.take_notices() == [
        f"{outside}: others on this machine can read this session (mode 0644); chmod 600 it to keep it private"
    ]
    assert outside.stat().st_mode & 0o777 == 0o644
    fork = session.create_branched_session()
    inside = fork.session_file
    assert inside is not None
    fork.close()
    inside.chmod(0o666)
    assert SessionManager.open(inside, setup=setup).take_notices() == []
    assert inside.stat().st_mode & 0o777 == 0o600


@pytest.mark.case("P30")
def test_everything_a_session_makes_is_private_right_after_creation(tmp_path: Path, setup: Setup) -> None:
    before = os.umask(0o022)
    try:
        session = SessionManager.create(tmp_path, setup=setup)
        say(session, "hello")
        session.create_branched_session()
        SessionManager.fork_from(session.session_file, tmp_path, setup=setup)  # type: ignore[arg-type]
    finally:
        os.umask(before)
    modes = {(path.is_dir(), oct(path.stat().st_mode & 0o777)) for path in [setup.home, *setup.home.rglob("*")]}
    assert modes == {(True, "0o700"), (False, "0o600")}
    assert len(list(setup.home.rglob("*.jsonl"))) == 3


@pytest.mark.case("P30")
def test_a_session_directory_elsewhere_keeps_its_mode(tmp_path: Path, setup: Setup) -> None:
    place = tmp_path / "sessions"
    place.mkdir()
    place.chmod(0o755)
    session = SessionManager.create(tmp_path, place, setup=setup)
    say(session, "hello")
    assert session.session_file is not None
    assert session.session_file.parent == place
    assert [oct(path.stat().st_mode & 0o777) for path in (place, session.session_file)] == ["0o755", "0o600"]
    assert [path.name for path in place.iterdir()] == [session.session_file.name]
