"""What a provider needs back byte for byte, kept as opaque text in our blocks' signature fields.

The texts are the ones Pi writes, so that either program can go on with the other's session:

* ``anthropic-messages``: ``thinkingSignature`` is the signature itself, or the data of redacted thinking.
* ``openai-responses``: ``thinkingSignature`` is the reasoning item as JSON (id and encrypted content; several blocks may
  carry one item's id), ``textSignature`` ``{"v":1,"id","phase"?}``, ``thoughtSignature`` what came with a tool call.
* ``openai-completions``: ``thinkingSignature`` is the name of the field the server put its reasoning in.

A signature that does not read as its API's is left out of a request rather than sent half.
"""

import json
from typing import cast

from pydantic_ai.messages import TextPart, ThinkingPart, ToolCallPart

from coppice.format.messages import JsonObject, JsonValue, TextBlock, ThinkingBlock, ToolCall, is_object
from coppice.providers.pydantic_ai.wellformed import well_formed

ANTHROPIC_MESSAGES = "anthropic-messages"
OPENAI_RESPONSES = "openai-responses"
OPENAI_COMPLETIONS = "openai-completions"

REDACTED_ID = "redacted_thinking"
"""The id by which pydantic-ai tells redacted thinking from readable thinking."""


def packed(fields: JsonObject) -> str:
    """A JSON object as compact text; the same object always gives the same bytes."""
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def unpacked(signature: str | None) -> JsonObject:
    """The JSON object in a signature; empty when it holds none."""
    try:
        return object_in(json.loads(signature or "null"))
    except ValueError:
        return {}


def object_in(value: JsonValue) -> JsonObject:
    """A JSON value that is an object; empty for any other."""
    return cast(JsonObject, value) if isinstance(value, dict) else {}  # JSON objects have text keys


def objects_in(value: JsonValue) -> tuple[JsonObject, ...]:
    """The objects in a JSON value that is a list; none for any other."""
    items = cast(list[JsonValue], value) if isinstance(value, list) else []  # whatever a JSON array holds
    return tuple(item for item in items if is_object(item))


def text_of_field(fields: JsonObject, name: str) -> str | None:
    """A field that is a text and not empty."""
    value = fields.get(name)
    return value if type(value) is str and value else None


# --- from the provider ---------------------------------------------------------------------------


def text_block(api: str, part: TextPart) -> TextBlock:
    """A finished text part as our block."""
    signature = None
    if api == OPENAI_RESPONSES and part.id:
        phase = text_of_field(part.provider_details or {}, "phase")
        signature = packed({"v": 1, "id": part.id} | ({"phase": phase} if phase else {}))
    return TextBlock(well_formed(part.content), signature)


def thinking_block(api: str, part: ThinkingPart) -> ThinkingBlock:
    """A finished thinking part as our block."""
    thinking = well_formed(part.content)
    if api == ANTHROPIC_MESSAGES:
        return ThinkingBlock(thinking, part.signature or None, True if part.id == REDACTED_ID else None)
    if api == OPENAI_RESPONSES and part.id:
        return ThinkingBlock(thinking, reasoning_item(part.id, part))
    return ThinkingBlock(thinking, part.id or None)


def reasoning_item(item_id: str, part: ThinkingPart) -> str:
    """A reasoning item of Responses, without the summaries: those are in the blocks."""
    fields: JsonObject = {"type": "reasoning", "id": item_id}
    if part.signature:
        fields["encrypted_content"] = part.signature
    raw = (part.provider_details or {}).get("raw_content")
    if raw:
        fields["content"] = [{"type": "reasoning_text", "text": text} for text in raw]
    return packed(fields)


def call_signature(part: ToolCallPart) -> str | None:
    """What came with a tool call besides id, name and arguments, None when nothing did."""
    fields: JsonObject = {}
    if part.id:
        fields["id"] = part.id
    if part.provider_details:
        fields["details"] = part.provider_details
    return packed(fields) if fields else None


# --- back to the provider that sent it -------------------------------------------------------------


def text_part(api: str, block: TextBlock, system: str) -> TextPart:
    """Our block as the part it was made from. ``system`` is pydantic-ai's name for the provider."""
    text = well_formed(block.text)
    if api != OPENAI_RESPONSES or not block.text_signature:
        return TextPart(text)
    fields = unpacked(block.text_signature)
    item_id = text_of_field(fields, "id") or (None if fields else block.text_signature)
    phase = text_of_field(fields, "phase")
    return TextPart(
        text,
        id=item_id,
        provider_name=system if item_id else None,
        provider_details={"phase": phase} if phase else None,
    )


def thinking_parts(api: str, block: ThinkingBlock, system: str) -> list[ThinkingPart]:
    """Our block as the parts it was made from; empty when nothing in it can be sent back.

    Thinking without a signature is left out: as text it would teach the model to write its thinking into its answers.
    """
    signature = block.thinking_signature
    if not signature:
        return []
    if api == ANTHROPIC_MESSAGES:
        if block.redacted:
            return [ThinkingPart("", id=REDACTED_ID, signature=signature, provider_name=system)]
        return [ThinkingPart(well_formed(block.thinking), signature=signature, provider_name=system)]
    if api == OPENAI_RESPONSES:
        return reasoning_parts(block, unpacked(signature), system)
    return [ThinkingPart(well_formed(block.thinking), id=signature, provider_name=system)]


def reasoning_parts(block: ThinkingBlock, fields: JsonObject, system: str) -> list[ThinkingPart]:
    """One part for each summary text; Pi keeps all of an item's summaries in one block, we keep one block for each."""
    item_id = text_of_field(fields, "id")
    if item_id is None:
        return []
    summaries = texts_in(fields.get("summary")) or [block.thinking]
    raw = texts_in(fields.get("content"))
    first = ThinkingPart(
        well_formed(summaries[0]),
        id=item_id,
        signature=text_of_field(fields, "encrypted_content"),
        provider_name=system,
        provider_details={"raw_content": raw} if raw else None,
    )
    return [first, *(ThinkingPart(well_formed(text), id=item_id, provider_name=system) for text in summaries[1:])]


def texts_in(value: JsonValue) -> list[str]:
    """The ``text`` of each object in a list of objects."""
    return [text for item in objects_in(value) if (text := text_of_field(item, "text"))]


def call_extras(call: ToolCall) -> tuple[str | None, JsonObject | None]:
    """A tool call's item id and details, as `call_signature` kept them."""
    fields = unpacked(call.thought_signature)
    return text_of_field(fields, "id"), object_in(fields.get("details")) or None
