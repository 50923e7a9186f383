"""What is left when a run is stopped from outside: by a signal, by kill -9, by a full disk."""

import json
import signal
from pathlib import Path

import pytest
from tests.interfaces.cli.chatting import Chat, bash, events_until, said_in, session_id, text, wait_for
from tests.interfaces.cli.command import STARTED, Coppice

INTERRUPTED = "The tool call was interrupted before it gave a result. It was not run again; its effects are unknown."


def users(file: Path) -> list[object]:
    return [content for role, content in said_in(file) if role == "user"]


@pytest.mark.case("P03")
def test_a_prompt_is_on_disk_before_the_model_is_asked_and_is_sent_once_after_a_kill(coppice: Coppice) -> None:
    chat = Chat(coppice)
    process = chat.start("-p", "--model", chat.script({"stall": True}), "hello")
    wait_for(chat.record)
    process.kill()
    process.communicate()
    (file,) = chat.sessions()
    listed = chat.say("sessions", "list", "--json").out.splitlines()
    assert [json.loads(line)["firstPrompt"] for line in listed] == ["hello"]
    chat.record.unlink()
    assert chat.say("-c", "-p", "--model", chat.script(text("yes")), "are you there?").code == 0
    assert [message["content"] for message in chat.sent()[0]] == ["hello", "are you there?"]
    assert users(file) == ["hello", "are you there?"]


@pytest.mark.case("P03")
def test_a_reply_that_was_announced_survives_a_kill_right_after(coppice: Coppice) -> None:
    chat = Chat(coppice)
    process = chat.start("--mode", "json", "--model", chat.script(text("the answer")), "hello")
    events = events_until(process, "message_end", "assistant")
    process.kill()
    process.communicate()
    (file,) = chat.sessions()
    assert said_in(file) == [("user", "hello"), ("assistant", "the answer")]
    ids = [json.loads(line)["id"] for line in file.read_text().splitlines()]
    assert events[-1]["entryId"] == ids[-1]


@pytest.mark.case("P16")
def test_a_tool_that_ran_when_the_process_was_killed_is_never_run_again(coppice: Coppice) -> None:
    chat = Chat(coppice)
    runs = coppice.cwd / "runs"
    counting = f"echo run >> {runs}; touch started; exec sleep 60"
    process = chat.start("--mode", "json", "--model", chat.script(bash(counting, "true")), "go")
    wait_for(coppice.cwd / "started")
    process.kill()
    process.communicate()
    (file,) = chat.sessions()
    reply = next(
        entry["id"] for entry in map(json.loads, file.read_text().splitlines()) if '"toolCall"' in json.dumps(entry)
    )
    assert chat.say("-c", "-p", "/session").code == 0
    chat.record.unlink()
    assert chat.say("-c", "-p", "--model", chat.script(text("I see.")), "what happened?").code == 0
    roles = [message["role"] for message in chat.sent()[0]]
    assert roles == ["user", "assistant", "toolResult", "toolResult", "user"]
    assert chat.sent()[0][2]["content"] == [{"type": "text", "text": INTERRUPTED}]
    assert chat.say("-c", "-p", f"/tree {reply}").code == 0
    assert chat.say("-c", "-p", "--model", chat.script(text("Still.")), "and now?").code == 0
    assert runs.read_text() == "run\n"


@pytest.mark.case("P16")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_settles_the_run_and_every_call_has_a_result(coppice: Coppice, number: signal.Signals) -> None:
    chat = Chat(coppice)
    started = coppice.cwd / "started"
    process = chat.start("-p", "--model", chat.script(bash("touch started; sleep 60", "sleep 60")), "go")
    wait_for(started)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    (file,) = chat.sessions()
    assert (process.returncode, out) == (128 + number, b"")
    assert err.decode().splitlines()[-1] == f"coppice: resume with: {STARTED} --session {session_id(file)}"
    assert b"Traceback" not in err
    assert [role for role, _ in said_in(file)] == ["user", "assistant", "toolResult", "toolResult"]
    assert all("interrupted" in str(content) for role, content in said_in(file) if role == "toolResult")
    assert chat.say("-c", "-p", "--model", chat.script(text("ok")), "go on").code == 0


def test_a_second_signal_ends_a_run_that_does_not_settle(coppice: Coppice) -> None:
    chat = Chat(coppice)
    stubborn = "trap '' TERM INT; touch started; while :; do sleep 1; done"
    process = chat.start("-p", "--model", chat.script(bash(stubborn)), "go")
    wait_for(coppice.cwd / "started")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode in (-signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM)
    assert chat.say("-c", "-p", "--model", chat.script(text("ok")), "go on").code == 0


@pytest.mark.case("P04")
def test_a_full_disk_is_told_at_the_failing_turn_and_what_is_missing_at_the_end(coppice: Coppice) -> None:
    chat = Chat(coppice)
    assert chat.say("-p", "--model", chat.script(text("first reply")), "one").code == 0
    (file,) = chat.sessions()
    before = file.read_bytes()
    limit = len(before) // 1024 + 2
    full = ("bash", "-c", f'ulimit -f {limit}; exec "$0" "$@"')
    for _ in range(2):
        done = chat.say("-c", "-p", "--model", chat.script(text("x" * 8000), recorded=False), "two", prefix=full)
        lines = done.err.splitlines()
        assert (done.code, done.out, "Traceback" in done.err) == (1, "", False)
        assert any("not stored" in line and file.name in line for line in lines[:-2])
        assert lines[-2].startswith("coppice: not stored, and gone with this process: the ")
        assert lines[-1] == f"coppice: what was stored before: {STARTED} --session {session_id(file)}"
    assert file.read_bytes().startswith(before)
    after = chat.say("-c", "-p", "--model", chat.script(text("room again")), "three")
    assert (after.code, after.out) == (0, "room again\n")
    assert said_in_readable(file)[:2] == [("user", "one"), ("assistant", "first reply")]


def said_in_readable(file: Path) -> list[tuple[str, object]]:
    """What was said before the first line that is damaged."""
    whole = file.with_suffix(".whole")
    lines = file.read_bytes().splitlines(keepends=True)
    good = [line for line in lines if line.startswith(b"{") and line.rstrip().endswith(b"}")]
    whole.write_bytes(b"".join(good))
    return said_in(whole)
