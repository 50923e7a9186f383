"""The context's messages in the file's own form: JSON with every field, also those coppice does not know.

The same rules as context.py, on raw JSON objects. For comparing with Pi and for programs that read a context.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from coppice.format.messages import EntryId, JsonObject, JsonValue, is_object


class RawEntry(NamedTuple):
    """A context entry: its id in the tree and the JSON object of its line."""

    id: EntryId
    fields: JsonObject


_EDITABLE = ("user", "assistant", "toolResult", "custom")
_WITH_BLOCKS = ("user", "assistant", "toolResult")


def messages_json(entries: Sequence[RawEntry]) -> list[JsonObject]:
    """The messages of the context entries, edits applied, in path order."""
    edits = {raw.fields.get("targetId"): raw.fields for raw in entries if raw.fields.get("type") == "context_edit"}
    messages: list[JsonObject] = []
    for position, raw in enumerate(entries):
        if raw.fields.get("type") == "compaction" and position > 0:
            continue
        found = _messages(raw.fields)
        edit = edits.get(raw.id)
        messages.extend(found if edit is None else _edited(found, edit.get("replacement")))
    return messages


def _messages(fields: JsonObject) -> list[JsonObject]:
    stamp = fields.get("timestamp")
    match fields.get("type"):
        case "message":
            message = fields.get("message")
            return [_message(message)] if is_object(message) else []
        case "custom_message":
            content = fields.get("content")
            message = {"role": "custom"} | _present(fields, "customType")
            message |= {"content": [] if content is None else content} | _present(fields, "display", "details")
            return [message | {"timestamp": _unix_ms(stamp)}]
        case "branch_summary" if fields.get("summary"):
            summary = {"role": "branchSummary"} | _present(fields, "summary", "fromId")
            return [summary | {"timestamp": _unix_ms(stamp)}]
        case "compaction":
            summary = {"role": "compactionSummary"} | _present(fields, "summary", "tokensBefore")
            summary |= {"timestamp": _unix_ms(stamp)}
            system = fields.get("systemMessage")
            return [system, summary] if is_object(system) else [summary]
        case _:
            return []


def _present(fields: JsonObject, *keys: str) -> JsonObject:
    """Those of the fields that are there."""
    return {key: fields[key] for key in keys if key in fields}


def _message(message: JsonObject) -> JsonObject:
    if message.get("role") == "hookMessage":
        message = message | {"role": "custom"}
    if message.get("content") is None and message.get("role") in _WITH_BLOCKS:
        return message | {"content": []}
    if message.get("content") is None and message.get("role") == "system":
        return message | {"content": ""}
    return message


def _edited(messages: list[JsonObject], replacement: JsonValue) -> list[JsonObject]:
    if not is_object(replacement):
        return []
    content: JsonValue = replacement.get("content")
    edited: list[JsonObject] = []
    for message in messages:
        if message.get("role") not in _EDITABLE:
            edited.append(message)
            continue
        as_blocks = message.get("role") in ("assistant", "toolResult") and isinstance(content, str)
        edited.append(message | {"content": [{"type": "text", "text": content}] if as_blocks else content})
    return edited


def _unix_ms(stamp: JsonValue) -> int | None:
    try:
        return round(datetime.fromisoformat(stamp).timestamp() * 1000)
    except (ValueError, TypeError, OverflowError):
        return None
