"""An agent in your program. Needs no key: the demo model answers, and really looks at the directory."""

import asyncio

from coppice import AgentSession, Wishes
from coppice.format.events import MessageUpdate, SessionEvent, TextDelta, TextEnd


def show(event: SessionEvent) -> None:
    match event:
        case MessageUpdate(assistant_message_event=TextDelta(delta=text)):
            print(text, end="")
        case MessageUpdate(assistant_message_event=TextEnd()):
            print()
        case _:
            pass


async def main() -> None:
    async with AgentSession.create(".", Wishes(model="demo", tools=["ls", "read"])) as session:
        session.subscribe(show)
        await session.prompt("What is in this directory?")
        print("\nKept in", session.session.session_file)


asyncio.run(main())
