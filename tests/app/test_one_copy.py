"""Law 3: after a turn nothing outside format/ and tree/ holds two or more messages that are in the file.

The live objects are walked with gc. Allowed by name: the entry cache of tree/ and the scripted model's recording.
"""

import gc
from collections import deque
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.format.entries import Entry, MessageEntry
from coppice.format.events import MessageEnd, SessionEvent
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    Message,
    ToolResultMessage,
    UserMessage,
)
from coppice.providers.scripted import ScriptedModel, call, calls, say
from coppice.session.manager import SessionManager
from tests.app.house import House, leaf

pytestmark = pytest.mark.anyio

STORED = (UserMessage, AssistantMessage, ToolResultMessage, CustomMessage, BashExecutionMessage)


def everything() -> Iterator[object]:
    """Every live object: what gc tracks and, since tuples of plain values are not tracked, what these refer to."""
    waiting: deque[object] = deque(gc.get_objects())
    seen = {id(thing) for thing in waiting} | {id(waiting)}
    while waiting:
        thing = waiting.popleft()
        yield thing
        for below in gc.get_referents(thing):
            if id(below) not in seen and isinstance(below, tuple | list | dict | set | frozenset | deque):
                seen.add(id(below))
                waiting.append(below)


def items_of(thing: object) -> Collection[object]:
    match thing:
        case dict():
            return thing.values()  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]  (anything at all)
        case list() | tuple() | set() | frozenset() | deque():
            return thing  # pyright: ignore[reportUnknownVariableType]  (anything at all)
        case _:
            return ()


def mark_of(message: Message) -> tuple[str, float, str]:
    """What tells a message from every other here."""
    said = message.output if isinstance(message, BashExecutionMessage) else repr(getattr(message, "content", ""))
    return type(message).__name__, getattr(message, "timestamp", 0), said


def holders(session: SessionManager, allowed: Collection[int]) -> list[str]:
    """The containers that hold two or more of the session's stored messages, by what they hold."""
    in_file = {mark_of(entry.message) for entry in session.entries() if isinstance(entry, MessageEntry)}

    def is_stored(item: object) -> bool:
        message = item.message if isinstance(item, MessageEntry) else item
        return isinstance(message, STORED) and mark_of(message) in in_file

    gc.collect()
    found: list[str] = []
    for thing in everything():
        items = items_of(thing)
        if id(thing) not in allowed and len(items) > 1 and sum(is_stored(item) for item in list(items)) > 1:
            found.append(f"{type(thing).__name__} of {len(items)}")
    return found


def allowed_by_name(session: AgentSession, model: ScriptedModel) -> set[int]:
    cache = session.session.store.cache
    generations: tuple[dict[int, Entry], ...] = (cache._young, cache._old)  # pyright: ignore[reportPrivateUsage]  (tree/'s entry cache)
    return {id(part) for part in generations} | {id(request.messages) for request in model.requests}


def look(at: str) -> str:
    """Look."""
    return f"saw {at}"


async def long_talk(house: House) -> tuple[AgentSession, ScriptedModel]:
    two = calls(call("look", {"at": "a"}), call("look", {"at": "b"}))
    model = ScriptedModel([reply for number in range(5) for reply in (two, say(f"one copy {number}"))])
    session = house.enter(model=model, tools=[look])
    for number in range(5):
        await session.prompt(f"prompt {number}")
    await session.run_bash("echo a command")
    target = leaf(session)
    await session.navigate_tree(session.session.get_branch()[5].id)
    assert target is not None
    await session.navigate_tree(target)
    assert (len(session.messages), len(session.agent.state.messages)) == (26, 26)
    house.heard.clear()
    return session, model


@pytest.mark.slow
async def test_after_a_turn_nothing_holds_a_second_copy_of_the_conversation(tmp_path: Path) -> None:
    session, model = await long_talk(House.at(tmp_path))
    assert holders(session.session, allowed_by_name(session, model)) == []
    await session.close()


@pytest.mark.slow
async def test_the_walk_finds_a_listener_that_keeps_the_messages(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    kept: list[Message] = []

    def keep(event: SessionEvent) -> None:
        if isinstance(event, MessageEnd):
            kept.append(event.message)

    session, model = await long_talk(house)
    session.subscribe(keep)
    model._replies += (say("kept"),)  # pyright: ignore[reportPrivateUsage]  (one more reply)
    await session.prompt("keep this")
    house.heard.clear()
    assert holders(session.session, allowed_by_name(session, model)) == ["list of 2"]
    await session.close()


@pytest.mark.slow
async def test_the_walk_finds_tuples_and_dicts_too_and_the_recording_if_it_were_not_allowed(tmp_path: Path) -> None:
    session, model = await long_talk(House.at(tmp_path))
    messages = session.messages
    by_number = dict(enumerate(messages))
    found = holders(session.session, allowed_by_name(session, model))
    assert sorted(found) == ["dict of 26", "tuple of 26"]
    del messages, by_number
    caches = allowed_by_name(session, ScriptedModel([]))
    assert len(holders(session.session, caches)) == len(
        [request for request in model.requests if len(request.messages) > 1]
    )
    await session.close()
