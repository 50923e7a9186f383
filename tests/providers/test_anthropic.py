"""Anthropic's Messages API, against a server on loopback that speaks it."""

import pytest
from inline_snapshot import snapshot
from tests.fakes.anthropic_server import FakeAnthropic, Redacted, Reply, Text, Thinking, ToolUse, error_body
from tests.providers.streamed import BASH, KEY, PIXEL, events_of, failure_of, plain, reply_of, stored

from coppice.format.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UnknownBlock,
    UserMessage,
)
from coppice.providers.base import Request
from coppice.providers.pydantic_ai.anthropic import anthropic_model

pytestmark = pytest.mark.anyio

SONNET = "claude-sonnet-4-5"

SIGNATURE = "EqQBCgIYAhIkMTIz+/=="

WORK = Reply(
    content=(
        Thinking(("Two ", "things."), SIGNATURE),
        Redacted("cmVkYWN0ZWQ+/="),
        Text(("Let me ", "look.")),
        ToolUse("toolu_1", "bash", ('{"comm', 'and": "ls"}')),
        ToolUse("toolu_2", "bash", ()),
    ),
    stop_reason="tool_use",
    input_tokens=10,
    cache_read=2000,
    cache_write=100,
    output_tokens=40,
)


async def test_a_reply_streams_as_whole_events() -> None:
    async with FakeAnthropic([WORK]) as server:
        events = await events_of(anthropic_model(SONNET, KEY, server.base_url))
    assert plain(events) == snapshot(
        [
            {"type": "thinking_start", "contentIndex": 0},
            {
                "type": "usage",
                "usage": {
                    "input": 10,
                    "output": 1,
                    "cacheRead": 2000,
                    "cacheWrite": 100,
                    "totalTokens": 2111,
                    "cost": {
                        "input": 3e-05,
                        "output": 1.5e-05,
                        "cacheRead": 0.0006,
                        "cacheWrite": 0.000375,
                        "total": 0.00102,
                    },
                },
            },
            {"type": "thinking_delta", "contentIndex": 0, "delta": "Two "},
            {"type": "thinking_delta", "contentIndex": 0, "delta": "things."},
            {"type": "thinking_end", "contentIndex": 0, "content": "Two things."},
            {"type": "thinking_start", "contentIndex": 1},
            {"type": "thinking_end", "contentIndex": 1, "content": ""},
            {"type": "text_start", "contentIndex": 2},
            {"type": "text_delta", "contentIndex": 2, "delta": "Let me "},
            {"type": "text_delta", "contentIndex": 2, "delta": "look."},
            {"type": "text_end", "contentIndex": 2, "content": "Let me look."},
            {"type": "toolcall_start", "contentIndex": 3, "id": "toolu_1", "toolName": "bash"},
            {"type": "toolcall_delta", "contentIndex": 3, "delta": '{"comm'},
            {"type": "toolcall_delta", "contentIndex": 3, "delta": 'and": "ls"}'},
            {
                "type": "toolcall_end",
                "contentIndex": 3,
                "toolCall": {"type": "toolCall", "id": "toolu_1", "name": "bash", "arguments": {"command": "ls"}},
            },
            {"type": "toolcall_start", "contentIndex": 4, "id": "toolu_2", "toolName": "bash"},
            {
                "type": "usage",
                "usage": {
                    "input": 10,
                    "output": 40,
                    "cacheRead": 2000,
                    "cacheWrite": 100,
                    "totalTokens": 2150,
                    "cost": {
                        "input": 3e-05,
                        "output": 0.0006,
                        "cacheRead": 0.0006,
                        "cacheWrite": 0.000375,
                        "total": 0.001605,
                    },
                },
            },
            {
                "type": "toolcall_end",
                "contentIndex": 4,
                "toolCall": {"type": "toolCall", "id": "toolu_2", "name": "bash", "arguments": {}},
            },
            {
                "type": "done",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Two things.", "thinkingSignature": "EqQBCgIYAhIkMTIz+/=="},
                        {"type": "thinking", "thinking": "", "thinkingSignature": "cmVkYWN0ZWQ+/=", "redacted": True},
                        {"type": "text", "text": "Let me look."},
                        {"type": "toolCall", "id": "toolu_1", "name": "bash", "arguments": {"command": "ls"}},
                        {"type": "toolCall", "id": "toolu_2", "name": "bash", "arguments": {}},
                    ],
                    "api": "anthropic-messages",
                    "provider": "anthropic",
                    "model": "claude-sonnet-4-5",
                    "usage": {
                        "input": 10,
                        "output": 40,
                        "cacheRead": 2000,
                        "cacheWrite": 100,
                        "totalTokens": 2150,
                        "cost": {
                            "input": 3e-05,
                            "output": 0.0006,
                            "cacheRead": 0.0006,
                            "cacheWrite": 0.000375,
                            "total": 0.001605,
                        },
                    },
                    "stopReason": "toolUse",
                    "responseId": "msg_1",
                    "thinkingLevel": "off",
                },
            },
        ]
    )


async def test_the_request_carries_prompt_tools_and_cache_breakpoints() -> None:
    request = Request(
        "You are brief.",
        (UserMessage("hi"),),
        (BASH,),
        thinking_level="medium",
        max_output=20_000,
        cache_key="session",
        extra={"service_tier": "standard_only"},
    )
    async with FakeAnthropic([Reply(content=(Text(("Hi",)),))]) as server:
        await events_of(anthropic_model(SONNET, KEY, server.base_url), request)
    assert server.bodies == snapshot(
        [
            {
                "max_tokens": 20000,
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"text": "hi", "type": "text", "cache_control": {"type": "ephemeral", "ttl": "5m"}}
                        ],
                    }
                ],
                "model": "claude-sonnet-4-5",
                "service_tier": "standard_only",
                "stream": True,
                "system": [
                    {"type": "text", "text": "You are brief.", "cache_control": {"type": "ephemeral", "ttl": "5m"}}
                ],
                "thinking": {"type": "enabled", "budget_tokens": 10000},
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
            }
        ]
    )


async def test_what_a_reply_carried_goes_back_byte_for_byte_with_all_results_after_it() -> None:
    async with FakeAnthropic([WORK, Reply(content=(Text(("Done.",)),))]) as server:
        model = anthropic_model(SONNET, KEY, server.base_url)
        reply = stored(await reply_of(model))
        history = (
            UserMessage("hi"),
            reply,
            ToolResultMessage(
                ToolCallId("toolu_1"),
                "bash",
                (TextBlock("a picture"), ImageBlock(PIXEL, "image/png")),
                details={"x": 1},
            ),
            ToolResultMessage(ToolCallId("toolu_2"), "bash", (TextBlock("no command"),), is_error=True),
            UserMessage((TextBlock("and this?"), ImageBlock(PIXEL, "image/png"))),
        )
        await events_of(model, Request("You are brief.", history, (BASH,)))
    assert server.bodies[1]["messages"] == snapshot(
        [
            {"role": "user", "content": [{"text": "hi", "type": "text"}]},
            {
                "role": "assistant",
                "content": [
                    {"thinking": "Two things.", "signature": "EqQBCgIYAhIkMTIz+/==", "type": "thinking"},
                    {"data": "cmVkYWN0ZWQ+/=", "type": "redacted_thinking"},
                    {"text": "Let me look.", "type": "text"},
                    {"id": "toolu_1", "type": "tool_use", "name": "bash", "input": {"command": "ls"}},
                    {"id": "toolu_2", "type": "tool_use", "name": "bash", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "tool_use_id": "toolu_1",
                        "type": "tool_result",
                        "content": [
                            {"text": "a picture", "type": "text"},
                            {
                                "source": {
                                    "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
                                    "media_type": "image/png",
                                    "type": "base64",
                                },
                                "type": "image",
                            },
                        ],
                        "is_error": False,
                    },
                    {
                        "tool_use_id": "toolu_2",
                        "type": "tool_result",
                        "content": [{"text": "no command", "type": "text"}],
                        "is_error": True,
                    },
                    {"text": "and this?", "type": "text"},
                    {
                        "source": {
                            "data": "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
                            "media_type": "image/png",
                            "type": "base64",
                        },
                        "type": "image",
                        "cache_control": {"type": "ephemeral", "ttl": "5m"},
                    },
                ],
            },
        ]
    )


async def test_a_reply_of_another_provider_keeps_its_text_and_calls_and_nothing_opaque() -> None:
    foreign = AssistantMessage(
        content=(
            ThinkingBlock("hm", '{"type":"reasoning","id":"rs_1"}'),
            TextBlock("Hello", '{"v":1,"id":"msg_1"}'),
            UnknownBlock({"type": "futureBlock"}),
            ToolCall(ToolCallId("call_1|fc_1"), "bash", {"command": "ls"}, '{"id":"fc_1"}'),
        ),
        api="openai-responses",
        provider="openai",
        model="gpt-6.1-sol",
    )
    history = (UserMessage("hi"), foreign, ToolResultMessage(ToolCallId("call_1|fc_1"), "bash", (TextBlock("a"),)))
    async with FakeAnthropic([Reply()]) as server:
        await events_of(anthropic_model(SONNET, KEY, server.base_url), Request("", history))
    assert server.bodies[0]["messages"] == snapshot(
        [
            {"role": "user", "content": [{"text": "hi", "type": "text"}]},
            {
                "role": "assistant",
                "content": [
                    {"text": "Hello", "type": "text"},
                    {"id": "call_1_fc_1_f80dab8b7e25", "type": "tool_use", "name": "bash", "input": {"command": "ls"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "tool_use_id": "call_1_fc_1_f80dab8b7e25",
                        "type": "tool_result",
                        "content": [{"text": "a", "type": "text"}],
                        "is_error": False,
                        "cache_control": {"type": "ephemeral", "ttl": "5m"},
                    }
                ],
            },
        ]
    )


async def test_half_characters_and_bad_images_do_not_spoil_the_request() -> None:
    history = (
        UserMessage((TextBlock("a\ud83d b\ude00 \ud83d\ude00"), TextBlock(""), ImageBlock("!", "image/png"))),
        AssistantMessage((ToolCall(ToolCallId("toolu_1"), "bash", {"command": "echo \ud83d"}),)),
        ToolResultMessage(ToolCallId("toolu_1"), "bash", (TextBlock("\ude00\ud83d"),)),
        UserMessage(""),
        UserMessage((UnknownBlock({"type": "futureBlock"}),)),
    )
    async with FakeAnthropic([Reply()]) as server:
        await events_of(anthropic_model(SONNET, KEY, server.base_url), Request("p\ud83d", history))
    assert [server.bodies[0]["system"], server.bodies[0]["messages"]] == snapshot(
        [
            [{"type": "text", "text": "p�", "cache_control": {"type": "ephemeral", "ttl": "5m"}}],
            [
                {
                    "role": "user",
                    "content": [
                        {"text": "a� b� 😀", "type": "text"},
                        {"text": "(an image that could not be read)", "type": "text"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": [{"id": "toolu_1", "type": "tool_use", "name": "bash", "input": {"command": "echo �"}}],
                },
                {
                    "role": "user",
                    "content": [
                        {
                            "tool_use_id": "toolu_1",
                            "type": "tool_result",
                            "content": [{"text": "��", "type": "text"}],
                            "is_error": False,
                        },
                        {"text": "(no text)", "type": "text"},
                        {"text": "(no text)", "type": "text", "cache_control": {"type": "ephemeral", "ttl": "5m"}},
                    ],
                },
            ],
        ]
    )


async def test_what_the_api_refuses_is_left_out_blank_texts_and_thinking_that_was_cut() -> None:
    cut = AssistantMessage(
        (ThinkingBlock("hm", "SIG"),), api="anthropic-messages", provider="anthropic", stop_reason="length"
    )
    called = AssistantMessage((TextBlock("\n\n"), ToolCall(ToolCallId("toolu_1"), "bash", {})))
    history = (
        UserMessage(" "),
        cut,
        UserMessage((TextBlock("go "), TextBlock("on"))),
        called,
        ToolResultMessage(ToolCallId("toolu_1"), "bash", ()),
    )
    async with FakeAnthropic([Reply()]) as server:
        await events_of(anthropic_model(SONNET, KEY, server.base_url), Request("", history))
    assert server.bodies[0]["messages"] == snapshot(
        [
            {"role": "user", "content": [{"text": "(no text)", "type": "text"}]},
            {"role": "user", "content": [{"text": "go ", "type": "text"}, {"text": "on", "type": "text"}]},
            {"role": "assistant", "content": [{"id": "toolu_1", "type": "tool_use", "name": "bash", "input": {}}]},
            {
                "role": "user",
                "content": [
                    {
                        "tool_use_id": "toolu_1",
                        "type": "tool_result",
                        "content": [{"text": "(no output)", "type": "text"}],
                        "is_error": False,
                        "cache_control": {"type": "ephemeral", "ttl": "5m"},
                    }
                ],
            },
        ]
    )


async def test_bytes_cut_anywhere_also_inside_a_character_give_the_same_events() -> None:
    reply = Reply(
        content=(Text(("naïve ", "日本語 ", "😀!")), ToolUse("toolu_1", "bash", ('{"command": "echo ', '😀"}')))
    )
    told = []
    for step in (None, 1, 7, 1000):
        whole = Reply(content=reply.content, stop_reason="tool_use", step=step)
        async with FakeAnthropic([whole]) as server:
            told.append(plain(await events_of(anthropic_model(SONNET, KEY, server.base_url))))
    assert told[1:] == told[:-1]
    assert [event["delta"] for event in told[0] if event["type"] == "text_delta"] == ["naïve ", "日本語 ", "😀!"]


THINKING = [
    ("claude-sonnet-4-5", "off", None, [None, None, 64_000]),
    ("claude-sonnet-4-5", "low", None, [{"type": "enabled", "budget_tokens": 2048}, None, 64_000]),
    ("claude-sonnet-4-5", "xhigh", 8_000, [{"type": "enabled", "budget_tokens": 4_000}, None, 8_000]),
    ("claude-sonnet-4-5", "high", 1_500, [None, None, 1_500]),
    ("claude-sonnet-4-5", "someday", None, [None, None, 64_000]),
    ("claude-sonnet-4-6", "off", None, [None, None, 128_000]),
    ("claude-opus-4-8", "xhigh", None, [{"type": "adaptive", "display": "summarized"}, {"effort": "xhigh"}, 128_000]),
    ("claude-sonnet-4-6", "minimal", None, [{"type": "adaptive", "display": "summarized"}, {"effort": "low"}, 128_000]),
    ("claude-sonnet-5", "off", None, [{"type": "disabled"}, None, 128_000]),
    ("claude-opus-5-5", "off", None, [{"type": "adaptive"}, {"effort": "low"}, 128_000]),
    ("no-model-we-know", "high", None, [{"type": "enabled", "budget_tokens": 16_384}, None, 20_480]),
]


@pytest.mark.parametrize(("model_id", "level", "max_output", "sent"), THINKING)
async def test_a_thinking_level_becomes_what_the_model_takes(
    model_id: str, level: str, max_output: int | None, sent: list[object]
) -> None:
    request = Request("", (UserMessage("hi"),), thinking_level=level, max_output=max_output)
    async with FakeAnthropic([Reply()]) as server:
        reply = await reply_of(anthropic_model(model_id, KEY, server.base_url), request)
    body = server.bodies[0]
    assert [body.get("thinking"), body.get("output_config"), body["max_tokens"]] == sent
    assert reply.thinking_level == level


async def test_stale_thinking_costs_one_failed_request_and_is_then_dropped_by_the_provider() -> None:
    text = "messages.1.content.0: The block is bound to a different conversation"
    refusal = Reply(status=400, error=error_body("invalid_request_error", text))
    request = Request("", (UserMessage("hi"),), thinking_level="high")
    async with FakeAnthropic([refusal, Reply()]) as server:
        model = anthropic_model("claude-sonnet-5-5", KEY, server.base_url)
        error = await failure_of(model, request)
        assert (error.status, error.transient, len(server.requests)) == (400, True, 1)
        await events_of(model, request)
    assert [body["thinking"] for body in server.bodies] == [
        {"type": "adaptive", "display": "summarized"},
        {
            "type": "adaptive",
            "display": "summarized",
            "block_binding": {"prefix_mismatch_behavior": "drop_block"},
        },
    ]
    assert [request.headers.get("anthropic-beta") for request in server.requests] == [
        None,
        "thinking-binding-controls-2026-08-01",
    ]
