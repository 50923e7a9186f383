"""What keeps compaction from running in circles, and what counts as a full context."""

import asyncio
from pathlib import Path

import pytest

from coppice.app.compactor import ContextFull
from coppice.compaction.estimate import estimate_request
from coppice.compaction.settings import ModelLimits
from coppice.compaction.strategy import CompactionFailed
from coppice.errors import CoppiceError
from coppice.format.events import CompactionEnd, CompactionStart, ToolExecutionStart
from coppice.format.messages import (
    AssistantMessage,
    TextBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
)
from coppice.providers.base import Request
from coppice.providers.scripted import ScriptedReply, ScriptStep, call, fail, length, overflow, say, stall
from coppice.session.manager import SessionManager
from tests.agent.stage import started, stored, user_ids
from tests.app.house import House
from tests.compaction.stage import (
    CODEX,
    all_text,
    compacting,
    compactions,
    file_bytes,
    is_summary_request,
    kinds,
    model_with,
    reply,
    shape,
    summary_requests,
    text,
)
from tests.strict import faults_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def work(size: int = 3_000) -> str:
    """Work."""
    return text("output", size)


# --- no progress -------------------------------------------------------------------------------


def never_done(request: Request) -> ScriptedReply:
    """A model that always calls a tool, and summarises when it is asked to."""
    return say("S1") if is_summary_request(request) else call("work")


@pytest.mark.case("C47")
async def test_after_three_compactions_without_progress_the_run_ends_until_the_user_speaks(house: House) -> None:
    model = model_with(100_000, *[never_done] * 40)
    settings = compacting(**CODEX, auto_limit=2_000)
    async with house.enter(model=model, tools=[work], settings=settings) as session:
        with pytest.raises(ContextFull, match="3 compactions in a row made no room"):
            await session.prompt(text("U1", 3_000))
        assert len(compactions(session)) == 3
        assert {entry.details["tokensAfter"] >= 2_000 for entry in compactions(session)} == {True}
        with pytest.raises(ContextFull):
            await session.prompt(text("U2", 3_000))
        assert len(compactions(session)) > 3


@pytest.mark.case("C47")
async def test_what_is_steered_into_a_run_is_a_users_message_too(house: House) -> None:
    model = model_with(
        200_000, reply("A1", 3_000), overflow(), say("S1"), call("work"), overflow(), say("S2"), say("A2")
    )
    async with house.enter(model=model, tools=[work], settings=compacting(strategy="codex-inline")) as session:

        def steer(event: object) -> None:
            if isinstance(event, ToolExecutionStart):
                session.steer("U3 go on")

        session.subscribe(steer)
        await session.prompt("U1")
        await session.prompt("U2")
        assert (len(compactions(session)), shape(model.requests[-1].messages)) == (2, ["U1", "U2", "U3", "S2"])


@pytest.mark.case("C48")
async def test_a_result_that_is_larger_than_before_is_discarded_and_not_tried_again_until_growth(house: House) -> None:
    model = model_with(
        272_000,
        reply("A1", 3_000, used=250_000),
        reply("S1", 9_000),
        reply("A2", 10, used=250_500),
        reply("A3", 10, used=263_000),
        say("S2"),
        say("A4"),
    )
    async with house.enter(model=model, settings=compacting(**CODEX)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert (compactions(session), len(summary_requests(model))) == ([], 1)
        assert next(e.error_message or "" for e in house.heard if isinstance(e, CompactionEnd)).startswith(
            "the compaction would not help"
        )
        await session.prompt("U3")
        assert (compactions(session), len(summary_requests(model))) == ([], 1)
        await session.prompt("U4")
        assert (len(compactions(session)), len(summary_requests(model))) == (1, 2)
        assert shape(model.requests[-1].messages) == ["U1", "U2", "U3", "S2", "U4"]


# --- overflow ----------------------------------------------------------------------------------

OVERFLOWS = [
    overflow("prompt too long; exceeded max context length by 918 tokens"),
    overflow("request (66202 tokens) exceeds the available context size (65536 tokens)"),
    overflow("no matter what", code="context_length_exceeded"),
    overflow("the reply stopped", status=None, code="model_context_window_exceeded"),
    overflow(
        "This model's maximum context length is 8192 tokens. However, you requested 0 output tokens and your prompt "
        "contains at least 8193 input tokens"
    ),
    overflow("upstream: the request exceeds the model's maximum context length of 131072 tokens", status=503),
]


@pytest.mark.case("P21", "C49")
@pytest.mark.parametrize("too_large", OVERFLOWS)
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_an_overflow_is_compacted_and_sent_once_more(
    house: House, too_large: ScriptedReply, strategy: str
) -> None:
    model = model_with(200_000, reply("A1", 3_000), too_large, say("S1"), say("A2"))
    async with house.enter(model=model, settings=compacting(strategy=strategy)) as session:
        await session.prompt("U1")
        await session.prompt("U2 once")
        assert [event.reason for event in house.heard if isinstance(event, CompactionStart)] == ["overflow"]
        assert (len(compactions(session)), len(model.requests)) == (1, 4)
        assert stored(session.session).count("user: U2 once") == 1
        assert shape(model.requests[-1].messages) == (
            ["U1", "U2", "S1"] if strategy == "codex-inline" else ["S1", "U2"]
        )


@pytest.mark.case("P21")
@pytest.mark.parametrize(
    "failure", [fail("", status=429), fail(status=529), fail("the attachment is too large", status=413)]
)
async def test_another_failure_is_no_overflow(house: House, failure: ScriptedReply) -> None:
    model = model_with(200_000, reply("A1", 3_000), *[failure] * 4, say("A2"))
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert (compactions(session), summary_requests(model)) == ([], [])
        assert kinds(session).count("user") == 2


@pytest.mark.case("C49", "P18")
async def test_a_second_overflow_is_an_error_and_no_loop(house: House) -> None:
    model = model_with(200_000, reply("A1", 3_000), overflow(), say("S1"), overflow(), say("A3"))
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert (len(compactions(session)), len(model.requests)) == (1, 4)
        assert stored(session.session)[-1] == "reply:  [error]"
        await session.prompt("U3")
        assert shape(model.requests[-1].messages) == ["S1", "U2", "U3"]


@pytest.mark.case("C49")
async def test_a_length_stop_does_not_let_an_overflow_be_compacted_again(house: House) -> None:
    full = ScriptedReply(stop_reason="length").with_usage(input_tokens=199_000, output_tokens=0)
    model = model_with(200_000, reply("A1", 3_000), overflow(), say("S1"), full)
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert (len(compactions(session)), len(model.requests)) == (1, 4)


@pytest.mark.case("P22", "C49")
async def test_off_means_off_on_overflow_too_and_compact_works(house: House) -> None:
    model = model_with(200_000, reply("A1", 3_000), overflow(), say("S1"), say("A2"))
    async with house.enter(model=model, settings=compacting(auto=False)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert (compactions(session), len(model.requests)) == ([], 2)
        assert stored(session.session)[-1] == "reply:  [error]"
        assert any("larger than its window" in notice for notice in house.notices())
        await session.compact()
        await session.prompt("U2")
        assert (len(compactions(session)), shape(model.requests[-1].messages)) == (1, ["S1", "U2", "U2"])


@pytest.mark.case("P22")
async def test_off_means_that_no_threshold_compacts(house: House) -> None:
    model = model_with(200_000, reply("A1", 3_000, used=199_000), say("A2"))
    async with house.enter(model=model, settings=compacting(auto=False)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert compactions(session) == []


# --- length ------------------------------------------------------------------------------------


@pytest.mark.case("P23")
async def test_a_reply_cut_off_by_a_full_context_is_compacted_and_the_work_goes_on(house: House) -> None:
    full = length().with_usage(input_tokens=196_000, output_tokens=16)
    model = model_with(200_000, reply("A1", 3_000), full, say("S1"), say("A2 done"))
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert [event.reason for event in house.heard if isinstance(event, CompactionStart)] == ["length"]
        assert (kinds(session)[-2:], shape(model.requests[-1].messages)) == (["compaction", "assistant"], ["S1", "U2"])


@pytest.mark.case("P23")
@pytest.mark.parametrize(
    "cut",
    [
        length().with_usage(input_tokens=20_000, output_tokens=0),
        length(text("A2", 4_000)).with_usage(input_tokens=60_000, output_tokens=4_000),
    ],
)
async def test_another_length_stop_is_told_and_nothing_is_compacted(house: House, cut: ScriptedReply) -> None:
    model = model_with(200_000, reply("A1", 3_000), cut)
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert (compactions(session), len(model.requests)) == ([], 2)
        assert any("cut off" in notice for notice in house.notices())


# --- compaction that cannot help ---------------------------------------------------------------


def of_twenty_thousand(request: Request) -> ScriptedReply:
    """A provider that means its window."""
    if estimate_request(request.system_prompt, request.messages) > 20_000:
        return overflow()
    return say("S1") if is_summary_request(request) else say("A2")


def append_large_result(session: SessionManager) -> None:
    """A turn with a tool's output of three windows."""
    asked = ToolCall(ToolCallId("call_1"), "work", {})
    session.append_message(UserMessage("U1"))
    session.append_message(AssistantMessage((asked,), stop_reason="toolUse"))
    session.append_message(ToolResultMessage(asked.id, "work", (TextBlock(text("output", 60_000)),)))


@pytest.mark.case("P18")
async def test_an_output_three_windows_long_is_named_where_it_cannot_be_summarised(house: House) -> None:
    model = model_with(20_000, *[of_twenty_thousand] * 9)
    async with house.enter(model=model, settings=compacting()) as session:
        append_large_result(session.session)
        large = session.session.get_leaf_id()
        with pytest.raises(ContextFull, match=f"most of the context: {large}.*/tree.*/model"):
            await session.prompt("U2")
        assert (compactions(session), model.requests, len(session.pending_prompts())) == ([], [], 1)
        await session.navigate_tree(user_ids(session.session)[0])
        await session.prompt("U3")
        assert shape(model.requests[-1].messages) == ["U3"]


@pytest.mark.case("P18")
async def test_an_output_three_windows_long_is_shortened_for_the_hand_over(house: House) -> None:
    model = model_with(20_000, *[of_twenty_thousand] * 9)
    async with house.enter(model=model, settings=compacting(strategy="codex-inline")) as session:
        append_large_result(session.session)
        await session.prompt("U2")
        assert [shape(request.messages) for request in model.requests] == [
            ["U1", "call", "out", "prompt"],
            ["U1", "S1", "U2"],
        ]
        assert "tokens truncated" in all_text(model.requests[:1])


@pytest.mark.case("P18")
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_a_history_of_two_windows_is_summarised_in_requests_that_fit(house: House, strategy: str) -> None:
    turns: list[ScriptStep] = [reply(f"A{at}", 2_000, used=100) for at in range(10)]
    model = model_with(None, *turns, *[say("S1")] * 10)
    limits = {"scripted/scripted": ModelLimits(context_window=10_000)}
    async with house.enter(model=model, settings=compacting(strategy=strategy, auto=False)) as session:
        for at in range(10):
            await session.prompt(f"U{at}")
        session.compactor.settings = compacting(strategy=strategy, auto=False, models=limits).compaction
        await session.compact()
        asked = summary_requests(model)
        sizes = [
            estimate_request(request.system_prompt, request.messages) + (request.max_output or 0) for request in asked
        ]
        assert (max(sizes) <= 10_000, len(compactions(session))) == (True, 1)
        assert [faults_of(request.messages) for request in asked] == [[]] * len(asked)
        assert len(asked) == (1 if strategy == "codex-inline" else len(asked))


@pytest.mark.case("P18")
async def test_one_text_longer_than_the_window_is_shortened_for_the_summariser(house: House) -> None:
    model = model_with(None, reply("A1", 60_000, used=100), reply("A2", 4_000, used=100), *[say("S1")] * 4)
    limits = {"scripted/scripted": ModelLimits(context_window=10_000)}
    async with house.enter(model=model, settings=compacting(auto=False)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        session.compactor.settings = compacting(auto=False, models=limits).compaction
        await session.compact()
        sizes = [estimate_request(r.system_prompt, r.messages) + (r.max_output or 0) for r in summary_requests(model)]
        assert max(sizes) <= 10_000


@pytest.mark.case("P18")
async def test_a_summariser_that_always_overflows_is_asked_three_times_and_the_next_prompt_is_taken(
    house: House,
) -> None:
    model = model_with(200_000, reply("A1", 3_000), reply("A2", 3_000), *[overflow()] * 3, say("A3"))
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        before = file_bytes(session)
        with pytest.raises(CompactionFailed):
            await session.compact()
        assert (len(summary_requests(model)), file_bytes(session)) == (3, before)
        await session.prompt("U3")
        assert shape(model.requests[-1].messages) == ["U1", "A1", "U2", "A2", "U3"]


@pytest.mark.case("P18")
async def test_a_first_prompt_over_the_limit_is_sent_for_there_is_nothing_to_compact(house: House) -> None:
    model = model_with(10_000, say("A1"))
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt(text("U1", 9_000))
        assert shape(model.requests[-1].messages) == ["U1"]


# --- bad summaries -----------------------------------------------------------------------------

BAD = {
    "cut off": length("half of a summ"),
    "empty": say(""),
    "blank": say(" \n "),
    "failed": fail("no", status=400),
    "half, then gone": say("half of").then(fail("no", status=400)),
}


@pytest.mark.case("P19")
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_a_bad_summary_changes_nothing_and_may_be_tried_again(
    house: House, bad: ScriptedReply, strategy: str
) -> None:
    model = model_with(200_000, reply("A1", 3_000), reply("A2", 3_000), bad, say("S1"), say("A3"))
    async with house.enter(model=model, settings=compacting(strategy=strategy)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        before, sent = file_bytes(session), session.agent.next_request().messages
        with pytest.raises(CoppiceError):
            await session.compact()
        assert (file_bytes(session), session.agent.next_request().messages) == (before, sent)
        assert [bool(e.error_message) for e in house.heard if isinstance(e, CompactionEnd)] == [True]
        await session.compact()
        assert len(compactions(session)) == 1


@pytest.mark.case("P19")
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_a_bad_summary_before_a_prompt_leaves_the_prompt_waiting(house: House, bad: ScriptedReply) -> None:
    model = model_with(200_000, reply("A1", 3_000), reply("A2", 3_000, used=190_000), bad, say("S1"), say("A3"))
    async with house.enter(model=model, settings=compacting()) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        before = file_bytes(session)
        with pytest.raises(CoppiceError):
            await session.prompt("U3")
        assert file_bytes(session) == before
        (waiting,) = session.pending_prompts()
        await session.send_pending(waiting.id)
        assert (shape(model.requests[-1].messages), session.pending_prompts()) == (["S1", "U2", "A2", "U3"], [])


@pytest.mark.case("P19")
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_a_summary_aborted_after_half_of_its_text_changes_nothing(house: House, strategy: str) -> None:
    half = say("half of the summary").then(stall())
    model = model_with(200_000, reply("A1", 3_000), reply("A2", 3_000), half, say("S1"))
    async with house.enter(model=model, settings=compacting(strategy=strategy)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        before = file_bytes(session)
        compaction = await started(session.compact())
        await model.wait_for_request(3)
        await asyncio.sleep(0)
        await session.abort()
        with pytest.raises(CompactionFailed):
            await compaction
        assert file_bytes(session) == before
        await session.compact()
        assert len(compactions(session)) == 1
