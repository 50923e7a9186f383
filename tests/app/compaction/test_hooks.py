"""Hooks around a compaction and a move, and the context that extensions declare."""

from pathlib import Path

import pytest

from coppice.app.branching import NavigationCancelled
from coppice.app.compactor import RunStopped
from coppice.app.extensions.hooks import AfterCompact, BeforeCompact, BeforeNavigate, Cancel, Stop, Summary
from coppice.compaction.strategy import CompactionFailed
from coppice.format.events import CompactionEnd
from coppice.format.messages import is_object
from coppice.providers.scripted import call, say
from tests.app.house import House, leaf
from tests.compaction.stage import compacting, compactions, file_bytes, kinds, model_with, reply, shape, text

pytestmark = pytest.mark.anyio

SMALL = compacting(keep_recent_tokens=300)
INLINE = compacting(strategy="codex-inline")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


@pytest.mark.case("C55")
async def test_a_hook_before_a_compaction_can_forbid_it_and_nothing_is_sent_or_stored(house: House) -> None:
    asked: list[BeforeCompact] = []

    async def forbid(event: BeforeCompact) -> Cancel:
        asked.append(event)
        return Cancel("not on Fridays")

    model = model_with(20_000, reply("A1", 1000), reply("A2", 1000))
    async with house.enter(model=model, settings=SMALL) as session:
        session.hooks.before_compact.append(forbid)
        await session.prompt("U1")
        await session.prompt("U2")
        before, here = file_bytes(session), leaf(session)
        with pytest.raises(CompactionFailed, match="not on Fridays"):
            await session.compact("shortly")
        assert (len(model.requests), file_bytes(session)) == (2, before)
        (event,) = asked
        assert (event.reason, event.phase, event.strategy, event.leaf, event.instructions) == (
            "manual",
            "standalone",
            "summary",
            here,
            "shortly",
        )
        (end,) = [event for event in house.heard if isinstance(event, CompactionEnd)]
        assert end.error_message == "compaction was cancelled: not on Fridays"


@pytest.mark.case("C55")
async def test_a_hook_before_a_compaction_can_give_the_summary(house: House) -> None:
    async def give(_: BeforeCompact) -> Summary:
        return Summary("S1 by a hook")

    model = model_with(20_000, reply("A1", 1000), reply("A2", 1000), say("A3"))
    async with house.enter(model=model, settings=SMALL) as session:
        session.hooks.before_compact.append(give)
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        (entry,) = compactions(session)
        assert (entry.from_hook, entry.summary, len(model.requests)) == (True, "S1 by a hook", 2)
        await session.prompt("U3")
        assert shape(model.requests[-1].messages)[0] == "S1"


@pytest.mark.case("C55")
async def test_an_empty_summary_of_a_hook_is_refused(house: House) -> None:
    async def give(_: BeforeCompact) -> Summary:
        return Summary("  \n")

    model = model_with(20_000, reply("A1", 1000), reply("A2", 1000))
    async with house.enter(model=model, settings=SMALL) as session:
        session.hooks.before_compact.append(give)
        await session.prompt("U1")
        await session.prompt("U2")
        before = file_bytes(session)
        with pytest.raises(CompactionFailed, match="empty"):
            await session.compact()
        assert file_bytes(session) == before


@pytest.mark.case("C55")
async def test_a_hook_after_a_compaction_sees_its_entry_and_ends_the_run_but_not_the_entry(house: House) -> None:
    seen: list[AfterCompact] = []

    async def stop(event: AfterCompact) -> Stop:
        seen.append(event)
        assert session.session.get_entry(event.entry_id) is not None
        return Stop("look at it first")

    def work() -> str:
        """Work."""
        return text("output", 2_000)

    model = model_with(20_000, call("work").with_usage(input_tokens=16_000, output_tokens=10), say("S1"), say("A1"))
    async with house.enter(model=model, tools=[work], settings=INLINE) as session:
        session.hooks.after_compact.append(stop)
        with pytest.raises(RunStopped, match="look at it first"):
            await session.prompt("U1")
        assert kinds(session) == ["user", "assistant", "toolResult", "compaction"]
        assert [event.entry_id for event in seen] == [leaf(session)]
        assert not session.is_running
        session.hooks.after_compact.clear()
        await session.continue_()
        assert shape(model.requests[-1].messages) == ["U1", "S1"]


@pytest.mark.case("C55")
async def test_after_a_manual_compaction_a_stop_is_told_and_what_waits_is_not_sent(house: House) -> None:
    async def stop(_: AfterCompact) -> Stop:
        session.steer("V1")
        return Stop("enough")

    model = model_with(20_000, reply("A1", 1000), reply("A2", 1000), say("S1"))
    async with house.enter(model=model, settings=SMALL) as session:
        session.hooks.after_compact.append(stop)
        await session.prompt("U1")
        await session.prompt("U2")
        with pytest.raises(RunStopped, match="enough"):
            await session.compact()
        assert (len(compactions(session)), len(model.requests)) == (1, 3)
        assert [item.kind for item in session.agent.queues.waiting("steering")] == ["steering"]


async def test_a_hook_that_fails_is_told_and_passed_over(house: House) -> None:
    async def broken(_: BeforeCompact) -> None:
        raise ValueError("oh")

    model = model_with(20_000, reply("A1", 1000), reply("A2", 1000), say("S1"))
    async with house.enter(model=model, settings=SMALL) as session:
        session.hooks.before_compact.append(broken)
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        assert len(compactions(session)) == 1
        assert house.notices() == ["a hook failed and was passed over: ValueError: oh"]


# --- moving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("summarize", [True, False])
async def test_a_hook_before_a_move_can_forbid_it(house: House, summarize: bool) -> None:
    asked: list[BeforeNavigate] = []

    async def forbid(event: BeforeNavigate) -> Cancel:
        asked.append(event)
        return Cancel("stay")

    async with house.enter(model=model_with(20_000, say("A1"), say("A2"))) as session:
        session.hooks.before_navigate.append(forbid)
        await session.prompt("U1")
        first = leaf(session)
        await session.prompt("U2")
        here, before = leaf(session), file_bytes(session)
        assert first is not None
        with pytest.raises(NavigationCancelled, match="stay"):
            await session.navigate_tree(first, summarize=summarize)
        assert (leaf(session), file_bytes(session)) == (here, before)
        assert asked == [BeforeNavigate(first, here, summarize)]


async def test_a_hook_before_a_move_can_give_the_summary_where_one_is_wanted(house: House) -> None:
    async def give(_: BeforeNavigate) -> Summary:
        return Summary("what a hook says of it")

    async with house.enter(model=model_with(20_000, say("A1"), say("A2"), say("A3"))) as session:
        session.hooks.before_navigate.append(give)
        await session.prompt("U1")
        first = leaf(session)
        await session.prompt("U2")
        last = leaf(session)
        assert first is not None
        assert last is not None
        await session.navigate_tree(first)
        assert leaf(session) == first
        await session.navigate_tree(last)
        await session.navigate_tree(first, summarize=True)
        entry = session.session.get_branch()[-1]
        assert entry is not None
        assert (entry.parent_id, entry.summary, entry.from_hook, entry.usage) == (
            first,
            "what a hook says of it",
            True,
            None,
        )


# --- what extensions declare as context ----------------------------------------------------------


@pytest.mark.case("C57")
@pytest.mark.parametrize("strategy", ["summary", "codex-inline"])
async def test_context_that_is_dropped_is_listed_in_the_entry_and_told(house: House, strategy: str) -> None:
    """Codex drops what earlier turns mentioned without a word; ours lists it, and the extension can add it again. There
    are no skills yet; what an extension declares as context stands for their bodies."""
    model = model_with(200_000, reply("A1", 1000), reply("A2", 1000), say("S1"))
    async with house.enter(model=model, settings=compacting(strategy=strategy, keep_recent_tokens=300)) as session:
        session.session.append_custom_message_entry("skill", "BODY of it", display=False, details={"context": True})
        session.session.append_custom_message_entry("note", "NOTE of it", display=False)
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        (entry,) = compactions(session)
        assert is_object(entry.details)
        assert entry.details["droppedContext"] == ["skill"]
        assert [notice for notice in house.notices() if "skill" in notice] == [
            "no longer word for word in the context, until an extension adds it again: skill"
        ]


@pytest.mark.case("C57")
async def test_context_that_stays_in_the_middle_of_a_turn_is_not_listed(house: House) -> None:
    def work() -> str:
        """Work."""
        return text("output", 2_000)

    model = model_with(20_000, call("work").with_usage(input_tokens=16_000, output_tokens=10), say("S1"), say("A1"))
    async with house.enter(model=model, tools=[work], settings=INLINE) as session:
        session.session.append_custom_message_entry("skill", "BODY of it", display=False, details={"context": True})
        await session.prompt("U1")
        (entry,) = compactions(session)
        assert is_object(entry.details)
        assert "droppedContext" not in entry.details
        assert shape(model.requests[-1].messages) == ["BODY", "U1", "S1"]
