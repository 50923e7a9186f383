"""Reading what the strict decoder refuses: missing fields, wrong types, unknown blocks, roles and kinds.

Pi reads session files without checking them, so anything that is JSON can stand in a field. A field that cannot be
used takes its default; a block, role or kind nobody knows is kept whole. Nothing here raises.
"""

from typing import Any

import msgspec

from coppice.format.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UnknownEntry,
    UsageEntry,
)
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    JsonObject,
    Message,
    SystemMessage,
    TextBlock,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserBlock,
    UserMessage,
    is_object,
)

_ROLES: dict[str, Any] = {
    "user": UserMessage,
    "assistant": AssistantMessage,
    "toolResult": ToolResultMessage,
    "bashExecution": BashExecutionMessage,
    "custom": CustomMessage,
    "hookMessage": CustomMessage,  # version 2's name of the role
    "branchSummary": BranchSummaryMessage,
    "compactionSummary": CompactionSummaryMessage,
    "system": SystemMessage,
}
_KINDS: dict[str, Any] = {
    "custom_message": CustomMessageEntry,
    "compaction": CompactionEntry,
    "branch_summary": BranchSummaryEntry,
    "context_edit": ContextEditEntry,
    "model_change": ModelChangeEntry,
    "thinking_level_change": ThinkingLevelChangeEntry,
    "usage": UsageEntry,
    "custom": CustomEntry,
    "label": LabelEntry,
    "session_info": SessionInfoEntry,
}
_ZEROS: dict[Any, Any] = {str: "", int: 0, float: 0, bool: False}
_MISSING = object()


def _zero(wanted: Any) -> Any:
    """The value a required field takes when the file has none that fits."""
    if wanted in _ZEROS:
        return _ZEROS[wanted]
    candidates: tuple[Any, ...] = ((), {}, None, "")
    for candidate in candidates:
        try:
            return msgspec.convert(candidate, wanted)
        except msgspec.ValidationError:
            continue
    return None


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return _zero(field.type)


def _value(field: msgspec.structs.FieldInfo, value: Any) -> Any:
    if field.name == "content":
        return content_from(value)
    try:
        return msgspec.convert(value, field.type)
    except msgspec.ValidationError:
        if field.name == "usage" and is_object(value):
            return struct_from(_usage_type(field), value)
        return _default(field)


def _usage_type(field: msgspec.structs.FieldInfo) -> Any:
    from_union = [kind for kind in getattr(field.type, "__args__", ()) if kind is not type(None)]
    return from_union[0] if from_union else field.type


def struct_from(kind: Any, fields: JsonObject, **given: Any) -> Any:
    """A struct of `kind` from a JSON object, each unusable field at its default; `given` fields are taken as they are."""
    values = dict(given)
    for field in msgspec.structs.fields(kind):
        if field.name in values:
            continue
        value = fields.get(field.encode_name, _MISSING)
        missing = value is _MISSING or value is None
        if missing and field.name == "content":
            values[field.name] = "" if kind is SystemMessage else ()
        elif missing:
            values[field.name] = _default(field)
        else:
            values[field.name] = _value(field, value)
    return kind(**values)


def content_from(value: Any) -> Any:
    """Content as text or a tuple of blocks; null is no blocks, unknown blocks are kept."""
    match value:
        case str():
            return value
        case list():
            blocks: list[Any] = value  # pyright: ignore[reportUnknownVariableType]  (JSON edge)
            return tuple(_block(block) for block in blocks)
        case _:
            return ()


def _block(value: Any) -> Any:
    for kind in (_AssistantBlock, UserBlock):
        try:
            return msgspec.convert(value, kind)
        except msgspec.ValidationError:
            continue
    return UnknownBlock(value if is_object(value) else {"value": value})


_AssistantBlock = msgspec.structs.fields(AssistantMessage)[0].type.__args__[0]


def message_from(fields: JsonObject) -> Message:
    """The message in a JSON object."""
    role = fields.get("role")
    kind = _ROLES.get(role) if isinstance(role, str) else None
    if kind is None:
        return UnknownMessage(fields)
    message = struct_from(kind, fields)
    if isinstance(message, AssistantMessage | ToolResultMessage) and isinstance(message.content, str):
        return msgspec.structs.replace(message, content=(TextBlock(message.content),))
    return message


def entry_from(fields: JsonObject, entry_id: EntryId, parent_id: EntryId | None) -> Entry:
    """The entry in a JSON object, under the given id and parent."""
    kind, stamp = fields.get("type"), fields.get("timestamp")
    timestamp = stamp if isinstance(stamp, str) else ""
    message = fields.get("message")
    if kind == "message" and is_object(message):
        return MessageEntry(entry_id, parent_id, timestamp, message_from(message))
    if isinstance(kind, str) and kind in _KINDS:
        return struct_from(_KINDS[kind], fields, id=entry_id, parent_id=parent_id, timestamp=timestamp)
    return UnknownEntry(str(kind), entry_id, parent_id, timestamp, fields)
