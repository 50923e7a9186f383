"""A change of model in a long conversation."""

from pathlib import Path

import pytest

from coppice.format.events import CompactionStart
from coppice.format.messages import AssistantMessage, RequestMessage, ThinkingBlock
from coppice.providers.scripted import say, think
from tests.app.house import House, leaf
from tests.compaction.stage import compacting, file_bytes, model_with, reply, shape, text

pytestmark = pytest.mark.anyio

SIGNATURE = "EqQBCgIYAhIM+/=="


def thoughts(messages: tuple[RequestMessage, ...]) -> list[ThinkingBlock]:
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    return [block for message in replies for block in message.content if isinstance(block, ThinkingBlock)]


@pytest.mark.case("P29")
async def test_from_a_to_b_to_a_small_c_and_back_to_a(tmp_path: Path) -> None:
    """C condenses before its first request, and with B, which has the room."""
    house = House.at(tmp_path)
    a = model_with(
        200_000,
        think("signed thought", signature=SIGNATURE, then=text("A1", 300)),
        say("A5"),
        name="maker/a",
    )
    b = model_with(200_000, reply("B1", 3_000), say("S1 by B"), name="other/b")
    c = model_with(8_000, say("C1"), name="third/c")
    async with house.enter(model=a, models=[a, b, c], settings=compacting(keep_recent_tokens=100)) as session:
        session.set_model(a)
        await session.prompt("U1")
        signed = leaf(session)
        session.session.append_message(
            AssistantMessage((ThinkingBlock("cut off", "HALF"),), "maker", "maker", "a", stop_reason="aborted")
        )
        session.session.append_message(AssistantMessage((), "maker", "maker", "a"))
        session.set_model(b)
        await session.prompt(text("U2", 3_000))
        assert [block.thinking_signature for block in thoughts(b.requests[0].messages)] == [None]
        assert "cut off" not in repr(b.requests[0])
        assert shape(b.requests[0].messages) == ["U1", "A1", "U2"]
        session.set_model(c)
        await session.prompt("U3")
        starts = [event for event in house.heard if isinstance(event, CompactionStart)]
        assert [(start.reason, start.phase) for start in starts] == [("downshift", "pre_turn")]
        assert len(b.requests) == 2
        assert shape(c.requests[0].messages)[0] == "S1"
        assert signed is not None
        session.set_model(a)
        session.session.branch(signed)
        assert session.model is a
        await session.prompt("U4")
        (kept,) = thoughts(a.requests[-1].messages)
        assert kept == ThinkingBlock("signed thought", SIGNATURE)
        data = file_bytes(session)
        assert all(word.encode() in data for word in (SIGNATURE, "cut off", "C1", "S1 by B"))
