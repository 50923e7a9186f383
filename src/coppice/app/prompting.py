"""Sending a prompt: durable from the moment it is accepted, also while a compaction comes before its turn."""

from coppice.agent.agent import Agent
from coppice.app.compactor import SessionCompactor
from coppice.format.messages import Content, EntryId, UserMessage
from coppice.session.drafts import now_ms


async def send_prompt(agent: Agent, compactor: SessionCompactor, content: Content, entry_id: EntryId | None) -> None:
    """Send a prompt. Where a compaction comes first, it waits in the pending file under the id its entry will have.

    If that compaction fails or is killed, the prompt stays pending, to be sent or dropped by the user.

    Raises:
        CompactionFailed, ProviderError, ContextFull: the compaction failed; the prompt was not sent.
        CoppiceError: as `Agent.prompt`.
    """
    message = UserMessage(content, now_ms())
    compactor.user_said_something()
    if compactor.comes_before(message):
        if entry_id is None:
            entry_id = agent.queues.accept("prompt", message)
        try:
            await compactor.before_prompt(message)
        except BaseException:
            agent.queues.release(entry_id)
            raise
    await agent.prompt(content, entry_id=entry_id)


async def send_waiting(agent: Agent, compactor: SessionCompactor) -> None:
    """Send what was steered or queued while a compaction ran and no run was active: the first as a prompt, the others
    as they would enter its run."""
    waiting = [*agent.queues.waiting("steering"), *agent.queues.waiting("followUp")]
    if not waiting or agent.is_running:
        return
    first = waiting[0]
    if isinstance(first.message, UserMessage):
        await send_prompt(agent, compactor, first.message.content, first.id)
