"""Aborting at any moment: every call has a result afterwards, and the next request is one a strict provider takes."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest

from coppice.agent.run import Options
from coppice.format.events import (
    AgentEvent,
    AgentSettled,
    AutoRetryEnd,
    AutoRetryStart,
    MessageEnd,
    MessageUpdate,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    ToolExecutionStart,
    TurnEnd,
)
from coppice.format.messages import AssistantMessage, EntryId, ToolResultMessage, tool_calls_of
from coppice.providers.base import ModelInfo, Request
from coppice.providers.scripted import SCRIPTED, ScriptedModel, call, calls, drop, fail, half_call, say, stall, think
from coppice.tools.base import ToolContext, text_result
from tests.agent.stage import Stage, lines, reopened, set_stage, started, stored, told
from tests.strict import faults_of

pytestmark = pytest.mark.anyio

ABORTED = "[interrupted: the user aborted this tool call before it finished]"


async def forever() -> str:
    """Wait for ever."""
    await asyncio.get_running_loop().create_future()
    return "never"


def quick() -> str:
    """Be done."""
    return "done"


def abort_at(stage: Stage, moment: Callable[[AgentEvent], bool]) -> None:
    """Abort the first time an event is the moment."""
    done = [False]

    def listen(event: AgentEvent) -> None:
        if not done[0] and moment(event):
            done[0] = True
            assert stage.agent.abort_nowait()

    stage.agent.subscribe(listen)


async def check_aborted(stage: Stage, tmp_path: Path) -> None:
    """The run has settled as aborted; what another program reads is a valid request, before and after a prompt."""
    assert not stage.agent.is_running
    assert stage.heard[-1] == AgentSettled(aborted=True)
    assert told(stage.heard).count("turn_start") == told(stage.heard).count("turn_end")
    await stage.agent.prompt("and now?")
    assert faults_of(stage.sent().messages) == []
    assert stored(stage.session)[-2:] == ["user: and now?", "reply: fine [stop]"]
    again = reopened(stage.path, tmp_path)
    assert stored(again) == stored(stage.session)
    again.close()


@pytest.mark.case("P16")
async def test_aborted_while_a_reply_streams_its_text_is_kept_and_not_sent(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("a long reply in many pieces").timed(chunk_delay_ms=1, chunk=2), say("fine"))
    abort_at(
        stage, lambda event: isinstance(event, MessageUpdate) and isinstance(event.assistant_message_event, TextDelta)
    )
    await stage.agent.prompt("hi")
    cut = stage.session.get_branch()[-1].message  # pyright: ignore[reportAttributeAccessIssue]  (a message entry)
    assert (cut.stop_reason, cut.error_message, cut.model) == ("aborted", "aborted by the user", "scripted")
    assert "a long reply in many pieces".startswith(cut.content[0].text)
    await check_aborted(stage, tmp_path)
    assert lines(stage.sent().messages) == ["user: hi", "user: and now?"]


@pytest.mark.case("P16")
async def test_aborted_while_the_arguments_of_a_call_stream_the_call_is_not_run(tmp_path: Path) -> None:
    ran: list[str] = []

    def look(at: str) -> str:
        """Look."""
        ran.append(at)
        return at

    asked = calls(
        call("look", {"at": "a"}, id="c1"), half_call("look", '{"at": "b', id="c2").timed(chunk_delay_ms=1, chunk=2)
    )
    stage = set_stage(tmp_path, asked, say("fine"), tools=[look])

    def in_second(event: AgentEvent) -> bool:
        inner = event.assistant_message_event if isinstance(event, MessageUpdate) else None
        return isinstance(inner, ToolCallDelta) and inner.content_index == 1

    abort_at(stage, in_second)
    await stage.agent.prompt("hi")
    assert stored(stage.session) == ["user: hi", "reply: look(c1) look(c2) [aborted]"]
    cut = stage.session.get_branch()[-1].message  # pyright: ignore[reportAttributeAccessIssue]  (a message entry)
    assert [block.arguments for block in cut.content] == [{"at": "a"}, {}]
    await check_aborted(stage, tmp_path)
    assert ran == []


async def test_a_call_cut_off_by_a_lost_connection_is_kept_as_a_failed_reply_and_asked_again(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, half_call("quick", '{"a": "b', id="c1"), say("fine"), say("fine"), tools=[quick])
    await stage.agent.prompt("hi")
    assert stored(stage.session) == ["user: hi", "reply: quick(c1) [error]", "reply: fine [stop]"]
    assert lines(stage.sent().messages) == ["user: hi"]


@pytest.mark.case("P16")
async def test_aborted_while_one_of_two_calls_runs_the_finished_one_keeps_its_result(tmp_path: Path) -> None:
    asked = calls(call("forever", id="c1"), call("quick", id="c2"))
    stage = set_stage(tmp_path, asked, say("fine"), tools=[forever, quick])
    abort_at(stage, lambda event: isinstance(event, MessageEnd) and isinstance(event.message, ToolResultMessage))
    await stage.agent.prompt("hi")
    assert stored(stage.session)[2:] == ["result c2: done", f"result c1: {ABORTED}"]
    (turn,) = [event for event in stage.heard if isinstance(event, TurnEnd)]
    assert sorted(result.tool_call_id for result in turn.tool_results) == ["c1", "c2"]
    await check_aborted(stage, tmp_path)
    assert lines(stage.sent().messages)[2:4] == [f"result c1: {ABORTED}", "result c2: done"]


@pytest.mark.case("P16")
@pytest.mark.parametrize("running", [1, 2], ids=["the first", "both"])
async def test_aborted_while_calls_run_or_wait_to_run_each_has_a_result(tmp_path: Path, running: int) -> None:
    asked = calls(call("forever", id="c1"), call("forever", id="c2"))
    stage = set_stage(tmp_path, asked, say("fine"), tools=[forever])
    begun: list[str] = []

    def nth(event: AgentEvent) -> bool:
        if isinstance(event, ToolExecutionStart):
            begun.append(event.tool_call_id)
        return len(begun) == running

    abort_at(stage, nth)
    await stage.agent.prompt("hi")
    assert sorted(stored(stage.session)[2:]) == [f"result c1: {ABORTED}", f"result c2: {ABORTED}"]
    assert told(stage.heard).count("tool_execution_end") == 2
    await check_aborted(stage, tmp_path)


async def test_aborted_right_after_the_reply_was_stored_its_calls_get_results_without_running(tmp_path: Path) -> None:
    ran: list[str] = []

    def note() -> str:
        """Note."""
        ran.append("ran")
        return "noted"

    stage = set_stage(tmp_path, call("note", id="c1"), say("fine"), tools=[note])
    abort_at(stage, lambda event: isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage))
    await stage.agent.prompt("hi")
    assert (ran, stored(stage.session)[2:]) == ([], [f"result c1: {ABORTED}"])
    await check_aborted(stage, tmp_path)


async def test_what_a_tool_had_shown_stands_before_the_note_that_it_was_interrupted(tmp_path: Path) -> None:
    async def dig(context: ToolContext) -> str:
        """Dig."""
        context.update(text_result("half way", {"depth": 2}))
        return await forever()

    stage = set_stage(tmp_path, call("dig", id="c1"), say("fine"), tools=[dig])
    abort_at(stage, lambda event: told([event]) == ["tool_execution_update"])
    await stage.agent.prompt("hi")
    result = stage.session.get_branch()[-1].message  # pyright: ignore[reportAttributeAccessIssue]  (a message entry)
    assert (stored(stage.session)[2:], result.details) == ([f"result c1: half way\n{ABORTED}"], {"depth": 2})
    await check_aborted(stage, tmp_path)


@pytest.mark.case("P12")
async def test_abort_waits_for_a_tool_that_cleans_up(tmp_path: Path) -> None:
    done: list[str] = []

    async def tidy() -> str:
        """Be tidy."""
        try:
            return await forever()
        finally:
            await asyncio.sleep(0.05)
            done.append("tidied")

    stage = set_stage(tmp_path, call("tidy", id="c1"), say("fine"), tools=[tidy])
    begun = asyncio.Event()
    stage.agent.subscribe(lambda event: begun.set() if isinstance(event, ToolExecutionStart) else None)
    run = await started(stage.agent.prompt("hi"))
    await begun.wait()
    await asyncio.sleep(0)
    await stage.agent.abort()
    assert (done, stage.agent.is_running, stored(stage.session)[2:]) == (["tidied"], False, [f"result c1: {ABORTED}"])
    await run
    await check_aborted(stage, tmp_path)


async def test_a_second_abort_during_a_clean_up_does_no_harm(tmp_path: Path) -> None:
    done: list[str] = []
    cleaning = asyncio.Event()

    async def tidy() -> str:
        """Be tidy."""
        try:
            return await forever()
        finally:
            cleaning.set()
            await asyncio.sleep(0.05)
            done.append("tidied")

    stage = set_stage(tmp_path, call("tidy", id="c1"), say("fine"), tools=[tidy])
    abort_at(stage, lambda event: isinstance(event, ToolExecutionStart))
    run = await started(stage.agent.prompt("hi"))
    await cleaning.wait()
    await asyncio.gather(stage.agent.abort(), stage.agent.abort())
    await run
    assert (done, stored(stage.session)[2:]) == (["tidied"], [f"result c1: {ABORTED}"])
    await check_aborted(stage, tmp_path)


async def test_a_tool_that_ignores_its_cancellation_keeps_the_result_it_gives(tmp_path: Path) -> None:
    async def stubborn() -> str:
        """Be stubborn."""
        try:
            return await forever()
        except asyncio.CancelledError:
            await asyncio.sleep(0.02)
            return "finished all the same"

    stage = set_stage(tmp_path, call("stubborn", id="c1"), say("fine"), tools=[stubborn])
    abort_at(stage, lambda event: isinstance(event, ToolExecutionStart))
    await stage.agent.prompt("hi")
    assert stored(stage.session)[2:] in (["result c1: finished all the same"], [f"result c1: {ABORTED}"])
    await check_aborted(stage, tmp_path)


async def test_a_tool_that_fails_while_it_is_cancelled_has_its_failure_as_result(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def clumsy() -> str:
        """Be clumsy."""
        begun.set()
        try:
            return await forever()
        except asyncio.CancelledError:
            raise RuntimeError("dropped it") from None

    stage = set_stage(tmp_path, call("clumsy", id="c1"), say("fine"), tools=[clumsy])
    run = await started(stage.agent.prompt("hi"))
    await begun.wait()
    await stage.agent.abort()
    await run
    assert stored(stage.session)[2:] == ["result c1: The tool 'clumsy' failed: RuntimeError: dropped it"]
    await check_aborted(stage, tmp_path)


async def test_aborted_before_the_first_event_of_a_reply(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, stall(), say("fine"))
    run = await started(stage.agent.prompt("hi"))
    await stage.model.wait_for_request()
    await stage.agent.abort()
    await run
    assert stored(stage.session) == ["user: hi", "reply:  [aborted]"]
    await check_aborted(stage, tmp_path)
    assert lines(stage.sent().messages) == ["user: hi", "user: and now?"]


@pytest.mark.case("P16")
async def test_aborted_before_the_run_has_taken_its_first_step(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, stall(), say("fine"))
    run = await started(stage.agent.prompt("hi"))
    assert (stage.agent.is_running, stage.heard) == (True, [])
    await stage.agent.abort()
    await run
    assert stored(stage.session) == ["user: hi", "reply:  [aborted]"]
    stage.model.requests.clear()
    stage.agent.kit.model = set_stage(tmp_path / "other", say("fine")).model
    stage.model = stage.agent.kit.model  # pyright: ignore[reportAttributeAccessIssue]  (a scripted one)
    await check_aborted(stage, tmp_path)


@pytest.mark.case("P12")
@pytest.mark.parametrize("where", ["stream", "tool"])
async def test_cancelling_the_caller_aborts_the_run_before_it_propagates(tmp_path: Path, where: str) -> None:
    first = stall() if where == "stream" else call("forever", id="c1")
    stage = set_stage(tmp_path, first, say("fine"), tools=[forever])
    begun = asyncio.Event()
    stage.agent.subscribe(lambda event: begun.set() if isinstance(event, ToolExecutionStart) else None)
    run = await started(stage.agent.prompt("hi"))
    await (stage.model.wait_for_request() if where == "stream" else begun.wait())
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert stored(stage.session)[-1] == ("reply:  [aborted]" if where == "stream" else f"result c1: {ABORTED}")
    await check_aborted(stage, tmp_path)


async def test_aborted_while_a_retry_waits_nothing_is_asked_again(tmp_path: Path) -> None:
    slow = Options(max_retries=3, retry_base_ms=60_000, retry_cap_ms=60_000)
    stage = set_stage(tmp_path, fail("busy", status=529), say("fine"), options=slow)
    abort_at(stage, lambda event: isinstance(event, AutoRetryStart))
    await asyncio.wait_for(stage.agent.prompt("hi"), 5)
    assert stored(stage.session) == ["user: hi", "reply:  [aborted]"]
    cut = stage.session.get_branch()[-1].message  # pyright: ignore[reportAttributeAccessIssue]  (a message entry)
    ends = [event for event in stage.heard if isinstance(event, AutoRetryEnd)]
    assert (cut.error_message, ends) == ("busy", [AutoRetryEnd(False, 1, "aborted by the user")])
    assert len(stage.model.requests) == 1
    await check_aborted(stage, tmp_path)


async def test_thinking_that_was_aborted_is_kept_and_not_sent(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, think("so many thoughts").timed(chunk_delay_ms=1, chunk=2), say("fine"))
    abort_at(stage, lambda event: told([event]) == ["thinking_delta"])
    await stage.agent.prompt("hi")
    await check_aborted(stage, tmp_path)
    assert lines(stage.sent().messages) == ["user: hi", "user: and now?"]


async def test_aborting_when_nothing_runs_does_nothing(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("fine"))
    await stage.agent.abort()
    await stage.agent.wait_for_idle()
    assert (stage.agent.abort_nowait(), stage.heard) == (False, [])


async def test_waiting_for_idle_ends_when_the_run_has_settled(tmp_path: Path) -> None:
    stage = set_stage(tmp_path, say("fine").timed(chunk_delay_ms=1))
    run = await started(stage.agent.prompt("hi"))
    await stage.agent.wait_for_idle()
    assert stage.heard[-1] == AgentSettled(aborted=False)
    await run


class Reluctant:
    """A model whose stream takes a moment to close."""

    def __init__(self) -> None:
        self.closed = False

    @property
    def info(self) -> ModelInfo:
        return SCRIPTED

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        try:
            await asyncio.get_running_loop().create_future()
            yield  # pyright: ignore[reportReturnType]  (never reached)
        finally:
            await asyncio.sleep(0.02)
            self.closed = True


async def test_abort_closes_the_stream_at_the_provider(tmp_path: Path) -> None:
    stage = set_stage(tmp_path)
    model = Reluctant()
    stage.agent.kit.model = model
    run = await started(stage.agent.prompt("hi"))
    await asyncio.sleep(0)
    await stage.agent.abort()
    await run
    assert (model.closed, stored(stage.session)) == (True, ["user: hi", "reply:  [aborted]"])


# --- at every moment -----------------------------------------------------------------------------


async def slowly(at: str) -> str:
    """Look, after a step or two of the event loop."""
    await asyncio.sleep(0)
    return f"saw {at}"


async def stopped_at(tmp_path: Path, moment: int, how: str) -> tuple[Stage, list[EntryId]]:
    """A run with tools, steering and a follow-up, stopped at its n-th event; the ids of what was queued."""
    stage = set_stage(
        tmp_path,
        calls(call("slowly", {"at": "a"}), call("slowly", {"at": "b"}), text="let me see"),
        call("quick"),
        drop("half a reply"),
        *[say("fine")] * 6,
        tools=[slowly, quick],
    )
    queued: list[EntryId] = []
    run: list[asyncio.Task[object]] = []

    def stop(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and not queued and not run[0].done():
            queued.extend((stage.agent.steer("steered"), stage.agent.follow_up("followed")))
        if len(stage.heard) == moment and not run[0].done():
            (run[0].cancel if how == "cancel" else stage.agent.abort_nowait)()

    stage.agent.subscribe(stop)
    run.append(asyncio.ensure_future(stage.agent.prompt("hi")))
    await asyncio.wait(run)
    assert run[0].cancelled() or run[0].exception() is None
    return stage, queued


@pytest.mark.case("P16")
@pytest.mark.case("P24")
@pytest.mark.parametrize("how", ["abort", "cancel"])
async def test_stopped_at_any_event_every_call_is_answered_and_every_message_is_there_once(
    tmp_path: Path, how: str
) -> None:
    whole, _ = await stopped_at(tmp_path / "whole", 0, how)
    assert stored(whole.session)[-2:] == ["user: followed", "reply: fine [stop]"]
    for moment in range(1, len(whole.heard) + 1):
        home = tmp_path / str(moment)
        stage, queued = await stopped_at(home, moment, how)
        assert (moment, stage.agent.is_running, told(stage.heard)[-1]) == (moment, False, "agent_settled")
        check_calls(stage, moment)
        waits = [*stage.agent.queues.waiting("steering"), *stage.agent.queues.waiting("followUp")]
        entries = [entry.id for entry in stage.session.entries()]
        assert [(entries + [item.id for item in waits]).count(entry_id) for entry_id in queued] == [1] * len(queued)

        stage.agent.clear_queue()
        stage.model = stage.agent.kit.model = ScriptedModel([say("fine")])
        await stage.agent.prompt("and now?")
        assert (moment, faults_of(stage.sent().messages)) == (moment, [])
        assert lines(stage.sent().messages)[-1] == "user: and now?"
        again = reopened(stage.path, home)
        assert (stored(again), again.take_notices()) == (stored(stage.session), [])
        again.close()


def check_calls(stage: Stage, moment: int) -> None:
    """Each call of a reply that was not cut off has exactly one stored result on the path."""
    messages = stage.session.build_session_context().messages
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    asked = [made.id for reply in replies if reply.stop_reason == "toolUse" for made in tool_calls_of(reply)]
    given = [message.tool_call_id for message in messages if isinstance(message, ToolResultMessage)]
    assert (moment, sorted(given)) == (moment, sorted(asked))
