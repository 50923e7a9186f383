"""The strategy codex-inline: what is asked, what is kept, and what happens when asking fails."""

import asyncio
import re
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.compaction.ask import delay_ms
from coppice.compaction.estimate import estimate_message
from coppice.compaction.prompts import prompt
from coppice.compaction.settings import ModelLimits
from coppice.compaction.strategy import CompactionFailed, NothingToCompact
from coppice.errors import ProviderError
from coppice.format.events import CompactionEnd, SummarizationRetryScheduled
from coppice.format.messages import ImageBlock, TextBlock, UserMessage, is_object, text_of
from coppice.providers.base import Request
from coppice.providers.scripted import ScriptedReply, ScriptStep, call, calls, fail, overflow, say, stall
from coppice.tree.pairing import COMPACTION_OPENING
from tests.agent.stage import started, user_ids
from tests.app.house import House
from tests.compaction.stage import (
    all_text,
    compacting,
    compactions,
    file_bytes,
    model_with,
    replaced_by,
    reply,
    shape,
    summary_requests,
    text,
)
from tests.strict import faults_of

pytestmark = pytest.mark.anyio

INLINE = compacting(strategy="codex-inline")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def work(size: int = 100) -> str:
    """Work."""
    return text("output", size)


def items_of(session: AgentSession) -> list[dict[str, object]]:
    details = compactions(session)[-1].details
    assert is_object(details)
    return details["replacement"]


@pytest.mark.case("C13")
async def test_the_request_is_the_history_and_one_prompt_and_only_the_entry_is_stored(house: House) -> None:
    model = model_with(200_000, call("work", {"size": 2_000}), reply("A1", 2_000), say("S1"))
    async with house.enter(model=model, tools=[work], settings=INLINE) as session:
        await session.prompt("U1 go")
        history = session.session.request_messages(session.agent._parts().reader)  # pyright: ignore[reportPrivateUsage]  (the reader of its model)
        before, ordinary = file_bytes(session), session.agent.next_request()
        await session.compact()
        asked = model.requests[-1]
        assert asked.messages == (*history, UserMessage(prompt("inline")))
        assert (asked.system_prompt, asked.tools, asked.cache_key) == (ordinary.system_prompt, (), ordinary.cache_key)
        added = file_bytes(session).removeprefix(before)
        assert (added.count(b"\n"), b'"type":"compaction"' in added, prompt("inline")[:40].encode() in added) == (
            1,
            True,
            False,
        )


@pytest.mark.case("C13")
async def test_the_users_instructions_are_added_to_the_prompt_of_this_time(house: House) -> None:
    model = model_with(200_000, reply("A1", 2_000), say("S1"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        await session.compact("keep the numbers")
        newest = model.requests[-1].messages[-1]
        assert isinstance(newest, UserMessage)
        assert text_of(newest.content) == f"{prompt('inline')}\n\nThe user asks of it: keep the numbers"


@pytest.mark.case("C14")
async def test_users_messages_and_the_summary_stand_in_the_contexts_place(house: House) -> None:
    model = model_with(200_000, call("work"), reply("A1", 2_000), reply("A2", 2_000), say("S1"))
    async with house.enter(model=model, tools=[work], settings=INLINE) as session:
        await session.prompt("U1 first")
        await session.prompt("U2 second")
        made = await session.compact()
        assert replaced_by(session, made) == ["U1", "U2", "S1"]
        assert [sorted(item) for item in items_of(session)] == [["entry"], ["entry"], ["summary"]]
        entry = compactions(session)[0]
        assert entry.first_kept_entry_id == entry.id
        assert is_object(entry.details)
        assert {key: entry.details[key] for key in ("strategy", "reason", "phase", "retries", "droppedOldest")} == {
            "strategy": "codex-inline",
            "reason": "manual",
            "phase": "standalone",
            "retries": 0,
            "droppedOldest": 0,
        }
        assert entry.details["earliestRef"] == items_of(session)[0]["entry"]


@pytest.mark.case("C15")
async def test_the_newest_users_messages_are_kept_whole_and_the_first_that_does_not_fit_is_cut(house: House) -> None:
    texts = [text("U1", 15_000), text("U2", 10_000), text("U3", 8_000)]
    model = model_with(200_000, *[reply(f"A{at}", 3_000, used=3_100) for at in range(3)], say("S1"))
    async with house.enter(model=model, settings=INLINE) as session:
        for said in texts:
            await session.prompt(said)
        made = await session.compact()
        kept = session.session.request_messages(session.agent._parts().reader, made)  # pyright: ignore[reportPrivateUsage]  (the reader of its model)
        assert shape(kept) == ["U1", "U2", "U3", "S1"]
        sizes = [estimate_message(message) for message in kept[:3]]
        assert 19_500 < sum(sizes) <= 20_000
        cut = kept[0]
        assert isinstance(cut, UserMessage)
        found = re.search(r"…(\d+) tokens truncated…", text_of(cut.content))
        assert found is not None
        assert abs(int(found[1]) - (15_000 - sizes[0])) < 50
        assert [sorted(item) for item in items_of(session)] == [["message", "of"], ["entry"], ["entry"], ["summary"]]


@pytest.mark.case("C15")
async def test_a_single_message_over_the_budget_is_cut_in_its_middle(house: House) -> None:
    model = model_with(200_000, reply("A1", 10, used=20), say("S1"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt(text("U1", 50_000) + " the very end")
        made = await session.compact()
        kept = session.session.request_messages(session.agent._parts().reader, made)  # pyright: ignore[reportPrivateUsage]  (the reader of its model)
        first = kept[0]
        assert isinstance(first, UserMessage)
        assert (shape(kept), text_of(first.content).endswith("the very end")) == (["U1", "S1"], True)
        assert 19_000 < estimate_message(first) <= 20_000


@pytest.mark.case("C16")
async def test_an_earlier_summary_is_read_but_not_kept(house: House) -> None:
    quoting = f"U2 what does this mean: {COMPACTION_OPENING}?"
    model = model_with(200_000, reply("A1", 2_000), say("S1"), reply("A2", 2_000), say("S2"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        await session.compact()
        await session.prompt(quoting)
        made = await session.compact()
        assert shape(model.requests[-1].messages) == ["U1", "S1", "U2", "A2", "prompt"]
        assert replaced_by(session, made) == ["U1", "U2", "S2"]
        assert [sorted(item) for item in items_of(session)] == [["entry"], ["entry"], ["summary"]]


@pytest.mark.case("C17")
async def test_what_extensions_and_commands_said_is_no_users_message(house: House) -> None:
    model = model_with(200_000, reply("A1", 2_000), say("S1"))
    async with house.enter(model=model, settings=INLINE) as session:
        session.session.append_custom_message_entry("env", "ctx here", display=False, details={"context": True})
        session.session.append_custom_message_entry("note", "note", display=True)
        await session.run_bash("echo hello")
        await session.prompt("U1")
        made = await session.compact()
        assert replaced_by(session, made) == ["U1", "S1"]


@pytest.mark.case("C17")
async def test_images_are_not_kept_and_an_image_alone_is_no_text(house: House) -> None:
    image = ImageBlock("QUJD", "image/png")
    model = model_with(200_000, reply("A1", 2_000), reply("A2", 2_000), say("S1"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt((image,))
        await session.prompt((TextBlock("U2"), image, TextBlock("more")))
        made = await session.compact()
        assert replaced_by(session, made) == ["U2", "S1"]
        assert b"QUJD" not in file_bytes(session).splitlines()[-1]


@pytest.mark.case("C12")
@pytest.mark.parametrize("nothing", [say(""), say(" \n\t "), ScriptedReply((TextBlock(""),))])
async def test_a_blank_summary_fails_and_no_older_answer_is_taken_for_it(house: House, nothing: ScriptedReply) -> None:
    """Codex would take the last assistant text of the history; ours fails and changes nothing."""
    model = model_with(200_000, reply("A1", 2_000), nothing, say("A2"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        before = file_bytes(session)
        with pytest.raises(CompactionFailed, match="empty"):
            await session.compact()
        assert file_bytes(session) == before
        ended = [event.error_message for event in house.heard if isinstance(event, CompactionEnd)]
        assert ended == ["the summary came back empty; nothing was compacted"]
        await session.prompt("U2")
        assert shape(model.requests[-1].messages) == ["U1", "A1", "U2"]


def overflowing_above(limit: int, then: ScriptedReply) -> list[ScriptStep]:
    """A provider whose true window is `limit` characters."""

    def answer(request: Request) -> ScriptedReply:
        size = sum(len(str(message)) for message in request.messages)
        return overflow() if size > limit else then

    return [answer] * 20


@pytest.mark.case("C18")
async def test_what_overflows_loses_its_oldest_messages_in_the_request_only(house: House) -> None:
    """Ours: by the estimated excess and at most three requests; Codex drops one message for each request."""
    turns = [call("work", {"size": 1_000}) if at % 2 == 0 else reply(f"A{at}", 1_000) for at in range(20)]
    model = model_with(200_000, *turns, *overflowing_above(100_000, say("S1")))
    async with house.enter(model=model, tools=[work], settings=INLINE) as session:
        for at in range(10):
            await session.prompt(f"U{at} go")
        before, sent = file_bytes(session), len(model.requests)
        whole = session.session.request_messages(session.agent._parts().reader)  # pyright: ignore[reportPrivateUsage]  (the reader of its model)
        made = await session.compact()
        asked = model.requests[sent:]
        assert (2 <= len(asked) <= 3, file_bytes(session).startswith(before)) == (True, True)
        assert [faults_of(request.messages) for request in asked] == [[]] * len(asked)
        entry = compactions(session)[-1]
        assert is_object(entry.details)
        dropped = entry.details["droppedOldest"]
        assert asked[-1].messages[1:-1] == whole[dropped:]
        assert dropped > 0
        assert any(f"oldest {dropped} messages" in notice for notice in house.notices())
        assert replaced_by(session, made)[-2:] == ["U9", "S1"]


@pytest.mark.case("C18", "P18")
async def test_a_summariser_that_always_overflows_is_asked_three_times_and_nothing_changes(house: House) -> None:
    model = model_with(200_000, *[reply(f"A{at}", 1_000) for at in range(6)], *[overflow()] * 9)
    async with house.enter(model=model, settings=INLINE) as session:
        for at in range(6):
            await session.prompt(f"U{at}")
        before = file_bytes(session)
        with pytest.raises(CompactionFailed):
            await session.compact()
        assert (len(summary_requests(model)), file_bytes(session)) == (3, before)


@pytest.mark.case("C18")
async def test_an_overflow_with_one_message_left_is_an_error(house: House) -> None:
    model = model_with(200_000, reply("A1", 3_000), overflow(), overflow(), overflow())
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        with pytest.raises(CompactionFailed, match="even one message"):
            await session.compact()
        assert (len(summary_requests(model)), compactions(session)) == (2, [])


@pytest.mark.case("C18")
async def test_what_the_estimate_says_cannot_fit_is_left_out_before_anything_is_sent(house: House) -> None:
    model = model_with(None, *[reply(f"A{at}", 3_000) for at in range(6)], say("S1"))
    small = {"scripted/scripted": ModelLimits(context_window=8_000)}
    settings = compacting(strategy="codex-inline", auto=False, models=small)
    async with house.enter(model=model, settings=settings) as session:
        for at in range(6):
            await session.prompt(f"U{at}")
        await session.compact()
        (asked,) = summary_requests(model)
        assert shape(asked.messages)[-2:] == ["A5", "prompt"]
        assert sum(map(estimate_message, asked.messages)) <= 8_000 - (asked.max_output or 0)


@pytest.mark.case("C19")
async def test_passing_failures_are_tried_again_after_growing_delays(house: House) -> None:
    model = model_with(200_000, reply("A1", 2_000), fail(status=503), fail(status=503), say("S1"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        await session.compact()
        waits = [event for event in house.heard if isinstance(event, SummarizationRetryScheduled)]
        assert [(event.attempt, event.max_attempts) for event in waits] == [(1, 5), (2, 5)]
        assert 180 <= waits[0].delay_ms <= 220
        assert 360 <= waits[1].delay_ms <= 440
        entry = compactions(session)[-1]
        assert is_object(entry.details)
        assert (len(compactions(session)), entry.details["retries"]) == (1, 2)


@pytest.mark.case("C19")
def test_the_delays_double_and_spread_by_a_tenth() -> None:
    assert [delay_ms(attempt, 0) for attempt in range(1, 6)] == [200, 400, 800, 1_600, 3_200]
    assert (delay_ms(1, -1), delay_ms(1, 1)) == (180, 220)


@pytest.mark.slow
@pytest.mark.case("C19")
async def test_after_six_failures_in_a_row_nothing_has_changed(house: House) -> None:
    model = model_with(200_000, reply("A1", 2_000), *[fail(status=503)] * 6, say("A2"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        before = file_bytes(session)
        with pytest.raises(ProviderError):
            await session.compact()
        assert (len(summary_requests(model)), file_bytes(session)) == (6, before)


@pytest.mark.case("C19")
async def test_an_overflow_begins_the_count_of_failures_anew(house: House) -> None:
    model = model_with(
        200_000, reply("A1", 2_000), reply("A2", 2_000), fail(status=503), overflow(), fail(status=503), say("S1")
    )
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        assert [e.attempt for e in house.heard if isinstance(e, SummarizationRetryScheduled)] == [1, 1]


@pytest.mark.case("C20")
async def test_an_abort_of_compact_leaves_everything_as_it_was(house: House) -> None:
    model = model_with(200_000, reply("A1", 2_000), stall(), say("A2"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        before = file_bytes(session)
        compaction = await started(session.compact())
        await model.wait_for_request(2)
        await session.abort()
        with pytest.raises(CompactionFailed, match="aborted"):
            await compaction
        assert file_bytes(session) == before
        await session.prompt("U2")
        assert shape(model.requests[-1].messages) == ["U1", "A1", "U2"]


@pytest.mark.case("C20")
async def test_a_caller_that_is_cancelled_takes_its_compaction_along(house: House) -> None:
    model = model_with(200_000, reply("A1", 2_000), stall())
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        compaction = await started(session.compact())
        await model.wait_for_request(2)
        compaction.cancel()
        with pytest.raises(asyncio.CancelledError):
            await compaction
        assert (session.is_running, compactions(session)) == (False, [])


@pytest.mark.case("C21")
@pytest.mark.parametrize(("most", "asked"), [(None, 13_107), (4_096, 4_096), (64_000, 13_107)])
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_a_summary_may_take_what_the_model_can_put_out_and_the_reserve_leaves(
    house: House, most: int | None, asked: int, strategy: str
) -> None:
    model = model_with(200_000, reply("A1", 2_000), reply("A2", 2_000), say("S1"), max_output=most)
    async with house.enter(model=model, settings=compacting(strategy=strategy)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        assert summary_requests(model)[0].max_output == asked


@pytest.mark.case("C34")
async def test_a_call_without_output_is_answered_in_the_summarisers_request_too(house: House) -> None:
    model = model_with(
        200_000, calls(call("work"), call("forever"), text="A1"), reply("A2", 2_000), say("S1"), say("S2")
    )
    begun = asyncio.Event()

    async def forever() -> str:
        """Wait for ever."""
        begun.set()
        return await asyncio.get_running_loop().create_future()

    async with house.enter(model=model, tools=[work, forever], settings=INLINE) as session:
        run = await started(session.prompt("U1"))
        await begun.wait()
        await session.abort()
        await run
        await session.prompt("U2")
        await session.compact()
        assert shape(model.requests[-1].messages) == ["U1", "call", "out", "out", "U2", "A2", "prompt"]
        assert faults_of(model.requests[-1].messages) == []
        session.undo_compaction()
        await session.compact()
        assert model.requests[-1].messages == model.requests[-2].messages


@pytest.mark.case("C37")
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_where_there_is_nothing_to_compact_that_is_said_and_nothing_stored(house: House, strategy: str) -> None:
    model = model_with(200_000, reply("A1", 2_000), reply("A2", 2_000), say("S1"))
    async with house.enter(model=model, settings=compacting(strategy=strategy)) as session:
        with pytest.raises(NothingToCompact, match="nothing to compact"):
            await session.compact()
        assert not session.session.is_stored
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        before = file_bytes(session)
        with pytest.raises(NothingToCompact):
            await session.compact()
        assert (file_bytes(session), len(model.requests)) == (before, 3)


@pytest.mark.case("C13")
async def test_a_hidden_text_is_neither_summarised_nor_kept_nor_sent_again(house: House) -> None:
    model = model_with(200_000, reply("A1 heron", 2_000), reply("A2", 2_000), say("S1"), say("A3"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1 heron")
        await session.prompt("U2 heron")
        path = [entry.id for entry in session.session.get_branch() if entry.__struct_config__.tag == "message"]  # pyright: ignore[reportAttributeAccessIssue,reportUnknownMemberType]  (known kinds)
        session.session.append_context_edit(path[0], None)
        session.session.append_context_edit(path[1], "A1 in other words")
        session.session.append_context_edit(path[2], "U2 in other words")
        made = await session.compact()
        await session.prompt("U3")
        assert "heron" not in all_text(model.requests[2:])
        assert replaced_by(session, made) == ["U2", "S1"]
        assert b"heron" not in file_bytes(session).splitlines()[-3]


@pytest.mark.case("C13")
@pytest.mark.parametrize("said", ["short", "long"])
async def test_an_edit_after_the_compaction_counts_for_what_it_kept_whole_or_cut(house: House, said: str) -> None:
    model = model_with(200_000, reply("A1", 3_000), say("S1"), say("A2"), reply("A3", 2_000), say("S2"), say("A4"))
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1 heron" + (text("", 30_000) if said == "long" else ""))
        await session.compact()
        await session.prompt("U2")
        assert "heron" in all_text(model.requests[-1:])
        session.session.append_context_edit(user_ids(session.session)[0], None)
        await session.prompt("U3")
        await session.compact()
        await session.prompt("U4")
        assert "heron" not in all_text(model.requests[3:])
