"""Programs that tests start as processes of their own, to kill them: ``python -m tests.agent.child NAME HOME``.

Each prints one JSON line when it is where the test wants it, and then waits to be killed.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from coppice.agent.agent import Agent
from coppice.format.events import AgentEvent, MessageEnd
from coppice.format.messages import AssistantMessage
from coppice.providers.scripted import ScriptStep, call, calls, say, stall
from coppice.storage.pending import Pending, PendingFile
from tests.agent.stage import Stage, set_stage


def say_where(stage: Stage, **more: object) -> None:
    print(json.dumps({"path": str(stage.path), **more}), flush=True)


async def forever() -> str:
    """Wait for ever."""
    await asyncio.get_running_loop().create_future()
    return "never"


async def hello(home: Path) -> None:
    """A prompt whose request is never answered."""
    stage = set_stage(home, stall())
    run = asyncio.create_task(stage.agent.prompt("hello"))
    await stage.model.wait_for_request()
    say_where(stage)
    await run


async def answered(home: Path) -> None:
    """Killed right after the end of a reply was told."""
    stage = set_stage(home, say("hi there"))

    def stop(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            say_where(stage)
            sys.stdin.read()  # no step further

    stage.agent.subscribe(stop)
    await stage.agent.prompt("hello")


async def waiting(home: Path) -> None:
    """Messages that wait while a request is not answered."""
    stage = set_stage(home, stall())
    run = asyncio.create_task(stage.agent.prompt("hello"))
    await stage.model.wait_for_request()
    ids = [stage.agent.steer("look left"), stage.agent.follow_up("and then?")]
    say_where(stage, ids=ids)
    await run


async def between(home: Path) -> None:
    """A waiting message that was stored and not yet taken out of the pending file."""
    stage = set_stage(home, say("one"))
    await stage.agent.prompt("hello")
    waits = [stage.agent.steer("look left"), stage.agent.steer("look right")]
    pending = PendingFile(home, stage.session.session_id)
    items: list[Pending] = pending.read()
    stage.session.append_message(items[0].message, entry_id=items[0].id)
    say_where(stage, ids=waits)
    await forever()


async def tool(home: Path) -> None:
    """A tool that has had its effect and has not ended, beside one that has."""

    def quick() -> str:
        """Be done."""
        return "done"

    async def count() -> str:
        """Count, then wait."""
        with (home / "counter").open("a") as counter:
            counter.write("x")
        return await forever()

    replies: list[ScriptStep] = [calls(call("quick", id="c1"), call("count", id="c2"))]
    stage = set_stage(home, *replies, tools=[quick, count])

    def stop(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and getattr(event.message, "tool_call_id", "") == "c1":
            asyncio.get_running_loop().create_task(until_counted(stage.agent, home, stage))

    stage.agent.subscribe(stop)
    await stage.agent.prompt("hello")


async def until_counted(agent: Agent, home: Path, stage: Stage) -> None:
    while not (home / "counter").exists():
        await asyncio.sleep(0.005)
    assert agent.is_running
    say_where(stage)


PROGRAMS = {program.__name__: program for program in (hello, answered, waiting, between, tool)}

if __name__ == "__main__":
    os.umask(0o022)
    asyncio.run(PROGRAMS[sys.argv[1]](Path(sys.argv[2])))
