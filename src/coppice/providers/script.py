"""What a script is made of: replies, how they go wrong, and how one is streamed.

Values and functions only; the model that plays them in order is `coppice.providers.scripted`, which offers all of these
names too. A reply knows nothing of the request it answers, except to count its length.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never, final

from coppice.errors import ContextOverflow, ProviderError
from coppice.format.codec import encode
from coppice.format.events import (
    BlockEvent,
    StreamDone,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UsageReport,
)
from coppice.format.messages import (
    AssistantBlock,
    AssistantMessage,
    JsonObject,
    OpaqueMessage,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UnknownBlock,
    Usage,
    UserMessage,
    text_of,
)
from coppice.providers.base import ModelInfo, Request, ToolSchema
from coppice.providers.overflow import is_overflow

OVERFLOW_WORDING = "prompt is too long: 200001 tokens > 200000 maximum"
"""How `overflow` words itself by default: Anthropic's words for a request above the window."""

PASSING_STATUSES = frozenset({408, 409, 425, 429})
"""HTTP statuses below 500 after which the same request may succeed later; from 500 on all may."""

CHARACTERS_PER_TOKEN = 4
"""A scripted reply's own usage counts a token for every four characters begun."""

UNNUMBERED = ToolCallId("")
"""The id of a call the model has still to number."""

CHUNK = 16
"""Characters of a delta, when a reply does not say."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The request fails; fields are the error's. `is_overflow` decides whether it is one, as for a real provider."""

    message: str
    status: int | None = None
    code: str | None = None
    retry_after_ms: int | None = None
    body: str = ""
    transient: bool = False

    def error(self) -> ProviderError:
        """The exception a stream raises for this: `ContextOverflow`, never transient, or `ProviderError`."""
        too_large = is_overflow(self.status, self.code, self.message, self.body)
        kind = ContextOverflow if too_large else ProviderError
        return kind(
            self.message,
            status=self.status,
            code=self.code,
            retry_after_ms=self.retry_after_ms,
            body=self.body,
            transient=self.transient and not too_large,
        )


@dataclass(frozen=True, slots=True)
class CutText:
    """The stream is cut inside a text block, after ``text``."""

    text: str


@dataclass(frozen=True, slots=True)
class HalfCall:
    """The stream is cut inside a tool call, after ``partial_json`` of its arguments. An empty id is numbered."""

    name: str
    partial_json: str
    id: ToolCallId = UNNUMBERED


@dataclass(frozen=True, slots=True)
class Stall:
    """The stream stays open and nothing more comes; cancelling ends it."""


Fault: TypeAlias = Failure | CutText | HalfCall | Stall
"""How a reply goes wrong, after its blocks were streamed whole."""

CONNECTION_LOST = Failure("the connection was closed before the reply was complete", transient=True)
"""What a stream raises that was cut."""


@final
@dataclass(frozen=True, slots=True)
class ScriptedReply:
    """One reply of a script; `say`, `call`, `fail` and the others below make them.

    ``blocks`` are streamed in order; a tool call whose id is empty gets the next free ``call_N``. ``stop_reason`` None
    is ``toolUse`` when there are calls, else ``stop``. ``usage`` None is computed from lengths. With a ``fault`` the
    reply ends in it instead of `StreamDone`. ``delay_ms`` is waited before the first event, ``chunk_delay_ms`` between
    deltas of ``chunk`` characters.
    """

    blocks: tuple[AssistantBlock, ...] = ()
    stop_reason: str | None = None
    usage: Usage | None = None
    fault: Fault | None = None
    delay_ms: float = 0
    chunk_delay_ms: float = 0
    chunk: int = CHUNK

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise ValueError(f"chunk is {self.chunk}; a delta has at least 1 character")

    def then(self, following: "ScriptedReply") -> "ScriptedReply":
        """One reply with these blocks first; everything else is ``following``'s.

        ``say("Looking.").then(fail(status=529))`` fails in the middle of the stream.

        Raises:
            ValueError: this reply ends in a fault, so nothing can follow.
        """
        if self.fault is not None:
            raise ValueError(f"nothing can follow {self.fault}")
        return replace(following, blocks=self.blocks + following.blocks)

    def timed(self, delay_ms: float = 0, chunk_delay_ms: float = 0, chunk: int = CHUNK) -> "ScriptedReply":
        """The same reply at this pace: milliseconds and characters."""
        return replace(self, delay_ms=delay_ms, chunk_delay_ms=chunk_delay_ms, chunk=chunk)

    def with_usage(
        self, *, input_tokens: int = 0, output_tokens: int = 0, cache_read: int = 0, cache_write: int = 0
    ) -> "ScriptedReply":
        """The same reply, reporting this usage (all in tokens); the total is the sum."""
        total = input_tokens + output_tokens + cache_read + cache_write
        return replace(self, usage=Usage(input_tokens, output_tokens, cache_read, cache_write, total))


def text_blocks(text: str) -> tuple[TextBlock, ...]:
    """The content of a reply of this text; none when it is empty."""
    return (TextBlock(text),) if text else ()


def say(text: str) -> ScriptedReply:
    """A reply of one text block; ``say("")`` is the empty reply, without any block."""
    return ScriptedReply(text_blocks(text))


def length(text: str = "") -> ScriptedReply:
    """A reply that the output limit cut short: stop reason ``length``."""
    return ScriptedReply(text_blocks(text), stop_reason="length")


def think(thinking: str, *, signature: str | None = None, then: str = "") -> ScriptedReply:
    """A reply that thinks first, with the provider's signature when there is one."""
    return ScriptedReply((ThinkingBlock(thinking, signature), *text_blocks(then)))


def call(name: str, arguments: JsonObject | None = None, *, id: str = "") -> ScriptedReply:
    """A reply that calls one tool."""
    return ScriptedReply((ToolCall(ToolCallId(id), name, arguments or {}),))


def calls(*parts: ScriptedReply, text: str = "") -> ScriptedReply:
    """One reply made of several, blocks in order after ``text``: ``calls(call("ls"), call("read", {...}))``.

    Raises:
        ValueError: a part that is not the last one ends in a fault.
    """
    reply = say(text)
    for part in parts:
        reply = reply.then(part)
    return reply


def fail(
    message: str = "the provider failed",
    *,
    status: int | None = None,
    code: str | None = None,
    retry_after_ms: int | None = None,
    body: str = "",
    transient: bool | None = None,
) -> ScriptedReply:
    """A request that fails as `Failure` says; ``transient`` None follows from the status (`PASSING_STATUSES`)."""
    passing = status is not None and (status >= 500 or status in PASSING_STATUSES)
    failure = Failure(message, status, code, retry_after_ms, body, passing if transient is None else transient)
    return ScriptedReply(fault=failure)


def overflow(wording: str = OVERFLOW_WORDING, *, status: int | None = 400, code: str | None = None) -> ScriptedReply:
    """A request that is larger than the window: `ContextOverflow` in a provider's words.

    Raises:
        ValueError: coppice does not know these words (`coppice.providers.overflow`), so no real provider's request
            would be taken for too large either.
    """
    if not is_overflow(status, code, wording):
        raise ValueError(f"not known as an overflow: {wording!r} (status {status}, code {code})")
    return ScriptedReply(fault=Failure(wording, status, code))


def drop(after: str = "") -> ScriptedReply:
    """A stream that is cut after this text: a transient `ProviderError`."""
    return ScriptedReply(fault=CutText(after) if after else CONNECTION_LOST)


def half_call(name: str, partial_json: str, *, id: str = "") -> ScriptedReply:
    """A stream that is cut inside a tool call's arguments: a transient `ProviderError`."""
    return ScriptedReply(fault=HalfCall(name, partial_json, ToolCallId(id)))


def stall() -> ScriptedReply:
    """A request that is never answered; wait for it with `ScriptedModel.wait_for_request`."""
    return ScriptedReply(fault=Stall())


# --- streaming ---------------------------------------------------------------------------------


def _pieces(text: str, chunk: int) -> Iterator[str]:
    return (text[start : start + chunk] for start in range(0, len(text), chunk))


def _block_events(index: int, block: AssistantBlock, chunk: int) -> Iterator[BlockEvent]:
    match block:
        case TextBlock(text=text):
            yield TextStart(index)
            yield from (TextDelta(index, piece) for piece in _pieces(text, chunk))
            yield TextEnd(index, text)
        case ThinkingBlock(thinking=thinking):
            yield ThinkingStart(index)
            yield from (ThinkingDelta(index, piece) for piece in _pieces(thinking, chunk))
            yield ThinkingEnd(index, thinking)
        case ToolCall(id=call_id, name=name, arguments=arguments):
            yield ToolCallStart(index, call_id, name)
            text = encode(arguments).decode()
            yield from (ToolCallDelta(index, piece) for piece in _pieces(text, chunk))
            yield ToolCallEnd(index, block)
        case UnknownBlock():
            return
        case _:
            assert_never(block)


def _cut_events(index: int, fault: Fault | None, chunk: int) -> Iterator[BlockEvent]:
    match fault:
        case CutText(text=text):
            yield TextStart(index)
            yield from (TextDelta(index, piece) for piece in _pieces(text, chunk))
        case HalfCall(name=name, partial_json=text, id=call_id):
            yield ToolCallStart(index, call_id, name)
            yield from (ToolCallDelta(index, piece) for piece in _pieces(text, chunk))
        case None | Failure() | Stall():
            return
        case _:
            assert_never(fault)


def _reply_events(reply: ScriptedReply) -> Iterator[BlockEvent]:
    for index, block in enumerate(reply.blocks):
        yield from _block_events(index, block, reply.chunk)
    yield from _cut_events(len(reply.blocks), reply.fault, reply.chunk)


async def _suffer(fault: Fault | None) -> None:
    match fault:
        case None:
            return
        case Failure():
            raise fault.error()
        case CutText() | HalfCall():
            raise CONNECTION_LOST.error()
        case Stall():
            await asyncio.get_running_loop().create_future()
        case _:
            assert_never(fault)


async def play(reply: ScriptedReply, request: Request, info: ModelInfo) -> AsyncGenerator[StreamEvent, None]:
    """Stream one reply as ``info``'s; the event loop gets a turn before every event.

    Raises:
        ProviderError, ContextOverflow: the reply's fault says so.
    """
    await asyncio.sleep(reply.delay_ms / 1000)
    for event in _reply_events(reply):
        yield event
        match event:
            case TextDelta() | ThinkingDelta() | ToolCallDelta():
                await asyncio.sleep(reply.chunk_delay_ms / 1000)
            case _:
                await asyncio.sleep(0)
    await _suffer(reply.fault)
    usage = reply.usage or usage_by_length(request, reply.blocks)
    yield UsageReport(usage)
    has_calls = any(isinstance(block, ToolCall) for block in reply.blocks)
    message = AssistantMessage(
        reply.blocks,
        api=info.api,
        provider=info.provider,
        model=info.id,
        usage=usage,
        stop_reason=reply.stop_reason or ("toolUse" if has_calls else "stop"),
        timestamp=time.time_ns() // 1_000_000,
    )
    yield StreamDone(message)


# --- usage -------------------------------------------------------------------------------------


def _block_length(block: AssistantBlock) -> int:
    match block:
        case TextBlock(text=text):
            return len(text)
        case ThinkingBlock(thinking=thinking):
            return len(thinking)
        case ToolCall(name=name, arguments=arguments):
            return len(name) + len(encode(arguments))
        case UnknownBlock(fields=fields):
            return len(encode(fields))
        case _:
            assert_never(block)


def _message_length(message: RequestMessage) -> int:
    match message:
        case UserMessage(content=content):
            return len(text_of(content))
        case ToolResultMessage(content=content):
            return len(text_of(content))
        case AssistantMessage(content=content):
            return sum(map(_block_length, content))
        case OpaqueMessage(item=item):
            return len(str(item))
        case _:
            assert_never(message)


def _tool_length(tool: ToolSchema) -> int:
    return len(tool.name) + len(tool.description) + len(encode(tool.parameters))


def usage_by_length(request: Request, blocks: tuple[AssistantBlock, ...]) -> Usage:
    """Usage in tokens, `CHARACTERS_PER_TOKEN` each, rounded up: system prompt, tools and messages in, blocks out."""
    sent = (
        len(request.system_prompt) + sum(map(_message_length, request.messages)) + sum(map(_tool_length, request.tools))
    )
    said = sum(map(_block_length, blocks))
    tokens_in, tokens_out = -(-sent // CHARACTERS_PER_TOKEN), -(-said // CHARACTERS_PER_TOKEN)
    return Usage(input=tokens_in, output=tokens_out, total_tokens=tokens_in + tokens_out)
