"""`/compact`, its preview and undo, and `/tree N --summary`: as one-off commands and in the conversation."""

import json
import signal
from pathlib import Path

import pytest
from tests.conftest import NeedsProgram
from tests.interfaces.cli.chatting import Chat, JsonObject, bash, entries_of, said_in, text, wait_for
from tests.interfaces.cli.command import Coppice
from tests.interfaces.cli.terminal import terminal

LONG = "All about the first thing. " * 60
"""A reply of some 400 tokens, so that there is something to condense."""

STALL: JsonObject = {"stall": True}


IN_TWO_PARTS = [text("THE FIRST HALF"), text("THE SUMMARY")]
"""In a window of 2,000 tokens the history below does not fit one summary request."""


def talked(coppice: Coppice, turns: int = 3) -> Chat:
    """A session of some turns with long replies. It keeps little, so that a short session has something to condense."""
    chat = Chat(coppice)
    coppice.home.mkdir(mode=0o700, exist_ok=True)
    (coppice.home / "settings.json").write_text(json.dumps({"compaction": {"keepRecentTokens": 100}}))
    model = chat.script(text(LONG), recorded=False)
    for number in range(turns):
        chat.say(*(["-c"] if number else []), "-p", "--model", model, f"question {number}")
    return chat


def compactions(path: Path) -> list[JsonObject]:
    """The compaction entries of a session file."""
    return [entry for entry in entries_of(path) if entry["type"] == "compaction"]


def test_compact_stores_a_summary_and_says_how_to_take_it_back(coppice: Coppice) -> None:
    chat = talked(coppice)
    done = chat.say("-c", "-p", "--model", chat.script(text("THE SUMMARY")), "/compact keep the names")
    (file,) = chat.sessions()
    (entry,) = compactions(file)
    assert done.code == 0
    assert done.out.startswith("compacted by summary: about ")
    assert done.out.endswith(f" after, entry {entry['id']}; /compact undo takes it back\n")
    assert done.err.splitlines()[0].startswith("condensing the context (summary, about ")
    assert done.err.splitlines()[1].endswith(f"entry {entry['id']}")
    assert str(entry["summary"]).startswith("THE SUMMARY")
    (asked,) = chat.sent()
    assert "keep the names" in json.dumps(asked)


def test_the_next_prompt_is_answered_from_the_summary_and_after_undo_from_all_that_was_said(coppice: Coppice) -> None:
    chat = talked(coppice)
    chat.say("-c", "-p", "--model", chat.script(text("THE SUMMARY"), recorded=False), "/compact")
    chat.say("-c", "-p", "--model", chat.script(text("from the summary")), "next")
    after = json.dumps(chat.sent()[0])
    assert ("THE SUMMARY" in after, "question 0" in after, "question 2" in after) == (True, False, True)
    (entry,) = compactions(chat.sessions()[0])
    undone = chat.say("-c", "-p", "/compact undo")
    assert undone.out.splitlines()[1] == f"undone; /tree {entry['id']} takes the compaction up again"
    chat.say("-c", "-p", "--model", chat.script(text("from all of it")), "again")
    again = json.dumps(chat.sent()[1])
    assert ("THE SUMMARY" in again, "question 0" in again, "next" in again) == (False, True, False)
    chat.say("-c", "-p", f"/tree {entry['id']}")
    chat.say("-c", "-p", "--model", chat.script(text("from the summary again")), "and now")
    assert "THE SUMMARY" in json.dumps(chat.sent()[2])


def test_the_strategy_is_chosen_for_one_time(coppice: Coppice) -> None:
    chat = talked(coppice)
    done = chat.say("-c", "-p", "--model", chat.script(text("HAND-OVER")), "/compact --strategy codex-inline be brief")
    (entry,) = compactions(chat.sessions()[0])
    details = entry["details"]
    assert isinstance(details, dict)
    assert (details["strategy"], entry["firstKeptEntryId"]) == ("codex-inline", entry["id"])
    assert done.out.startswith("compacted by codex-inline: ")
    assert "be brief" in json.dumps(chat.sent()[-1][-1])


def test_a_preview_asks_no_model_and_stores_nothing(coppice: Coppice) -> None:
    chat = talked(coppice)
    (file,) = chat.sessions()
    before = file.read_bytes()
    done = chat.say("-c", "-p", "--model", chat.script(), "/compact --preview")
    first, second = done.out.splitlines()
    assert (done.code, first.split(", from ")[0]) == (0, "summary would condense 5 messages; 1 stays")
    assert second.endswith(" after; nothing was done")
    assert (file.read_bytes(), chat.record.exists()) == (before, False)


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("/compact --strategy magic", "--strategy takes one of summary, codex-inline, "),
        ("/compact --soon", "/compact takes --strategy NAME, --preview and instructions, not '--soon'"),
        ("/compact undo", "there is no compaction on the way from the beginning to here"),
        ("/tree 1 --sumary", "/tree takes an entry and --summary, not '--sumary'"),
        ("/compact --strategy codex-remote", "its provider offers no compaction of its own"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line_and_stores_nothing(
    coppice: Coppice, words: str, refusal: str
) -> None:
    chat = talked(coppice, turns=1)
    before = chat.sessions()[0].read_bytes()
    done = chat.say("-c", "-p", "--model", chat.script(), words)
    assert (done.code != 0, done.out) == (True, "")
    assert refusal in done.err.splitlines()[-1]
    assert chat.sessions()[0].read_bytes() == before


def test_an_empty_summary_is_refused_and_changes_nothing(coppice: Coppice) -> None:
    chat = talked(coppice)
    before = chat.sessions()[0].read_bytes()
    done = chat.say("-c", "-p", "--model", chat.script(text("")), "/compact")
    assert (done.code, done.out) == (1, "")
    assert done.err.splitlines()[-1] == "coppice: the summary came back empty; nothing was compacted"
    assert chat.sessions()[0].read_bytes() == before


def test_a_summary_request_that_is_tried_again_says_so(coppice: Coppice) -> None:
    chat = talked(coppice)
    busy: JsonObject = {"fail": {"message": "overloaded", "status": 529}}
    done = chat.say("-c", "-p", "--model", chat.script(busy, text("THE SUMMARY")), "/compact")
    assert (done.code, len(compactions(chat.sessions()[0]))) == (0, 1)
    assert "overloaded; asking for the summary again in 0.2 s" in done.err


def test_an_automatic_compaction_is_told_on_standard_error_and_the_answer_follows(coppice: Coppice) -> None:
    chat = talked(coppice)
    path = coppice.home.parent / "small.json"
    script = {"replies": [*IN_TWO_PARTS, text("The answer.")], "model": {"contextWindow": 2000}}
    path.write_text(json.dumps(script))
    done = chat.say("-c", "-p", "--model", f"scripted/{path}", "and now?")
    (entry,) = compactions(chat.sessions()[0])
    assert (done.code, done.out) == (0, "The answer.\n")
    assert "tokens): it is nearly full …\n" in done.err
    assert f"entry {entry['id']}\n" in done.err
    assert [role for role, _ in said_in(chat.sessions()[0])][-2:] == ["user", "assistant"]


def test_going_elsewhere_with_a_summary_of_what_is_left(coppice: Coppice) -> None:
    chat = talked(coppice)
    done = chat.say("-c", "-p", "--model", chat.script(text("TRIED TWO")), "/tree 2 --summary only the names")
    entry = entries_of(chat.sessions()[0])[-1]
    assert (entry["type"], str(entry["summary"]).startswith("TRIED TWO")) == ("branch_summary", True)
    assert (done.code, str(entry["id"]) in done.out) == (0, True)
    assert done.err.startswith("summarising the branch that is left …\nsummarised, entry ")
    assert "only the names" in json.dumps(chat.sent()[0])


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_stops_a_one_off_compaction_and_nothing_changes(
    coppice: Coppice, number: signal.Signals, code: int
) -> None:
    chat = talked(coppice)
    before = chat.sessions()[0].read_bytes()
    process = chat.start("-c", "-p", "--model", chat.script(STALL), "/compact")
    wait_for(chat.record)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (code, b"")
    assert "(aborted; the context is as it was)" in err.decode()
    assert chat.sessions()[0].read_bytes() == before


# --- in the conversation -----------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_aborts_a_compaction_and_what_was_typed_meanwhile_comes_back(
    coppice: Coppice, needs_program: NeedsProgram
) -> None:
    chat = talked(coppice)
    model = chat.script(STALL, text("THE SUMMARY"), text("The answer."))
    with terminal(needs_program("tmux"), coppice, "-c", "--model", model) as shown:
        shown.wait("]>")
        shown.type("/compact", "Enter")
        shown.wait("condensing the context (summary, about ")
        shown.type("for later", "Enter")
        shown.wait("(next: for later)")
        shown.type("", "C-c")
        shown.wait("(aborted; the context is as it was)")
        shown.wait("]> for later")
        shown.type("", "C-u")
        shown.type("/compact", "Enter")
        shown.wait("/compact undo takes it back")
        shown.type("next", "Enter")
        shown.wait("The answer.")
        shown.type("/compact undo", "Enter")
        shown.wait("takes the compaction up again")
        shown.type("/quit", "Enter")
        shown.wait("exit code 0")
    assert [content for role, content in said_in(chat.sessions()[0]) if role == "user"][-1] == "next"


@pytest.mark.slow
def test_compact_typed_during_a_run_stops_it_first_and_ends_before_the_prompt_is_back(
    coppice: Coppice, needs_program: NeedsProgram
) -> None:
    chat = talked(coppice)
    model = chat.script(bash("touch started; sleep 60"), text("THE SUMMARY"))
    with terminal(needs_program("tmux"), coppice, "-c", "--model", model, "begin") as shown:
        wait_for(coppice.cwd / "started")
        shown.type("/compact", "Enter")
        shown.wait("/compact undo takes it back")
        shown.wait("]> ")
        shown.type("/quit", "Enter")
        shown.wait("exit code 0")
    kinds = [entry["type"] for entry in entries_of(chat.sessions()[0])]
    assert kinds[-1] == "compaction"
    assert [role for role, _ in said_in(chat.sessions()[0])][-3:] == ["user", "assistant", "toolResult"]


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "is stopped"])
def test_a_prompt_whose_compaction_comes_to_nothing_is_offered_at_once_and_answered_when_sent(
    coppice: Coppice, needs_program: NeedsProgram, how: str
) -> None:
    chat = talked(coppice)
    path = coppice.home.parent / "small.json"
    replies = [text("") if how == "fails" else STALL, *IN_TWO_PARTS, text("The answer.")]
    path.write_text(json.dumps({"replies": replies, "model": {"contextWindow": 2000}}))
    with terminal(needs_program("tmux"), coppice, "-c", "--model", f"scripted/{path}") as shown:
        shown.wait("]>")
        shown.type("and now?", "Enter")
        shown.wait("it is nearly full")
        if how == "is stopped":
            shown.type("", "C-c")
        offered = shown.wait("[s/d/K]")
        assert "The prompt has not entered the conversation:\n  and now?\n" in offered
        shown.type("s", "Enter")
        shown.wait("The answer.")
        shown.type("/quit", "Enter")
        shown.wait("exit code 0")
    assert [content for role, content in said_in(chat.sessions()[0]) if role == "user"][3:] == ["and now?"]
