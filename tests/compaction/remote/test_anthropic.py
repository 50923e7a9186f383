"""Anthropic's compaction on demand, through the real adapter and the fake server."""

import json
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.compaction.settings import ModelLimits
from coppice.errors import CoppiceError
from coppice.format.messages import JsonObject
from coppice.providers.base import Model
from coppice.providers.catalogue import resolve_model
from tests.app.house import House
from tests.compaction.stage import compacting, compactions, file_bytes, text
from tests.fakes.anthropic_server import FakeAnthropic, Reply, Text

pytestmark = pytest.mark.anyio

OPUS = "anthropic/claude-opus-5-5"

BLOCK: JsonObject = {
    "type": "compaction",
    "signature": "EqQBCgIY+/==",
    "content": "The user greeted; the lantern is in the orchard.",
    "future": {"z": 1, "a": 2},
}


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


def claude(url: str, key: str = "sk-ant-test-0123456789") -> Model:
    return resolve_model(OPUS, base_url=url, environ={"ANTHROPIC_API_KEY": key}, remote_compaction=("anthropic",))


def entered(house: House, server: FakeAnthropic, **settings: object) -> AgentSession:
    chosen = {"strategy": "auto", "models": {OPUS: ModelLimits(context_window=200_000)}} | settings
    return house.enter(model=claude(server.base_url), settings=compacting(**chosen))


def said(tag: str, tokens: int = 2_000, **more: object) -> Reply:
    return Reply(content=(Text((text(tag, tokens),)),), **more)


async def test_the_block_comes_first_the_newest_prompt_after_it_and_its_text_is_the_readable_summary(
    house: House,
) -> None:
    block = Reply(blocks=(BLOCK,), stop_reason="compaction")
    async with (
        FakeAnthropic([said("A1"), said("A2"), block, said("A3", 10)]) as server,
        entered(house, server) as session,
    ):
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact("keep the names")
        assert server.bodies[-1]["compaction"] == {"type": "summarize", "instructions": "keep the names"}
        assert compactions(session)[0].summary == BLOCK["content"]
        await session.prompt("U3")
        sent = server.bodies[-1]["messages"]
        assert json.dumps(sent[0]["content"]) == json.dumps([BLOCK])
        assert [part["text"] for part in sent[1]["content"]] == ["U2", "U3"]
        assert session.use_readable_summary() is not None
        assert session.messages[0].summary == BLOCK["content"]


@pytest.mark.case("C52")
async def test_the_contexts_size_is_the_last_message_iterations_and_the_cost_is_all_of_them(house: House) -> None:
    cache = {"cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    iterations = (
        {"type": "compaction", "input_tokens": 150_000, "output_tokens": 3_000} | cache,
        {"type": "message", "input_tokens": 9_000, "output_tokens": 40} | cache,
    )
    reply = said("A1", 40, input_tokens=9_000, output_tokens=40, iterations=iterations)
    plain = said("A2", 40, input_tokens=9_100, output_tokens=40)
    async with FakeAnthropic([reply, plain]) as server, entered(house, server) as session:
        await session.prompt("U1")
        assert session.compactor.size(session.model).tokens == 9_040
        paid = session.get_session_stats().file.usage.cost.total
        await session.prompt("U2")
        assert session.get_session_stats().file.usage.cost.total - paid < paid / 5
        assert compactions(session) == []


@pytest.mark.case("C52")
async def test_a_block_without_content_is_no_boundary(house: House) -> None:
    failed = Reply(blocks=(BLOCK | {"content": None},), stop_reason="compaction")
    async with FakeAnthropic([said("A1"), failed, said("A2", 10)]) as server, entered(house, server) as session:
        await session.prompt("U1")
        before = file_bytes(session)
        with pytest.raises(CoppiceError, match="made no summary"):
            await session.compact()
        assert file_bytes(session) == before
        await session.prompt("U2")
        assert len(server.bodies[-1]["messages"]) == 3


@pytest.mark.case("C52")
async def test_the_cost_of_a_compaction_is_in_the_sessions_total(house: House) -> None:
    iterations = ({"type": "compaction", "input_tokens": 20_000, "output_tokens": 500},)
    block = Reply(blocks=(BLOCK,), stop_reason="compaction", input_tokens=0, output_tokens=0, iterations=iterations)
    async with FakeAnthropic([said("A1"), block]) as server, entered(house, server) as session:
        await session.prompt("U1")
        before = session.get_session_stats().file.usage
        await session.compact()
        after = session.get_session_stats().file.usage
        assert (after.input - before.input, after.output - before.output) == (20_000, 500)
        assert after.cost.total > before.cost.total
