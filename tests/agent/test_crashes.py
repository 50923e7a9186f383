"""Killed at any moment: what was accepted is there exactly once, and nothing is sent or run by itself."""

from pathlib import Path

import pytest

from coppice.agent.agent import Agent
from coppice.format.entries import MessageEntry
from coppice.format.messages import AssistantMessage, EntryId, text_of
from coppice.providers.scripted import ScriptedModel, say
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tree.pairing import INTERRUPTED
from tests.agent.killed import killed
from tests.agent.stage import Stage, lines, set_stage, stored
from tests.strict import faults_of

pytestmark = pytest.mark.anyio


def again(tmp_path: Path, path: object, *replies: object, tools: object = ()) -> Stage:
    session = SessionManager.open(Path(str(path)), setup=Setup(tmp_path))
    return set_stage(tmp_path, *replies, tools=tools, session=session)  # pyright: ignore[reportArgumentType]  (replies, functions)


def left_over(agent: Agent) -> list[tuple[EntryId, str, str]]:
    return [(item.id, item.kind, text_of(item.message.content)) for item in agent.queues.left_over()]  # pyright: ignore[reportAttributeAccessIssue,reportArgumentType,reportUnknownMemberType,reportUnknownArgumentType]  (user messages)


@pytest.mark.case("P03")
async def test_killed_before_the_reply_the_prompt_is_there_once(tmp_path: Path) -> None:
    found = killed("hello", tmp_path)
    listed = SessionManager.list(tmp_path, home=tmp_path)
    assert [(str(info.path), info.first_prompt) for info in listed] == [(found["path"], "hello")]
    stage = again(tmp_path, found["path"], say("fine"))
    assert (stored(stage.session), left_over(stage.agent), stage.session.take_notices()) == (["user: hello"], [], [])
    await stage.agent.continue_()
    assert lines(stage.sent().messages) == ["user: hello"]


@pytest.mark.case("P03")
async def test_killed_right_after_the_end_of_a_reply_was_told_the_reply_is_there(tmp_path: Path) -> None:
    found = killed("answered", tmp_path)
    stage = again(tmp_path, found["path"])
    assert stored(stage.session) == ["user: hello", "reply: hi there [stop]"]


@pytest.mark.case("P24")
async def test_killed_with_messages_waiting_they_are_left_over_once_and_not_sent(tmp_path: Path) -> None:
    found = killed("waiting", tmp_path)
    ids = found["ids"]
    assert isinstance(ids, list)
    stage = again(tmp_path, found["path"], say("one"), say("two"))
    waits = [(ids[0], "steering", "look left"), (ids[1], "followUp", "and then?")]
    assert (left_over(stage.agent), stored(stage.session)) == (waits, ["user: hello"])

    await stage.agent.prompt("go on")
    assert lines(stage.sent().messages) == ["user: hello", "user: go on"]
    assert (left_over(stage.agent), len(stage.model.requests)) == (waits, 1)

    assert stage.agent.queues.adopt(EntryId(ids[1]), "steering")
    stage.agent.queues.done(EntryId(ids[0]))
    assert left_over(stage.agent) == []
    await stage.agent.prompt("now")
    assert lines(stage.sent().messages)[2:] == ["reply: one [stop]", "user: now", "user: and then?"]
    assert stage.session.get_entry(EntryId(ids[1])) is not None
    assert list((tmp_path / "pending").iterdir()) == []


@pytest.mark.case("P24")
async def test_killed_between_storing_a_message_and_taking_it_out_it_is_there_once(tmp_path: Path) -> None:
    found = killed("between", tmp_path)
    ids = found["ids"]
    assert isinstance(ids, list)
    stage = again(tmp_path, found["path"], say("two"))
    assert left_over(stage.agent) == [(ids[1], "steering", "look right")]
    assert stored(stage.session) == ["user: hello", "reply: one [stop]", "user: look left"]
    assert not stage.agent.queues.adopt(EntryId(ids[0]), "steering")
    assert stage.agent.queues.adopt(EntryId(ids[1]), "steering")
    await stage.agent.continue_()
    assert lines(stage.sent().messages)[2:] == ["user: look left", "user: look right"]
    assert list((tmp_path / "pending").iterdir()) == []


@pytest.mark.case("P16")
@pytest.mark.parametrize("how", ["prompt", "continue", "navigate"])
async def test_killed_in_a_tool_it_is_not_run_again(tmp_path: Path, how: str) -> None:
    found = killed("tool", tmp_path)

    def count() -> str:
        """Count."""
        with (tmp_path / "counter").open("a") as counter:
            counter.write("x")
        return "counted"

    stage = again(tmp_path, found["path"], say("I see"), say("fine"), tools=[count])
    before = stored(stage.session)
    assert before == ["user: hello", "reply: quick(c1) count(c2) [toolUse]", "result c1: done"]
    match how:
        case "prompt":
            await stage.agent.prompt("what happened?")
        case "continue":
            await stage.agent.continue_()
        case _:
            path = stage.session.get_branch()
            reply = next(
                entry.id
                for entry in path
                if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage)
            )
            stage.session.branch(reply)
            await stage.agent.continue_()
    sent = stage.sent().messages
    assert lines(sent)[:4] == [
        "user: hello",
        "reply: quick(c1) count(c2) [toolUse]",
        "result c1: done",
        f"result c2: {INTERRUPTED}",
    ]
    assert (faults_of(sent), (tmp_path / "counter").read_text()) == ([], "x")

    await stage.agent.prompt("and now?")
    assert lines(stage.sent().messages)[:4] == lines(sent)[:4]
    assert (faults_of(stage.sent().messages), (tmp_path / "counter").read_text()) == ([], "x")
    assert isinstance(stage.model, ScriptedModel)
