"""Compaction inside and between turns: when it comes, in which order, and what waits for it."""

import asyncio
from pathlib import Path

import pytest

from coppice.compaction.settings import CompactionSettings
from coppice.format.events import AgentEnd, CompactionEnd, CompactionStart, ToolExecutionStart
from coppice.providers.scripted import call, calls, say, stall
from tests.agent.stage import started, stored
from tests.app.house import House, path_file
from tests.compaction.stage import (
    CODEX,
    all_text,
    compacting,
    compactions,
    is_summary_request,
    kinds,
    model_with,
    reply,
    shape,
    text,
)
from tests.strict import faults_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def work() -> str:
    """Work."""
    return text("output", 10_000)


@pytest.mark.case("C05", "C08")
async def test_a_large_output_is_compacted_before_the_next_request_of_the_same_turn(house: House) -> None:
    model = model_with(
        272_000, call("work").with_usage(input_tokens=239_900, output_tokens=100), say("S1"), say("A1 done")
    )
    async with house.enter(model=model, tools=[work], settings=compacting(**CODEX)) as session:
        await session.prompt("U1 go")
        assert kinds(session) == ["user", "assistant", "toolResult", "compaction", "assistant"]
        assert [shape(request.messages) for request in model.requests] == [
            ["U1"],
            ["U1", "call", "out", "prompt"],
            ["U1", "S1"],
        ]
        assert len([event for event in house.heard if isinstance(event, AgentEnd)]) == 1
        start = next(event for event in house.heard if isinstance(event, CompactionStart))
        assert (start.reason, start.phase, start.tokens_before >= 244_800) == ("threshold", "mid_turn", True)


@pytest.mark.case("C05")
async def test_a_small_output_under_the_limit_is_not_compacted(house: House) -> None:
    model = model_with(272_000, call("small").with_usage(input_tokens=239_900, output_tokens=100), say("A1"))

    async def small() -> str:
        """A few words."""
        return "a few words"

    async with house.enter(model=model, tools=[small], settings=compacting(**CODEX)) as session:
        await session.prompt("U1 go")
        assert kinds(session) == ["user", "assistant", "toolResult", "assistant"]


@pytest.mark.case("C06")
async def test_a_turn_that_ends_over_the_limit_is_compacted_before_the_next_prompt_is_sent(house: House) -> None:
    model = model_with(272_000, reply("A1", 3_000, used=250_000), say("S1"), say("A2"))
    async with house.enter(model=model, settings=compacting(**CODEX)) as session:
        await session.prompt("U1 hello")
        assert kinds(session) == ["user", "assistant"]
        await session.prompt("U2 the new one")
        assert kinds(session) == ["user", "assistant", "compaction", "user", "assistant"]
        assert [shape(request.messages) for request in model.requests] == [
            ["U1"],
            ["U1", "A1", "prompt"],
            ["U1", "S1", "U2"],
        ]
        assert "the new one" not in all_text(model.requests[:2])
        assert session.pending_prompts() == []


@pytest.mark.case("C07")
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_after_a_restart_the_first_prompt_compacts_just_so(house: House, strategy: str) -> None:
    settings = compacting(trigger="codex", strategy=strategy)
    before = model_with(272_000, reply("A1", 3_000), reply("A2", 3_000, used=257_000))
    async with house.enter(model=before, settings=settings) as session:
        await session.prompt("U1 hello")
        await session.prompt("U2 again")
    path = path_file(session)
    model = model_with(272_000, say("S1"), say("A3"))
    async with house.enter(model=model, open_path=path, settings=settings) as session:
        await session.prompt("U3 the new one")
        assert kinds(session)[4:] == ["compaction", "user", "assistant"]
        assert [is_summary_request(request) for request in model.requests] == [True, False]
        assert "the new one" not in all_text(model.requests[:1])
        assert shape(model.requests[1].messages)[-1:] == ["U3"]


@pytest.mark.case("C08")
async def test_several_compactions_may_come_in_one_turn(house: House) -> None:
    large = call("work").with_usage(input_tokens=239_900, output_tokens=100)
    model = model_with(
        272_000, large, say("S1"), calls(large, large).with_usage(input_tokens=240_000), say("S2"), say("A1")
    )
    async with house.enter(model=model, tools=[work], settings=compacting(**CODEX)) as session:
        await session.prompt("U1 go")
        assert kinds(session) == [
            *("user", "assistant", "toolResult", "compaction"),
            *("assistant", "toolResult", "toolResult", "compaction", "assistant"),
        ]
        assert shape(model.requests[3].messages) == ["U1", "S1", "call", "out", "out", "prompt"]
        assert shape(model.requests[4].messages) == ["U1", "S2"]
        assert [faults_of(request.messages) for request in model.requests] == [[]] * 5


@pytest.mark.case("C09")
async def test_steering_waits_for_one_reply_after_a_compaction_in_the_middle_of_work(house: House) -> None:
    model = model_with(
        272_000, call("work").with_usage(input_tokens=239_900, output_tokens=100), say("S1"), say("A1"), say("A2")
    )
    async with house.enter(model=model, tools=[work], settings=compacting(**CODEX)) as session:
        steered: list[str] = []

        def steer(event: object) -> None:
            if isinstance(event, ToolExecutionStart) and not steered:
                steered.append(session.steer("U2 left"))

        session.subscribe(steer)
        await session.prompt("U1 go")
        assert [shape(request.messages) for request in model.requests] == [
            ["U1"],
            ["U1", "call", "out", "prompt"],
            ["U1", "S1"],
            ["U1", "S1", "A1", "U2"],
        ]
        assert kinds(session)[3:] == ["compaction", "assistant", "user", "assistant"]


@pytest.mark.case("C09")
async def test_steering_follows_at_once_when_the_last_reply_was_final(house: House) -> None:
    model = model_with(
        272_000, reply("A1", 3_000, used=250_000).timed(chunk_delay_ms=1, chunk=8_000), say("S1"), say("A2")
    )
    async with house.enter(model=model, settings=compacting(**CODEX)) as session:
        run = await started(session.prompt("U1 go"))
        await model.wait_for_request()
        session.steer("U2 left")
        await run
        assert [shape(request.messages) for request in model.requests] == [
            ["U1"],
            ["U1", "A1", "prompt"],
            ["U1", "S1", "U2"],
        ]


@pytest.mark.case("C46", "P20")
async def test_an_old_report_never_triggers_a_second_compaction(house: House) -> None:
    model = model_with(272_000, reply("A1", 3_000, used=250_000), say("S1"), say("A2"), say("A3"))
    async with house.enter(model=model, settings=compacting(**CODEX)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        await session.prompt("U3")
        assert len(compactions(session)) == 1
        assert session.compactor.size(model).tokens < 5_000


@pytest.mark.case("C46")
async def test_a_report_kept_by_pis_strategy_does_not_count_after_the_compaction(house: House) -> None:
    """The reply that reported 250,000 tokens is kept word for word, its usage is not believed any more."""
    model = model_with(272_000, reply("A1", 30_000), reply("A2", 19_000, used=262_000), say("S1"), say("A3"), say("A4"))
    async with house.enter(model=model, settings=compacting()) as session:
        for prompt in ("U1", "U2", "U3", "U4"):
            await session.prompt(prompt)
        assert len(compactions(session)) == 1
        assert shape(model.requests[-1].messages) == ["S1", "U2", "A2", "U3", "A3", "U4"]


@pytest.mark.case("C04")
async def test_the_body_is_what_came_after_the_first_request_since_the_last_compaction(house: House) -> None:
    used = [(60_000, 10), (79_800, 10), (80_100, 10), (61_000, 10), (80_000, 10)]
    replies = [reply(f"A{at}", 3_000).with_usage(input_tokens=i, output_tokens=o) for at, (i, o) in enumerate(used)]
    model = model_with(272_000, *replies[:3], say("S1"), *replies[3:])
    settings = compacting(**CODEX, auto_limit=20_000, scope="body_after_prefix")
    async with house.enter(model=model, settings=settings) as session:
        for at in range(5):
            await session.prompt(f"U{at}")
        assert kinds(session) == [*["user", "assistant"] * 3, "compaction", *["user", "assistant"] * 2]


@pytest.mark.case("C36")
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_compact_while_a_call_is_open_aborts_the_run_first(house: House, strategy: str) -> None:
    model = model_with(200_000, reply("A1", 3_000), call("forever"), say("S1"), say("A2"))
    begun = asyncio.Event()

    async def forever() -> str:
        """Wait for ever."""
        begun.set()
        return await asyncio.get_running_loop().create_future()

    async with house.enter(model=model, tools=[forever], settings=compacting(strategy=strategy)) as session:
        await session.prompt("U1")
        run = await started(session.prompt("U2"))
        await begun.wait()
        await session.compact()
        await run
        assert kinds(session) == ["user", "assistant", "user", "assistant", "toolResult", "compaction"]
        await session.prompt("U3")
        assert [faults_of(request.messages) for request in model.requests] == [[]] * 4
        assert shape(model.requests[-1].messages)[-1] == "U3"


@pytest.mark.case("C20")
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_an_abort_during_the_summary_of_a_turn_leaves_no_entry(house: House, strategy: str) -> None:
    model = model_with(
        272_000, call("work"), call("work").with_usage(input_tokens=262_000, output_tokens=100), stall(), say("A1")
    )
    async with house.enter(
        model=model, tools=[work], settings=compacting(strategy=strategy, trigger="codex", keep_recent_tokens=2_000)
    ) as session:
        run = await started(session.prompt("U1 go"))
        await model.wait_for_request(3)
        session.follow_up("U2 later")
        await session.abort()
        await run
        assert kinds(session) == ["user", "assistant", "toolResult", "assistant", "toolResult"]
        ended = next(event for event in house.heard if isinstance(event, CompactionEnd))
        assert (ended.aborted, ended.entry_id) == (True, None)
        assert [item.kind for item in session.agent.queues.waiting("followUp")] == ["followUp"]
        session.compactor.settings = CompactionSettings(auto=False)
        session.agent.clear_queue()
        await session.prompt("U3 again")
        assert stored(session.session)[-2:] == ["user: U3 again", "reply: A1 [stop]"]
