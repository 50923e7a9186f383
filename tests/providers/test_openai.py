"""OpenAI's Responses API and other servers' Chat Completions, against servers on loopback that speak them."""

import pytest
from inline_snapshot import snapshot
from tests.fakes.openai_server import Call, Completion, FakeOpenAI, Message, Reasoning, Response
from tests.providers.streamed import BASH, KEY, PIXEL, events_of, plain, reply_of, stored

from coppice.format.messages import (
    AssistantMessage,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
)
from coppice.providers.base import Request
from coppice.providers.pydantic_ai.openai import completions_model, responses_model

pytestmark = pytest.mark.anyio

SOL = "gpt-6.1-sol"

THOUGHT = Response(
    content=(
        Reasoning(("First.", "Second."), encrypted="gAAAAAB+/=="),
        Message(("Let me ", "look."), phase="commentary"),
        Call("call_1", "bash", ('{"comm', 'and": "ls"}')),
        Reasoning((), id="rs_2", encrypted="gAAAAAC+/=="),
        Call("call_2", "bash", ("{}",), id="fc_2"),
    ),
    input_tokens=2110,
    cached=2000,
    cache_write=100,
    output_tokens=40,
)

LOCAL = Completion(
    content=(
        Reasoning(("Two ", "things.")),
        Message(("Let me ", "look.")),
        Call("call_1", "bash", ('{"comm', 'and": "ls"}')),
        Call("call_2", "bash", ('{"comm', 'and": "pwd"}')),
    ),
    finish="tool_calls",
    input_tokens=110,
    cached=100,
    interleaved=True,
)


def results() -> tuple[ToolResultMessage, ...]:
    picture = (TextBlock("a picture"), ImageBlock(PIXEL, "image/png"))
    return (
        ToolResultMessage(ToolCallId("call_1"), "bash", picture),
        ToolResultMessage(ToolCallId("call_2"), "bash", (TextBlock("no command"),), is_error=True),
    )


async def test_a_response_streams_as_whole_events() -> None:
    async with FakeOpenAI([THOUGHT]) as server:
        events = await events_of(responses_model(SOL, KEY, server.base_url))
    assert plain(events) == snapshot(
        [
            {"type": "thinking_start", "contentIndex": 0},
            {"type": "thinking_delta", "contentIndex": 0, "delta": "First."},
            {"type": "thinking_end", "contentIndex": 0, "content": "First."},
            {"type": "thinking_start", "contentIndex": 1},
            {"type": "thinking_delta", "contentIndex": 1, "delta": "Second."},
            {"type": "thinking_end", "contentIndex": 1, "content": "Second."},
            {"type": "text_start", "contentIndex": 2},
            {"type": "text_delta", "contentIndex": 2, "delta": "Let me "},
            {"type": "text_delta", "contentIndex": 2, "delta": "look."},
            {"type": "text_end", "contentIndex": 2, "content": "Let me look."},
            {"type": "toolcall_start", "contentIndex": 3, "id": "call_1", "toolName": "bash"},
            {"type": "toolcall_delta", "contentIndex": 3, "delta": '{"comm'},
            {"type": "toolcall_delta", "contentIndex": 3, "delta": 'and": "ls"}'},
            {
                "type": "toolcall_end",
                "contentIndex": 3,
                "toolCall": {
                    "type": "toolCall",
                    "id": "call_1",
                    "name": "bash",
                    "arguments": {"command": "ls"},
                    "thoughtSignature": '{"id":"fc_1"}',
                },
            },
            {"type": "thinking_start", "contentIndex": 4},
            {"type": "thinking_end", "contentIndex": 4, "content": ""},
            {"type": "toolcall_start", "contentIndex": 5, "id": "call_2", "toolName": "bash"},
            {"type": "toolcall_delta", "contentIndex": 5, "delta": "{}"},
            {
                "type": "toolcall_end",
                "contentIndex": 5,
                "toolCall": {
                    "type": "toolCall",
                    "id": "call_2",
                    "name": "bash",
                    "arguments": {},
                    "thoughtSignature": '{"id":"fc_2"}',
                },
            },
            {
                "type": "usage",
                "usage": {
                    "input": 10,
                    "output": 40,
                    "cacheRead": 2000,
                    "cacheWrite": 100,
                    "totalTokens": 2150,
                    "cost": {
                        "input": 2e-05,
                        "output": 0.0004,
                        "cacheRead": 0.0002,
                        "cacheWrite": 0.00025,
                        "total": 0.00087,
                    },
                },
            },
            {
                "type": "done",
                "message": {
                    "role": "assistant",
                    "content": [
                        {
                            "type": "thinking",
                            "thinking": "First.",
                            "thinkingSignature": '{"type":"reasoning","id":"rs_1","encrypted_content":"gAAAAAB+/=="}',
                        },
                        {
                            "type": "thinking",
                            "thinking": "Second.",
                            "thinkingSignature": '{"type":"reasoning","id":"rs_1"}',
                        },
                        {
                            "type": "text",
                            "text": "Let me look.",
                            "textSignature": '{"v":1,"id":"msg_1","phase":"commentary"}',
                        },
                        {
                            "type": "toolCall",
                            "id": "call_1",
                            "name": "bash",
                            "arguments": {"command": "ls"},
                            "thoughtSignature": '{"id":"fc_1"}',
                        },
                        {
                            "type": "thinking",
                            "thinking": "",
                            "thinkingSignature": '{"type":"reasoning","id":"rs_2","encrypted_content":"gAAAAAC+/=="}',
                        },
                        {
                            "type": "toolCall",
                            "id": "call_2",
                            "name": "bash",
                            "arguments": {},
                            "thoughtSignature": '{"id":"fc_2"}',
                        },
                    ],
                    "api": "openai-responses",
                    "provider": "openai",
                    "model": "gpt-6.1-sol",
                    "usage": {
                        "input": 10,
                        "output": 40,
                        "cacheRead": 2000,
                        "cacheWrite": 100,
                        "totalTokens": 2150,
                        "cost": {
                            "input": 2e-05,
                            "output": 0.0004,
                            "cacheRead": 0.0002,
                            "cacheWrite": 0.00025,
                            "total": 0.00087,
                        },
                    },
                    "stopReason": "toolUse",
                    "responseId": "resp_1",
                    "thinkingLevel": "off",
                },
            },
        ]
    )


async def test_a_request_to_openai_stores_nothing_there_and_names_the_cache() -> None:
    request = Request(
        "You are brief.", (UserMessage("hi"),), (BASH,), thinking_level="medium", max_output=900, cache_key="session-1"
    )
    async with FakeOpenAI([Response(content=(Message(("Hi",)),))]) as server:
        await events_of(responses_model(SOL, KEY, server.base_url), request)
    assert server.bodies == snapshot(
        [
            {
                "model": "gpt-6.1-sol",
                "stream": True,
                "include": ["reasoning.encrypted_content"],
                "input": [{"role": "user", "content": "hi"}],
                "instructions": "You are brief.",
                "max_output_tokens": 900,
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
        ]
    )


async def test_encrypted_reasoning_and_item_ids_go_back_byte_for_byte() -> None:
    async with FakeOpenAI([THOUGHT, Response(content=(Message(("Done.",)),))]) as server:
        model = responses_model(SOL, KEY, server.base_url)
        reply = stored(await reply_of(model))
        history = (UserMessage("hi"), reply, *results(), UserMessage("and?"))
        await events_of(model, Request("You are brief.", history, (BASH,)))
    assert server.bodies[1]["input"] == snapshot(
        [
            {"role": "user", "content": "hi"},
            {
                "id": "rs_1",
                "summary": [{"text": "First.", "type": "summary_text"}, {"text": "Second.", "type": "summary_text"}],
                "encrypted_content": "gAAAAAB+/==",
                "type": "reasoning",
            },
            {
                "role": "assistant",
                "id": "msg_1",
                "content": [{"text": "Let me look.", "type": "output_text", "annotations": []}],
                "type": "message",
                "status": "completed",
                "phase": "commentary",
            },
            {
                "name": "bash",
                "arguments": '{"command":"ls"}',
                "call_id": "call_1",
                "type": "function_call",
                "id": "fc_1",
            },
            {"id": "rs_2", "summary": [], "encrypted_content": "gAAAAAC+/==", "type": "reasoning"},
            {"name": "bash", "arguments": "{}", "call_id": "call_2", "type": "function_call", "id": "fc_2"},
            {
                "type": "function_call_output",
                "call_id": "call_1",
                "output": [
                    {"type": "input_text", "text": "a picture"},
                    {
                        "image_url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==",
                        "type": "input_image",
                        "detail": "auto",
                    },
                ],
            },
            {"type": "function_call_output", "call_id": "call_2", "output": "no command"},
            {"role": "user", "content": "and?"},
        ]
    )


async def test_a_reply_that_pi_stored_goes_back_as_pi_would_send_it() -> None:
    item = '{"id":"rs_9","type":"reasoning","summary":[{"type":"summary_text","text":"A"},{"type":"summary_text","text":"B"}],"encrypted_content":"gAAA"}'
    pis = AssistantMessage(
        (
            ThinkingBlock("A\n\nB", item),
            TextBlock("Look.", "msg_9"),
            ToolCall(ToolCallId("call_9|fc_9"), "bash", {"command": "ls"}),
        ),
        api="openai-responses",
        provider="openai",
        model=SOL,
    )
    history = (UserMessage("hi"), pis, ToolResultMessage(ToolCallId("call_9|fc_9"), "bash", (TextBlock("a"),)))
    async with FakeOpenAI([Response()]) as server:
        await events_of(responses_model(SOL, KEY, server.base_url), Request("", history))
    assert server.bodies[0]["input"] == snapshot(
        [
            {"role": "user", "content": "hi"},
            {
                "id": "rs_9",
                "summary": [{"text": "A", "type": "summary_text"}, {"text": "B", "type": "summary_text"}],
                "encrypted_content": "gAAA",
                "type": "reasoning",
            },
            {
                "role": "assistant",
                "id": "msg_9",
                "content": [{"text": "Look.", "type": "output_text", "annotations": []}],
                "type": "message",
                "status": "completed",
            },
            {
                "name": "bash",
                "arguments": '{"command":"ls"}',
                "call_id": "call_9",
                "type": "function_call",
                "id": "fc_9",
            },
            {"type": "function_call_output", "call_id": "call_9", "output": "a"},
        ]
    )


async def test_a_completion_streams_as_whole_events_also_when_its_calls_are_mixed() -> None:
    async with FakeOpenAI([LOCAL]) as server:
        events = await events_of(completions_model("qwen3", None, server.base_url))
    assert plain(events) == snapshot(
        [
            {"type": "thinking_start", "contentIndex": 0},
            {"type": "thinking_delta", "contentIndex": 0, "delta": "Two "},
            {"type": "thinking_delta", "contentIndex": 0, "delta": "things."},
            {"type": "thinking_end", "contentIndex": 0, "content": "Two things."},
            {"type": "text_start", "contentIndex": 1},
            {"type": "text_delta", "contentIndex": 1, "delta": "Let me "},
            {"type": "text_delta", "contentIndex": 1, "delta": "look."},
            {"type": "text_end", "contentIndex": 1, "content": "Let me look."},
            {"type": "toolcall_start", "contentIndex": 2, "id": "call_1", "toolName": "bash"},
            {"type": "toolcall_start", "contentIndex": 3, "id": "call_2", "toolName": "bash"},
            {"type": "toolcall_delta", "contentIndex": 2, "delta": '{"comm'},
            {"type": "toolcall_delta", "contentIndex": 3, "delta": '{"comm'},
            {"type": "toolcall_delta", "contentIndex": 2, "delta": 'and": "ls"}'},
            {"type": "toolcall_delta", "contentIndex": 3, "delta": 'and": "pwd"}'},
            {
                "type": "toolcall_end",
                "contentIndex": 3,
                "toolCall": {"type": "toolCall", "id": "call_2", "name": "bash", "arguments": {"command": "pwd"}},
            },
            {
                "type": "usage",
                "usage": {
                    "input": 10,
                    "output": 5,
                    "cacheRead": 100,
                    "cacheWrite": 0,
                    "totalTokens": 115,
                    "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
                },
            },
            {
                "type": "toolcall_end",
                "contentIndex": 2,
                "toolCall": {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls"}},
            },
            {
                "type": "done",
                "message": {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "Two things.", "thinkingSignature": "reasoning_content"},
                        {"type": "text", "text": "Let me look."},
                        {"type": "toolCall", "id": "call_1", "name": "bash", "arguments": {"command": "ls"}},
                        {"type": "toolCall", "id": "call_2", "name": "bash", "arguments": {"command": "pwd"}},
                    ],
                    "api": "openai-completions",
                    "provider": "openai",
                    "model": "qwen3",
                    "usage": {
                        "input": 10,
                        "output": 5,
                        "cacheRead": 100,
                        "cacheWrite": 0,
                        "totalTokens": 115,
                        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
                    },
                    "stopReason": "toolUse",
                    "responseId": "chatcmpl-1",
                    "thinkingLevel": "off",
                },
            },
        ]
    )


async def test_a_conversation_goes_back_to_another_server_in_its_own_form() -> None:
    async with FakeOpenAI([LOCAL, Completion(content=(Message(("Done.",)),))]) as server:
        model = completions_model("qwen3", None, server.base_url)
        reply = stored(await reply_of(model))
        history = (UserMessage("hi"), reply, *results(), UserMessage("and?"))
        await events_of(model, Request("You are brief.", history, (BASH,), thinking_level="high", max_output=900))
    assert server.bodies[1] == snapshot(
        {
            "model": "qwen3",
            "stream": True,
            "messages": [
                {"role": "system", "content": "You are brief."},
                {"role": "user", "content": "hi"},
                {
                    "role": "assistant",
                    "reasoning_content": "Two things.",
                    "content": "Let me look.",
                    "tool_calls": [
                        {
                            "id": "call_1",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command":"ls"}'},
                        },
                        {
                            "id": "call_2",
                            "type": "function",
                            "function": {"name": "bash", "arguments": '{"command":"pwd"}'},
                        },
                    ],
                },
                {"role": "tool", "tool_call_id": "call_1", "content": "a picture"},
                {"role": "tool", "tool_call_id": "call_2", "content": "no command"},
                {
                    "role": "user",
                    "content": [
                        {"text": "Pictures in the result of bash:", "type": "text"},
                        {
                            "image_url": {
                                "url": "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
                            },
                            "type": "image_url",
                        },
                    ],
                },
                {"role": "user", "content": "and?"},
            ],
            "max_tokens": 900,
            "stream_options": {"include_usage": True},
            "tool_choice": "auto",
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "bash",
                        "description": "Run a command.",
                        "parameters": {
                            "type": "object",
                            "properties": {"command": {"type": "string"}},
                            "required": ["command"],
                        },
                    },
                }
            ],
        }
    )
    assert [request.headers["authorization"] for request in server.requests] == ["Bearer none", "Bearer none"]


LEVELS = [
    ("gpt-6.1-sol", "off", {"effort": "low", "context": "all_turns"}),
    ("gpt-6.1-sol", "minimal", {"effort": "low", "context": "all_turns", "summary": "auto"}),
    ("gpt-6.1-sol", "xhigh", {"effort": "xhigh", "context": "all_turns", "summary": "auto"}),
    ("gpt-5.4", "off", {"effort": "none", "context": "all_turns"}),
    ("gpt-5.4", "high", {"effort": "high", "context": "all_turns", "summary": "auto"}),
    ("gpt-5.4", "someday", {"context": "all_turns"}),
    ("gpt-4o", "high", None),
]


@pytest.mark.parametrize(("model_id", "level", "sent"), LEVELS)
async def test_a_thinking_level_becomes_the_effort_the_model_takes(model_id: str, level: str, sent: object) -> None:
    async with FakeOpenAI([Response()]) as server:
        reply = await reply_of(
            responses_model(model_id, KEY, server.base_url), Request("", (UserMessage("hi"),), thinking_level=level)
        )
    assert server.bodies[0].get("reasoning") == sent
    assert reply.thinking_level == level


async def test_a_reply_that_was_cut_for_length_says_so() -> None:
    cut = Response(content=(Message(("Half a",)),), end="incomplete")
    async with FakeOpenAI([cut, Completion(content=(Message(("Half a",)),), finish="length")]) as server:
        replies = [
            await reply_of(responses_model(SOL, KEY, server.base_url)),
            await reply_of(completions_model("qwen3", None, server.base_url)),
        ]
    assert [(reply.stop_reason, reply.content) for reply in replies] == [
        ("length", (TextBlock("Half a", '{"v":1,"id":"msg_1"}'),)),
        ("length", (TextBlock("Half a"),)),
    ]


async def test_a_character_cut_in_two_by_the_server_arrives_whole() -> None:
    async with FakeOpenAI([Completion(content=(Message(("a\ud83d", "\ude00b\ud83d", "c")),), step=5)]) as server:
        events = plain(await events_of(completions_model("qwen3", None, server.base_url)))
    assert [event["delta"] for event in events if event["type"] == "text_delta"] == ["a", "😀b", "\ufffdc"]
    assert events[-1]["message"]["content"] == [{"type": "text", "text": "a😀b\ufffdc"}]
