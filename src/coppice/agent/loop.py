"""The agent loop: ask `next_step`, do it, until nothing is left. Each result is stored, then announced.

Decisions are in step.py; here is only what acts on them, and where waiting messages come in.
"""

import asyncio
from collections.abc import Sequence

from coppice.agent.execute import close_calls, run_tools
from coppice.agent.queues import Kind, Take
from coppice.agent.run import Compactor, Run
from coppice.agent.sample import sample
from coppice.agent.step import CallModel, Finished, RunTools, next_step, results_in
from coppice.errors import ProviderError
from coppice.format.entries import reply_in
from coppice.format.events import AgentEvent, QueueUpdate, TurnEnd, TurnStart
from coppice.format.messages import AssistantMessage, EntryId, ToolResultMessage, tool_calls_of


async def run_until_finished(run: Run, since: EntryId | None, opening: Sequence[AgentEvent] = ()) -> str:
    """Run from entry `since` until the model is done and nothing waits; the last reply's stop reason.

    `opening` are events of what was stored for this run already; they are told inside its first turn.

    Raises:
        StorageFailure: something could not be stored.
        LeafMoved: the leaf was moved away meanwhile.
        asyncio.CancelledError: aborted; `close_turn` then leaves every call with a result.
    """
    while True:
        run.check_below(since)
        match next_step(run.session.turn_after(since), since):
            case CallModel():
                await _call_model(run, since, "steering", opening)
                opening = ()
            case RunTools() as step:
                await asyncio.sleep(0)  # an abort that is due comes before any tool begins
                results = await run_tools(run, step)
                _end_turn(run, step.reply_id, results)
            case Finished(reason=reason):
                due = None if reason in ("error", "aborted") else _what_waits(run)
                if due is None:
                    return reason
                await _call_model(run, since, due)


async def _call_model(run: Run, since: EntryId | None, due: Kind, opening: Sequence[AgentEvent] = ()) -> None:
    """One turn up to its reply; messages that wait as `due` enter before it."""
    for event in (TurnStart(), *opening):
        run.emit(event)
    run.pass_on_notices()
    made_room = not opening and await _make_room(run, since)
    if not (made_room and due == "steering" and _has_unfinished_work(run, since)):
        let_in(run, due, run.options.steering if due == "steering" else run.options.follow_up)
    reply, error = await sample(run)
    if run.compactor is not None and await _made_room_after(run.compactor, reply, error):
        reply, _ = await sample(run)
    if not isinstance(next_step(run.session.turn_after(since), since), RunTools):
        run.emit(TurnEnd(reply, ()))


async def _make_room(run: Run, since: EntryId | None) -> bool:
    """Compact before a request where it is due; whether that was done."""
    if run.compactor is None:
        return False
    return await run.compactor.before_request(is_mid_turn=_last_reply(run, since) is not None)


async def _made_room_after(compactor: Compactor, reply: AssistantMessage, error: ProviderError | None) -> bool:
    return await (compactor.after_reply(reply) if error is None else compactor.after_overflow(error))


def _last_reply(run: Run, since: EntryId | None) -> AssistantMessage | None:
    return reply_in(next(iter(run.session.turn_after(since)), None))


def _has_unfinished_work(run: Run, since: EntryId | None) -> bool:
    """Whether the model goes on with results of its own calls: what steers it then waits until it has replied once."""
    reply = _last_reply(run, since)
    return reply is not None and bool(tool_calls_of(reply))


def _what_waits(run: Run) -> Kind | None:
    """What enters after a final reply: steering that came too late for a turn, else follow-ups."""
    kinds: tuple[Kind, ...] = ("steering", "followUp")
    return next((kind for kind in kinds if run.queues.waiting(kind)), None)


def let_in(run: Run, kind: Kind, how: Take) -> None:
    """Store the waiting messages that are due."""
    due = run.queues.take(kind, how)
    for item in due:
        run.store(item.message, entry_id=item.id)
        run.queues.done(item.id)
    if due:
        run.emit(QueueUpdate(*run.queue_texts()))


def close_turn(run: Run, since: EntryId | None) -> None:
    """After an abort: give every call of this run that has no result one, and end the turn."""
    step = next_step(run.session.turn_after(since), since)
    if isinstance(step, RunTools):
        close_calls(run, step)
    reply = _last_reply(run, since)
    if reply is not None:
        run.emit(TurnEnd(reply, tuple(results_in(run.session.turn_after(since)))))


def _end_turn(run: Run, reply_id: EntryId, results: tuple[ToolResultMessage, ...]) -> None:
    reply = reply_in(run.session.get_entry(reply_id))
    if reply is not None:
        run.emit(TurnEnd(reply, results))
