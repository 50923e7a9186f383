"""What goes wrong at a provider, and what the caller is told: one request, one error, no key."""

import asyncio
import logging
import traceback
from collections.abc import Callable
from contextlib import aclosing
from typing import Any

import pytest
from tests.fakes import anthropic_server, openai_server
from tests.fakes.anthropic_server import FakeAnthropic, ToolUse
from tests.fakes.http_server import FakeServer
from tests.fakes.openai_server import LLAMA_CPP_OVERFLOW, Call, Completion, FakeOpenAI, Message, Response
from tests.providers.streamed import HELLO, KEY, events_of, facts, failure_of, reply_of

from coppice.errors import ProviderError
from coppice.format.messages import TextBlock, ToolCall, ToolCallId
from coppice.providers.base import Model
from coppice.providers.pydantic_ai.anthropic import anthropic_model
from coppice.providers.pydantic_ai.openai import completions_model, responses_model

pytestmark = pytest.mark.anyio

ABORT_BOUND_S = 2.0
"""Seconds within which the provider must see that its stream is no longer wanted."""

HALF = (anthropic_server.Text(("Half a", "sentence")),)
HALF_MESSAGE = (Message(("Half a", "sentence")),)

Reply = anthropic_server.Reply | Response | Completion


def served(reply: Reply) -> tuple[FakeServer, Callable[[str], Model]]:
    """A server with one reply, and how to make the model that asks it."""
    match reply:
        case anthropic_server.Reply():
            return FakeAnthropic([reply]), lambda url: anthropic_model("claude-sonnet-4-5", KEY, url)
        case Response():
            return FakeOpenAI([reply]), lambda url: responses_model("gpt-6.1-sol", KEY, url)
        case Completion():
            return FakeOpenAI([reply]), lambda url: completions_model("qwen3", KEY, url)


async def told(reply: Reply) -> dict[str, Any]:
    """What a caller is told of the one request that got this reply."""
    server, model = served(reply)
    async with server:
        error = await failure_of(model(server.base_url))
    assert len(server.requests) == 1
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    return facts(error) | {"body": error.body[:40]}


def fact(text: str, kind: str = "ProviderError", **others: Any) -> dict[str, Any]:
    blank = {"status": None, "code": None, "retry_after_ms": None, "body": "", "transient": False}
    return blank | others | {"kind": kind, "text": text}


STATUSES = [
    (
        anthropic_server.Reply(
            status=429,
            headers={"retry-after": "7"},
            error=anthropic_server.error_body("rate_limit_error", f"slow down, {KEY}"),
        ),
        fact(
            "anthropic: 429 rate_limit_error: slow down, [key]",
            status=429,
            code="rate_limit_error",
            retry_after_ms=7_000,
            body='{"type": "error", "error": {"type": "rat',
            transient=True,
        ),
    ),
    (
        Response(
            status=429,
            headers={"retry-after-ms": "1500"},
            error=openai_server.error_body("Slow", "rate_limit_exceeded"),
        ),
        fact(
            "openai: 429 rate_limit_exceeded: Slow",
            status=429,
            code="rate_limit_exceeded",
            retry_after_ms=1_500,
            body='{"message": "Slow", "type": "invalid_req',
            transient=True,
        ),
    ),
    (
        Response(status=429, error=openai_server.error_body("Pay first", "insufficient_quota")),
        fact(
            "openai: 429 insufficient_quota: Pay first",
            status=429,
            code="insufficient_quota",
            body='{"message": "Pay first", "type": "invali',
        ),
    ),
    (
        anthropic_server.Reply(status=401, error=anthropic_server.error_body("authentication_error", f"no {KEY}")),
        fact(
            "anthropic: 401 authentication_error: no [key]",
            status=401,
            code="authentication_error",
            body='{"type": "error", "error": {"type": "aut',
        ),
    ),
    (
        anthropic_server.Reply(status=413, error=anthropic_server.error_body("request_too_large", "Request too large")),
        fact(
            "anthropic: 413 request_too_large: Request too large",
            status=413,
            code="request_too_large",
            body='{"type": "error", "error": {"type": "req',
        ),
    ),
    (
        anthropic_server.Reply(
            status=400,
            error=anthropic_server.error_body("invalid_request_error", "prompt is too long: 210000 tokens > 200000"),
        ),
        fact(
            "anthropic: 400 invalid_request_error: prompt is too long: 210000 tokens > 200000",
            "ContextOverflow",
            status=400,
            code="invalid_request_error",
            body='{"type": "error", "error": {"type": "inv',
        ),
    ),
    (
        Completion(status=400, error=LLAMA_CPP_OVERFLOW),
        fact(
            "openai: 400 exceed_context_size_error: request (66202 tokens) exceeds the available context size "
            "(65536 tokens), try increasing it",
            "ContextOverflow",
            status=400,
            code="exceed_context_size_error",
            body='{"code": 400, "message": "request (66202',
        ),
    ),
    (
        Completion(status=503, error="upstream: exceeds the model's maximum context length of 131072 tokens"),
        fact(
            "openai: 503: upstream: exceeds the model's maximum context length of 131072 tokens",
            "ContextOverflow",
            status=503,
            body="upstream: exceeds the model's maximum co",
        ),
    ),
    (
        Completion(status=502, error=f"<html>\n<b>bad gateway {KEY}</b>"),
        fact(
            "openai: 502: <html> <b>bad gateway [key]</b>",
            status=502,
            body="<html>\n<b>bad gateway [key]</b>",
            transient=True,
        ),
    ),
]


@pytest.mark.parametrize(("reply", "expected"), STATUSES)
async def test_an_http_error_is_told_with_all_it_says_and_sent_once(reply: Reply, expected: dict[str, Any]) -> None:
    assert await told(reply) == expected


LOST = "the connection failed: peer closed connection without sending complete message body (incomplete chunked read)"
NO_END = "the reply is incomplete: the stream ended without a stop reason"

BROKEN_STREAMS = [
    (
        anthropic_server.Reply(
            content=HALF, events=4, error=anthropic_server.error_body("overloaded_error", "Overloaded")
        ),
        fact(
            "anthropic: 529 overloaded_error: Overloaded",
            status=529,
            code="overloaded_error",
            body='{"type": "error", "error": {"type": "ove',
            transient=True,
        ),
    ),
    (
        anthropic_server.Reply(events=0, error=anthropic_server.error_body("api_error", "Internal server error")),
        fact(
            "anthropic: 500 api_error: Internal server error",
            status=500,
            code="api_error",
            body='{"type": "error", "error": {"type": "api',
            transient=True,
        ),
    ),
    (
        Response(
            content=HALF_MESSAGE,
            events=5,
            error={
                "type": "error",
                "code": "rate_limit_exceeded",
                "message": "Slow",
                "param": None,
                "sequence_number": 5,
            },
        ),
        fact(
            "openai: 429 rate_limit_exceeded: Slow",
            status=429,
            code="rate_limit_exceeded",
            body='{"code": "rate_limit_exceeded", "message',
            transient=True,
        ),
    ),
    (
        Response(content=HALF_MESSAGE, end="failed", reason="server_error"),
        fact(
            "openai: 500 server_error: The server had an error",
            status=500,
            code="server_error",
            body='{"code": "server_error", "message": "The',
            transient=True,
        ),
    ),
    (
        Response(content=HALF_MESSAGE, end="failed", reason="context_length_exceeded"),
        fact(
            "openai: 400 context_length_exceeded: The server had an error",
            "ContextOverflow",
            status=400,
            code="context_length_exceeded",
            body='{"code": "context_length_exceeded", "mes',
        ),
    ),
    (
        Completion(
            content=HALF_MESSAGE,
            events=2,
            error={"error": {"message": "boom", "type": "server_error", "code": 500}},
        ),
        fact(
            "openai: 500 server_error: boom",
            status=500,
            code="server_error",
            body='{"message": "boom", "type": "server_erro',
            transient=True,
        ),
    ),
    (anthropic_server.Reply(content=HALF, events=4, cut=True), fact(f"anthropic: {LOST}", transient=True)),
    (Response(content=HALF_MESSAGE, events=5, cut=True), fact(f"openai: {LOST}", transient=True)),
    (Completion(content=HALF_MESSAGE, events=2, cut=True), fact(f"openai: {LOST}", transient=True)),
    (anthropic_server.Reply(content=HALF, events=4), fact(f"anthropic: {NO_END}", transient=True)),
    (Response(content=HALF_MESSAGE, events=5), fact(f"openai: {NO_END}", transient=True)),
    (
        Completion(content=HALF_MESSAGE, finish=None),
        fact("openai: error: Streamed response ended without a `finish_reason`", transient=True),
    ),
    (
        anthropic_server.Reply(content=HALF, stop_reason="model_context_window_exceeded"),
        fact(
            "anthropic: the reply reached the end of the model's context window",
            "ContextOverflow",
            code="model_context_window_exceeded",
        ),
    ),
    (
        anthropic_server.Reply(content=HALF, stop_reason="refusal"),
        fact("anthropic: the model refused: no reason given", code="refusal"),
    ),
    (
        Response(content=HALF_MESSAGE, end="incomplete", reason="content_filter"),
        fact("openai: the model refused: no reason given", code="content_filter"),
    ),
]


@pytest.mark.parametrize(("reply", "expected"), BROKEN_STREAMS)
async def test_a_stream_that_breaks_is_an_error_and_never_a_shorter_reply(
    reply: Reply, expected: dict[str, Any]
) -> None:
    assert await told(reply) == expected


async def test_a_server_that_is_not_there_is_a_transient_error() -> None:
    async with FakeOpenAI([]) as server:
        url = server.base_url
    error = await failure_of(completions_model("qwen3", KEY, url))
    assert facts(error) == fact("openai: the connection failed: All connection attempts failed", transient=True)


async def test_a_server_that_stays_silent_is_given_up_after_the_time_allowed() -> None:
    server, model = served(Completion(content=HALF_MESSAGE, events=2, stall=True))
    async with server:
        patient = model(server.base_url)
        impatient = type(patient)(patient.info, patient.wire, patient.price, KEY, silence_s=0.2)
        error = await failure_of(impatient)
        await server.wait_disconnected()
    assert facts(error) == fact("openai: the request timed out", transient=True)


# --- tool calls that are not whole -----------------------------------------------------------------

CALLS = ('{"command": "rm -rf /tmp/x',)

HALF_CALLS = [
    (
        anthropic_server.Reply(content=(ToolUse("c1", "bash", CALLS),), stop_reason="tool_use"),
        anthropic_server.Reply(content=(ToolUse("c1", "bash", CALLS),), stop_reason="max_tokens"),
    ),
    (
        Response(content=(Call("c1", "bash", CALLS),)),
        Response(content=(Call("c1", "bash", CALLS),), end="incomplete"),
    ),
    (
        Completion(content=(Call("c1", "bash", CALLS),), finish="tool_calls"),
        Completion(content=(Call("c1", "bash", CALLS),), finish="length"),
    ),
]


@pytest.mark.parametrize(("finished", "cut"), HALF_CALLS)
async def test_a_call_with_half_its_arguments_is_an_error_unless_the_provider_ran_out_of_length(
    finished: Reply, cut: Reply
) -> None:
    error = await told(finished)
    assert (error["text"].partition(": ")[2], error["transient"]) == (
        "the reply is incomplete: a tool call's arguments are not a JSON object",
        True,
    )
    server, model = served(cut)
    async with server:
        reply = await reply_of(model(server.base_url))
    signature = '{"id":"fc_1"}' if reply.api == "openai-responses" else None
    assert reply.stop_reason == "length"
    assert reply.content == (ToolCall(ToolCallId("c1"), "bash", {}, signature),)


@pytest.mark.parametrize("arguments", ["[1]", "null", '"text"', '{"a": NaN}', '{"a": 1}{"b": 2}', "[" * 100_000])
async def test_arguments_that_are_no_json_object_are_an_error(arguments: str) -> None:
    error = await told(Completion(content=(Call("c1", "bash", (arguments,)),), finish="tool_calls"))
    assert error["text"] == "openai: the reply is incomplete: a tool call's arguments are not a JSON object"


# --- stopping ------------------------------------------------------------------------------------

STALLS = [
    anthropic_server.Reply(content=HALF, events=4, stall=True),
    Response(content=HALF_MESSAGE, events=5, stall=True),
    Completion(content=HALF_MESSAGE, events=2, stall=True),
]


@pytest.mark.parametrize("reply", STALLS)
async def test_cancelling_the_task_that_reads_closes_the_connection_at_once(reply: Reply) -> None:
    server, model = served(reply)
    began = asyncio.Event()

    async def read() -> None:
        async for _ in model(server.base_url).stream(HELLO):
            began.set()

    async with server:
        task = asyncio.create_task(read())
        await asyncio.wait_for(began.wait(), 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, ABORT_BOUND_S)
        await asyncio.wait_for(server.wait_disconnected(), ABORT_BOUND_S)


@pytest.mark.parametrize("reply", STALLS)
async def test_cancelling_before_the_first_event_closes_the_connection_too(reply: Reply) -> None:
    silent = type(reply)(events=0, stall=True)
    server, model = served(silent)
    async with server:
        task = asyncio.create_task(events_of(model(server.base_url)))
        await server.wait_request()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, ABORT_BOUND_S)
        await asyncio.wait_for(server.wait_disconnected(), ABORT_BOUND_S)


@pytest.mark.parametrize("reply", STALLS)
async def test_closing_the_iterator_closes_the_connection_at_once(reply: Reply) -> None:
    server, model = served(reply)
    async with server:
        async with aclosing(model(server.base_url).stream(HELLO)) as events:
            await anext(events)
        await asyncio.wait_for(server.wait_disconnected(), ABORT_BOUND_S)


async def test_an_error_of_the_reader_reaches_the_reader_unchanged() -> None:
    server, model = served(anthropic_server.Reply(content=HALF))

    async def read() -> None:
        async with aclosing(model(server.base_url).stream(HELLO)) as events:
            async for _ in events:
                raise ZeroDivisionError

    async with server:
        with pytest.raises(ZeroDivisionError):
            await read()
    assert len(server.requests) == 1


async def test_requests_leave_no_connection_behind_and_share_none() -> None:
    async with FakeAnthropic([anthropic_server.Reply(), anthropic_server.Reply()]) as server:
        model = anthropic_model("claude-sonnet-4-5", KEY, server.base_url)
        await events_of(model)
        await events_of(model)
    assert server.connections == 2  # leaving the server's block waits until both are closed


async def test_a_model_serves_several_requests_at_once() -> None:
    replies = [anthropic_server.Reply(id=f"msg_{n}", content=(anthropic_server.Text((f"{n}",)),)) for n in range(3)]
    async with FakeAnthropic(replies) as server:
        model = anthropic_model("claude-sonnet-4-5", KEY, server.base_url)
        told = await asyncio.gather(*(reply_of(model) for _ in replies))
    assert sorted((reply.response_id, reply.content) for reply in told) == [
        (f"msg_{n}", (TextBlock(f"{n}"),)) for n in range(3)
    ]


def test_a_model_of_a_finished_event_loop_works_in_the_next() -> None:
    async def once(model: Model | None) -> Model:
        async with FakeAnthropic([anthropic_server.Reply()]) as server:
            asked = anthropic_model("claude-sonnet-4-5", KEY, server.base_url)
            await events_of(asked)
            if model is not None:
                with pytest.raises(ProviderError):
                    await events_of(model)  # its server is gone, its event loop was not needed
            return asked

    first = asyncio.run(once(None))
    asyncio.run(once(first))


async def test_the_key_is_in_no_log_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for reply in (anthropic_server.Reply(), Response(), Completion()):
        server, model = served(reply)
        async with server:
            await events_of(model(server.base_url))
    assert len(caplog.records) > 10
    assert KEY not in "".join(f"{record.getMessage()} {vars(record)!r}" for record in caplog.records)
