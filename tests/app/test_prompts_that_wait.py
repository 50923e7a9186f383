"""Prompts typed while a compaction runs: durable from the start, sent once after it, or left for the user."""

import asyncio
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.app.settings import Settings
from coppice.compaction.settings import CompactionSettings
from coppice.compaction.strategy import CompactionFailed
from coppice.errors import Busy
from coppice.format.events import BashExecutionUpdate, CompactionStart, QueueUpdate
from coppice.format.messages import EntryId
from coppice.providers.scripted import ScriptedModel, ScriptStep, fail, say
from tests.agent.killed import killed
from tests.agent.stage import lines, started, stored
from tests.app.house import House, model_named, path_file

pytestmark = pytest.mark.anyio

SMALL = Settings(tools=(), compaction=CompactionSettings(keep_recent_tokens=10))
SUMMARY = say("They spoke of many things, at length, and in the end agreed.").timed(delay_ms=30)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def long_talk(house: House, *replies: ScriptStep) -> tuple[AgentSession, ScriptedModel]:
    model = ScriptedModel([say("word " * 400), say("more words " * 400), *replies])
    session = house.enter(model=model, settings=SMALL)
    await session.prompt("first " * 200)
    await session.prompt("second")
    return session, model


async def compacting(house: House, session: AgentSession) -> "asyncio.Task[object]":
    run = await started(session.compact())
    while not any(isinstance(event, CompactionStart) for event in house.heard):
        await asyncio.sleep(0)
    return run


@pytest.mark.case("P24")
async def test_a_prompt_during_a_compaction_is_pending_at_once_and_sent_once_after_it(house: House) -> None:
    session, model = await long_talk(house, SUMMARY, say("fine"))
    run = await compacting(house, session)
    prompt = await started(session.prompt("third"))
    waiting = list((house.home / "pending").iterdir())
    await asyncio.gather(run, prompt)
    assert (len(waiting), list((house.home / "pending").iterdir())) == (1, [])
    assert stored(session.session)[-2:] == ["user: third", "reply: fine [stop]"]
    assert [line for line in lines(model.requests[-1].messages) if line == "user: third"] == ["user: third"]
    assert (session.pending_prompts(), session.session.store.newest_compaction(session.session.leaf) is not None) == (
        [],
        True,
    )
    await session.close()


@pytest.mark.case("P24")
async def test_of_two_prompts_during_a_compaction_the_second_is_refused_and_left_to_the_user(house: House) -> None:
    session, _ = await long_talk(house, SUMMARY, say("fine").timed(chunk_delay_ms=1), say("fine too"))
    run = await compacting(house, session)
    prompts = [await started(session.prompt("third")), await started(session.prompt("fourth"))]
    outcomes = await asyncio.gather(run, *prompts, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes[1:]] == [type(None), Busy]
    assert stored(session.session)[-2:] == ["user: third", "reply: fine [stop]"]
    (left,) = session.pending_prompts()
    assert lines([left.message]) == ["user: fourth"]
    await session.send_pending(left.id)
    assert (stored(session.session)[-2:], session.pending_prompts()) == (
        ["user: fourth", "reply: fine too [stop]"],
        [],
    )
    await session.close()


@pytest.mark.case("P24")
async def test_a_prompt_typed_during_a_compaction_that_fails_goes_out_all_the_same(house: House) -> None:
    session, _ = await long_talk(house, fail("no", status=401).timed(delay_ms=30), say("fine"))
    run = await compacting(house, session)
    prompt = await started(session.prompt("third"))
    outcomes = await asyncio.gather(run, prompt, return_exceptions=True)
    assert isinstance(outcomes[0], Exception)
    assert (stored(session.session)[-2:], session.pending_prompts()) == (["user: third", "reply: fine [stop]"], [])
    await session.close()


@pytest.mark.case("P24")
async def test_a_prompt_with_a_wish_to_record_does_not_move_the_leaf_under_a_compaction(house: House) -> None:
    session, _ = await long_talk(house)
    await session.close()
    other = model_named("b", "b1", SUMMARY, say("fine"))
    async with house.enter(open_path=path_file(session), model=other, level="high", settings=SMALL) as again:
        run = await compacting(house, again)
        prompt = await started(again.prompt("third"))
        assert len(again.pending_prompts()) + len(list((house.home / "pending").iterdir())) == 1
        await asyncio.gather(run, prompt)
        kinds = [entry.__struct_config__.tag for entry in again.session.get_branch()[-5:]]  # pyright: ignore[reportAttributeAccessIssue]  (known kinds)
        assert kinds == ["compaction", "model_change", "thinking_level_change", "message", "message"]


@pytest.mark.case("P24")
async def test_what_was_steered_during_a_compaction_is_sent_after_it(house: House) -> None:
    session, _ = await long_talk(house, SUMMARY, say("fine"))
    run = await compacting(house, session)
    steered = session.steer("look left")
    await run
    assert (stored(session.session)[-2:], session.session.get_branch()[-2].id) == (
        ["user: look left", "reply: fine [stop]"],
        steered,
    )
    await session.close()


@pytest.mark.case("P24")
@pytest.mark.parametrize("how", ["abort", "close", "cancel"])
async def test_what_was_steered_during_a_compaction_that_is_stopped_is_not_sent_by_itself(
    house: House, how: str
) -> None:
    session, model = await long_talk(house, SUMMARY, say("never asked for"))
    path, before = path_file(session), path_file(session).read_bytes()
    run = await compacting(house, session)
    steered = session.steer("look left")
    match how:
        case "abort":
            await session.abort()
        case "close":
            await session.close()
        case _:
            run.cancel()
    (outcome,) = await asyncio.gather(run, return_exceptions=True)
    assert isinstance(outcome, CompactionFailed | asyncio.CancelledError)
    assert (len(model.requests), path.read_bytes()) == (3, before)
    if how != "close":
        assert [item.id for item in session.agent.queues.waiting("steering")] == [steered]
    await session.close()
    again = house.enter(open_path=path)
    assert [item.id for item in again.pending_prompts()] == [steered]
    await again.close()


async def test_a_compaction_waits_for_no_command_of_the_users_and_is_refused(house: House) -> None:
    session, _ = await long_talk(house, SUMMARY)
    run = await started(session.run_bash("echo ready; sleep 20"))
    while not any(isinstance(event, BashExecutionUpdate) for event in house.heard):
        await asyncio.sleep(0.01)
    with pytest.raises(Busy):
        await session.compact()
    await session.abort()
    await run
    await session.close()


async def test_what_joins_the_queue_is_told(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    found = killed("waiting", house.home)
    ids = found["ids"]
    assert isinstance(ids, list)
    async with house.enter(open_path=Path(str(found["path"]))) as session:
        session.queue_pending(EntryId(ids[0]), "followUp")
        assert [event for event in house.heard if isinstance(event, QueueUpdate)] == [QueueUpdate((), ("look left",))]
