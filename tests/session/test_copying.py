"""Fork, clone and where the next prompt goes: copies of bytes in which every parent is there."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from coppice.errors import NotASession, SessionNotFound
from coppice.format.messages import EntryId, UserMessage
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tree.pairing import Reader
from tests.session.build import (
    Fields,
    assistant,
    chain,
    compaction,
    entry,
    header,
    label,
    line,
    marker,
    objects,
    session_file,
    user,
)

READER = Reader("p", "a", "m")


def say(session: SessionManager, text: str) -> EntryId:
    return session.append_message(UserMessage(text, 1))


def opened(tmp_path: Path, setup: Setup, lines: list[Fields]) -> SessionManager:
    return SessionManager.open(session_file(tmp_path / "s.jsonl", lines), setup=setup)


def copied(session: SessionManager, leaf: str | None = None) -> list[Fields]:
    """The lines of a fork, without its header."""
    fork = session.create_branched_session(session.get_leaf_id() if leaf is None else EntryId(leaf))
    fork.close()
    assert fork.session_file is not None
    return objects(fork.session_file)[1:]


def assert_whole(lines: list[Fields]) -> None:
    """Every parent stands earlier in the file."""
    seen: set[str | None] = {None}
    for each in lines:
        assert each["parentId"] in seen, each
        seen.add(each["id"])


CHAIN_WITH_LABELS = [
    user("e1", None),
    label("l1", "e1", "e1", "one"),
    assistant("e2", "l1"),
    label("l2", "e2", "e2", "two"),
    user("e3", "l2"),
    assistant("e4", "e3"),
    label("l3", "e4", "e1", "one again"),
    label("l4", "l3", "gone", "nowhere"),
    entry("session_info", "n1", "l4", name="the name"),
    user("other", "e1"),
    label("l5", "other", "other", "other"),
]


@pytest.mark.case("P13")
@pytest.mark.parametrize("leaf", ["e4", "l4", "n1"])
def test_a_fork_through_labels_reaches_the_root_and_keeps_the_labels_of_what_it_has(
    leaf: str, tmp_path: Path, setup: Setup
) -> None:
    session = opened(tmp_path, setup, CHAIN_WITH_LABELS)
    before = (tmp_path / "s.jsonl").read_bytes()
    lines = copied(session, leaf)
    assert_whole(lines)
    assert (tmp_path / "s.jsonl").read_bytes() == before
    assert [each["id"] for each in lines[:4]] == ["e1", "e2", "e3", "e4"]
    assert [each["parentId"] for each in lines[:4]] == [None, "e1", "e2", "e3"]
    labels = [(each["targetId"], each["label"]) for each in lines if each["type"] == "label"]
    assert labels == [("e2", "two"), ("e1", "one again")]
    assert [each["name"] for each in lines if each["type"] == "session_info"] == ["the name"]


@pytest.mark.case("P13")
def test_in_a_copied_line_nothing_but_the_parent_differs(tmp_path: Path, setup: Setup) -> None:
    session = opened(tmp_path, setup, CHAIN_WITH_LABELS)
    fork = session.create_branched_session(EntryId("e4"))
    assert fork.session_file is not None
    lines = fork.session_file.read_bytes().split(b"\n")[1:5]
    assert lines == [
        line(user("e1", None)),
        line(assistant("e2", "e1")),
        line(user("e3", "e2")),
        line(assistant("e4", "e3")),
    ]


def test_markers_are_left_out_and_what_pi_hung_on_one_hangs_on_its_target(tmp_path: Path, setup: Setup) -> None:
    session = opened(tmp_path, setup, [user("e1", None), user("e2", "e1"), marker("m", "e1", "e2"), user("e3", "m")])
    assert [(each["id"], each["parentId"]) for each in copied(session)] == [("e1", None), ("e3", "e1")]


@pytest.mark.case("P14")
@pytest.mark.parametrize("first_kept", ["l1", "m1", "e3", "l2", "c1", "nowhere"])
def test_a_fork_of_a_compacted_session_sends_the_same(first_kept: str, tmp_path: Path, setup: Setup) -> None:
    lines = [
        user("e1", None),
        label("l1", "e1", "e1", "one"),
        marker("m1", "l1"),
        assistant("e2", "m1"),
        user("e3", "e2"),
        label("l2", "e3", "e1", "two"),
        compaction("c1", "l2", first_kept),
        user("e4", "c1"),
        compaction("c2", "e4", "e3") if first_kept == "e3" else user("e5", "e4"),
    ]
    session = opened(tmp_path, setup, lines)
    fork = session.create_branched_session()
    assert fork.build_session_context() == session.build_session_context()
    assert fork.request_messages(READER) == session.request_messages(READER)
    before = session.create_branched_session(EntryId("e3"))
    assert len(before.build_session_context().messages) == 3
    expected = {"l1": "e2", "m1": "e2", "l2": "c1"}.get(first_kept, first_kept)
    [stored] = [each for each in copied(session) if each["id"] == "c1"]
    assert stored["firstKeptEntryId"] == expected


def test_where_a_summarised_branch_was_left_is_kept_only_if_it_is_copied(tmp_path: Path, setup: Setup) -> None:
    def summary(entry_id: str, parent: str | None, origin: str) -> Fields:
        return entry("branch_summary", entry_id, parent, fromId=origin, summary="s")

    lines = [summary("b0", None, "gone"), user("e1", "b0"), user("e2", "e1"), summary("b1", "e1", "e2")]
    lines += [summary("b2", "b1", "e1"), summary("b3", "b2", "root"), user("e3", "b3")]
    found = {each["id"]: each.get("fromId") for each in copied(opened(tmp_path, setup, lines))}
    assert found == {"b0": "root", "e1": None, "b1": "e1", "b2": "e1", "b3": "root", "e3": None}


def test_an_orphan_is_copied_under_the_entry_it_was_tied_to(tmp_path: Path, setup: Setup) -> None:
    session = opened(tmp_path, setup, [user("e1", None), user("e3", "e2"), user("e4", "e3")])
    assert [(each["id"], each["parentId"]) for each in copied(session)] == [("e1", None), ("e3", "e1"), ("e4", "e3")]


def test_a_copy_of_a_file_without_a_last_newline_is_whole(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(3))
    path.write_bytes(path.read_bytes()[:-1])
    session = SessionManager.open(path, setup=setup)
    fork = session.create_branched_session()
    say(fork, "x")
    assert len(fork.build_session_context().messages) == 4
    assert fork.session_file is not None
    assert fork.session_file.read_bytes().split(b"\n")[1:4] == [line(each) for each in chain(3)]


def test_a_name_that_was_cleared_does_not_come_back(tmp_path: Path, setup: Setup) -> None:
    lines = [user("e1", None), entry("session_info", "n1", "e1", name="old"), user("e2", "n1")]
    cleared = opened(tmp_path, setup, [*lines, entry("session_info", "n2", "e1", name="")])
    fork = cleared.create_branched_session(EntryId("e2"))
    assert (cleared.get_session_name(), fork.get_session_name()) == (None, None)


# --- P15 -----------------------------------------------------------------------------------------


@pytest.mark.case("P15")
@pytest.mark.parametrize("leaf", ["e0000001", "e0000005", None], ids=["first", "third", "before any reply"])
def test_after_a_fork_a_prompt_lands_in_the_child_only(leaf: str | None, tmp_path: Path, setup: Setup) -> None:
    lines = chain(6) if leaf is not None else chain(1)
    path = session_file(tmp_path / "s.jsonl", lines)
    session = SessionManager.open(path, setup=setup)
    before = path.read_bytes()
    child = session.create_branched_session(EntryId(leaf or "e0000001"))
    new = say(child, "to the child")
    assert child.session_file is not None
    head, *rest = objects(child.session_file)
    assert [each["type"] for each in [head, *rest]].count("session") == 1
    assert (head["parentSession"], head["id"] != session.session_id) == (str(path), True)
    assert (rest[-1]["id"], rest[-1]["parentId"]) == (new, leaf or "e0000001")
    assert (path.read_bytes(), session.get_leaf_id()) == (before, lines[-1]["id"])


@pytest.mark.case("P15")
def test_a_fork_before_the_first_message_is_an_empty_child_that_names_its_parent(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(2))
    session = SessionManager.open(path, setup=setup)
    child = session.create_branched_session(None)
    assert not child.is_stored
    say(child, "first")
    head, only = objects(child.session_file)  # type: ignore[arg-type]
    assert (head["parentSession"], only["parentId"]) == (str(path), None)


def test_a_fork_of_nothing_but_a_label_makes_no_file_before_its_first_message(tmp_path: Path, setup: Setup) -> None:
    session = opened(tmp_path, setup, [user("e1", None), marker("m", None), label("l1", None, "e1", "x")])
    child = session.create_branched_session()
    assert (session.get_leaf_id(), child.get_leaf_id(), child.is_stored) == ("l1", None, False)


@pytest.mark.case("P15")
def test_a_fork_of_what_is_not_there_makes_no_file(tmp_path: Path, setup: Setup) -> None:
    (tmp_path / "text").write_text("no session")
    with pytest.raises(SessionNotFound):
        SessionManager.fork_from(tmp_path / "nowhere", tmp_path, setup=setup)
    with pytest.raises(NotASession):
        SessionManager.fork_from(tmp_path / "text", tmp_path, setup=setup)
    assert list(setup.home.rglob("*.jsonl")) == []


@pytest.mark.case("P15")
def test_a_fork_of_another_file_goes_where_the_sessions_of_the_new_directory_lie(tmp_path: Path, setup: Setup) -> None:
    path = session_file(tmp_path / "s.jsonl", chain(2))
    child = SessionManager.fork_from(path, tmp_path, setup=setup)
    assert child.session_file is not None
    assert (child.cwd, child.session_file.parent) == (str(tmp_path), setup.directory(tmp_path))
    assert child.get_header().parent_session == str(path)
    SessionManager.open(path, setup=setup).close()


READ_ONLY = """
import os, sys
from pathlib import Path
from coppice.errors import StorageFailure
from coppice.format.messages import UserMessage
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
place = Path(sys.argv[1])
os.umask(0o077)
if os.getuid() == 0:  # root may write anywhere
    os.chown(place, 65534, 65534)
    os.setgid(65534)
    os.setuid(65534)
session = SessionManager.create(place, setup=Setup(home=place / "home"))
session.append_message(UserMessage("one"))
path, before = session.session_file, session.session_file.read_bytes()
path.parent.chmod(0o500)
for _ in range(2):
    try:
        session.create_branched_session()
    except StorageFailure as error:
        print("refused:", str(error).split(": ", 1)[1])
assert (path.read_bytes(), os.listdir(path.parent)) == (before, [path.name])
session.append_message(UserMessage("two"))
print(len(session.get_branch()))
path.parent.chmod(0o700)
"""


@pytest.mark.case("P15")
def test_where_no_file_can_be_made_the_old_session_stays_active_and_unchanged() -> None:
    with tempfile.TemporaryDirectory() as place:  # pytest's own directories let nobody else through
        ran = subprocess.run([sys.executable, "-c", READ_ONLY, place], capture_output=True, text=True)
    assert (ran.stderr, ran.stdout) == ("", "refused: cannot be written: Permission denied\n" * 2 + "2\n")


@pytest.mark.case("P08")
@pytest.mark.slow
def test_a_deep_session_with_many_branches_opens_answers_and_forks(tmp_path: Path, setup: Setup) -> None:
    lines = chain(5000)
    for branch in range(50):
        parent: str = lines[branch * 97 + 1]["id"]
        for step in range(10):
            lines.append(user(f"b{branch:03d}{step:04d}", parent))
            parent = lines[-1]["id"]
    lines.append(marker("m", "e0005000"))
    session = opened(tmp_path, setup, lines)
    assert sys.getrecursionlimit() == 1000
    assert len(session.build_session_context().messages) == 5000
    assert [str(each.id) for each in session.get_children(EntryId("e0000002"))] == ["e0000003", "b0000000"]
    [root] = session.get_tree()
    assert root.id == "e0000001"
    fork = session.create_branched_session()
    assert fork.request_messages(READER) == session.request_messages(READER)


def test_the_copy_is_synced_and_named_by_time_and_id(tmp_path: Path, setup: Setup) -> None:
    fork = opened(tmp_path, setup, chain(2)).create_branched_session()
    assert fork.session_file is not None
    stamp = fork.get_header().timestamp.replace(":", "-").replace(".", "-")
    assert fork.session_file.name == f"{stamp}_{fork.session_id}.jsonl"
    assert json.loads(fork.session_file.read_bytes().split(b"\n")[0])["cwd"] == header()["cwd"]
    assert os.listdir(fork.session_file.parent) == [fork.session_file.name]


def test_what_a_killed_fork_left_is_swept_after_a_day(tmp_path: Path) -> None:
    setup = Setup(home=tmp_path / "home")
    session = SessionManager.create(tmp_path, setup=setup)
    session.append_message(UserMessage("one"))
    assert session.session_file is not None
    old, fresh = (session.session_file.with_name(f".{name}.tmp") for name in ("old", "fresh"))
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    session.create_branched_session().close()
    assert (old.exists(), fresh.exists()) == (False, True)
    session.close()
