"""A compaction beside everything else: one at a time, never on another leaf, stopped, and what comes in meanwhile."""

import asyncio
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.app.compactor import CompactionAborted
from coppice.app.extensions.hooks import BeforeCompact
from coppice.compaction.strategy import CompactionFailed
from coppice.errors import Busy, LeafMoved, ProviderError
from coppice.format.events import CompactionEnd, CompactionStart, MessageEnd, Notice
from coppice.format.messages import AssistantMessage, ImageBlock, TextBlock, Usage, UserMessage
from coppice.providers.scripted import ScriptedModel, ScriptStep, call, fail, say, stall
from coppice.session.manager import CompactionDraft
from tests.agent.stage import started, stored, told
from tests.app.house import House, leaf, path_file
from tests.compaction.stage import compacting, compactions, file_bytes, kinds, model_with, reply, shape, text

pytestmark = pytest.mark.anyio

SLOW = say("S1 of it").timed(delay_ms=30)
SMALL = compacting(keep_recent_tokens=300)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def talk(house: House, *replies: ScriptStep, used: int | None = None) -> tuple[AgentSession, ScriptedModel]:
    """Two turns in a window of 100,000; with `used` the next prompt is over the limit."""
    model = model_with(100_000, reply("A1", 1000), reply("A2", 50, used=used), *replies)
    session = house.enter(model=model, settings=SMALL)
    await session.prompt("U1")
    await session.prompt(text("U2", 400))
    return session, model


async def until_begun(house: House) -> None:
    while not any(isinstance(event, CompactionStart) for event in house.heard):
        await asyncio.sleep(0)


def sent(model: ScriptedModel) -> list[list[str]]:
    """What was sent after the two turns."""
    return [shape(request.messages) for request in model.requests[2:]]


@pytest.mark.case("C53")
async def test_a_manual_compaction_joins_the_automatic_one_that_runs(house: House) -> None:
    session, model = await talk(house, SLOW, say("A3"), used=90_000)
    prompt = await started(session.prompt("U3"))
    await until_begun(house)
    made = await session.compact("with wishes of its own")
    await prompt
    assert [entry.id for entry in compactions(session)] == [made]
    assert any("already" in notice for notice in house.notices())
    assert shape(model.requests[-1].messages) == ["S1", "U2", "A2", "U3"]
    await session.close()


@pytest.mark.case("C53")
async def test_two_prompts_over_the_limit_at_once_are_condensed_for_once(house: House) -> None:
    session, _ = await talk(house, SLOW, say("A3"), used=90_000)
    outcomes = await asyncio.gather(session.prompt("U3"), session.prompt("U4"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), Busy]
    assert len(compactions(session)) == 1
    assert [item.message.content for item in session.pending_prompts()] == ["U4"]
    await session.close()


@pytest.mark.case("C53")
async def test_two_manual_compactions_at_once_are_one(house: House) -> None:
    session, _ = await talk(house, SLOW)
    one, other = await asyncio.gather(session.compact(), session.compact())
    assert (one == other, len(compactions(session))) == (True, 1)
    await session.close()


async def test_a_manual_compaction_tries_itself_where_the_one_that_ran_failed(house: House) -> None:
    session, _ = await talk(house, fail("no", status=400).timed(delay_ms=30), SLOW)
    one, other = await asyncio.gather(session.compact(), session.compact(), return_exceptions=True)
    assert isinstance(one, ProviderError)
    assert [entry.id for entry in compactions(session)] == [other]
    await session.close()


@pytest.mark.case("C42")
async def test_moving_is_refused_while_a_compaction_runs(house: House) -> None:
    session, _ = await talk(house, SLOW)
    first, here = session.session.get_branch()[2].id, leaf(session)
    run = await started(session.compact())
    assert session.is_running
    for move in (session.navigate_tree(first), session.navigate_tree(first, summarize=True)):
        with pytest.raises(Busy):
            await move
    for command in (session.clone, session.new_session, session.undo_compaction):
        with pytest.raises(Busy):
            command()
    made = await run
    assert (session.is_running, leaf(session)) == (False, made)
    entry = session.session.get_entry(compactions(session)[0].id)
    assert entry is not None
    assert entry.parent_id == here
    await session.close()


@pytest.mark.case("C42")
async def test_a_summary_never_lands_on_another_leaf(house: House) -> None:
    session, _ = await talk(house, SLOW)
    run = await started(session.compact())
    await until_begun(house)
    elsewhere = session.session.get_branch()[2].id
    session.session.branch(elsewhere)  # what an extension or a program with the library could do
    before = file_bytes(session)
    with pytest.raises(LeafMoved):
        await run
    assert (file_bytes(session), leaf(session), compactions(session)) == (before, elsewhere, [])
    assert [event.error_message is not None for event in house.heard if isinstance(event, CompactionEnd)] == [True]
    await session.close()


async def test_an_aborted_compaction_leaves_no_trace_and_can_be_tried_again(house: House) -> None:
    session, model = await talk(house, stall(), say("S1"))
    before = file_bytes(session)
    run = await started(session.compact())
    await model.wait_for_request(3)
    await session.abort()
    with pytest.raises(CompactionAborted):
        await run
    assert (file_bytes(session), session.is_running) == (before, False)
    assert [event.aborted for event in house.heard if isinstance(event, CompactionEnd)] == [True]
    await session.compact()
    assert len(compactions(session)) == 1
    await session.close()


async def test_an_aborted_automatic_compaction_leaves_its_prompt_pending(house: House) -> None:
    session, model = await talk(house, stall(), say("S1"), say("A3"), used=90_000)
    run = await started(session.prompt("U3"))
    await model.wait_for_request(3)
    await session.abort()
    with pytest.raises(CompactionAborted):
        await run
    (pending,) = session.pending_prompts()
    await session.send_pending(pending.id)
    assert stored(session.session)[-2:] == ["user: U3", "reply: A3 [stop]"]
    assert session.pending_prompts() == []
    await session.close()


async def test_a_run_is_aborted_before_a_compaction(house: House) -> None:
    session, model = await talk(house, stall(), say("S1"))
    run = await started(session.prompt("U3"))
    await model.wait_for_request(3)
    await session.compact()
    await run
    assert kinds(session) == ["user", "assistant"] * 3 + ["compaction"]
    await session.close()


@pytest.mark.case("C56")
async def test_a_prompt_whose_compaction_fails_is_pending_with_its_images(house: House) -> None:
    session, _ = await talk(house, fail("no", status=400), say("S1"), say("A3"), used=90_000)
    content = (TextBlock("U3 see"), ImageBlock("aGk=", "image/png"))
    before = file_bytes(session)
    with pytest.raises(ProviderError):
        await session.prompt(content)
    assert file_bytes(session) == before
    (pending,) = session.pending_prompts()
    assert isinstance(pending.message, UserMessage)
    assert pending.message.content == content
    await session.send_pending(pending.id)
    assert stored(session.session)[-1] == "reply: A3 [stop]"
    entry = session.session.get_entry(pending.id)
    assert entry is not None
    assert entry.message.content == content
    await session.close()


# --- what comes in meanwhile ---------------------------------------------------------------------


@pytest.mark.case("P24", "C45")
@pytest.mark.parametrize("when", ["same tick", "during the summary"])
async def test_what_is_typed_while_an_automatic_compaction_runs_is_stored_once_and_sent_after_it(
    house: House, when: str
) -> None:
    session, model = await talk(house, SLOW, say("A3"), say("A4"), used=90_000)

    def type_it(event: object) -> None:
        if isinstance(event, CompactionStart):
            session.steer("V1 steered")
            session.follow_up("V2 followed")

    if when == "same tick":
        session.subscribe(type_it)
    run = await started(session.prompt("U3"))
    if when != "same tick":
        await model.wait_for_request(3)
        session.steer("V1 steered")
        session.follow_up("V2 followed")
    await run
    assert sent(model)[1:] == [["S1", "U2", "A2", "U3", "V1"], ["S1", "U2", "A2", "U3", "V1", "A3", "V2"]]
    assert stored(session.session)[-5:] == [
        "user: U3",
        "user: V1 steered",
        "reply: A3 [stop]",
        "user: V2 followed",
        "reply: A4 [stop]",
    ]
    assert session.pending_prompts() == []
    await session.close()


@pytest.mark.case("P24")
async def test_a_steer_that_was_taken_from_the_queue_before_its_run_was_aborted_for_a_compaction_is_kept(
    house: House,
) -> None:
    """A manual compaction aborts the run. The message is in the transcript already: it is in the context after the
    compaction and goes with the next request, once; it is not sent by itself."""
    session, model = await talk(house, say("A3").timed(delay_ms=20), stall(), say("S1"), say("A4"))
    run = await started(session.prompt("U3"))
    await model.wait_for_request(3)
    taken = asyncio.Event()
    session.subscribe(lambda event: taken.set() if _is_steer(event) else None)
    session.steer("V1 steered")
    await taken.wait()
    await session.compact()
    await run
    assert [line for line in stored(session.session) if "V1" in line] == ["user: V1 steered"]
    await session.prompt("U4")
    assert sent(model)[-1].count("V1") == 1
    assert sent(model)[-1][-2:] == ["V1", "U4"]
    await session.close()


def _is_steer(event: object) -> bool:
    return isinstance(event, MessageEnd) and isinstance(event.message, UserMessage) and "V1" in repr(event.message)


@pytest.mark.case("P24", "C45")
async def test_what_is_typed_in_the_last_tool_before_a_compaction_in_the_turn_comes_after_it(house: House) -> None:
    """The steer waits until the model has answered its own results once (Codex's rule, PR #17163)."""

    async def last() -> str:
        """The last tool."""
        session.steer("V1 steered")
        session.follow_up("V2 followed")
        return text("output", 2_000)

    model = model_with(
        20_000,
        call("last").with_usage(input_tokens=16_000, output_tokens=10),
        say("S1"),
        say("A1"),
        say("A2"),
        say("A3"),
    )
    settings = compacting(strategy="codex-inline")
    session = house.enter(model=model, tools=[last], settings=settings)
    await session.prompt("U1")
    assert [shape(request.messages) for request in model.requests[2:]] == [
        ["U1", "S1"],
        ["U1", "S1", "A1", "V1"],
        ["U1", "S1", "A1", "V1", "A2", "V2"],
    ]
    assert len(compactions(session)) == 1
    await session.close()


@pytest.mark.case("C54")
async def test_a_compaction_in_the_middle_of_a_turn_is_no_event_of_the_turn(house: House) -> None:
    def work() -> str:
        """Work."""
        return text("output", 2_000)

    heard: list[list[str]] = []
    for used in (100, 16_000):
        house.heard.clear()
        model = model_with(
            20_000,
            call("work").with_usage(input_tokens=used, output_tokens=10),
            *([say("S1")] if used > 10_000 else []),
            say("A1"),
        )
        async with house.enter(model=model, tools=[work], settings=compacting(strategy="codex-inline")) as session:
            await session.prompt("U1")
            assert len(compactions(session)) == (1 if used > 10_000 else 0)
        heard.append([name for name in told(house.heard) if not name.startswith("compaction")])
    plain, condensed = heard
    assert plain == condensed
    assert plain.count("agent_end") == 1


@pytest.mark.case("P20")
async def test_after_a_compaction_no_old_report_counts_and_the_next_is_not_due(house: House) -> None:
    """The requests ask for no number of output tokens, so the model's own maximum holds."""
    settings = compacting(reserve_tokens=16_000, keep_recent_tokens=9_000)
    model = model_with(
        100_000, reply("A1", 30_000, used=31_000), reply("A2", 9_000, used=95_000), say("S1"), say("A3"), say("A4")
    )
    async with house.enter(model=model, settings=settings) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        await session.prompt(text("U3", 1_000))
        assert len(compactions(session)) == 1
        assert model.requests[-1].max_output is None
        assert session.compactor.size(session.model).tokens < 25_000
        await session.prompt("U4")
        assert len(compactions(session)) == 1


@pytest.mark.case("P20")
async def test_of_three_compactions_the_last_counts_and_a_report_of_nothing_is_skipped(house: House) -> None:
    async with house.enter(model=model_with(100_000, say("A9"))) as session:
        manager = session.session
        for number in range(3):
            said = manager.append_message(UserMessage(f"U{number}"))
            used = Usage(input=95_000, total_tokens=95_000)
            manager.append_message(AssistantMessage((TextBlock(f"A{number}"),), "scripted", usage=used))
            manager.append_compaction(CompactionDraft(f"S{number}", said, 95_000), expect=leaf(session))
            size = session.compactor.size(session.model)
            assert (size.is_known, size.tokens < 2_000) == (False, True)
        manager.append_message(UserMessage("U7"))
        known = Usage(input=11_000, total_tokens=11_000)
        manager.append_message(AssistantMessage((TextBlock("A7"),), "scripted", usage=known))
        manager.append_message(UserMessage("U8"))
        manager.append_message(AssistantMessage((TextBlock("A8"),), "scripted"))
        assert 11_000 <= session.compactor.size(session.model).tokens < 11_100


async def test_a_hook_that_waits_does_not_let_another_compaction_in(house: House) -> None:
    session, _ = await talk(house, SLOW, SLOW)
    gate = asyncio.Event()

    async def wait(_: BeforeCompact) -> None:
        await gate.wait()

    session.hooks.before_compact.append(wait)
    one, other = await started(session.compact()), await started(session.compact())
    gate.set()
    assert await one == await other
    await session.close()


async def test_a_compaction_with_nothing_to_do_is_told_and_stores_nothing(house: House) -> None:
    session = house.enter(say("A1"), settings=SMALL)
    with pytest.raises(CompactionFailed, match="nothing to compact"):
        await session.compact()
    await session.prompt("U1")
    before = path_file(session).read_bytes()
    with pytest.raises(CompactionFailed):
        await session.compact()
    assert path_file(session).read_bytes() == before
    assert [event for event in house.heard if isinstance(event, Notice)] == []
    await session.close()
