"""A tool of your own: a typed function. Needs no key: a script plays the model, so you see what it asks and is told."""

import asyncio
from typing import Annotated

from coppice import AgentSession, ScriptedModel, ToolError, Wishes, call, calls, function_tool, say
from coppice.format.events import SessionEvent, ToolExecutionEnd

STOCK = {"bolt": 120, "nut": 0}


def stock(part: Annotated[str, "the part's name"]) -> int:
    """How many of a part are in stock."""
    if part not in STOCK:
        raise ToolError(f"there is no part {part!r}; there are {', '.join(STOCK)}")
    return STOCK[part]


def show(event: SessionEvent) -> None:
    match event:
        case ToolExecutionEnd(tool_name=name, result=result, is_error=failed):
            print(name, "failed:" if failed else "gave", *[getattr(block, "text", "") for block in result.content])
        case _:
            pass


async def main() -> None:
    asked = calls(call("stock", {"part": "bolt"}), call("stock", {"part": "gear"}))
    model = ScriptedModel([asked, say("There are 120 bolts; gears are not kept.")])
    async with AgentSession.create(".", Wishes(model=model, tools=[function_tool(stock)])) as session:
        session.subscribe(show)
        await session.prompt("How many bolts and gears are there?")
        print("The model was told of:", [tool.name for tool in model.requests[0].tools])
        print("It was sent", len(model.requests[1].messages), "messages the second time.")


asyncio.run(main())
