"""The scripted model: what it streams, how it fails, what it records, and its script files."""

import asyncio
import json
import subprocess
import sys
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from coppice.errors import ContextOverflow, CoppiceError, ProviderError
from coppice.format.codec import encode
from coppice.format.events import (
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
    AssistantMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from coppice.providers.base import Model, Request, ToolSchema
from coppice.providers.scripted import (
    OVERFLOW_WORDING,
    SCRIPTED,
    ScriptedModel,
    ScriptedReply,
    call,
    calls,
    drop,
    fail,
    half_call,
    length,
    load_script,
    overflow,
    say,
    stall,
    think,
)

HELLO = Request("Be brief.", (UserMessage("hello"),))


class Heard(NamedTuple):
    """What a stream gave before it ended, and the error it ended in."""

    events: list[StreamEvent]
    error: ProviderError | None


async def listen(model: Model, request: Request = HELLO) -> Heard:
    events: list[StreamEvent] = []
    try:
        async for event in model.stream(request):
            events.append(event)  # noqa: PERF401 - a comprehension would lose the events before the error
    except ProviderError as error:
        return Heard(events, error)
    return Heard(events, None)


async def reply_of(model: Model, request: Request = HELLO) -> AssistantMessage:
    heard = await listen(model, request)
    done = heard.events[-1]
    assert isinstance(done, StreamDone)
    return msgspec.structs.replace(done.message, timestamp=0)


def facts_of(error: ProviderError | None) -> tuple[object, ...]:
    assert error is not None
    return type(error), str(error), error.status, error.code, error.retry_after_ms, error.body, error.transient


@pytest.mark.anyio
async def test_a_reply_streams_each_block_in_deltas_and_ends_with_the_message() -> None:
    model = ScriptedModel(
        [calls(think("hmm", signature="s1"), call("bash", {"a": 1}, id="c1"), text="Looking").timed(chunk=4)]
    )
    events = (await listen(model)).events
    done = events.pop()
    assert isinstance(done, StreamDone)
    bash = ToolCall(ToolCallId("c1"), "bash", {"a": 1})
    usage = Usage(input=4, output=6, total_tokens=10)
    assert events == [
        TextStart(0),
        TextDelta(0, "Look"),
        TextDelta(0, "ing"),
        TextEnd(0, "Looking"),
        ThinkingStart(1),
        ThinkingDelta(1, "hmm"),
        ThinkingEnd(1, "hmm"),
        ToolCallStart(2, ToolCallId("c1"), "bash"),
        ToolCallDelta(2, '{"a"'),
        ToolCallDelta(2, ":1}"),
        ToolCallEnd(2, bash),
        UsageReport(usage),
    ]
    assert done.message.timestamp > 1_600_000_000_000
    assert msgspec.structs.replace(done.message, timestamp=0) == AssistantMessage(
        (TextBlock("Looking"), ThinkingBlock("hmm", "s1"), bash),
        api="scripted",
        provider="scripted",
        model="scripted",
        usage=usage,
        stop_reason="toolUse",
    )


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reply", "content", "stop_reason"),
    [
        (say("hi"), (TextBlock("hi"),), "stop"),
        (say(""), (), "stop"),
        (length(), (), "length"),
        (length("half a"), (TextBlock("half a"),), "length"),
        (think("why", then="so"), (ThinkingBlock("why"), TextBlock("so")), "stop"),
        (replace(say(""), stop_reason="refusal"), (), "refusal"),
    ],
)
async def test_replies_stop_for_the_reason_they_name(
    reply: ScriptedReply, content: tuple[object, ...], stop_reason: str
) -> None:
    message = await reply_of(ScriptedModel([reply]))
    assert (message.content, message.stop_reason) == (content, stop_reason)


@pytest.mark.anyio
async def test_usage_that_a_reply_names_is_reported_as_it_is() -> None:
    model = ScriptedModel([say("x").with_usage(input_tokens=95_000, output_tokens=10, cache_read=5)])
    assert (await reply_of(model)).usage == Usage(input=95_000, output=10, cache_read=5, total_tokens=95_015)


@pytest.mark.anyio
async def test_call_ids_are_unique_in_the_model_and_in_the_conversation_sent() -> None:
    model = ScriptedModel([calls(call("ls"), call("ls")), call("ls"), calls(call("ls", id="call_5"), call("ls"))])
    earlier = AssistantMessage((ToolCall(ToolCallId("call_3"), "ls", {}),))
    request = Request("", (UserMessage("go"), earlier, ToolResultMessage(ToolCallId("call_3"), "ls", ())))
    replies = [await reply_of(model, request) for _ in range(3)]
    ids = [[block.id for block in reply.content if isinstance(block, ToolCall)] for reply in replies]
    assert ids == [["call_1", "call_2"], ["call_4"], ["call_5", "call_6"]]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reply", "facts"),
    [
        (
            fail("slow down", status=429, code="rate_limit", retry_after_ms=1500, body="{}"),
            (ProviderError, "slow down", 429, "rate_limit", 1500, "{}", True),
        ),
        (fail("no", status=401), (ProviderError, "no", 401, None, None, "", False)),
        (fail("busy", status=529), (ProviderError, "busy", 529, None, None, "", True)),
        (fail("reset", transient=True), (ProviderError, "reset", None, None, None, "", True)),
        (fail("never", status=503, transient=False), (ProviderError, "never", 503, None, None, "", False)),
        (overflow(), (ContextOverflow, OVERFLOW_WORDING, 400, None, None, "", False)),
        (
            overflow("too big", code="context_length_exceeded"),
            (ContextOverflow, "too big", 400, "context_length_exceeded", None, "", False),
        ),
        (fail(OVERFLOW_WORDING, status=503), (ContextOverflow, OVERFLOW_WORDING, 503, None, None, "", False)),
    ],
)
async def test_a_failing_request_raises_what_the_script_says_before_any_event(
    reply: ScriptedReply, facts: tuple[object, ...]
) -> None:
    heard = await listen(ScriptedModel([reply]))
    assert (heard.events, facts_of(heard.error)) == ([], facts)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("reply", "events"),
    [
        (drop("partial"), [TextStart(0), TextDelta(0, "partial")]),
        (drop(), []),
        (half_call("bash", '{"comm'), [ToolCallStart(0, ToolCallId("call_1"), "bash"), ToolCallDelta(0, '{"comm')]),
        (
            say("Now").then(half_call("bash", "{", id="c9")),
            [
                TextStart(0),
                TextDelta(0, "Now"),
                TextEnd(0, "Now"),
                ToolCallStart(1, ToolCallId("c9"), "bash"),
                ToolCallDelta(1, "{"),
            ],
        ),
    ],
)
async def test_a_cut_stream_gives_its_deltas_and_then_a_passing_error(
    reply: ScriptedReply, events: list[StreamEvent]
) -> None:
    heard = await listen(ScriptedModel([reply]))
    lost = "the connection was closed before the reply was complete"
    assert heard.events == events
    assert facts_of(heard.error) == (ProviderError, lost, None, None, None, "", True)


@pytest.mark.anyio
async def test_a_failure_can_come_in_the_middle_of_the_stream() -> None:
    heard = await listen(ScriptedModel([say("a").then(fail("overloaded", status=200, transient=True))]))
    assert heard.events == [TextStart(0), TextDelta(0, "a"), TextEnd(0, "a")]
    assert str(heard.error) == "overloaded"


def test_nothing_follows_a_fault() -> None:
    with pytest.raises(ValueError, match="nothing can follow Stall"):
        stall().then(say("x"))


def test_an_overflow_is_worded_as_a_provider_words_it() -> None:
    with pytest.raises(ValueError, match="not known as an overflow: 'oops'"):
        overflow("oops")


def test_a_delta_has_at_least_one_character() -> None:
    with pytest.raises(ValueError, match="chunk is 0"):
        say("x").timed(chunk=0)


@pytest.mark.anyio
async def test_a_stalled_request_can_be_waited_for_and_cancelled() -> None:
    model = ScriptedModel([say("first"), stall()])
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(model.wait_for_request(2))
        tasks.create_task(listen(model))
        second = Request("", (UserMessage("second"),))
        stalled = asyncio.create_task(listen(model, second))
        assert await waiting == second
    assert not stalled.done()
    stalled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stalled
    assert await model.wait_for_request(1) == HELLO


@pytest.mark.anyio
async def test_closing_the_stream_early_ends_the_reply() -> None:
    model = ScriptedModel([say("a long reply of several deltas"), say("next")])
    async with aclosing(model.stream(HELLO)) as events:
        assert await anext(events) == TextStart(0)
    assert (await reply_of(model)).content == (TextBlock("next"),)


@pytest.mark.anyio
async def test_delays_are_waited_before_the_first_event_and_between_deltas() -> None:
    clock = asyncio.get_running_loop().time
    model = ScriptedModel([say("abcd").timed(delay_ms=40, chunk_delay_ms=20, chunk=2)])
    began = clock()
    times = [clock() - began async for _ in model.stream(HELLO)]
    assert times[0] >= 0.035
    assert times[-1] >= 0.075


@pytest.mark.anyio
async def test_a_reply_can_be_made_from_what_was_sent() -> None:
    def count(request: Request) -> ScriptedReply:
        return say(f"{len(request.messages)} messages")

    assert (await reply_of(ScriptedModel([count]))).content == (TextBlock("1 messages"),)


@pytest.mark.anyio
async def test_a_finished_script_raises_a_lasting_error_and_still_records() -> None:
    model = ScriptedModel([say("only")])
    await listen(model)
    heard = await listen(model)
    text = "the script has 1 replies and this is request 2; add a reply to the script"
    assert facts_of(heard.error) == (ProviderError, text, None, None, None, "", False)
    assert model.requests == [HELLO, HELLO]


def test_the_default_model_has_a_window_of_200_000_tokens() -> None:
    info = ScriptedModel([]).info
    assert (info, info.name, info.context_window) == (SCRIPTED, "scripted/scripted", 200_000)


# --- script files ------------------------------------------------------------------------------


def script_file(directory: Path, content: object) -> str:
    path = directory / "script.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return str(path)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("form", "reply"),
    [
        ({}, say("")),
        ({"text": "hi"}, say("hi")),
        ({"text": "cut", "stopReason": "length"}, length("cut")),
        ({"thinking": "t", "signature": "s", "text": "so"}, think("t", signature="s", then="so")),
        (
            {"text": "a", "calls": [{"name": "bash", "arguments": {"x": 1}, "id": "c"}, {"name": "ls"}]},
            calls(call("bash", {"x": 1}, id="c"), call("ls"), text="a"),
        ),
        ({"text": "a", "usage": {"input": 5, "cacheRead": 2}}, say("a").with_usage(input_tokens=5, cache_read=2)),
        ({"text": "ab", "chunk": 1, "delayMs": 1, "chunkDelayMs": 0.5}, say("ab").timed(1, 0.5, 1)),
        (
            {"fail": {"status": 429, "message": "m", "code": "c", "retryAfterMs": 7, "body": "b", "transient": False}},
            fail("m", status=429, code="c", retry_after_ms=7, body="b", transient=False),
        ),
        ({"fail": {"status": 500}}, fail(status=500)),
        ({"overflow": ""}, overflow()),
        ({"overflow": "prompt too long; exceeded"}, overflow("prompt too long; exceeded")),
        ({"drop": "part"}, drop("part")),
        ({"halfCall": {"name": "bash", "partialJson": "{"}}, half_call("bash", "{")),
        ({"text": "first", "drop": ""}, say("first").then(drop())),
    ],
)
async def test_a_script_file_says_what_python_says(tmp_path: Path, form: object, reply: ScriptedReply) -> None:
    loaded = await listen(load_script(script_file(tmp_path, {"replies": [form]})))
    built = await listen(ScriptedModel([reply]))
    assert without_time(loaded.events) == without_time(built.events)
    assert (loaded.error and facts_of(loaded.error)) == (built.error and facts_of(built.error))


def without_time(events: list[StreamEvent]) -> list[StreamEvent]:
    match events:
        case [*before, StreamDone(message=message)]:
            return [*before, StreamDone(msgspec.structs.replace(message, timestamp=0))]
        case _:
            return events


def test_a_script_file_may_change_what_the_model_says_it_is(tmp_path: Path) -> None:
    model = {"provider": "other", "id": "m", "contextWindow": 1000, "acceptsImages": False}
    info = load_script(script_file(tmp_path, {"replies": [], "model": model})).info
    assert info == replace(SCRIPTED, provider="other", id="m", context_window=1000, accepts_images=False)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", ":1: not JSON: Expecting property name enclosed in double quotes"),
        ('{\n"replies": [}', ":2: not JSON: Expecting value"),
        ("[]", ": Expected `object`, got `array`"),
        ("{}", ": Object missing required field `replies`"),
        ('{"replies": [{"txt": "x"}]}', ": Object contains unknown field `txt` - at `$.replies[0]`"),
        ('{"replies": [{"text": 3}]}', ": Expected `str`, got `int` - at `$.replies[0].text`"),
        ('{"replies": [{"calls": [{}]}]}', ": Object missing required field `name` - at `$.replies[0].calls[0]`"),
        (
            '{"replies": [{"overflow": "oops"}]}',
            ": not known as an overflow: 'oops' (status 400, code None) - at `$.replies[0]`",
        ),
        ('{"replies": [{"chunk": 0}]}', ": chunk is 0; a delta has at least 1 character - at `$.replies[0]`"),
        (
            '{"replies": [{}, {"stall": true, "drop": ""}]}',
            ": one of fail, overflow, drop, halfCall, stall, not several - at `$.replies[1]`",
        ),
    ],
)
def test_a_bad_script_is_refused_by_file_and_key(tmp_path: Path, content: str, text: str) -> None:
    path = tmp_path / "script.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(CoppiceError) as caught:
        load_script(str(path))
    assert str(caught.value) == f"{path}{text}"


def test_a_script_that_is_missing_or_no_text_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(CoppiceError, match=r"nowhere\.json: the script cannot be read: No such file"):
        load_script(str(tmp_path / "nowhere.json"))
    (tmp_path / "latin.json").write_bytes(b'{"replies": [{"text": "\xe9"}]}')
    with pytest.raises(CoppiceError, match=r"latin\.json: not UTF-8"):
        load_script(str(tmp_path / "latin.json"))


@pytest.mark.anyio
async def test_each_request_is_one_private_line_of_the_record_file(tmp_path: Path) -> None:
    model = load_script(script_file(tmp_path, {"replies": [{"text": "a"}, {"fail": {}}], "record": "sent.jsonl"}))
    ls = ToolSchema("ls", "List files.", {"type": "object"})
    answered = (
        UserMessage("hello\ud800", 1),
        AssistantMessage((ToolCall(ToolCallId("c1"), "ls", {}),), "a", "p", "m", timestamp=2),
        ToolResultMessage(ToolCallId("c1"), "ls", (TextBlock("x"),), timestamp=3),
    )
    await listen(model, HELLO)
    await listen(model, Request("Be kind.", answered, (ls,), "high", 100, "session"))
    lines = (tmp_path / "sent.jsonl").read_bytes().split(b"\n")
    assert [json.loads(line) for line in lines if line] == [
        {
            "systemPrompt": "Be brief.",
            "messages": [{"role": "user", "content": "hello", "timestamp": 0}],
            "tools": [],
            "thinkingLevel": "off",
            "maxOutput": None,
            "cacheKey": None,
        },
        {
            "systemPrompt": "Be kind.",
            "messages": [
                {"role": "user", "content": "hello\ufffd", "timestamp": 1},
                json.loads(encode(answered[1])),
                {
                    "role": "toolResult",
                    "toolCallId": "c1",
                    "toolName": "ls",
                    "content": [{"type": "text", "text": "x"}],
                    "isError": False,
                    "timestamp": 3,
                },
            ],
            "tools": [{"name": "ls", "description": "List files.", "parameters": {"type": "object"}}],
            "thinkingLevel": "high",
            "maxOutput": 100,
            "cacheKey": "session",
        },
    ]
    assert (tmp_path / "sent.jsonl").stat().st_mode & 0o777 == 0o600


@pytest.mark.anyio
async def test_a_record_file_that_cannot_be_written_fails_the_request(tmp_path: Path) -> None:
    model = load_script(script_file(tmp_path, {"replies": [{"text": "a"}], "record": "no/such/dir.jsonl"}))
    heard = await listen(model)
    text = f"{tmp_path / 'no/such/dir.jsonl'}: the request could not be recorded: No such file or directory"
    assert (heard.events, facts_of(heard.error)[1]) == ([], text)


PROGRAM = """
import asyncio, sys
from coppice.format.events import TextStart
from coppice.format.messages import UserMessage
from coppice.providers.base import Request
from coppice.providers.scripted import load_script

async def main():
    model = load_script(sys.argv[1])
    async for event in model.stream(Request("", (UserMessage("one"),))):
        if event == TextStart(0):
            print("began", flush=True)

asyncio.run(main())
"""


def test_a_killed_process_leaves_its_request_in_the_record_file(tmp_path: Path) -> None:
    script = script_file(tmp_path, {"replies": [{"text": "a", "stall": True}], "record": "sent.jsonl"})
    with subprocess.Popen([sys.executable, "-c", PROGRAM, script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"began\n"
        process.kill()
    sent = [json.loads(line) for line in (tmp_path / "sent.jsonl").read_bytes().splitlines()]
    assert [request["messages"][0]["content"] for request in sent] == ["one"]
