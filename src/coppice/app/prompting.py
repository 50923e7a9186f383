"""Sending a prompt: durable from the moment it is accepted, also while a compaction comes before its turn."""

from coppice.agent.agent import Agent
from coppice.app.compactor import SessionCompactor
from coppice.format.messages import Content, EntryId, UserMessage
from coppice.session.drafts import now_ms


async def send_prompt(agent: Agent, compactor: SessionCompactor, content: Content, entry_id: EntryId | None) -> None:
    """Send a prompt. Where a compaction comes first, it waits in the pending file under the id its entry will have.

    If it cannot be sent after all (that compaction fails or is killed, or another prompt was first), it stays pending,
    to be sent or dropped by the user.

    Raises:
        CompactionFailed, ProviderError, ContextFull: the compaction failed; the prompt was not sent.
        CoppiceError: as `Agent.prompt`.
    """
    message = UserMessage(content, now_ms())
    compactor.user_said_something()
    waits = compactor.comes_before(message)
    if waits and entry_id is None:
        entry_id = agent.queues.accept("prompt", message)
    try:
        if waits:
            await compactor.before_prompt(message)
        await agent.prompt(content, entry_id=entry_id)
    except BaseException:
        if entry_id is not None:
            agent.queues.release(entry_id)
        raise


async def send_waiting(agent: Agent, compactor: SessionCompactor) -> None:
    """Send what was steered or queued while a compaction ran and no run was active: the first as a prompt, the others
    as they would enter its run."""
    waiting = [*agent.queues.waiting("steering"), *agent.queues.waiting("followUp")]
    if not waiting or agent.is_running:
        return
    first = waiting[0]
    if isinstance(first.message, UserMessage):
        await send_prompt(agent, compactor, first.message.content, first.id)
