"""Leaving a branch with a summary of it."""

from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.app.compactor import CompactionAborted
from coppice.compaction.branch_summary import BUDGET_TOKENS
from coppice.compaction.estimate import estimate_text
from coppice.compaction.prompts import prompt
from coppice.errors import CoppiceError, LeafMoved
from coppice.format.entries import BranchSummaryEntry
from coppice.format.events import BranchSummaryEnd, BranchSummaryStart, LeafChanged, SessionEvent
from coppice.format.messages import (
    AssistantMessage,
    Binding,
    EntryId,
    TextBlock,
    ToolCall,
    ToolCallId,
    UserMessage,
    is_object,
    text_of,
)
from coppice.providers.base import Request
from coppice.providers.scripted import ScriptedReply, fail, length, say, stall
from coppice.session.manager import CompactionDraft
from tests.agent.stage import reopened, started
from tests.app.house import House, leaf, path_file
from tests.compaction.stage import compacting, compactions, file_bytes, model_with, reply, text

pytestmark = pytest.mark.anyio

TOLD = say("It was tried and given up.")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


def asked_about(request: Request) -> str:
    """What a summariser was shown."""
    assert request.system_prompt == prompt("system")
    (message,) = request.messages
    assert isinstance(message, UserMessage)
    return text_of(message.content)


def told(events: list[SessionEvent]) -> list[str]:
    kinds = (BranchSummaryStart, BranchSummaryEnd, LeafChanged)
    return [type(event).__name__ for event in events if isinstance(event, kinds)]


def summary_at(session: AgentSession) -> BranchSummaryEntry:
    entry = session.session.get_branch()[-1]
    assert isinstance(entry, BranchSummaryEntry)
    return entry


async def forked_talk(house: House, *replies: ScriptedReply) -> tuple[AgentSession, EntryId]:
    """U1 A1 | U2 A2 U3 A3; the entry before the line."""
    session = house.enter(model=model_with(200_000, say("A1"), say("A2"), say("A3"), *replies))
    await session.prompt("U1")
    first = leaf(session)
    await session.prompt("U2 left")
    await session.prompt("U3 left")
    house.heard.clear()
    assert first is not None
    return session, first


async def test_what_is_left_from_the_common_ancestor_on_is_told_where_the_new_branch_goes_on(house: House) -> None:
    session, first = await forked_talk(house, TOLD, say("A4"))
    left = leaf(session)
    await session.navigate_tree(first, summarize=True, instructions="only the failures")
    entry = summary_at(session)
    assert (entry.parent_id, entry.from_id, entry.from_hook) == (first, left, None)
    assert entry.usage is not None
    assert told(house.heard) == ["BranchSummaryStart", "BranchSummaryEnd", "LeafChanged"]
    model = session.agent.kit.model
    shown = asked_about(model.requests[3])
    assert "U2 left" in shown
    assert "A3" in shown
    assert "U1" not in shown
    assert "only the failures" in shown
    await session.prompt("U4")
    sent = model.requests[-1].messages
    assert [m.content for m in (sent[0], sent[3])] == ["U1", "U4"]
    assert "It was tried and given up." in repr(sent[2])
    again = reopened(path_file(session), house.home)
    assert again.get_branch() == session.session.get_branch()
    again.close()
    await session.close()


async def test_going_to_a_prompt_summarises_it_too_and_gives_its_text_back(house: House) -> None:
    session, first = await forked_talk(house, TOLD)
    prompt_left = next(e.id for e in session.session.get_branch() if "U2 left" in repr(e))
    assert await session.navigate_tree(prompt_left, summarize=True) == "U2 left"
    assert summary_at(session).parent_id == first
    await session.close()


async def test_from_one_branch_to_another_only_what_is_not_shared_is_told(house: House) -> None:
    session, first = await forked_talk(house, say("A4"), TOLD)
    left = leaf(session)
    await session.navigate_tree(first)
    await session.prompt("U4 here")
    assert left is not None
    await session.navigate_tree(left, summarize=True)
    model = session.agent.kit.model
    shown = asked_about(model.requests[-1])
    assert ("U4 here" in shown, "U2" in shown, "U1" in shown) == (True, False, False)
    assert summary_at(session).parent_id == left
    await session.close()


@pytest.mark.parametrize("where", ["forward", "nothing said"])
async def test_where_nothing_is_left_the_leaf_just_moves(house: House, where: str) -> None:
    session, first = await forked_talk(house)
    last = leaf(session)
    await session.navigate_tree(first)
    if where == "nothing said":
        session.session.append_custom_entry("todo", {"n": 1})
    assert last is not None
    await session.navigate_tree(last, summarize=True)
    assert leaf(session) == last
    assert told(house.heard) == ["LeafChanged", "LeafChanged"]
    await session.close()


async def test_edits_count_in_what_is_told(house: House) -> None:
    session, first = await forked_talk(house, TOLD)
    branch = session.session.get_branch()
    hidden, changed = (next(e.id for e in branch if word in repr(e)) for word in ("U2 left", "U3 left"))
    session.session.append_context_edit(hidden, None)
    session.session.append_context_edit(changed, "U3 in other words")
    await session.navigate_tree(first, summarize=True)
    shown = asked_about(session.agent.kit.model.requests[-1])
    assert ("U2 left" in shown, "U3 left" in shown, "U3 in other words" in shown) == (False, False, True)
    await session.close()


async def test_a_compaction_on_the_branch_stands_for_what_it_condensed(house: House) -> None:
    settings = compacting(keep_recent_tokens=300)
    model = model_with(
        200_000, say("A1"), reply("A2", 1_000, used=1_100), reply("A3", 200, used=300), say("S1 of it"), TOLD
    )
    async with house.enter(model=model, settings=settings) as session:
        await session.prompt("U1")
        first = leaf(session)
        await session.prompt("U2 long ago")
        await session.prompt(text("U3 kept", 300))
        await session.compact()
        session.session.append_message(UserMessage("U4 last"))
        assert first is not None
        await session.navigate_tree(first, summarize=True)
        shown = asked_about(model.requests[-1])
        assert [word in shown for word in ("S1 of it", "U3 kept", "U4 last", "U2 long ago")] == [
            True,
            True,
            True,
            False,
        ]


async def test_what_only_a_provider_can_read_is_told_from_the_entries_themselves(house: House) -> None:
    session, first = await forked_talk(house, TOLD)
    binding = Binding("elsewhere", "x")
    details = {"replacement": [{"item": {"type": "compaction"}}], "binding": {"provider": binding.provider, "api": "x"}}
    session.session.append_compaction(CompactionDraft("[not readable]", None, 10, details), expect=leaf(session))
    await session.navigate_tree(first, summarize=True)
    shown = asked_about(session.agent.kit.model.requests[-1])
    assert ("U2 left" in shown, "A3" in shown) == (True, True)
    await session.close()


async def test_a_long_branch_is_told_newest_first_within_the_budget(house: House) -> None:
    session, first = await forked_talk(house, TOLD)
    for number in range(60):
        session.session.append_message(UserMessage(text(f"N{number:02}", 1_000)))
    await session.navigate_tree(first, summarize=True)
    shown = asked_about(session.agent.kit.model.requests[-1])
    present = [number for number in range(60) if f"N{number:02}" in shown]
    assert present == list(range(present[0], 60))
    assert BUDGET_TOKENS * 0.9 < estimate_text(shown) < BUDGET_TOKENS + 1_000
    await session.close()


async def test_one_message_that_is_larger_than_the_budget_is_shortened(house: House) -> None:
    session, first = await forked_talk(house, TOLD)
    session.session.append_message(UserMessage(text("N", 50_000) + " the end"))
    await session.navigate_tree(first, summarize=True)
    shown = asked_about(session.agent.kit.model.requests[-1])
    assert ("the end" in shown, "left out" in shown, estimate_text(shown) < BUDGET_TOKENS + 1_000) == (True, True, True)
    await session.close()


async def test_files_that_were_read_and_changed_are_listed(house: House) -> None:
    session, first = await forked_talk(house, TOLD)
    calls = (
        ToolCall(ToolCallId("c1"), "read", {"path": "a.py"}),
        ToolCall(ToolCallId("c2"), "edit", {"path": "b.py"}),
    )
    session.session.append_message(AssistantMessage(calls, stop_reason="toolUse"))
    await session.navigate_tree(first, summarize=True)
    entry = summary_at(session)
    assert is_object(entry.details)
    assert entry.details == {"readFiles": ["a.py"], "modifiedFiles": ["b.py"]}
    assert "a.py" in entry.summary
    await session.close()


@pytest.mark.parametrize("answer", [fail("no", status=400), say(""), say("  \n"), length("half of")])
async def test_a_summary_that_fails_leaves_the_leaf_where_it_is(house: House, answer: ScriptedReply) -> None:
    session, first = await forked_talk(house, answer)
    before, here = file_bytes(session), leaf(session)
    with pytest.raises(CoppiceError):
        await session.navigate_tree(first, summarize=True)
    assert (file_bytes(session), leaf(session)) == (before, here)
    assert told(house.heard) == ["BranchSummaryStart", "BranchSummaryEnd"]
    assert [event.error_message is None for event in house.heard if isinstance(event, BranchSummaryEnd)] == [False]
    await session.close()


async def test_an_aborted_summary_leaves_the_leaf_where_it_is(house: House) -> None:
    session, first = await forked_talk(house, stall(), say("A4"))
    before = file_bytes(session)
    run = await started(session.navigate_tree(first, summarize=True))
    await session.agent.kit.model.wait_for_request(4)
    assert session.is_running
    await session.abort()
    with pytest.raises(CompactionAborted):
        await run
    assert (file_bytes(session), session.is_running) == (before, False)
    assert [event.aborted for event in house.heard if isinstance(event, BranchSummaryEnd)] == [True]
    await session.prompt("U4")
    await session.close()


async def test_a_prompt_during_a_branch_summary_is_sent_on_the_new_branch(house: House) -> None:
    session, first = await forked_talk(house, TOLD.timed(delay_ms=30), say("A4"))
    run = await started(session.navigate_tree(first, summarize=True))
    await session.prompt("U4")
    await run
    branch = session.session.get_branch()
    summary = next(entry for entry in branch if isinstance(entry, BranchSummaryEntry))
    assert summary.parent_id == first
    assert "U4" in repr(branch[-2])
    assert session.pending_prompts() == []
    await session.close()


async def test_a_leaf_that_moved_meanwhile_gets_no_summary(house: House) -> None:
    session, first = await forked_talk(house, TOLD.timed(delay_ms=20))
    run = await started(session.navigate_tree(first, summarize=True))
    session.session.append_message(UserMessage("from elsewhere"))
    before = file_bytes(session)
    with pytest.raises(LeafMoved):
        await run
    assert file_bytes(session) == before
    await session.close()


@pytest.mark.case("P10")
async def test_a_branch_with_a_summary_keeps_its_ancestors_its_model_and_its_level(house: House) -> None:
    """20 entries, the model changed at entry 5, the thinking level at 15; back to entry 10. The level is a fact of the
    path: what was set on the branch that is left does not count."""
    other = model_with(200_000, TOLD, say("A11"), name="other/one")
    model = model_with(200_000)
    async with house.enter(models=[model, other], level="low") as session:
        manager = session.session
        made: list[EntryId] = []
        for number in range(1, 21):
            match number:
                case 5:
                    made.append(manager.append_model_change("other", "one"))
                case 15:
                    made.append(manager.append_thinking_level_change("high"))
                case _ if number % 2:
                    made.append(manager.append_message(UserMessage(f"U{number}")))
                case _:
                    provider, model_id = ("other", "one") if number > 5 else ("scripted", "scripted")
                    said = (TextBlock(f"A{number}"),)
                    made.append(manager.append_message(AssistantMessage(said, provider, provider, model_id)))
        session.set_thinking_level("high")
        await session.navigate_tree(made[9], summarize=True)
        assert (session.model.info.name, session.thinking_level) == ("other/one", "off")
        await session.prompt("U21")
        words = [text_of(m.content).split()[0] for m in other.requests[-1].messages]
        assert words == ["U1", "A2", "U3", "A4", "A6", "U7", "A8", "U9", "A10", "The", "U21"]
        path = path_file(session)
    async with house.enter(models=[model, other], open_path=path) as session:
        assert (session.model.info.name, session.thinking_level) == ("other/one", "off")


@pytest.mark.case("P09")
async def test_what_was_said_on_an_abandoned_branch_reaches_no_summariser_and_no_later_request(house: House) -> None:
    replies = (reply("A4", 2_000, used=2_100), reply("A5", 10, used=400), say("S1"), say("A6"), say("A7"))
    model = model_with(200_000, say("A1"), say("A2"), say("A3"), *replies)
    async with house.enter(model=model, settings=compacting(keep_recent_tokens=50)) as session:
        await session.prompt("U1")
        first = leaf(session)
        await session.prompt('the secret word is "heron"')
        await session.prompt("U3")
        left, number = leaf(session), len(model.requests)
        assert first is not None
        await session.navigate_tree(first)
        await session.prompt("U4")
        await session.prompt(text("U5", 60))
        await session.compact()
        assert len(compactions(session)) == 1
        await session.prompt("U6")
        assert "heron" not in repr(model.requests[number:])
        assert b"heron" in file_bytes(session)
        assert left is not None
        await session.navigate_tree(left)
        await session.prompt("U7")
        assert "heron" in repr(model.requests[-1])
