"""OpenAI's compaction: ``openai-v1`` is an endpoint of its own, ``openai-v2`` an ordinary turn that ends in a trigger.

Neither has a prompt for a summary. The items that come back are opaque and stay as they came.
"""

import json
from collections.abc import Iterator
from dataclasses import replace

from coppice.format.messages import JsonObject, JsonValue, Usage, is_object
from coppice.providers.pydantic_ai.compaction import Form
from coppice.providers.pydantic_ai.exchange import Answer, Draft, Listener
from coppice.providers.pydantic_ai.opaque import Replay
from coppice.providers.pydantic_ai.prices import PriceTag, count_in, priced
from coppice.providers.pydantic_ai.replay import object_in, objects_in

COMPACTION_TYPES = ("compaction", "context_compaction")
"""Item types of a compaction: the documented one, and the one it had at first."""

TRIGGER = {"type": "compaction_trigger"}

FEATURE_HEADERS = {"x-codex-beta-features": "remote_compaction_v2"}

V1_FIELDS = ("model", "input", "instructions", "tools", "parallel_tool_calls", "reasoning", "text", "prompt_cache_key")
"""What the endpoint takes of an ordinary request."""

ENDING = b"""event: response.completed
data: {"type":"response.completed","response":{"id":"","object":"response","status":"completed","output":[]}}

"""

REPLAY = Replay("input", lambda item: item)


def ask_v1(_: str | None, draft: Draft) -> Draft:
    """The same conversation, for the endpoint. Parallel calls are what ordinary requests get without saying so."""
    body = {name: draft.body[name] for name in V1_FIELDS if name in draft.body}
    if "tools" in body:
        body.setdefault("parallel_tool_calls", True)
    return replace(draft, body=body, path_end="/compact")


def ask_v2(_: str | None, draft: Draft) -> Draft:
    """The ordinary request, and the trigger after its last item."""
    body = draft.body | {"input": [*draft.body["input"], TRIGGER]}
    return replace(draft, body=body, headers={**draft.headers, **FEATURE_HEADERS})


def read_v1(body: bytes) -> Answer:
    """The endpoint's answer; what is none has no items."""
    try:
        reply = object_in(json.loads(body))
    except ValueError:
        return Answer()
    return Answer(objects_in(reply.get("output")), object_in(reply.get("usage")))


def read_v2(body: bytes) -> Answer | None:
    """The items of a stream that was completed; None for one that was not."""
    items: list[JsonValue] = []
    for event in stream_events(body):
        match event.get("type"):
            case "response.output_item.done":
                items.append(event.get("item"))
            case "response.completed":
                response = object_in(event.get("response"))
                return Answer(objects_in(items or response.get("output")), object_in(response.get("usage")))
            case _:
                pass
    return None


def stream_events(body: bytes) -> Iterator[JsonObject]:
    """The data of server-sent events, where it is a JSON object."""
    data: list[bytes] = []
    for line in [*body.splitlines(), b""]:
        if line.startswith(b"data:"):
            data.append(line.removeprefix(b"data:"))
        elif not line and data:
            try:
                event = json.loads(b"\n".join(data))
            except ValueError:
                event = None
            data = []
            if is_object(event):
                yield event


def count_of(answer: Answer) -> int:
    """How many compactions there are in an answer."""
    return sum(item.get("type") in COMPACTION_TYPES for item in answer.items)


def fault_v1(answer: Answer) -> str | None:
    """The endpoint's items replace the conversation, so there must be a compaction among them."""
    return None if count_of(answer) else "the answer holds no compaction"


def fault_v2(answer: Answer) -> str | None:
    """Exactly one compaction."""
    count = count_of(answer)
    return None if count == 1 else f"the answer holds {count or 'no'} compaction{'s' if count > 1 else ''}"


def usage_in(fields: JsonObject, price: PriceTag) -> Usage:
    """OpenAI's usage as ours: its ``input_tokens`` counts what was cached."""
    details = object_in(fields.get("input_tokens_details"))
    read, written = count_in(details, "cached_tokens"), count_in(details, "cache_write_tokens")
    plain = max(count_in(fields, "input_tokens") - read - written, 0)
    return priced(Usage(plain, count_in(fields, "output_tokens"), read, written), price)


FORMS = {
    "openai-v1": Form(ask_v1, Listener(read_v1, ENDING), fault_v1, usage_in),
    "openai-v2": Form(ask_v2, Listener(read_v2, ENDING), fault_v2, usage_in),
}
