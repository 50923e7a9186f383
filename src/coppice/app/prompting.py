"""Sending a prompt: durable from the moment it is accepted, also while a compaction comes before its turn."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from coppice.agent.agent import Agent
from coppice.app.compactor import CompactionAborted, RunStopped, SessionCompactor
from coppice.errors import CoppiceError
from coppice.format.messages import Content, EntryId, UserMessage
from coppice.session.drafts import now_ms


class Sender(NamedTuple):
    """Who sends: `prepare` records what the prompt is sent with, when its turn has come."""

    agent: Agent
    compactor: SessionCompactor
    prepare: Callable[[], None]


async def send_prompt(sender: Sender, content: Content, entry_id: EntryId | None) -> None:
    """Send a prompt. Where a compaction comes first, it waits in the pending file under the id its entry will have.

    If it cannot be sent after all (that compaction fails or is killed, or another prompt was first), it stays pending,
    to be sent or dropped by the user.

    Raises:
        CompactionFailed, ProviderError, ContextFull: the compaction failed; the prompt was not sent.
        CoppiceError: as `Agent.prompt`.
    """
    agent, compactor, prepare = sender
    message = UserMessage(content, now_ms())
    compactor.user_said_something()
    try:
        if compactor.is_active:
            entry_id = entry_id or agent.queues.accept("prompt", message)
            await compactor.wait()
        prepare()
        if compactor.comes_before(message):
            entry_id = entry_id or agent.queues.accept("prompt", message)
            await compactor.before_prompt(message)
        await agent.prompt(content, entry_id=entry_id)
    except BaseException:
        if entry_id is not None:
            agent.queues.release(entry_id)
        raise


async def compact_then_send(sender: Sender, compaction: Awaitable[EntryId]) -> EntryId:
    """Await a compaction that was asked for, then send what came meanwhile. Stopped by the user, that stays waiting.

    Raises:
        CoppiceError: what the compaction raises.
    """
    try:
        made = await compaction
    except (CompactionAborted, RunStopped):
        raise
    except CoppiceError:
        await send_waiting(sender)
        raise
    await send_waiting(sender)
    return made


async def send_waiting(sender: Sender) -> None:
    """Send what was steered or queued while a compaction ran and no run was active: the first as a prompt, the others
    as they would enter its run."""
    agent = sender.agent
    waiting = [*agent.queues.waiting("steering"), *agent.queues.waiting("followUp")]
    if not waiting or agent.is_running:
        return
    first = waiting[0]
    if isinstance(first.message, UserMessage):
        await send_prompt(sender, first.message.content, first.id)
