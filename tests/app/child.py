"""Programs of the app's tests that need limits of their own: ``python -m tests.app.child NAME HOME``; one JSON line each."""

import asyncio
import json
import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path

from coppice.app.agent_session import AgentSession
from coppice.errors import StorageFailure
from coppice.format.events import Notice
from coppice.providers.scripted import call, calls, say
from tests.agent.stage import stored, told
from tests.app.house import House, path_file

LONG = "x" * 3000


@dataclass(slots=True)
class Full:
    """A session on a disk that fills up and is emptied again; what was seen."""

    house: House
    session: AgentSession
    seen: dict[str, object] = field(default_factory=dict[str, object])

    async def prompt(self, name: str, text: str, *, room: int | None) -> None:
        """A prompt with `room` bytes left in files as long as the session's; None: all there is."""
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        size = path_file(self.session).stat().st_size if room is not None else 0
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard if room is None else size + room, hard))
        self.house.heard.clear()
        failed = ""
        try:
            await self.session.prompt(text)
        except StorageFailure as error:
            failed = str(error)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        self.seen[name] = {
            "failed": failed,
            "notices": [event.message for event in self.house.heard if isinstance(event, Notice)],
            "settled": told(self.house.heard)[-1:],
            "running": self.session.is_running,
            "stored": stored(self.session.session),
        }


def look() -> str:
    """Look."""
    return LONG


async def full(tmp_path: Path) -> None:
    """The disk fills up before a prompt, before a reply, and before the results of two calls."""
    house = House.at(tmp_path)
    session = house.enter(
        say("one"),
        say(LONG),
        say("three"),
        calls(call("look", id="c1"), call("look", id="c2")),
        say("five"),
        tools=[look],
    )
    at = Full(house, session)
    await at.prompt("before", "first", room=None)
    await at.prompt("prompt", "not stored", room=10)
    await at.prompt("reply", "second", room=1000)
    await at.prompt("after", "third", room=None)
    await at.prompt("results", "fourth", room=2500)
    await at.prompt("in the end", "fifth", room=None)
    await session.close()
    print(json.dumps({"path": str(path_file(session)), **at.seen}), flush=True)


PROGRAMS = {program.__name__: program for program in (full,)}

if __name__ == "__main__":
    asyncio.run(PROGRAMS[sys.argv[1]](Path(sys.argv[2])))
