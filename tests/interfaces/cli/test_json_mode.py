"""`coppice --mode json`: the session header first, then each event as it happens."""

import json

from tests.interfaces.cli.chatting import Chat, bash, entries_of, text
from tests.interfaces.cli.command import Coppice

REPLY = ["message_start", "message_update", "message_end"]


def kinds(lines: list[str]) -> list[str]:
    """Types in order, updates of one kind in a row once."""
    found: list[str] = []
    for line in lines:
        kind = json.loads(line)["type"]
        if not (kind.endswith("_update") and found[-1:] == [kind]):
            found.append(kind)
    return found


def test_every_event_comes_in_the_order_of_pis_json_mode(coppice: Coppice) -> None:
    chat = Chat(coppice)
    done = chat.say("--mode", "json", "--model", chat.script(bash("true"), text("Done.")), "go")
    said = ["message_start", "message_end"]
    assert kinds(done.out.splitlines()) == [
        *("session", "agent_start", "turn_start", *said, *REPLY),
        *("tool_execution_start", "tool_execution_end", *said, "turn_end"),
        *("turn_start", *REPLY, "turn_end", "agent_end", "agent_settled"),
    ]
    assert done.code == 0


def test_the_header_is_the_files_and_stored_messages_carry_their_entry_ids(coppice: Coppice) -> None:
    chat = Chat(coppice)
    done = chat.say("--mode", "json", "--model", chat.script(text("Hello there, all of you.")), "hi")
    events = [json.loads(line) for line in done.out.splitlines()]
    (file,) = chat.sessions()
    assert events[0] == json.loads(file.read_text().splitlines()[0])
    stored = [(entry["id"], entry["message"]) for entry in entries_of(file) if entry["type"] == "message"]
    assert [(event["entryId"], event["message"]) for event in events if event["type"] == "message_end"] == stored
    inner = [event["assistantMessageEvent"] for event in events if event["type"] == "message_update"]
    deltas = "".join(event["delta"] for event in inner if event["type"] == "text_delta")
    assert deltas == "Hello there, all of you."
    assert all(
        set(event) == {"type", "assistantMessageEvent", "usage"} for event in events if "assistantMessageEvent" in event
    )


def test_a_failure_is_an_event_and_a_line_and_exit_code_1(coppice: Coppice) -> None:
    chat = Chat(coppice)
    done = chat.say("--mode", "json", "--model", chat.script({"fail": {"message": "no", "status": 400}}), "hi")
    ends = [json.loads(line) for line in done.out.splitlines() if '"turn_end"' in line]
    assert (done.code, [end["message"]["errorMessage"] for end in ends]) == (1, ["no"])
    assert done.err.splitlines()[0] == "coppice: no"


def test_a_slash_is_a_prompt_like_any_other(coppice: Coppice) -> None:
    chat = Chat(coppice)
    chat.say("--mode", "json", "--model", chat.script(text("ok")), "/tree 1")
    assert [message["content"] for message in chat.sent()[0]] == ["/tree 1"]


def test_where_nobody_reads_the_run_settles_and_the_exit_code_is_that_of_a_broken_pipe(coppice: Coppice) -> None:
    chat = Chat(coppice)
    process = chat.start("--mode", "json", "--model", chat.script(bash("sleep 0.3"), text("x" * 5000)), "hi")
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert (process.wait(timeout=30), b"Traceback" in process.stderr.read()) == (141, False)
    process.stderr.close()
