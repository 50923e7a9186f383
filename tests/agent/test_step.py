"""What a run does next: a table of paths, and the step each leads to."""

import pytest

from coppice.agent.step import CallModel, Finished, RunTools, Step, next_step
from coppice.format.entries import (
    CompactionEntry,
    CustomEntry,
    CustomMessageEntry,
    DamagedEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    UnknownEntry,
)
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    EntryId,
    Message,
    TextBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
)

WHEN = "2026-01-02T03:04:05.678Z"
ONE, TWO, THREE = (ToolCall(ToolCallId(name), "look", {"at": name}) for name in ("c1", "c2", "c3"))


def reply(*calls: ToolCall, reason: str | None = None) -> Message:
    return AssistantMessage((TextBlock("hm"), *calls), stop_reason=reason or ("toolUse" if calls else "stop"))


def result(call: ToolCall) -> Message:
    return ToolResultMessage(call.id, call.name, (TextBlock("seen"),))


USER = UserMessage("go")
DONE = reply()
BASH = BashExecutionMessage("ls", "a")
CUSTOM = CustomMessage("note", "look here")


def other(number: int, kind: str) -> Entry:
    entry_id, parent = EntryId(f"e{number}"), EntryId(f"e{number - 1}") if number else None
    match kind:
        case "damaged":
            return DamagedEntry(entry_id, parent)
        case "unknown":
            return UnknownEntry("strange", entry_id, parent, WHEN, {"type": "strange"})
        case "label":
            return LabelEntry(entry_id, parent, WHEN, EntryId("e0"), "here")
        case "state":
            return CustomEntry(entry_id, parent, WHEN, "todo", {"n": 1})
        case "model":
            return ModelChangeEntry(entry_id, parent, WHEN, "a", "b")
        case "says":
            return CustomMessageEntry(entry_id, parent, WHEN, "note", "look here", display=True)
        case _:
            return CompactionEntry(entry_id, parent, WHEN, "they spoke", None, 10)


def path_of(*parts: Message | str) -> list[Entry]:
    """A chain e0, e1, …: messages, or entries of other kinds by name."""
    return [
        other(number, part)
        if isinstance(part, str)
        else MessageEntry(EntryId(f"e{number}"), EntryId(f"e{number - 1}") if number else None, WHEN, part)
        for number, part in enumerate(parts)
    ]


def run(*calls: ToolCall, of: str) -> RunTools:
    return RunTools(calls, EntryId(of))


CASES: dict[str, tuple[list[Entry], str | None, Step]] = {
    "nothing at all": ([], None, CallModel()),
    "a prompt": (path_of(USER), "e0", CallModel()),
    "a prompt, from before it": (path_of(USER), None, CallModel()),
    "a prompt after an earlier turn": (path_of(USER, DONE, USER), "e2", CallModel()),
    "a final reply": (path_of(USER, DONE), "e0", Finished("stop")),
    "one call": (path_of(USER, reply(ONE)), "e0", run(ONE, of="e1")),
    "parallel calls": (path_of(USER, reply(ONE, TWO, THREE)), "e0", run(ONE, TWO, THREE, of="e1")),
    "partly answered": (path_of(USER, reply(ONE, TWO, THREE), result(TWO)), "e0", run(ONE, THREE, of="e1")),
    "all answered": (path_of(USER, reply(ONE, TWO), result(TWO), result(ONE)), "e0", CallModel()),
    "answered and then a final reply": (path_of(USER, reply(ONE), result(ONE), DONE), "e0", Finished("stop")),
    "a result twice": (path_of(USER, reply(ONE), result(ONE), result(ONE)), "e0", CallModel()),
    "a stranger's result": (path_of(USER, reply(ONE), result(TWO)), "e0", run(ONE, of="e1")),
    "the same id called again": (
        path_of(USER, reply(ONE), result(ONE), reply(ONE)),
        "e0",
        run(ONE, of="e3"),
    ),
    "one id twice in a reply": (path_of(USER, reply(ONE, ONE)), "e0", RunTools((ONE,), EntryId("e1"))),
    "an error": (path_of(USER, reply(reason="error")), "e0", Finished("error")),
    "an error with calls": (path_of(USER, reply(ONE, reason="error")), "e0", Finished("error")),
    "an abort with calls": (path_of(USER, reply(ONE, reason="aborted")), "e0", Finished("aborted")),
    "cut short with calls": (path_of(USER, reply(ONE, reason="length")), "e0", Finished("length")),
    "cut short": (path_of(USER, reply(reason="length")), "e0", Finished("length")),
    "an unknown stop reason": (path_of(USER, reply(reason="deferred")), "e0", Finished("deferred")),
    "a second try after an error": (path_of(USER, reply(reason="error"), DONE), "e0", Finished("stop")),
    "calls at since": (path_of(USER, reply(ONE)), "e1", CallModel()),
    "calls before since": (path_of(USER, reply(ONE), USER), "e2", CallModel()),
    "partly answered at since": (path_of(USER, reply(ONE, TWO), result(ONE)), "e2", CallModel()),
    "open calls before, own calls after": (path_of(USER, reply(ONE), USER, reply(TWO)), "e2", run(TWO, of="e3")),
    "open calls before, done after": (path_of(USER, reply(ONE), USER, DONE), "e2", Finished("stop")),
    "steering between call and result": (
        path_of(USER, reply(ONE, TWO), USER, result(ONE)),
        "e0",
        run(TWO, of="e1"),
    ),
    "steering after the results": (path_of(USER, reply(ONE), result(ONE), USER), "e0", CallModel()),
    "steering after a final reply": (path_of(USER, DONE, USER), "e0", CallModel()),
    "steering after an error": (path_of(USER, reply(reason="error"), USER), "e0", CallModel()),
    "a custom message after a final reply": (path_of(USER, DONE, CUSTOM), "e0", CallModel()),
    "a custom message entry after a final reply": (path_of(USER, DONE, "says"), "e0", CallModel()),
    "the user's own command after a final reply": (path_of(USER, DONE, BASH), "e0", Finished("stop")),
    "other entries after a final reply": (
        path_of(USER, DONE, "label", "state", "model", "unknown", "damaged", "compaction"),
        "e0",
        Finished("stop"),
    ),
    "damaged and unknown entries between call and result": (
        path_of(USER, reply(ONE, TWO), "damaged", result(ONE), "unknown"),
        "e0",
        run(TWO, of="e1"),
    ),
    "a result that is a damaged line": (path_of(USER, reply(ONE), "damaged"), "e0", run(ONE, of="e1")),
    "other entries before the reply": (
        path_of(USER, "damaged", "state", "unknown", reply(ONE)),
        "e0",
        run(ONE, of="e4"),
    ),
    "since is no message": (path_of(USER, DONE, "label", USER, DONE), "e2", Finished("stop")),
    "the part of the path from the newest reply on": (path_of(USER, reply(ONE, TWO))[1:], "e0", run(ONE, TWO, of="e1")),
}


@pytest.mark.parametrize(("path", "since", "step"), CASES.values(), ids=CASES.keys())
def test_the_next_step_follows_from_the_path(path: list[Entry], since: str | None, step: Step) -> None:
    assert next_step(path, None if since is None else EntryId(since)) == step


@pytest.mark.case("P16")
def test_no_reply_at_or_before_since_ever_has_its_calls_run() -> None:
    path = path_of(USER, reply(ONE), USER, reply(TWO), result(TWO), reply(THREE, ONE), result(ONE))
    for since in range(len(path)):
        step = next_step(path, path[since].id)
        assert not isinstance(step, RunTools) or since < 5, since
