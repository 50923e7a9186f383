"""What the tests of real providers share: a request, and what came of it as plain JSON values."""

from typing import Any

import msgspec

from coppice.errors import ProviderError
from coppice.format.events import StreamDone, StreamEvent
from coppice.format.messages import AssistantMessage, UserMessage
from coppice.providers.base import Model, Request, ToolSchema

KEY = "sk-not-to-be-seen"

BASH = ToolSchema(
    "bash",
    "Run a command.",
    {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)

HELLO = Request("You are brief.", (UserMessage("hi", timestamp=1),))

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one pixel, base64."""


async def events_of(model: Model, request: Request = HELLO) -> list[StreamEvent]:
    return [event async for event in model.stream(request)]


async def reply_of(model: Model, request: Request = HELLO) -> AssistantMessage:
    """The finished message, which the last event carries."""
    match (await events_of(model, request))[-1]:
        case StreamDone(message=message):
            return message
        case other:
            raise AssertionError(f"the last event is {other}")


async def failure_of(model: Model, request: Request = HELLO) -> ProviderError:
    try:
        await events_of(model, request)
    except ProviderError as error:
        return error
    raise AssertionError("the request did not fail")


def facts(error: ProviderError) -> dict[str, Any]:
    """Everything an error says."""
    return {"kind": type(error).__name__, "text": str(error), **vars(error)}


def plain(events: list[StreamEvent]) -> list[Any]:
    """Events as JSON values, through the bytes; the message's time, which must be there, left out."""
    values = msgspec.json.decode(msgspec.json.encode(events))
    assert values[-1]["message"].pop("timestamp") > 1_700_000_000_000
    return values


def stored(message: AssistantMessage) -> AssistantMessage:
    """A message as it comes back from a session file."""
    return msgspec.json.decode(msgspec.json.encode(message), type=AssistantMessage)
