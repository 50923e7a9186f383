"""Going on where an earlier process stopped, also one that was killed. Needs no key: a script plays the model.

Run it twice: the second run goes on in the session of the first.
"""

import asyncio

from coppice import AgentSession, ScriptedModel, SessionManager, Wishes, say


async def main() -> None:
    manager = SessionManager.continue_recent(".")
    for notice in manager.take_notices():  # damage, a second writer: your user should know
        print("note:", notice)
    wishes = Wishes(model=ScriptedModel([say("Noted.")]), tools=[])
    async with AgentSession.create(session=manager, wishes=wishes) as session:
        print("Going on after" if session.messages else "Beginning with", len(session.messages), "messages.")
        for waiting in session.pending_prompts():  # accepted by a process that died before it could send them
            await session.send_pending(waiting.id)
        await session.prompt(f"This is prompt {1 + len(session.messages) // 2}.")
        print("Now there are", len(session.messages), "messages.")


asyncio.run(main())
