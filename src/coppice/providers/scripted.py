"""A model that plays a script and records what it was sent: for coppice's own tests and for yours.

    model = ScriptedModel([call("bash", {"command": "ls"}), say("Two files.")])

Here live the model and the JSON form of a script, which other processes load (``--model scripted/PATH``). What a script
is made of stands in `coppice.providers.script` and is offered here too. Nothing here decides by itself: a reply that
depends on the request is a function you pass.
"""

import asyncio
import json
import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import msgspec

from coppice.errors import CoppiceError, ProviderError
from coppice.format.codec import encode
from coppice.format.events import StreamEvent
from coppice.format.messages import (
    AssistantBlock,
    AssistantMessage,
    JsonObject,
    RequestMessage,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    tool_calls_of,
)
from coppice.providers.base import ModelInfo, Request
from coppice.providers.script import (
    CHUNK,
    OVERFLOW_WORDING,
    HalfCall,
    ScriptedReply,
    call,
    calls,
    drop,
    fail,
    half_call,
    length,
    overflow,
    play,
    say,
    stall,
    text_blocks,
    think,
)

__all__ = [
    "OVERFLOW_WORDING",
    "SCRIPTED",
    "ScriptStep",
    "ScriptedModel",
    "ScriptedReply",
    "call",
    "calls",
    "drop",
    "fail",
    "half_call",
    "length",
    "load_script",
    "overflow",
    "say",
    "stall",
    "think",
]

SCRIPTED = ModelInfo(
    provider="scripted",
    id="scripted",
    api="scripted",
    context_window=200_000,
    label="scripted replies for tests, no real model",
)
"""What a scripted model says it is, when it is not told otherwise. The window is in tokens."""

ScriptStep: TypeAlias = ScriptedReply | Callable[[Request], ScriptedReply]
"""A reply, or a function that makes it from what was sent. What such a function raises, the stream raises."""


def _call_ids(messages: Sequence[RequestMessage]) -> frozenset[str]:
    replies = (message for message in messages if isinstance(message, AssistantMessage))
    return frozenset(made.id for reply in replies for made in tool_calls_of(reply))


class ScriptedModel:
    """A `Model` that answers the first request with the first reply, and so on.

    ``requests`` records every request, in the order of arrival. ``record`` is a file that gets each request as one JSON
    line, synced to disk before the reply begins; it is created with mode 0600.
    """

    def __init__(
        self, replies: Sequence[ScriptStep], info: ModelInfo = SCRIPTED, *, record: Path | None = None
    ) -> None:
        self.requests: list[Request] = []
        self._replies = tuple(replies)
        self._info = info
        self._record = record
        self._numbered = 0
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def info(self) -> ModelInfo:
        """Facts about the model."""
        return self._info

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Record the request, then play the next reply of the script.

        Raises:
            ProviderError, ContextOverflow: the script says so, or it has no more replies, or the record file failed.
        """
        reply = self._with_ids(self._next_reply(request), request)
        async with aclosing(play(reply, request, self._info)) as events:
            async for event in events:
                yield event

    async def wait_for_request(self, number: int = 1) -> Request:
        """Wait until that many requests have arrived and return the last of these; ``number`` counts from 1.

        Call it in the event loop that streams.
        """
        while len(self.requests) < number:
            arrival = asyncio.get_running_loop().create_future()
            self._waiting.append(arrival)
            await arrival
        return self.requests[number - 1]

    def _next_reply(self, request: Request) -> ScriptedReply:
        if self._record is not None:
            _append_record(self._record, request)
        self.requests.append(request)
        arrivals, self._waiting = self._waiting, []
        for arrival in arrivals:
            if not arrival.done():
                arrival.set_result(None)
        number = len(self.requests)
        if number > len(self._replies):
            raise ProviderError(
                f"the script has {len(self._replies)} replies and this is request {number}; add a reply to the script"
            )
        step = self._replies[number - 1]
        return step if isinstance(step, ScriptedReply) else step(request)

    def _with_ids(self, reply: ScriptedReply, request: Request) -> ScriptedReply:
        taken = _call_ids(request.messages) | {made.id for made in reply.blocks if isinstance(made, ToolCall)}
        blocks = tuple(self._identified(block, taken) for block in reply.blocks)
        match reply.fault:
            case HalfCall(id=""):
                return replace(reply, blocks=blocks, fault=replace(reply.fault, id=self._next_id(taken)))
            case _:
                return replace(reply, blocks=blocks)

    def _identified(self, block: AssistantBlock, taken: frozenset[str]) -> AssistantBlock:
        match block:
            case ToolCall(id=""):
                return msgspec.structs.replace(block, id=self._next_id(taken))
            case _:
                return block

    def _next_id(self, taken: frozenset[str]) -> ToolCallId:
        self._numbered += 1
        while f"call_{self._numbered}" in taken:
            self._numbered += 1
        return ToolCallId(f"call_{self._numbered}")


# --- across processes --------------------------------------------------------------------------


def _append_record(path: Path, request: Request) -> None:
    line = encode(
        {
            "systemPrompt": request.system_prompt,
            "messages": request.messages,
            "tools": request.tools,
            "thinkingLevel": request.thinking_level,
            "maxOutput": request.max_output,
            "cacheKey": request.cache_key,
        }
    )
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ProviderError(f"{path}: the request could not be recorded: {error.strerror}") from error


class _Form(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A JSON object of a script file; an unknown key is an error."""


class _CallForm(_Form, frozen=True):
    name: str
    arguments: JsonObject = {}
    id: str = ""


class _HalfCallForm(_Form, frozen=True):
    name: str
    partial_json: str
    id: str = ""


class _FailForm(_Form, frozen=True):
    message: str = "the provider failed"
    status: int | None = None
    code: str | None = None
    retry_after_ms: int | None = None
    body: str = ""
    transient: bool | None = None


class _UsageForm(_Form, frozen=True):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class _ReplyForm(_Form, frozen=True):
    thinking: str | None = None
    signature: str | None = None
    text: str = ""
    calls: tuple[_CallForm, ...] = ()
    stop_reason: str | None = None
    usage: _UsageForm | None = None
    fail: _FailForm | None = None
    overflow: str | None = None
    drop: str | None = None
    half_call: _HalfCallForm | None = None
    stall: bool = False
    delay_ms: float = 0
    chunk_delay_ms: float = 0
    chunk: int = CHUNK


class _ModelForm(_Form, frozen=True):
    provider: str = SCRIPTED.provider
    id: str = SCRIPTED.id
    api: str = SCRIPTED.api
    context_window: int | None = SCRIPTED.context_window
    max_output: int | None = SCRIPTED.max_output
    accepts_images: bool = SCRIPTED.accepts_images
    base_url: str | None = SCRIPTED.base_url
    label: str = SCRIPTED.label


class _ScriptForm(_Form, frozen=True):
    replies: tuple[_ReplyForm, ...]
    record: str | None = None
    model: _ModelForm = _ModelForm()


def _faults(form: _ReplyForm) -> Iterator[ScriptedReply]:
    if (failing := form.fail) is not None:
        yield fail(**msgspec.structs.asdict(failing))
    if form.overflow is not None:
        yield overflow(form.overflow or OVERFLOW_WORDING)
    if form.drop is not None:
        yield drop(form.drop)
    if (half := form.half_call) is not None:
        yield half_call(half.name, half.partial_json, id=half.id)
    if form.stall:
        yield stall()


def _reply(form: _ReplyForm) -> ScriptedReply:
    faults = [faulty.fault for faulty in _faults(form)]
    if len(faults) > 1:
        raise ValueError("one of fail, overflow, drop, halfCall, stall, not several")
    thinking = () if form.thinking is None else (ThinkingBlock(form.thinking, form.signature),)
    made = tuple(ToolCall(ToolCallId(called.id), called.name, called.arguments) for called in form.calls)
    reply = ScriptedReply(
        (*thinking, *text_blocks(form.text), *made),
        form.stop_reason,
        fault=faults[0] if faults else None,
        delay_ms=form.delay_ms,
        chunk_delay_ms=form.chunk_delay_ms,
        chunk=form.chunk,
    )
    if (used := form.usage) is None:
        return reply
    return reply.with_usage(
        input_tokens=used.input, output_tokens=used.output, cache_read=used.cache_read, cache_write=used.cache_write
    )


def load_script(path: str) -> ScriptedModel:
    """The model a script file describes; ``--model scripted/PATH`` names it.

    The file is a JSON object: ``replies`` (a list), ``record`` (a path, relative to the script's directory) and
    ``model`` (``provider``, ``id``, ``api``, ``contextWindow``, ``maxOutput``, ``acceptsImages``, ``baseUrl``,
    ``label``). A reply has ``thinking``, ``signature``, ``text``, ``calls`` (``name``, ``arguments``, ``id``),
    ``stopReason``, ``usage``, ``delayMs``, ``chunkDelayMs``, ``chunk``, and at most one fault, which comes after the
    blocks: ``fail`` (``message``, ``status``, ``code``, ``retryAfterMs``, ``body``, ``transient``), ``overflow`` (the
    wording, ``""`` for the default), ``drop`` (the text before the cut), ``halfCall`` (``name``, ``partialJson``,
    ``id``), ``stall`` (true).

    Raises:
        CoppiceError: the file cannot be read or is no script; the text names file and line or key.
    """
    try:
        script = msgspec.convert(json.loads(Path(path).read_bytes()), _ScriptForm)
    except OSError as error:
        raise CoppiceError(f"{path}: the script cannot be read: {error.strerror}") from error
    except json.JSONDecodeError as error:
        raise CoppiceError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    except UnicodeDecodeError as error:
        raise CoppiceError(f"{path}: not UTF-8: {error.reason}") from error
    except msgspec.ValidationError as error:
        raise CoppiceError(f"{path}: {error}") from error
    replies: list[ScriptedReply] = []
    for index, form in enumerate(script.replies):
        try:
            replies.append(_reply(form))
        except ValueError as error:
            raise CoppiceError(f"{path}: {error} - at `$.replies[{index}]`") from error
    record = None if script.record is None else Path(path).parent / script.record
    return ScriptedModel(replies, ModelInfo(**msgspec.structs.asdict(script.model)), record=record)
