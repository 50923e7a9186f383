"""A fake of Anthropic's Messages API: `FakeAnthropic([Reply((Text("Hi"),))])`, or ``--script FILE`` from a shell.

The events are the ones the API sends for a streamed message, pings included; their data is written by hand from its
documentation.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from tests.fakes.http_server import Answer, FakeServer, Recorded, serve_script, sse


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A text block, streamed in these pieces."""

    pieces: tuple[str, ...]


class Thinking(msgspec.Struct, frozen=True, tag_field="type", tag="thinking"):
    pieces: tuple[str, ...]
    signature: str = ""


class Redacted(msgspec.Struct, frozen=True, tag_field="type", tag="redacted_thinking"):
    data: str


class ToolUse(msgspec.Struct, frozen=True, tag_field="type", tag="tool_use"):
    """A tool call; ``pieces`` are of the JSON text of its input."""

    id: str
    name: str
    pieces: tuple[str, ...]


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A message, or, with another ``status``, an error with ``error`` as its body.

    It is streamed, except with ``blocks``: then it is one JSON object with these blocks as they are, as the answer to
    a request for a compaction, and ``events`` cuts its bytes. ``iterations`` is what the usage of either lists.

    ``events`` cuts the stream after so many events: the connection breaks off (``cut``), stays silent (``stall``), or
    ends as if all were well. With status 200, ``error`` is sent as an error event there.
    """

    content: tuple[Text | Thinking | Redacted | ToolUse, ...] = ()
    id: str = "msg_1"
    stop_reason: str = "end_turn"
    input_tokens: int = 10
    cache_read: int = 0
    cache_write: int = 0
    output_tokens: int = 5
    status: int = 200
    headers: dict[str, str] = {}
    error: Any = None
    events: int | None = None
    cut: bool = False
    stall: bool = False
    step: int | None = None
    blocks: tuple[dict[str, Any], ...] | None = None
    iterations: tuple[dict[str, Any], ...] | None = None


def error_body(kind: str, message: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def answer(reply: Reply) -> Answer:
    if reply.status != 200:
        body = reply.error if isinstance(reply.error, str) else json.dumps(reply.error)
        return Answer([body.encode()], reply.status, reply.headers)
    if reply.blocks is not None:
        whole = json.dumps(message_data(reply, reply.blocks), ensure_ascii=False).encode()
        headers = {"content-type": "application/json"} | reply.headers
        return Answer([whole[: reply.events]], 200, headers, cut=reply.cut, stall=reply.stall, step=reply.step)
    chunks = [sse(data["type"], data) for data in stream_data(reply)]
    if reply.events is not None:
        chunks = chunks[: reply.events]
    if reply.error is not None:
        chunks.append(sse("error", reply.error))
    return Answer(chunks, 200, reply.headers, cut=reply.cut, stall=reply.stall, step=reply.step)


def message_data(reply: Reply, blocks: Sequence[dict[str, Any]]) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "input_tokens": reply.input_tokens,
        "cache_creation_input_tokens": reply.cache_write,
        "cache_read_input_tokens": reply.cache_read,
        "output_tokens": reply.output_tokens,
    }
    if reply.iterations is not None:
        usage["iterations"] = list(reply.iterations)
    message = {"id": reply.id, "type": "message", "role": "assistant", "model": "claude", "content": list(blocks)}
    return {**message, "stop_reason": reply.stop_reason, "stop_sequence": None, "usage": usage}


def stream_data(reply: Reply) -> Iterator[dict[str, Any]]:
    usage = {
        "input_tokens": reply.input_tokens,
        "cache_creation_input_tokens": reply.cache_write,
        "cache_read_input_tokens": reply.cache_read,
        "output_tokens": 1,
        "service_tier": "standard",
    }
    message = {"id": reply.id, "type": "message", "role": "assistant", "model": "claude", "content": []}
    ending = {"stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**message, **ending, "usage": usage}}
    yield {"type": "ping"}
    for index, block in enumerate(reply.content):
        yield from block_data(index, block)
    final: dict[str, Any] = {"output_tokens": reply.output_tokens}
    if reply.iterations is not None:
        final["iterations"] = list(reply.iterations)
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": reply.stop_reason, "stop_sequence": None},
        "usage": final,
    }
    yield {"type": "message_stop"}


def block_data(index: int, block: Text | Thinking | Redacted | ToolUse) -> Iterator[dict[str, Any]]:
    deltas: list[dict[str, Any]] = []
    match block:
        case Text(pieces=pieces):
            start: dict[str, Any] = {"type": "text", "text": ""}
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
        case Thinking(pieces=pieces, signature=signature):
            start = {"type": "thinking", "thinking": "", "signature": ""}
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces]
            deltas.append({"type": "signature_delta", "signature": signature})
        case Redacted(data=data):
            start = {"type": "redacted_thinking", "data": data}
        case ToolUse(id=id, name=name, pieces=pieces):
            start = {"type": "tool_use", "id": id, "name": name, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    yield {"type": "content_block_start", "index": index, "content_block": start}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


COMPACT_BETA = "compact-2026-09-04"


class FakeAnthropic(FakeServer):
    """Anthropic on loopback; ``base_url`` is what ANTHROPIC_BASE_URL would be.

    A request with a compaction that is not made as one is refused.
    """

    def __init__(self, replies: Sequence[Reply]) -> None:
        super().__init__([answer(reply) for reply in replies])

    def refusal(self, request: Recorded) -> Answer | None:
        wrong = what_is_wrong(request)
        return wrong and Answer([json.dumps(error_body("invalid_request_error", wrong)).encode()], 400)


def what_is_wrong(request: Recorded) -> str | None:
    if request.body is None:
        return None
    blocks = [block for message in request.body["messages"] for block in message["content"]]
    compactions = [at for at, block in enumerate(blocks) if block["type"] == "compaction"]
    if "compaction" not in request.body and not compactions:
        return None
    if COMPACT_BETA not in request.headers.get("anthropic-beta", "").split(","):
        return "compaction: Extra inputs are not permitted"
    if "compaction" in request.body and (refused := {"context_management", "stop_sequences"} & set(request.body)):
        return f"compaction cannot be combined with {sorted(refused)[0]}"
    if compactions not in ([], [0]) or (compactions and request.body["messages"][0]["role"] != "assistant"):
        return "messages: a compaction block must be the first block"
    return None


if __name__ == "__main__":
    serve_script(lambda script: FakeAnthropic(msgspec.json.decode(script, type=list[Reply])))
