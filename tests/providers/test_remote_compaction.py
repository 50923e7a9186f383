"""Compaction by the provider: what is asked, what comes back, what goes wrong, and how its items go back."""

import asyncio
import gzip
import json
import traceback
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from inline_snapshot import snapshot
from tests.fakes import anthropic_server, openai_server
from tests.fakes.anthropic_server import FakeAnthropic, Redacted, Text, Thinking, ToolUse
from tests.fakes.http_server import Answer, FakeServer
from tests.fakes.openai_server import (
    Call,
    Compaction,
    Completion,
    FakeOpenAI,
    Message,
    Raw,
    Reasoning,
    Response,
    answer,
)
from tests.providers.streamed import BASH, HELLO, KEY, events_of, facts, failure_of, reply_of, stored

from coppice.errors import ContextOverflow, ProviderError
from coppice.format.messages import (
    Binding,
    Cost,
    JsonObject,
    OpaqueMessage,
    TextBlock,
    ToolCallId,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from coppice.providers.base import CompactingModel, ModelInfo, Request
from coppice.providers.catalogue import resolve_model
from coppice.providers.pydantic_ai.anthropic import anthropic_model
from coppice.providers.pydantic_ai.opaque import account_of, binding_of
from coppice.providers.pydantic_ai.openai import completions_model, responses_model

pytestmark = pytest.mark.anyio

SOL = "gpt-6.1-sol"
OPUS = "claude-opus-5-5"

BLOB: JsonObject = {
    "type": "compaction",
    "encrypted_content": "gAAAAABcompact+/==",
    "id": "cmp_1",
    "future": {"b": [1.5, None, {"z": "日本語 😀", "a": 1}], "a": ""},
}
"""A compaction item, with a field nobody knows and keys in no order."""

USER_ITEM: JsonObject = {
    "type": "message",
    "role": "user",
    "content": [{"type": "input_text", "text": "hi"}],
    "id": "msg_u1",
    "status": "completed",
}

BLOCK: JsonObject = {
    "type": "compaction",
    "signature": "EqQBCgIY+/==",
    "content": "The user greeted; ls was run.",
    "tool_changes": [],
    "encrypted_content": None,
    "future": {"z": 1, "a": 2},
}

WORK = Response(
    content=(
        Reasoning(("First.",), encrypted="gAAAAAB+/=="),
        Message(("Let me look.",)),
        Call("call_1", "bash", ('{"command": "ls"}',)),
    )
)

CLAUDES_WORK = anthropic_server.Reply(
    content=(
        Thinking(("Hm.",), "SIG+/=="),
        Redacted("cmVkYWN0ZWQ+/="),
        Text(("Let me look.",)),
        ToolUse("call_1", "bash", ('{"command": "ls"}',)),
    ),
    stop_reason="tool_use",
)

ASKED = Request(
    "You are brief.", (UserMessage("hi"),), (BASH,), thinking_level="medium", max_output=9000, cache_key="session-1"
)

SUMMARY = anthropic_server.Reply(blocks=(BLOCK,), stop_reason="compaction")

Reply = anthropic_server.Reply | Response | Compaction


def answered(reply: Any, request: Request = ASKED) -> Request:
    """The request of the next turn."""
    result = ToolResultMessage(ToolCallId("call_1"), "bash", (TextBlock("a\nb"),))
    return replace(request, messages=(*request.messages, stored(reply), result))


def served(reply: Reply) -> tuple[FakeServer, Callable[[str], CompactingModel]]:
    match reply:
        case anthropic_server.Reply():
            return FakeAnthropic([reply]), lambda url: anthropic_model(OPUS, KEY, url)
        case Response() | Compaction():
            return FakeOpenAI([reply]), lambda url: responses_model(SOL, KEY, url)


def form_of(reply: Reply) -> str:
    match reply:
        case anthropic_server.Reply():
            return "anthropic"
        case Response():
            return "openai-v2"
        case Compaction():
            return "openai-v1"


async def compaction_failure(model: CompactingModel, form: str, request: Request = HELLO) -> ProviderError:
    try:
        await model.compact(request, form)
    except ProviderError as error:
        return error
    raise AssertionError("the compaction did not fail")


async def told(reply: Reply) -> dict[str, Any]:
    """What a caller is told of the one request that got this reply."""
    server, model = served(reply)
    async with server:
        error = await compaction_failure(model(server.base_url), form_of(reply))
    assert len(server.requests) == 1
    assert KEY not in "".join(traceback.format_exception(error)) + repr(error) + repr(vars(error))
    return facts(error) | {"body": error.body[:30]}


def fact(text: str, kind: str = "ProviderError", **others: Any) -> dict[str, Any]:
    blank = {"status": None, "code": None, "retry_after_ms": None, "body": "", "transient": False}
    return blank | others | {"kind": kind, "text": text}


# --- asking ----------------------------------------------------------------------------------------


@pytest.mark.case("C26")
async def test_the_endpoint_gets_the_conversation_and_nothing_of_a_stream_or_a_prompt_for_a_summary() -> None:
    output = (USER_ITEM, {"type": "future_item", "x": 1}, BLOB)
    async with FakeOpenAI(
        [WORK, Compaction(output=output, input_tokens=2110, cached=2000, output_tokens=40)]
    ) as server:
        model = responses_model(SOL, KEY, server.base_url)
        compacted = await model.compact(answered(await reply_of(model, ASKED)), "openai-v1")
    assert server.requests[1].path == "/v1/responses/compact"
    assert server.bodies[1] == snapshot(
        {
            "model": "gpt-6.1-sol",
            "input": [
                {"role": "user", "content": "hi"},
                {
                    "id": "rs_1",
                    "summary": [{"text": "First.", "type": "summary_text"}],
                    "encrypted_content": "gAAAAAB+/==",
                    "type": "reasoning",
                },
                {
                    "role": "assistant",
                    "id": "msg_1",
                    "content": [{"text": "Let me look.", "type": "output_text", "annotations": []}],
                    "type": "message",
                    "status": "completed",
                },
                {
                    "name": "bash",
                    "arguments": '{"command":"ls"}',
                    "call_id": "call_1",
                    "type": "function_call",
                    "id": "fc_1",
                },
                {
                    "type": "function_call_output",
                    "call_id": "call_1",
                    "output": """\
a
b\
""",
                },
            ],
            "instructions": "You are brief.",
            "tools": [
                {
                    "name": "bash",
                    "parameters": {
                        "type": "object",
                        "properties": {"command": {"type": "string"}},
                        "required": ["command"],
                    },
                    "type": "function",
                    "description": "Run a command.",
                    "strict": False,
                }
            ],
            "reasoning": {"effort": "medium", "context": "all_turns", "summary": "auto"},
            "prompt_cache_key": "session-1",
            "parallel_tool_calls": True,
        }
    )
    assert json.dumps(compacted.items) == json.dumps(output)
    assert compacted.usage == snapshot(
        Usage(
            input=110,
            output=40,
            cache_read=2000,
            cache_write=0,
            total_tokens=2150,
            cost=Cost(input=0.00022, output=0.0004, cache_read=0.0002, cache_write=0.0, total=0.00082),
        )
    )


async def test_an_endpoint_without_tools_is_told_of_none() -> None:
    async with FakeOpenAI([Compaction(output=(BLOB,))]) as server:
        await responses_model(SOL, KEY, server.base_url).compact(HELLO, "openai-v1")
    assert server.bodies == snapshot(
        [
            {
                "model": "gpt-6.1-sol",
                "input": [{"role": "user", "content": "hi"}],
                "instructions": "You are brief.",
                "reasoning": {"effort": "low", "context": "all_turns"},
            }
        ]
    )


@pytest.mark.case("C28")
@pytest.mark.case("C33")
async def test_a_trigger_ends_an_ordinary_request_and_everything_that_came_is_returned_raw() -> None:
    spoken = (
        Reasoning(("hm",), id="rs_7", encrypted="gAAA"),
        Message(("I have compacted.",), id="msg_7"),
        Raw({"type": "future_item", "x": {"b": 1, "a": 2}}),
        Raw(BLOB),
    )
    async with FakeOpenAI([WORK, Response(content=spoken, input_tokens=2110, cached=2000, output_tokens=40)]) as server:
        model = responses_model(SOL, KEY, server.base_url)
        compacted = await model.compact(answered(await reply_of(model, ASKED)), "openai-v2")
    request = server.requests[1]
    assert (request.path, request.headers["x-codex-beta-features"]) == ("/v1/responses", "remote_compaction_v2")
    assert request.body == snapshot(
        {
            "model": "gpt-6.1-sol",
            "stream": True,
            "include": ["reasoning.encrypted_content"],
            "input": [
                {"role": "user", "content": "hi"},
                {
                    "id": "rs_1",
                    "summary": [{"text": "First.", "type": "summary_text"}],
                    "encrypted_content": "gAAAAAB+/==",
                    "type": "reasoning",
                },
                {
                    "role": "assistant",
                    "id": "msg_1",
                    "content": [{"text": "Let me look.", "type": "output_text", "annotations": []}],
                    "type": "message",
                    "status": "completed",
                },
                {
                    "name": "bash",
                    "arguments": '{"command":"ls"}',
                    "call_id": "call_1",
                    "type": "function_call",
                    "id": "fc_1",
                },
                {
                    "type": "function_call_output",
                    "call_id": "call_1",
                    "output": """\
a
b\
""",
                },
                {"type": "compaction_trigger"},
            ],
            "instructions": "You are brief.",
            "max_output_tokens": 9000,
            "prompt_cache_key": "session-1",
            "reasoning": {"effort": "medium", "context": "all_turns", "summary": "auto"},
            "store": False,
            "tool_choice": "auto",
            "tools": [
                {
                    "name": "bash",
                    "parameters": {
                        "type": "object",
                        "properties": {"command": {"type": "string"}},
                        "required": ["command"],
                    },
                    "type": "function",
                    "description": "Run a command.",
                    "strict": False,
                }
            ],
        }
    )
    assert [item["type"] for item in compacted.items] == ["reasoning", "message", "future_item", "compaction"]
    assert json.dumps(compacted.items[2:]) == json.dumps([{"type": "future_item", "x": {"b": 1, "a": 2}}, BLOB])
    assert compacted.usage == snapshot(
        Usage(
            input=110,
            output=40,
            cache_read=2000,
            cache_write=0,
            total_tokens=2150,
            cost=Cost(input=0.00022, output=0.0004, cache_read=0.0002, cache_write=0.0, total=0.00082),
        )
    )


@pytest.mark.case("C60")
async def test_a_request_with_a_trigger_is_the_previous_turns_request_with_items_after_it() -> None:
    done = Response(content=(Message(("Done.",), id="msg_2"),), id="resp_2")
    async with FakeOpenAI([WORK, done, Response(content=(Raw(BLOB),))]) as server:
        model = responses_model(SOL, KEY, server.base_url)
        second = answered(await reply_of(model, ASKED))
        last = stored(await reply_of(model, second))
        await model.compact(replace(second, messages=(*second.messages, last)), "openai-v2")
    _, turn, compaction = server.requests
    appended = [
        {
            "role": "assistant",
            "id": "msg_2",
            "content": [{"text": "Done.", "type": "output_text", "annotations": []}],
            "type": "message",
            "status": "completed",
        },
        {"type": "compaction_trigger"},
    ]
    expected = turn.body | {"input": [*turn.body["input"], *appended]}
    assert json.dumps(compaction.body) == json.dumps(expected)
    ordinary = {name: value for name, value in compaction.headers.items() if name != "x-codex-beta-features"}
    assert without_length(ordinary) == without_length(turn.headers)


def without_length(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name != "content-length"}


@pytest.mark.case("C33")
async def test_a_compaction_under_its_first_name_is_one() -> None:
    item = {"type": "context_compaction", "encrypted_content": "gAAA"}
    async with FakeOpenAI([Response(content=(Raw(item),))]) as server:
        compacted = await responses_model(SOL, KEY, server.base_url).compact(HELLO, "openai-v2")
    assert compacted.items == (item,)


async def test_items_are_whole_in_a_packed_stream_that_is_cut_anywhere() -> None:
    plain = b"".join(answer(Response(content=(Raw(BLOB),))).chunks)
    packed = Answer([gzip.compress(plain)], headers={"content-encoding": "gzip"}, step=7)
    async with FakeServer([packed]) as server:
        compacted = await responses_model(SOL, KEY, f"{server.base_url}/v1").compact(HELLO, "openai-v2")
    assert json.dumps(compacted.items) == json.dumps([BLOB])


async def test_anthropic_is_asked_for_one_signed_block_and_it_comes_back_raw() -> None:
    async with FakeAnthropic([CLAUDES_WORK, SUMMARY]) as server:
        model = anthropic_model(OPUS, KEY, server.base_url)
        request = answered(await reply_of(model, ASKED))
        compacted = await model.compact(request, "anthropic", instructions="Keep the names.")
    assert [request.headers.get("anthropic-beta") for request in server.requests] == [None, "compact-2026-09-04"]
    assert server.bodies[1] == snapshot(
        {
            "max_tokens": 9000,
            "messages": [
                {"role": "user", "content": [{"text": "hi", "type": "text"}]},
                {
                    "role": "assistant",
                    "content": [
                        {"thinking": "Hm.", "signature": "SIG+/==", "type": "thinking"},
                        {"data": "cmVkYWN0ZWQ+/=", "type": "redacted_thinking"},
                        {"text": "Let me look.", "type": "text"},
                        {"id": "call_1", "type": "tool_use", "name": "bash", "input": {"command": "ls"}},
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "tool_use_id": "call_1",
                            "type": "tool_result",
                            "content": [
                                {
                                    "text": """\
a
b\
""",
                                    "type": "text",
                                }
                            ],
                            "is_error": False,
                            "cache_control": {"type": "ephemeral", "ttl": "5m"},
                        }
                    ],
                },
            ],
            "model": "claude-opus-5-5",
            "output_config": {"effort": "medium"},
            "system": [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
            "thinking": {"type": "adaptive", "display": "summarized"},
            "tool_choice": {"type": "auto"},
            "tools": [
                {
                    "name": "bash",
                    "description": "Run a command.",
                    "input_schema": {
                        "type": "object",
                        "properties": {"command": {"type": "string"}},
                        "required": ["command"],
                    },
                }
            ],
            "compaction": {"type": "summarize", "instructions": "Keep the names."},
        }
    )
    assert json.dumps(compacted.items) == json.dumps([BLOCK])


async def test_a_request_to_anthropic_for_a_compaction_is_an_ordinary_one_but_for_its_field_and_the_stream() -> None:
    turn = anthropic_server.Reply(content=(Text(("Hi",)),))
    async with FakeAnthropic([turn, SUMMARY]) as server:
        model = anthropic_model(OPUS, KEY, server.base_url)
        await events_of(model, ASKED)
        await model.compact(ASKED, "anthropic", instructions="  ")
    ordinary, compaction = server.bodies
    del ordinary["stream"]
    assert compaction == ordinary | {"compaction": {"type": "summarize"}}


MESSAGE_ITERATION = {
    "type": "message",
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_read_input_tokens": 2000,
    "cache_creation_input_tokens": 10,
}
COMPACTION_ITERATION = MESSAGE_ITERATION | {"type": "compaction", "input_tokens": 50_000, "cache_read_input_tokens": 0}


@pytest.mark.case("C52")
@pytest.mark.parametrize(
    ("iterations", "usage"),
    [
        (
            (MESSAGE_ITERATION | {"input_tokens": 7}, COMPACTION_ITERATION, MESSAGE_ITERATION),
            snapshot(
                Usage(
                    input=100,
                    output=20,
                    cache_read=2000,
                    cache_write=10,
                    total_tokens=2130,
                    cost=Cost(
                        input=0.20042800000000002,
                        output=0.0012000000000000001,
                        cache_read=0.0008,
                        cache_write=0.00015000000000000001,
                        total=0.20257799999999998,
                    ),
                )
            ),
        ),
        (
            (MESSAGE_ITERATION, COMPACTION_ITERATION),
            snapshot(
                Usage(
                    input=100,
                    output=20,
                    cache_read=2000,
                    cache_write=10,
                    total_tokens=2130,
                    cost=Cost(
                        input=0.20040000000000002, output=0.0008, cache_read=0.0004, cache_write=0.0001, total=0.2017
                    ),
                )
            ),
        ),
        (
            (COMPACTION_ITERATION,),
            snapshot(
                Usage(
                    input=50000,
                    output=20,
                    cache_read=0,
                    cache_write=10,
                    total_tokens=50030,
                    cost=Cost(input=0.2, output=0.0004, cache_read=0.0, cache_write=5e-05, total=0.20045),
                )
            ),
        ),
        (
            None,
            snapshot(
                Usage(
                    input=3,
                    output=4,
                    cache_read=0,
                    cache_write=0,
                    total_tokens=7,
                    cost=Cost(input=1.2e-05, output=8e-05, cache_read=0.0, cache_write=0.0, total=9.2e-05),
                )
            ),
        ),
    ],
)
async def test_tokens_are_the_last_answers_and_the_cost_is_everything(
    iterations: tuple[JsonObject, ...] | None, usage: Usage
) -> None:
    reply = anthropic_server.Reply(blocks=(BLOCK,), iterations=iterations, input_tokens=3, output_tokens=4)
    async with FakeAnthropic([reply]) as server:
        compacted = await anthropic_model(OPUS, KEY, server.base_url).compact(HELLO, "anthropic")
    assert compacted.usage == usage


@pytest.mark.case("C52")
async def test_a_compaction_inside_a_reply_is_in_its_cost_and_not_in_its_tokens() -> None:
    iterations = (COMPACTION_ITERATION, MESSAGE_ITERATION)
    tokens: JsonObject = {"input_tokens": 100, "output_tokens": 20, "cache_read": 2000, "cache_write": 10}
    said = (Text(("Hi",)),)
    replies = [
        anthropic_server.Reply(content=said, **tokens),
        anthropic_server.Reply(content=said, iterations=iterations, **tokens),
    ]
    async with FakeAnthropic(replies) as server:
        model = anthropic_model(OPUS, KEY, server.base_url)
        plain, with_compaction = [(await reply_of(model)).usage for _ in replies]
    assert msgspec.structs.replace(with_compaction, cost=plain.cost) == plain
    assert [plain.cost.total, with_compaction.cost.total] == snapshot([0.00125, 0.2017])


async def test_a_form_of_another_provider_and_instructions_for_openai_are_refused_before_anything_is_sent() -> None:
    model = responses_model(SOL, KEY, "http://127.0.0.1:9/v1")
    assert facts(await compaction_failure(model, "anthropic")) == fact(
        "openai: no compaction of the form 'anthropic' here, only openai-v1, openai-v2"
    )
    with pytest.raises(ProviderError, match="a compaction of the form 'openai-v2' takes no instructions"):
        await model.compact(HELLO, "openai-v2", instructions="Keep the names.")
    local = completions_model("qwen3", None, "http://127.0.0.1:9/v1")
    assert str(await compaction_failure(local, "openai-v1")).endswith("'openai-v1' here, only none")


# --- going wrong -------------------------------------------------------------------------------------

GONE = "the connection failed: peer closed connection without sending complete message body (incomplete chunked read)"

OPENAI_ERROR = openai_server.error_body
CLAUDE_ERROR = anthropic_server.error_body

REFUSALS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (
        {"status": 404, "error": f"404 page not found, {KEY}"},
        {"text": "404: 404 page not found, [key]", "status": 404, "body": "404 page not found, [key]"},
    ),
    (
        {"status": 502, "error": "<b>bad gateway</b>"},
        {"text": "502: <b>bad gateway</b>", "status": 502, "body": "<b>bad gateway</b>", "transient": True},
    ),
    (
        {"status": 429, "error": "slow", "headers": {"retry-after": "7"}},
        {"text": "429: slow", "status": 429, "body": "slow", "transient": True, "retry_after_ms": 7000},
    ),
    (
        {"status": 400, "error": "Unknown parameter: compaction"},
        {"text": "400: Unknown parameter: compaction", "status": 400, "body": "Unknown parameter: compaction"},
    ),
]


@pytest.mark.case("C30")
@pytest.mark.parametrize("make", [Compaction, Response, anthropic_server.Reply])
@pytest.mark.parametrize(("reply", "expected"), REFUSALS)
async def test_a_refused_compaction_is_told_as_any_refused_request(
    make: Callable[..., Reply], reply: dict[str, Any], expected: dict[str, Any]
) -> None:
    provider = "anthropic" if make is anthropic_server.Reply else "openai"
    assert await told(make(**reply)) == fact(**expected | {"text": f"{provider}: {expected['text']}"})


OVERFLOWS: list[Reply] = [
    Compaction(status=400, error=OPENAI_ERROR("too long", "context_length_exceeded")),
    Response(status=400, error=OPENAI_ERROR("too long", "context_length_exceeded")),
    Response(
        events=2,
        error={"type": "error", "code": "context_length_exceeded", "message": "too long", "param": None},
    ),
    anthropic_server.Reply(status=400, error=CLAUDE_ERROR("invalid_request_error", "prompt is too long: 2 > 1")),
]


@pytest.mark.parametrize("reply", OVERFLOWS)
async def test_a_conversation_that_is_too_large_even_for_a_compaction_is_told_as_that(reply: Reply) -> None:
    assert (await told(reply))["kind"] == ContextOverflow.__name__


OTHER_BLOB: JsonObject = BLOB | {"id": "cmp_2"}

BAD_ANSWERS: list[tuple[Reply, dict[str, Any]]] = [
    (Compaction(output=(USER_ITEM,)), fact("openai: the compaction failed: the answer holds no compaction")),
    (Compaction(output=(BLOB,), events=40), fact("openai: the compaction failed: the answer holds no compaction")),
    (Compaction(output=(BLOB,), events=40, cut=True), fact(f"openai: {GONE}", transient=True)),
    (
        Response(content=(Message(("Sorry.",)),)),
        fact("openai: the compaction failed: the answer holds no compaction"),
    ),
    (
        Response(content=(Raw(BLOB), Raw(OTHER_BLOB))),
        fact("openai: the compaction failed: the answer holds 2 compactions"),
    ),
    (Response(content=(Raw(BLOB),), events=4, cut=True), fact(f"openai: {GONE}", transient=True)),
    (
        Response(content=(Raw(BLOB),), events=4),
        fact("openai: the reply is incomplete: the stream ended without a stop reason", transient=True),
    ),
    (
        Response(content=(Raw(BLOB),), end="incomplete"),
        fact("openai: the reply was stopped early: max_output_tokens", code="max_output_tokens"),
    ),
    (
        Response(content=(Raw(BLOB),), end="failed", reason="server_error"),
        fact(
            "openai: 500 server_error: The server had an error",
            status=500,
            code="server_error",
            body='{"code": "server_error", "mess',
            transient=True,
        ),
    ),
    (
        anthropic_server.Reply(blocks=(BLOCK | {"content": None},), stop_reason="compaction"),
        fact("anthropic: the compaction failed: the provider made no summary (stop reason compaction)"),
    ),
    (
        anthropic_server.Reply(blocks=(BLOCK | {"content": ""},), stop_reason="max_tokens"),
        fact("anthropic: the compaction failed: the provider made no summary (stop reason max_tokens)"),
    ),
    (
        anthropic_server.Reply(blocks=(BLOCK, BLOCK)),
        fact("anthropic: the compaction failed: the answer holds 2 compaction blocks"),
    ),
    (
        anthropic_server.Reply(blocks=({"type": "text", "text": "Hi"},)),
        fact("anthropic: the compaction failed: the answer holds no compaction blocks"),
    ),
    (
        anthropic_server.Reply(blocks=(BLOCK,), events=40),
        fact("anthropic: the compaction failed: the answer holds no compaction blocks"),
    ),
    (anthropic_server.Reply(blocks=(BLOCK,), events=40, cut=True), fact(f"anthropic: {GONE}", transient=True)),
]


@pytest.mark.case("C28")
@pytest.mark.parametrize(("reply", "expected"), BAD_ANSWERS)
async def test_an_answer_that_is_no_one_compaction_fails_and_only_a_broken_one_is_worth_another_try(
    reply: Reply, expected: dict[str, Any]
) -> None:
    assert await told(reply) == expected


async def test_an_encrypted_block_without_readable_text_is_a_compaction() -> None:
    block = BLOCK | {"content": None, "encrypted_content": "gAAA"}
    async with FakeAnthropic([anthropic_server.Reply(blocks=(block,))]) as server:
        compacted = await anthropic_model(OPUS, KEY, server.base_url).compact(HELLO, "anthropic")
    assert compacted.items == (block,)


STALLED: list[Reply] = [
    Compaction(output=(BLOB,), events=40, stall=True),
    Response(content=(Raw(BLOB),), events=3, stall=True),
    anthropic_server.Reply(blocks=(BLOCK,), events=40, stall=True),
]


@pytest.mark.parametrize("reply", STALLED)
async def test_a_cancelled_compaction_ends_at_the_provider(reply: Reply) -> None:
    server, model = served(reply)
    async with server:
        task = asyncio.create_task(model(server.base_url).compact(HELLO, form_of(reply)))
        await server.wait_request()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.wait_disconnected()


# --- going back ------------------------------------------------------------------------------------


def opaque(model: CompactingModel, item: JsonObject) -> OpaqueMessage:
    return OpaqueMessage(item, binding_of(model.info))


async def test_openais_items_go_back_in_their_places_as_they_came() -> None:
    half = BLOB | {"half": "\ud83d"}
    async with FakeOpenAI([Response(), Response(content=(Raw(OTHER_BLOB),))]) as server:
        model = responses_model(SOL, KEY, server.base_url)
        history = (UserMessage("first"), opaque(model, half), opaque(model, USER_ITEM), UserMessage("and?"))
        request = replace(ASKED, messages=history)
        await events_of(model, request)
        await model.compact(request, "openai-v2")
    expected = [{"role": "user", "content": "first"}, half, USER_ITEM, {"role": "user", "content": "and?"}]
    assert json.dumps(server.bodies[0]["input"]) == json.dumps(expected)
    assert json.dumps(server.bodies[1]["input"]) == json.dumps([*expected, {"type": "compaction_trigger"}])


async def test_anthropics_block_goes_back_first_with_its_header() -> None:
    async with FakeAnthropic([anthropic_server.Reply(), SUMMARY]) as server:
        model = anthropic_model(OPUS, KEY, server.base_url)
        history = (UserMessage("kept"), opaque(model, BLOCK), UserMessage("and?"))
        await events_of(model, Request("You are brief.", history))
        await model.compact(Request("You are brief.", history), "anthropic")
    assert server.bodies[0] == snapshot(
        {
            "max_tokens": 128000,
            "messages": [
                {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "compaction",
                            "signature": "EqQBCgIY+/==",
                            "content": "The user greeted; ls was run.",
                            "tool_changes": [],
                            "encrypted_content": None,
                            "future": {"z": 1, "a": 2},
                        }
                    ],
                },
                {
                    "role": "user",
                    "content": [
                        {"text": "kept", "type": "text"},
                        {"text": "and?", "type": "text", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
                    ],
                },
            ],
            "model": "claude-opus-5-5",
            "output_config": {"effort": "low"},
            "stream": True,
            "system": [{"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
            "thinking": {"type": "adaptive"},
        }
    )
    assert json.dumps(server.bodies[0]["messages"][0]["content"]) == json.dumps([BLOCK])
    assert server.bodies[1]["messages"] == server.bodies[0]["messages"]
    assert [request.headers["anthropic-beta"] for request in server.requests] == ["compact-2026-09-04"] * 2


async def test_a_conversation_with_a_block_keeps_the_headers_other_settings_need() -> None:
    stale = CLAUDE_ERROR("invalid_request_error", "messages.1: bound to a different conversation")
    refusal = anthropic_server.Reply(status=400, error=stale)
    async with FakeAnthropic([refusal, anthropic_server.Reply()]) as server:
        model = anthropic_model(OPUS, KEY, server.base_url)
        request = Request("", (opaque(model, BLOCK), UserMessage("and?")), thinking_level="high")
        await failure_of(model, request)
        await events_of(model, request)
    assert server.requests[1].headers["anthropic-beta"] == "thinking-binding-controls-2026-08-01,compact-2026-09-04"


async def test_two_blocks_are_not_sent_to_anthropic() -> None:
    model = anthropic_model(OPUS, KEY, "http://127.0.0.1:9")
    history = (opaque(model, BLOCK), opaque(model, BLOCK), UserMessage("and?"))
    error = await failure_of(model, Request("", history))
    assert facts(error) == fact("anthropic: the conversation holds 2 compactions; one can be sent")


@pytest.mark.case("C31")
@pytest.mark.parametrize(
    "other",
    [
        {"provider": "anthropic"},
        {"api": "openai-completions"},
        {"base_url": "https://api.openai.com/v1"},
        {"account": account_of("sk-another")},
        {"account": None},
    ],
)
async def test_an_item_of_another_provider_server_or_account_is_neither_sent_nor_dropped(other: JsonObject) -> None:
    async with FakeOpenAI([]) as server:
        model = responses_model(SOL, KEY, server.base_url)
        own: JsonObject = {"provider": "openai", "api": "openai-responses", "base_url": server.base_url}
        binding = Binding(**own | {"account": account_of(KEY)} | other)
        request = replace(ASKED, messages=(OpaqueMessage(BLOB, binding), UserMessage("and?")))
        errors = [await failure_of(model, request), await compaction_failure(model, "openai-v2", request)]
    assert server.connections == 0
    text = (
        "openai: the conversation holds a compaction that openai/gpt-6.1-sol cannot read: it was made by another "
        "provider, server or account; go back before it, or to that model"
    )
    assert [facts(error) for error in errors] == [fact(text, code="foreign_compaction")] * 2


@pytest.mark.case("C31")
async def test_chat_completions_take_no_opaque_item_not_even_their_own() -> None:
    async with FakeOpenAI([Completion()]) as server:
        model = completions_model("qwen3", KEY, server.base_url)
        request = Request("", (opaque(model, BLOB), UserMessage("and?")))
        assert (await failure_of(model, request)).code == "foreign_compaction"
    assert server.connections == 0


# --- what a model says of itself ---------------------------------------------------------------------

KEYS = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}


def info_of(name: str, **options: Any) -> ModelInfo:
    return resolve_model(name, environ=options.pop("environ", KEYS), **options).info


async def test_forms_of_compaction_are_known_of_the_providers_own_servers_only() -> None:
    proxy = "https://proxy.example/v1"
    names = ("openai/gpt-6.1-sol", "anthropic/claude-opus-5-5", "anthropic/claude-sonnet-4-5")
    assert [info_of(name).remote_compaction for name in names] == [("openai-v1", "openai-v2"), ("anthropic",), ()]
    assert [info_of(name, base_url=proxy).remote_compaction for name in names] == [(), (), ()]


async def test_forms_of_compaction_can_be_switched_on_and_off() -> None:
    loopback = "http://127.0.0.1:8080"
    infos = [
        info_of("openai/gpt-6.1-sol", remote_compaction=()),
        info_of("openai/m", base_url=loopback, remote_compaction=("openai-v2",), environ={}),
        info_of("anthropic/m", base_url=loopback, remote_compaction=("anthropic",), environ={}),
    ]
    assert [(info.api, info.remote_compaction, info.account) for info in infos] == [
        ("openai-responses", (), account_of(KEY)),
        ("openai-responses", ("openai-v2",), None),
        ("anthropic-messages", ("anthropic",), None),
    ]


async def test_an_account_is_a_fingerprint_of_the_key() -> None:
    assert account_of(KEY) == snapshot("6c5969f569790b15")
    assert (account_of(None), account_of("")) == (None, None)
    assert info_of("openai/m", base_url="http://127.0.0.1:1/v1").account == account_of(KEY)


# --- the fakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"input": [{"type": "compaction_trigger"}]}, "Invalid value: 'compaction_trigger'"),
        ({"input": []}, "no answer left"),
    ],
)
async def test_a_fake_openai_refuses_a_trigger_that_is_not_announced(extra: JsonObject, text: str) -> None:
    async with FakeOpenAI([]) as server:
        error = await failure_of(responses_model(SOL, KEY, server.base_url), replace(HELLO, extra=extra))
    assert text in str(error)


async def test_a_fake_anthropic_refuses_a_compaction_that_is_not_announced() -> None:
    async with FakeAnthropic([]) as server:
        request = replace(HELLO, extra={"compaction": {"type": "summarize"}})
        error = await failure_of(anthropic_model(OPUS, KEY, server.base_url), request)
    assert str(error) == "anthropic: 400 invalid_request_error: compaction: Extra inputs are not permitted"
