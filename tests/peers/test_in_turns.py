"""Pi and coppice go on with one file in turns: each reads what the other wrote."""

import json
from pathlib import Path

import pytest
from tests.peers.pi import Pi, compare, our_answers

from coppice.format.messages import EntryId, UserMessage
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup

pytestmark = pytest.mark.peers


def user(text: str) -> dict[str, object]:
    return {"role": "user", "content": text, "timestamp": 1764000000000}


def texts(session: SessionManager) -> list[object]:
    return [message.content for message in session.build_session_context().messages if isinstance(message, UserMessage)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    session = SessionManager.create(tmp_path, setup=Setup(tmp_path / "home"))
    session.append_model_change("anthropic", "some-model")
    session.append_message(UserMessage("ours 1", 1764000000000))
    session.append_message(UserMessage("ours 2", 1764000000000))
    session.close()
    assert session.session_file is not None
    return session.session_file


def test_what_pi_appends_to_our_file_is_read_and_gone_on_with(pi: Pi, file: Path, tmp_path: Path) -> None:
    before = file.read_bytes()
    results = pi.append(
        file,
        ["appendMessage", user("pi 1\u2028")],
        ["appendThinkingLevelChange", "low"],
        ["appendCustomEntry", "todo", {"n": 1}],
        ["appendLabelChange", "$0", "of pi"],
        ["appendSessionInfo", " named by pi "],
        ["appendCompaction", "pi's summary", "$0", 12],
        ["appendContextEdit", "$0", {"content": "edited by pi"}],
        ["appendCustomMessageEntry", "x", "custom of pi", True],
    )
    assert file.read_bytes().startswith(before)
    compare(pi, file, "--all")
    session = SessionManager.open(file, setup=Setup(tmp_path / "home"))
    assert session.get_leaf_id() == results[-1]
    assert (session.get_session_name(), session.get_label(EntryId(results[0]))) == ("named by pi", "of pi")
    ours = session.append_message(UserMessage("ours 3", 1764000000000))
    assert texts(session) == ["edited by pi", "ours 3"]
    session.close()
    assert json.loads(file.read_bytes().split(b"\n")[-2])["parentId"] == results[-1]
    again = pi.append(file, ["getLeafId"], ["appendMessage", user("pi 2")], ["getLeafId"])
    assert (again[0], again[1]) == (ours, again[2])
    compare(pi, file, "--all")


def test_what_pi_appends_after_a_move_of_ours_hangs_on_the_place_we_moved_to(
    pi: Pi, file: Path, tmp_path: Path
) -> None:
    session = SessionManager.open(file, setup=Setup(tmp_path / "home"))
    target = session.get_branch()[1].id
    session.branch(target)
    session.close()
    pi.append(file, ["appendMessage", user("pi after the move")])
    compare(pi, file, "--all")
    again = SessionManager.open(file, setup=Setup(tmp_path / "home"))
    assert texts(again) == ["ours 1", "pi after the move"]
    copy = again.create_branched_session()
    again.close()
    copy.close()
    assert copy.session_file is not None
    compare(pi, copy.session_file, "--all")


def test_what_pi_appends_while_our_session_is_open_is_taken_in_and_told(pi: Pi, file: Path, tmp_path: Path) -> None:
    session = SessionManager.open(file, setup=Setup(tmp_path / "home"))
    session.take_notices()
    pi.append(file, ["appendMessage", user("pi beside us")])
    session.append_message(UserMessage("ours 3", 1764000000000))
    assert texts(session) == ["ours 1", "ours 2", "ours 3"]
    assert any("another program appended 1 entries" in notice for notice in session.take_notices())
    session.close()
    compare(pi, file, "--all")
    assert len(our_answers(file, "--all")) == 3 + 2 + 2


def test_a_fork_that_pi_makes_of_our_file_is_read(pi: Pi, file: Path, tmp_path: Path) -> None:
    session = SessionManager.open(file, setup=Setup(tmp_path / "home"))
    session.append_label_change(session.get_branch()[1].id, "kept")
    session.append_message(UserMessage("ours 3", 1764000000000))
    session.close()
    (fork,) = pi.append(file, ["createBranchedSession", "$leaf"])
    assert Path(fork) != file
    compare(pi, Path(fork), "--all")
    (ours,), (theirs,) = our_answers(Path(fork)), our_answers(file)
    assert (ours["messages"], ours["labels"]) == (theirs["messages"], theirs["labels"])
