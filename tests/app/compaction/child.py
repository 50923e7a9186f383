"""Programs that are killed around a compaction: ``python -m tests.app.compaction.child NAME HOME``; one JSON line each."""

import asyncio
import fcntl
import json
import os
import sys
import threading
from pathlib import Path

from coppice.app.agent_session import AgentSession
from coppice.format.messages import ImageBlock, TextBlock
from coppice.providers.scripted import ScriptedModel, ScriptStep, say, stall
from tests.app.house import House, path_file
from tests.compaction.stage import compacting, model_with, reply, text

SMALL = compacting(keep_recent_tokens=300)
PROMPT = (TextBlock("U3 see"), ImageBlock("aGk=", "image/png"))


async def talk(home: Path, *replies: ScriptStep, used: int) -> tuple[AgentSession, ScriptedModel]:
    model = model_with(100_000, reply("A1", 1000), reply("A2", 50, used=used), *replies)
    session = House.at(home).enter(model=model, settings=SMALL)
    await session.prompt("U1")
    await session.prompt(text("U2", 400))
    return session, model


def say_where(session: AgentSession) -> None:
    path = path_file(session)
    print(json.dumps({"path": str(path), "size": path.stat().st_size}), flush=True)


async def summarising(home: Path) -> None:
    """The summary before a prompt is asked for and never comes."""
    session, model = await talk(home, stall(), used=90_000)
    run = asyncio.create_task(session.prompt(PROMPT))
    await model.wait_for_request(3)
    say_where(session)
    await run


async def appending(home: Path) -> None:
    """The summary came, and its append waits for the lock that this same program holds."""
    session, model = await talk(home, say("S1 that was never stored"), used=1_100)
    path = path_file(session)
    descriptor = os.open(path, os.O_RDONLY)
    run = asyncio.create_task(session.compact())
    await model.wait_for_request(3)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    threading.Timer(0.3, say_where, [session]).start()  # the loop stands still in the append then
    await run


PROGRAMS = {program.__name__: program for program in (summarising, appending)}

if __name__ == "__main__":
    os.umask(0o022)
    asyncio.run(PROGRAMS[sys.argv[1]](Path(sys.argv[2])))
