"""Which session a command line goes on with, and how others are refused."""

import json
import os
import shlex
from pathlib import Path

import pytest
from tests.interfaces.cli.chatting import Chat, bash, entries_of, events_until, said_in, session_id, text
from tests.interfaces.cli.command import STARTED, Coppice


def asked(chat: Chat, prompt: str, *words: str, reply: str = "ok", cwd: Path | None = None) -> str:
    """Ask with a script of one reply; what was on standard error."""
    done = chat.say("-p", "--model", chat.script(text(reply)), *words, prompt, cwd=cwd)
    assert done.code == 0, done.err
    return done.err


def test_continue_goes_on_with_the_session_used_last_here(coppice: Coppice) -> None:
    chat = Chat(coppice)
    asked(chat, "one")
    asked(chat, "two", "-c")
    (file,) = chat.sessions()
    assert said_in(file) == [("user", "one"), ("assistant", "ok"), ("user", "two"), ("assistant", "ok")]


@pytest.mark.case("P28")
def test_a_beginning_of_an_id_names_a_session_or_says_which_it_could_be(coppice: Coppice) -> None:
    chat = Chat(coppice)
    asked(chat, "one")
    (file,) = chat.sessions()
    own = session_id(file)
    asked(chat, "two", "--session", own[:8])
    twin = own[:12] + ("0" if own[12] != "0" else "1") + own[13:]
    other = file.with_name(file.name.replace(own, twin))
    other.write_text(file.read_text().replace(own, twin))
    ambiguous = chat.say("-p", "--session", own[:12], "three")
    assert (ambiguous.code, own in ambiguous.err, twin in ambiguous.err, ambiguous.err.count("\n")) == (
        1,
        True,
        True,
        1,
    )
    before = len(chat.sessions())
    assert chat.say("-p", "--session", "", "x").code == 2
    assert chat.say("-p", "--session", "ffffffff", "x").code == 1
    assert len(chat.sessions()) == before


@pytest.mark.case("P28")
def test_the_resume_line_opens_the_same_session(coppice: Coppice, tmp_path: Path) -> None:
    chat = Chat(coppice)
    for words in ((), ("--session-dir", str(tmp_path / "else where"))):
        line = asked(chat, "one", *words).splitlines()[-1].removeprefix(f"coppice: resume with: {STARTED} ")
        again = chat.say("-p", "--model", chat.script(text("ok")), *shlex.split(line), "two", cwd=tmp_path)
        assert again.code == 0
        assert again.err.splitlines()[-1].endswith(line)
    files = [*chat.sessions(), *(tmp_path / "else where").glob("*.jsonl")]
    assert [[content for role, content in said_in(file) if role == "user"] for file in files] == [["one", "two"]] * 2


@pytest.mark.case("P28")
def test_continue_takes_the_session_used_last_not_the_file_touched_last(coppice: Coppice) -> None:
    chat = Chat(coppice)
    asked(chat, "old")
    asked(chat, "young")
    old, young = chat.sessions()
    asked(chat, "old again", "--session", session_id(old))
    os.utime(young)
    listed = chat.say("sessions", "list", "--json").out.splitlines()
    asked(chat, "last", "-c")
    assert json.loads(listed[0])["id"] == session_id(old)
    assert said_in(old)[-2] == ("user", "last")


def test_fork_goes_on_in_a_copy_and_leaves_the_source_alone(coppice: Coppice) -> None:
    chat = Chat(coppice)
    asked(chat, "one")
    (source,) = chat.sessions()
    before = source.read_bytes()
    asked(chat, "two", "--fork", session_id(source)[:8])
    child = next(path for path in chat.sessions() if path != source)
    assert source.read_bytes() == before
    assert [content for role, content in said_in(child) if role == "user"] == ["one", "two"]
    assert json.loads(child.read_text().splitlines()[0])["parentSession"] == str(source)


def test_resume_without_a_terminal_tells_the_option_that_works(coppice: Coppice) -> None:
    done = Chat(coppice).say("-r", "hi")
    assert (done.code, "--session" in done.err, done.err.count("\n")) == (2, True, 1)


@pytest.mark.case("P05")
def test_a_held_session_is_refused_naming_its_holder_and_opens_once_that_is_dead(coppice: Coppice) -> None:
    chat = Chat(coppice)
    asked(chat, "one")
    (file,) = chat.sessions()
    first = chat.start("-c", "--mode", "json", "--model", chat.script(bash("sleep 60")), "A1")
    events_until(first, "tool_execution_start")
    held = chat.say("-c", "-p", "--model", chat.script(text("ok")), "B1")
    assert (held.code, held.out, held.err.count("\n")) == (1, "", 1)
    assert all(word in held.err for word in (f"process {first.pid} ", "--fork", "--read-only", "--shared"))
    beside = chat.say("-c", "-p", "--shared", "--model", chat.script(text("ok")), "B2")
    along = chat.say("-c", "-p", "--read-only", "/tree")
    refused = chat.say("-c", "-p", "--read-only", "--model", chat.script(text("ok")), "B3")
    assert (beside.code, along.code, refused.code) == (0, 0, 1)
    assert "B2" in along.out
    first.kill()
    first.communicate()
    assert chat.say("-c", "-p", "--model", chat.script(text("ok")), "B4").code == 0
    assert [content for role, content in said_in(file) if role == "user"] == ["one", "A1", "B2", "B4"]


@pytest.mark.case("P27")
def test_a_session_whose_directory_is_gone_resumes_and_makes_nothing_there(coppice: Coppice, tmp_path: Path) -> None:
    chat = Chat(coppice)
    gone, moved = tmp_path / "ä", tmp_path / "z"
    gone.mkdir()
    asked(chat, "one", cwd=gone)
    (file,) = chat.sessions()
    gone.rename(moved)
    before = file.read_bytes()
    write = {"calls": [{"name": "write", "arguments": {"path": "new.txt", "content": "x"}}]}
    words = ("-p", "--model", chat.script(write, text("ok")), "--session", session_id(file), "two")
    done = chat.say(*words, cwd=tmp_path)
    assert done.code == 0
    assert done.err.splitlines()[0] == (
        f"coppice: notice: this session's directory {gone} is gone: nothing is made there, and its tools fail. To go on in "
        f"the current directory: {STARTED} --fork {session_id(file)}"
    )
    assert f"✗ write: The session's directory {gone} is gone; no tool works there" in done.err
    assert not gone.exists()
    assert file.read_bytes().startswith(before)


@pytest.mark.case("P27")
def test_each_directory_has_its_own_sessions_however_much_their_names_look_alike(
    coppice: Coppice, tmp_path: Path
) -> None:
    chat = Chat(coppice)
    places = [tmp_path / name for name in ("a-b/c", "a/b-c", "a b", "ä")]
    for place in places:
        place.mkdir(parents=True)
        asked(chat, f"in {place.name}", cwd=place)
    for place in places:
        asked(chat, "again", "-c", cwd=place)
        listed = chat.say("sessions", "list", "--json", cwd=place).out.splitlines()
        assert [json.loads(line)["firstPrompt"] for line in listed] == [f"in {place.name}"]
    assert [len(said_in(file)) for file in chat.sessions()] == [4] * 4


def test_a_gap_bridged_by_guess_needs_a_yes(coppice: Coppice) -> None:
    chat = Chat(coppice)
    asked(chat, "one")
    (file,) = chat.sessions()
    chat.say("-c", "-p", "/tree 1")
    asked(chat, "other", "-c")
    asked(chat, "more", "-c")
    lines = file.read_text().splitlines(keepends=True)
    lost = next(at for at, line in enumerate(lines) if '"content":"more"' in line)
    file.write_text("".join([*lines[:lost], *lines[lost + 1 :]]))
    refused = chat.say("-c", "-p", "--model", chat.script(text("ok")), "on")
    assert (refused.code, "--accept-bridge" in refused.err) == (1, True)
    assert len(entries_of(file)) == len(lines) - 2
    assert chat.say("-c", "-p", "--accept-bridge", "--model", chat.script(text("ok")), "on").code == 0


@pytest.mark.case("P27")
def test_a_foreign_file_whose_directory_is_gone_is_named_by_its_path_in_the_advice(coppice: Coppice) -> None:
    chat = Chat(coppice)
    elsewhere = coppice.home.parent / "of-pi.jsonl"
    header = {
        "type": "session",
        "version": 3,
        "id": "of-pi",
        "timestamp": "2026-01-02T03:04:05.678Z",
        "cwd": "/gone/for/good",
    }
    elsewhere.write_text(json.dumps(header) + "\n")
    elsewhere.chmod(0o600)
    done = chat.say("--session", str(elsewhere), "-p", "--model", chat.script(text("hello")), "hi")
    assert f"To go on in the current directory: {STARTED} --fork {elsewhere}\n" in done.err
