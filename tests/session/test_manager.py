"""A session's history through its manager: birth, appends, moves, names, notices, forks of what is there."""

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from coppice.errors import LeafMoved, ReadOnlySession, SessionHeld, StorageFailure, UnknownEntryId
from coppice.format.entries import CustomEntry, MessageEntry, UnknownEntry
from coppice.format.heads import Kind
from coppice.format.messages import EntryId, TextBlock, ToolCallId, ToolResultMessage, Usage, UserMessage
from coppice.session.manager import CompactionDraft, SessionManager, TreeNode
from coppice.session.writer import Setup
from tests.session.build import chain, marker, objects, session_file, user

A, B, C, D = EntryId("aaaaaaaa"), EntryId("bbbbbbbb"), EntryId("cccccccc"), EntryId("dddddddd")


def say(session: SessionManager, text: str) -> EntryId:
    return session.append_message(UserMessage(text, 1))


def reopened(session: SessionManager) -> SessionManager:
    session.close()
    assert session.session_file is not None
    return SessionManager.open(session.session_file, setup=session.setup)


# --- birth ---------------------------------------------------------------------------------------


def test_a_file_appears_with_the_first_message_and_holds_what_was_set_before(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    model = session.append_model_change("p", "m")
    level = session.append_thinking_level_change("high")
    assert (session.is_stored, list(tmp_path.rglob("*.jsonl"))) == (False, [])
    first = say(session, "hello")
    assert (session.is_stored, list(tmp_path.rglob("*.jsonl"))) == (True, [session.session_file])
    assert session.session_file is not None
    head, *entries = objects(session.session_file)
    assert head == {
        "type": "session",
        "version": 3,
        "id": session.session_id,
        "timestamp": session.get_header().timestamp,
        "cwd": str(tmp_path),
    }
    assert [(each["type"], each["id"], each["parentId"]) for each in entries] == [
        ("model_change", model, None),
        ("thinking_level_change", level, model),
        ("message", first, level),
    ]


@pytest.mark.parametrize(
    "first",
    [
        lambda session: session.append_session_info("name"),
        lambda session: session.append_label_change(session.append_model_change("p", "m"), "label"),
    ],
    ids=["name", "label"],
)
def test_a_name_or_a_label_makes_the_file_too(
    first: Callable[[SessionManager], Any], tmp_path: Path, setup: Setup
) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    first(session)
    assert session.is_stored


def test_a_move_before_the_file_exists_is_kept_too(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    model = session.append_model_change("p", "m")
    session.append_thinking_level_change("high")
    session.branch(model)
    assert not session.is_stored
    session.append_session_info("name")
    again = reopened(session)
    assert (again.thinking_level(), again.model()) == ("off", ("p", "m"))


def test_a_session_in_memory_makes_no_file(tmp_path: Path) -> None:
    session = SessionManager.in_memory(tmp_path)
    one = say(session, "one")
    say(session, "two")
    session.branch(one)
    session.append_label_change(one, "x")
    fork = session.create_branched_session()
    assert [each.id for each in fork.get_branch()][:1] == [one]
    assert (fork.get_label(one), fork.session_file, session.session_file) == ("x", None, None)
    for other in (session.new_session(), session.create_branched_session(None)):
        say(other, "elsewhere")
        assert (other.session_file, len(other.get_branch())) == (None, 1)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_becomes_a_session(tmp_path: Path, setup: Setup) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    session = SessionManager.open(path, setup=setup)
    assert path.read_bytes() == b""
    say(session, "hello")
    again = reopened(session)
    assert [type(each) for each in again.get_branch()] == [MessageEntry]
    assert again.session_id == session.session_id


# --- appending -----------------------------------------------------------------------------------


def test_every_append_stands_after_the_leaf_and_reads_back_as_it_was_made(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    first = say(session, "hello")
    made = [
        session.append_model_change("p", "m"),
        session.append_thinking_level_change("high"),
        session.append_custom_entry("x", {"a": [1]}),
        session.append_custom_message_entry("x", "said", display=True, details={"b": None}),
        session.append_usage("warm", "p", "m", Usage(1, 2)),
        session.append_context_edit(first, "new"),
        session.append_context_edit(first, None),
        session.append_compaction(CompactionDraft("s", first, 3), expect=session.get_leaf_id()),
        session.branch_with_summary(session.get_leaf_id(), "branch"),
    ]
    before = session.get_branch()
    assert [each.id for each in before] == [first, *made]
    assert [each.parent_id for each in before] == [None, first, *made[:-1]]
    assert reopened(session).get_branch() == before


def test_a_compaction_that_keeps_nothing_names_itself(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    first = say(session, "hello")
    made = session.append_compaction(CompactionDraft("s", None, 3), expect=first)
    assert session.session_file is not None
    assert objects(session.session_file)[-1]["firstKeptEntryId"] == made
    session.build_session_context()
    assert session.take_notices() == []


def test_an_append_computed_for_another_leaf_is_refused(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    one = say(session, "one")
    two = say(session, "two")
    assert session.session_file is not None
    before = session.session_file.read_bytes()
    for refused in (
        lambda: session.append_message(UserMessage("x"), expect=one),
        lambda: session.append_message(UserMessage("x"), expect=None),
        lambda: session.append_compaction(CompactionDraft("s", None, 1), expect=one),
        lambda: session.branch(None, expect=one),
        lambda: session.branch_with_summary(one, "s", expect=one),
    ):
        with pytest.raises(LeafMoved):
            refused()
    assert (session.session_file.read_bytes(), session.get_leaf_id()) == (before, two)
    assert session.append_message(UserMessage("x"), expect=two) == session.get_leaf_id()


def test_an_id_that_is_taken_is_refused_before_anything_is_written(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    one = say(session, "one")
    assert session.session_file is not None
    before = session.session_file.read_bytes()
    with pytest.raises(UnknownEntryId, match="is taken"):
        session.append_message(UserMessage("two"), entry_id=one)
    assert session.session_file.read_bytes() == before
    assert session.append_message(UserMessage("two"), entry_id=A) == A


def test_what_a_caller_does_to_its_own_values_later_changes_no_entry(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    details: dict[str, Any] = {"list": [1], "tuple": (1, 2), "nan": float("nan")}
    made = session.append_message(ToolResultMessage(ToolCallId("c"), "t", (TextBlock("x"),), details))
    details["list"].append("changed")
    before = session.get_entry(made)
    assert before == reopened(session).get_entry(made)
    assert before is not None
    assert json.loads(json.dumps({"d": before.message.details})) == {  # type: ignore[union-attr]
        "d": {"list": [1], "tuple": [1, 2], "nan": None}
    }


def test_unknown_ids_are_refused_by_name(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    say(session, "one")
    for refused in (
        lambda: session.branch(A),
        lambda: session.branch_with_summary(A, "s"),
        lambda: session.append_label_change(A, "x"),
        lambda: session.append_context_edit(A, None),
        lambda: session.create_branched_session(A),
        lambda: session.get_branch(A),
        lambda: session.get_children(A),
    ):
        with pytest.raises(UnknownEntryId, match="no entry 'aaaaaaaa' in this session"):
            refused()
    assert session.get_entry(A) is None


# --- reading -------------------------------------------------------------------------------------


def test_a_tree_has_every_entry_but_the_markers_and_loses_nothing_below_one(tmp_path: Path, setup: Setup) -> None:
    lines = [user(A, None), user(B, A), marker("m1", A, B), user(C, "m1"), marker("m2", "m1"), user(D, "m2")]
    session = SessionManager.open(session_file(tmp_path / "s.jsonl", lines), setup=setup)
    leaves = [TreeNode(each, Kind.USER, None, []) for each in (B, C, D)]
    assert session.get_tree() == [TreeNode(A, Kind.USER, None, leaves)]
    assert [each.id for each in session.get_branch()] == [A, "m1", "m2", D]


def test_children_are_entries_in_file_order(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.open(
        session_file(tmp_path / "s.jsonl", [user(A, None), user(B, A), user(C, A), user(D, None)]), setup=setup
    )
    assert [each.id for each in session.get_children(A)] == [B, C]
    assert [each.id for each in session.get_children(None)] == [A, D]


def test_path_after_gives_what_follows_an_entry_of_the_path(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.open(
        session_file(tmp_path / "s.jsonl", [user(A, None), user(B, A), user(C, A)]), setup=setup
    )
    assert [each.id for each in session.path_after(A)] == [C]
    assert [each.id for each in session.path_after(B)] == [each.id for each in session.path_after(None)] == [A, C]


def test_invalid_utf_8_is_told_of_with_file_and_line_when_it_is_read(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", [user(A, None, "caf?")])
    path.write_bytes(path.read_bytes().replace(b"caf?", b"caf\xe9"))
    session = SessionManager.open(path, setup=setup)
    assert session.build_session_context().messages == [UserMessage("caf\ufffd", 1)]
    assert session.take_notices() == [f"{path}:2: invalid UTF-8 in 'aaaaaaaa' reads as U+FFFD"]
    session.build_session_context()
    assert session.take_notices() == []


def test_crlf_and_a_bom_are_accepted_and_stay(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(4))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    before = path.read_bytes()
    session = SessionManager.open(path, setup=setup)
    assert (len(session.get_branch()), session.take_notices()) == (4, [])
    say(session, "five")
    assert path.read_bytes().startswith(before)
    again = reopened(session)
    assert [each.id for each in again.get_branch()][:4] == [each["id"] for each in chain(4)]
    assert len(again.create_branched_session().get_branch()) == 5


def test_separators_inside_strings_end_no_line(tmp_path: Path, setup: Setup) -> None:
    text = "a\u2028b\u2029c\x85d\re\r\nf\x0bg\x1ch\ni"
    session = SessionManager.create(tmp_path, setup=setup)
    say(session, text)
    again = reopened(session)
    assert again.build_session_context().messages == [UserMessage(text, 1)]
    raw = session_file(tmp_path / "raw.jsonl", [user(A, None, text)])
    assert SessionManager.open(raw, setup=setup).build_session_context().messages == [UserMessage(text, 1)]


@pytest.mark.parametrize("depth", [400, 990, 1010, 100_000])
def test_a_deeply_nested_line_never_keeps_a_session_from_opening(depth: int, tmp_path: Path, setup: Setup) -> None:
    deep = b"[" * depth + b"]" * depth
    odd = (
        b'{"type":"custom","id":"bbbbbbbb","parentId":"aaaaaaaa","timestamp":"t","customType":"x","data":' + deep + b"}"
    )
    lines = [user(A, None), odd, user(C, B)]
    session = SessionManager.open(session_file(tmp_path / "s.jsonl", lines), setup=setup)
    assert [each.id for each in session.get_branch()] == [A, B, C]
    assert len(session.build_session_context().messages) == 2
    assert odd in session.create_branched_session().session_file.read_bytes()  # type: ignore[union-attr]


def test_unknown_kinds_and_fields_survive_fork_and_clone_byte_for_byte(tmp_path: Path, setup: Setup) -> None:
    odd = b'{"x":{"deep" : [1e400,-0.0, 123456789012345678901234567890]},"type":"future","timestamp":"t","id":"bbbbbbbb","parentId":"aaaaaaaa"}'
    path = session_file(tmp_path / "s.jsonl", [user(A, None), odd, user(C, B)])
    session = SessionManager.open(path, setup=setup)
    copy = session.create_branched_session()
    assert copy.session_file is not None
    assert copy.session_file.read_bytes().split(b"\n")[1:] == path.read_bytes().split(b"\n")[1:]
    assert isinstance(copy.get_entry(B), UnknownEntry)


# --- moving --------------------------------------------------------------------------------------


@pytest.mark.case("P11")
def test_a_move_is_durable_and_the_next_prompt_hangs_on_its_target(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    _, a1, _, a2 = (say(session, text) for text in ("u1", "a1", "u2", "a2"))
    session.branch(a1)
    assert session.session_file is not None
    last = objects(session.session_file)[-1]
    assert (last["customType"], last["parentId"], last["data"]) == ("coppice.leaf", a1, {"from": a2})
    before = session.session_file.read_bytes()
    for _ in range(2):
        session = reopened(session)
        assert (session.get_leaf_id(), session.take_notices()) == (a1, [])
    assert session.session_file is not None
    assert session.session_file.read_bytes() == before
    prompt = session.get_entry(say(session, "u3"))
    assert prompt is not None
    assert prompt.parent_id == a1


@pytest.mark.case("P11")
def test_opening_and_quitting_without_a_move_leaves_the_bytes_and_the_time(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", [*chain(4), user("x", "e0000001")])
    before, status = path.read_bytes(), path.stat()
    session = SessionManager.open(path, setup=setup)
    session.branch(session.get_leaf_id())
    session.build_session_context()
    session.close()
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (before, status.st_mtime_ns)


def test_a_move_before_the_first_message_is_durable_too(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    say(session, "one")
    session.reset_leaf()
    again = reopened(session)
    assert (again.get_leaf_id(), again.build_session_context().messages) == (None, [])
    two = again.get_entry(say(again, "two"))
    assert two is not None
    assert two.parent_id is None
    assert [each.id for each in again.get_branch()] == [two.id]


def test_a_branch_with_summary_is_its_own_move(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    one, two = say(session, "one"), say(session, "two")
    made = session.branch_with_summary(one, "what was tried", details={"d": 1})
    assert session.session_file is not None
    last = objects(session.session_file)[-1]
    assert (last["type"], last["parentId"], last["fromId"]) == ("branch_summary", one, two)
    assert reopened(session).get_leaf_id() == made


def test_a_move_in_a_session_opened_to_read_along_is_a_view(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(4))
    before = path.read_bytes()
    session = SessionManager.open(path, mode="read", setup=setup)
    session.branch(EntryId("e0000001"))
    assert [each.id for each in session.get_branch()] == ["e0000001"]
    for refused in (
        lambda: say(session, "x"),
        lambda: session.append_session_info("x"),
        lambda: session.branch_with_summary(None, "s"),
    ):
        with pytest.raises(ReadOnlySession):
            refused()
    assert (path.read_bytes(), list(setup.home.rglob("*"))) == (before, [])


# --- names and labels ----------------------------------------------------------------------------


def test_names_and_labels_are_the_whole_files_and_do_not_move_the_leaf(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    one, two = say(session, "one"), say(session, "two")
    session.append_label_change(one, " first ")
    session.append_session_info("  a name ")
    assert session.get_leaf_id() == two
    session.branch(one)
    session.append_label_change(two, "second")
    assert session.get_leaf_id() == one
    again = reopened(session)
    assert (again.get_session_name(), again.get_label(one), again.get_label(two)) == ("a name", "first", "second")
    assert again.get_branch()[0].id == one
    assert len(again.build_session_context().messages) == 1
    again.append_label_change(two, "")
    again.append_session_info(" ")
    last = reopened(again)
    assert (last.get_session_name(), last.get_label(two), last.take_notices()) == (None, None, [])


# --- two programs --------------------------------------------------------------------------------


@pytest.mark.case("P05")
def test_a_second_writer_is_refused_and_told_the_ways_on(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(2))
    first = SessionManager.open(path, setup=setup)
    with pytest.raises(SessionHeld, match=r"held by process \d+ .*--fork.*--read-only.*--shared"):
        SessionManager.open(path, setup=setup)
    SessionManager.open(path, mode="read", setup=setup).close()
    first.close()
    SessionManager.open(path, setup=setup).close()


@pytest.mark.case("P05")
def test_two_that_share_lose_nothing_and_both_are_told(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(2))
    first = SessionManager.open(path, setup=setup)
    second = SessionManager.open(path, mode="shared", setup=setup)
    a1 = say(first, "A1")
    b1 = say(second, "B1")
    a2 = say(first, "A2")
    told = f"{path}: another program appended 1 entries to this session; both lines of work are in /tree"
    assert (first.take_notices(), second.take_notices()) == ([told], [told])
    assert (first.get_leaf_id(), second.get_leaf_id()) == (a2, b1)
    assert [each.id for each in second.get_branch()][-1] == b1
    second.close()
    again = reopened(first)
    assert [each.id for each in again.get_branch()] == ["e0000001", "e0000002", a1, a2]
    assert [each.id for each in again.get_children(EntryId("e0000002"))] == [a1, b1]
    assert again.take_notices() == [
        f"{path}:6: this session was written by two programs at once: the other line of work ends at {b1}; "
        "both are branches in /tree"
    ]


def test_a_rename_from_an_older_window_hides_nothing(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(2))
    old = SessionManager.open(path, mode="shared", setup=setup)
    new = SessionManager.open(path, setup=setup)
    one = say(new, "one")
    old.append_session_info("renamed")
    assert old.get_leaf_id() == "e0000002"
    old.close()
    again = reopened(new)
    assert (again.get_session_name(), again.take_notices()) == ("renamed", [])
    assert one in [each.id for each in again.get_branch()]
    assert len(again.build_session_context().messages) == 3


# --- files that vanish ---------------------------------------------------------------------------


@pytest.mark.case("P02")
def test_a_session_deleted_while_open_is_complete_after_the_next_append(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    for text in ("one", "two"):
        say(session, text)
    path = session.session_file
    assert path is not None
    path.unlink()
    say(session, "three")
    assert session.take_notices() == [f"{path}: the file had been deleted while in use; it was written anew, complete"]
    with pytest.raises(SessionHeld):
        SessionManager.open(path, setup=setup)
    assert len(reopened(session).build_session_context().messages) == 3


@pytest.mark.case("P02")
def test_a_file_that_took_our_place_stays_and_the_session_can_still_be_cloned(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.create(tmp_path, setup=setup)
    one = say(session, "one")
    path = session.session_file
    assert path is not None
    path.unlink()
    path.write_bytes(b"not ours")
    with pytest.raises(StorageFailure, match=r"another file took its place\. Clone the session to keep it\."):
        say(session, "two")
    assert (path.read_bytes(), session.get_leaf_id()) == (b"not ours", one)
    clone = session.create_branched_session()
    assert len(clone.build_session_context().messages) == 1


def test_a_file_that_something_shortened_is_an_error_and_not_a_hang(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(4))
    session = SessionManager.open(path, setup=setup)
    path.write_bytes(path.read_bytes()[:-20])
    before = path.read_bytes()
    with pytest.raises(StorageFailure, match="something else shortened it"):
        say(session, "x")
    assert (path.read_bytes(), session.get_leaf_id()) == (before, "e0000004")


def test_markers_are_not_shown_as_state_of_an_extension(tmp_path: Path, setup: Setup) -> None:
    session = SessionManager.open(session_file(tmp_path / "s.jsonl", [user(A, None), marker(B, A)]), setup=setup)
    assert isinstance(session.get_entry(B), CustomEntry)
    assert session.index.kinds[1] == Kind.LEAF


def test_a_session_open_to_read_along_follows_what_its_writer_appends(tmp_path: Path) -> None:
    setup = Setup(home=tmp_path / "home")
    with closing(SessionManager.create(tmp_path, setup=setup)) as writer:
        first = writer.append_message(UserMessage("one"))
        assert writer.session_file is not None
        with closing(SessionManager.open(writer.session_file, mode="read", setup=setup)) as along:
            second = writer.append_message(UserMessage("two"))
            assert (along.refresh(), along.get_leaf_id()) == (1, second)
            along.branch(first)
            writer.append_message(UserMessage("three"))
            assert (along.refresh(), along.get_leaf_id()) == (1, first)


def test_a_label_or_name_computed_for_another_leaf_is_refused(tmp_path: Path) -> None:
    with closing(SessionManager.create(tmp_path, setup=Setup(home=tmp_path / "home"))) as session:
        first = session.append_message(UserMessage("one"))
        session.append_message(UserMessage("two"))
        with pytest.raises(LeafMoved):
            session.append_label_change(first, "late", expect=first)
        with pytest.raises(LeafMoved):
            session.append_session_info("late", expect=first)
        assert (session.get_label(first), session.get_session_name()) == (None, None)


def test_a_session_whose_lock_cannot_be_taken_is_stored_and_says_so(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "locks").write_text("in the way")
    with closing(SessionManager.create(tmp_path, tmp_path / "sessions", setup=Setup(home=home))) as session:
        stored = [session.append_message(UserMessage(text)) for text in ("one", "two")]
        assert session.session_file is not None
        assert [line["id"] for line in objects(session.session_file)[1:]] == stored
        assert [notice for notice in session.take_notices() if "lock could not be taken" in notice] != []
