"""Anthropic's compaction on demand: an ordinary request with a ``compaction`` field, answered by one signed block.

It is asked for without a stream: only so does the block come whole, with its signature. The block goes back first in
``messages``, as the assistant's, and the header goes with it.
"""

import json
from dataclasses import replace

from msgspec import structs

from coppice.format.messages import JsonObject, Usage
from coppice.providers.pydantic_ai.compaction import Form
from coppice.providers.pydantic_ai.exchange import Answer, Draft, Listener
from coppice.providers.pydantic_ai.opaque import Replay
from coppice.providers.pydantic_ai.prices import PriceTag, count_in, joined, priced
from coppice.providers.pydantic_ai.replay import object_in, objects_in, text_of_field

BETA_HEADERS = {"anthropic-beta": "compact-2026-09-04"}

REFUSED_FIELDS = ("stream", "stop_sequences", "context_management")
"""What a request for a compaction may not hold, and ``stream``."""

MESSAGE_TYPES = ("message", "fallback_message")
"""Iterations in which a model answered; their input is the context's size."""

ENDING = b"""event: message_start
data: {"type":"message_start","message":{"id":"","type":"message","role":"assistant","model":"","content":[],\
"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":0,"output_tokens":0}}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":0}}

event: message_stop
data: {"type":"message_stop"}

"""


def assistant(block: JsonObject) -> JsonObject:
    """A compaction block as the message it comes back in."""
    return {"role": "assistant", "content": [block]}


REPLAY = Replay("messages", assistant, BETA_HEADERS, first=True)


def ask(instructions: str | None, draft: Draft) -> Draft:
    """The same conversation, to be compacted. ``instructions`` replace the provider's own prompt for the summary."""
    compaction: JsonObject = {"type": "summarize"}
    if instructions and instructions.strip():
        compaction["instructions"] = instructions
    body = {name: value for name, value in draft.body.items() if name not in REFUSED_FIELDS}
    return replace(draft, body=body | {"compaction": compaction}, headers={**draft.headers, **BETA_HEADERS})


def read(body: bytes) -> Answer:
    """The compaction blocks of a message; what is no message has none."""
    try:
        message = object_in(json.loads(body))
    except ValueError:
        return Answer()
    kept = tuple(block for block in objects_in(message.get("content")) if block.get("type") == "compaction")
    return Answer(kept, object_in(message.get("usage")), text_of_field(message, "stop_reason"))


def fault(answer: Answer) -> str | None:
    """One block with a summary in it, readable or encrypted. The API marks a failure by a block without either."""
    if len(answer.items) != 1:
        return f"the answer holds {len(answer.items) or 'no'} compaction blocks"
    (block,) = answer.items
    if text_of_field(block, "content") or text_of_field(block, "encrypted_content"):
        return None
    return f"the provider made no summary (stop reason {answer.stop or 'unknown'})"


def usage_in(fields: JsonObject, price: PriceTag) -> Usage:
    """Tokens of the last iteration in which a model answered, cost of all of them.

    A compaction's tokens say nothing of a context's size and are not in the totals beside ``iterations``. Where no
    model answered, which is the rule for a compaction on demand, the tokens are those of all iterations together.
    """
    iterations = objects_in(fields.get("iterations"))
    each = [priced(tokens_in(entry), price) for entry in iterations or (fields,)]
    total = joined(each)
    answered = [used for entry, used in zip(iterations, each, strict=False) if entry.get("type") in MESSAGE_TYPES]
    return structs.replace(answered[-1], cost=total.cost) if answered else total


def tokens_in(fields: JsonObject) -> Usage:
    """The tokens of one iteration, or of the totals."""
    return Usage(
        count_in(fields, "input_tokens"),
        count_in(fields, "output_tokens"),
        count_in(fields, "cache_read_input_tokens"),
        count_in(fields, "cache_creation_input_tokens"),
    )


FORMS = {"anthropic": Form(ask, Listener(read, ENDING), fault, usage_in, takes_instructions=True)}
