"""Fakes of OpenAI's Responses API and of Chat Completions: `FakeOpenAI([Response(...), Completion(...)])`.

Both are served under ``/v1``; which of the two a reply is decides the format of its stream, not the path. The events'
data is written by hand from the documentation of OpenAI and, for errors, of llama.cpp's server.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tests.fakes.http_server import Answer, FakeServer, Recorded, serve_script, sse


class Message(msgspec.Struct, frozen=True, tag_field="type", tag="message"):
    """Text of a response, or of a completion; streamed in these pieces."""

    pieces: tuple[str, ...]
    id: str = "msg_1"
    phase: str | None = None


class Reasoning(msgspec.Struct, frozen=True, tag_field="type", tag="reasoning"):
    """Reasoning. In a response each of ``summaries`` is a summary part; in a completion they are pieces of a field."""

    summaries: tuple[str, ...]
    id: str = "rs_1"
    encrypted: str | None = None
    field: str = "reasoning_content"


class Call(msgspec.Struct, frozen=True, tag_field="type", tag="function_call"):
    """A function call; ``pieces`` are of the JSON text of its arguments."""

    call_id: str
    name: str
    pieces: tuple[str, ...]
    id: str = "fc_1"


class Raw(msgspec.Struct, frozen=True, tag_field="type", tag="raw"):
    """An output item of a response as it is, such as a compaction or one of a kind nobody knows."""

    item: dict[str, Any]


class Reply(msgspec.Struct, frozen=True, kw_only=True, tag_field="api"):
    """What both APIs' replies have in common; see the fake of Anthropic for the faults.

    ``interleaved`` sends the pieces of a completion's calls by turns, as some servers do for parallel calls.
    """

    content: tuple[Message | Reasoning | Call | Raw, ...] = ()
    input_tokens: int = 10
    cached: int = 0
    cache_write: int | None = None
    output_tokens: int = 5
    status: int = 200
    headers: dict[str, str] = {}
    error: Any = None
    events: int | None = None
    cut: bool = False
    stall: bool = False
    step: int | None = None
    interleaved: bool = False


class Response(Reply, frozen=True, tag="responses"):
    """A reply of the Responses API. ``end`` is the last event: completed, incomplete (by ``reason``) or failed."""

    id: str = "resp_1"
    end: str = "completed"
    reason: str = "max_output_tokens"


class Completion(Reply, frozen=True, tag="completions"):
    """A reply of Chat Completions."""

    id: str = "chatcmpl-1"
    finish: str | None = "stop"


class Compaction(Reply, frozen=True, tag="compaction"):
    """An answer of ``/responses/compact``: JSON, its output items as they are. ``events`` cuts its bytes."""

    output: tuple[dict[str, Any], ...] = ()


def error_body(message: str, code: Any = None, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


LLAMA_CPP_OVERFLOW = {
    "error": {
        "code": 400,
        "message": "request (66202 tokens) exceeds the available context size (65536 tokens), try increasing it",
        "type": "exceed_context_size_error",
        "n_prompt_tokens": 66202,
        "n_ctx": 65536,
    }
}
"""Body of the 400 by which llama.cpp's server refuses a request that is too large."""


def answer(reply: Response | Completion | Compaction) -> Answer:
    if reply.status != 200:
        body = reply.error if isinstance(reply.error, str) else json.dumps(reply.error)
        return Answer([body.encode()], reply.status, reply.headers)
    match reply:
        case Compaction():
            return compaction_answer(reply)
        case Response():
            data = [{**event, "sequence_number": n} for n, event in enumerate(response_data(reply))]
            chunks = [sse(event["type"], event) for event in data]
        case Completion():
            chunks = [sse(None, event) for event in completion_data(reply)] + [sse(None, "[DONE]")]
    if reply.events is not None:
        chunks = chunks[: reply.events]
    if reply.error is not None:
        chunks.append(sse("error" if isinstance(reply, Response) else None, reply.error))
    return Answer(chunks, 200, reply.headers, cut=reply.cut, stall=reply.stall, step=reply.step)


def compaction_answer(reply: Compaction) -> Answer:
    body = {
        "id": "resp_1",
        "object": "response.compaction",
        "created_at": 1_700_000_000,
        "output": list(reply.output),
        "usage": usage_data(reply),
    }
    whole = json.dumps(body, ensure_ascii=False).encode()
    headers = {"content-type": "application/json"} | reply.headers
    return Answer([whole[: reply.events]], 200, headers, cut=reply.cut, stall=reply.stall, step=reply.step)


def usage_data(reply: Response | Compaction) -> dict[str, Any]:
    details = {"cached_tokens": reply.cached}
    if reply.cache_write is not None:
        details["cache_write_tokens"] = reply.cache_write
    return {
        "input_tokens": reply.input_tokens,
        "input_tokens_details": details,
        "output_tokens": reply.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": reply.input_tokens + reply.output_tokens,
    }


# --- Responses -----------------------------------------------------------------------------------


def response_data(reply: Response) -> Iterator[dict[str, Any]]:
    base = {
        "id": reply.id,
        "object": "response",
        "created_at": 1_700_000_000,
        "model": "gpt",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
    }
    yield {"type": "response.created", "response": {**base, "status": "in_progress"}}
    yield {"type": "response.in_progress", "response": {**base, "status": "in_progress"}}
    for index, item in enumerate(reply.content):
        yield from item_data(index, item)
    last = {**base, "status": reply.end, "usage": usage_data(reply)}
    if reply.end == "incomplete":
        last["incomplete_details"] = {"reason": reply.reason}
    if reply.end == "failed":
        last["error"] = {"code": reply.reason, "message": "The server had an error"}
    yield {"type": f"response.{reply.end}", "response": last}


def item_data(index: int, item: Message | Reasoning | Call | Raw) -> Iterator[dict[str, Any]]:
    match item:
        case Message():
            yield from message_data(index, item)
        case Reasoning():
            yield from reasoning_data(index, item)
        case Call():
            yield from call_data(index, item)
        case Raw(item=whole):
            yield {"type": "response.output_item.added", "output_index": index, "item": whole}
            yield {"type": "response.output_item.done", "output_index": index, "item": whole}


def message_data(index: int, item: Message) -> Iterator[dict[str, Any]]:
    place = {"item_id": item.id, "output_index": index, "content_index": 0}
    whole = {"id": item.id, "type": "message", "role": "assistant", "status": "completed"}
    if item.phase is not None:
        whole["phase"] = item.phase
    text = {"type": "output_text", "text": "".join(item.pieces), "annotations": []}
    yield {
        "type": "response.output_item.added",
        "output_index": index,
        "item": {**whole, "status": "in_progress", "content": []},
    }
    yield {"type": "response.content_part.added", **place, "part": {**text, "text": ""}}
    for piece in item.pieces:
        yield {"type": "response.output_text.delta", **place, "delta": piece, "logprobs": []}
    yield {"type": "response.output_text.done", **place, "text": text["text"], "logprobs": []}
    yield {"type": "response.content_part.done", **place, "part": text}
    yield {"type": "response.output_item.done", "output_index": index, "item": {**whole, "content": [text]}}


def reasoning_data(index: int, item: Reasoning) -> Iterator[dict[str, Any]]:
    whole = {"id": item.id, "type": "reasoning", "summary": []}
    yield {"type": "response.output_item.added", "output_index": index, "item": whole}
    for number, summary in enumerate(item.summaries):
        place = {"item_id": item.id, "output_index": index, "summary_index": number}
        part = {"type": "summary_text", "text": ""}
        yield {"type": "response.reasoning_summary_part.added", **place, "part": part}
        yield {"type": "response.reasoning_summary_text.delta", **place, "delta": summary}
        yield {"type": "response.reasoning_summary_text.done", **place, "text": summary}
        yield {"type": "response.reasoning_summary_part.done", **place, "part": {**part, "text": summary}}
    done = {
        **whole,
        "summary": [{"type": "summary_text", "text": text} for text in item.summaries],
        "encrypted_content": item.encrypted,
    }
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


def call_data(index: int, item: Call) -> Iterator[dict[str, Any]]:
    whole = {"id": item.id, "type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": ""}
    place = {"item_id": item.id, "output_index": index}
    arguments = "".join(item.pieces)
    yield {"type": "response.output_item.added", "output_index": index, "item": {**whole, "status": "in_progress"}}
    for piece in item.pieces:
        yield {"type": "response.function_call_arguments.delta", **place, "delta": piece}
    yield {"type": "response.function_call_arguments.done", **place, "arguments": arguments, "name": item.name}
    done = {**whole, "arguments": arguments, "status": "completed"}
    yield {"type": "response.output_item.done", "output_index": index, "item": done}


# --- Chat Completions ------------------------------------------------------------------------------


def completion_data(reply: Completion) -> Iterator[dict[str, Any]]:
    base = {"id": reply.id, "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "local"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    calls = [item for item in reply.content if isinstance(item, Call)]
    for item in reply.content:
        match item:
            case Message(pieces=pieces):
                yield from (chunk({"content": piece}) for piece in pieces)
            case Reasoning(summaries=pieces, field=field):
                yield from (chunk({field: piece}) for piece in pieces)
            case Call() | Raw():
                pass
    yield from (chunk({"tool_calls": [delta]}) for delta in call_deltas(calls, reply.interleaved))
    if reply.finish is not None:
        yield chunk({}, reply.finish)
    usage = {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached},
    }
    yield {**base, "choices": [], "usage": usage}


def call_deltas(calls: Sequence[Call], interleaved: bool) -> Iterator[dict[str, Any]]:
    starts = [
        {"index": index, "id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        for index, call in enumerate(calls)
    ]
    rests = [
        [{"index": index, "function": {"arguments": piece}} for piece in call.pieces]
        for index, call in enumerate(calls)
    ]
    if not interleaved:
        for start, rest in zip(starts, rests, strict=True):
            yield from [start, *rest]
        return
    yield from starts
    for turn in range(max(map(len, rests), default=0)):
        yield from (rest[turn] for rest in rests if turn < len(rest))


COMPACT_FIELDS = {
    "model",
    "input",
    "instructions",
    "tools",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "prompt_cache_key",
    "service_tier",
}
"""What ``/responses/compact`` takes."""


class FakeOpenAI(FakeServer):
    """OpenAI, or a server that speaks its protocol, on loopback; ``base_url`` is what OPENAI_BASE_URL would be.

    A request for a compaction that is not made as one is refused.
    """

    path_prefix = "/v1"

    def __init__(self, replies: Sequence[Response | Completion | Compaction]) -> None:
        super().__init__([answer(reply) for reply in replies])

    def refusal(self, request: Recorded) -> Answer | None:
        wrong = what_is_wrong(request)
        return wrong and Answer([json.dumps(error_body(wrong)).encode()], 400)


def what_is_wrong(request: Recorded) -> str | None:
    if request.body is None:
        return None
    if request.path.endswith("/responses/compact") and (unknown := sorted(set(request.body) - COMPACT_FIELDS)):
        return f"Unknown parameter: {unknown[0]}"
    triggers = [at for at, item in enumerate(request.body.get("input", [])) if item.get("type") == "compaction_trigger"]
    if not triggers:
        return None
    if "remote_compaction_v2" not in request.headers.get("x-codex-beta-features", ""):
        return "Invalid value: 'compaction_trigger'"
    return None if triggers == [len(request.body["input"]) - 1] else "compaction_trigger must be the last input item"


if __name__ == "__main__":
    serve_script(lambda script: FakeOpenAI(msgspec.json.decode(script, type=list[Response | Completion | Compaction])))
