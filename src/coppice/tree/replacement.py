"""A compaction's replacement: the list that stands in the context's place (docs/format.md, Compactions that replace). Pure.

Items: ``{"entry": id}`` is a stored entry's message, edits in force applied; with ``"parts"`` only those of its content
blocks (a number is a block's place, a text stands for a block that was cut), so that no image is copied. ``{"message":
…}`` is a message held here because it was cut (``of`` names the entry it was made of: edits of that one count);
``{"summary": true}`` the compaction's own summary; ``{"item": …}`` a provider's opaque item, bound as
``details.binding`` says, or ``{"itemText": "…"}`` its JSON as text, where the file could not hold it as it came.
"""

import json
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

import msgspec

from coppice.format.codec import decode_object, encode
from coppice.format.entries import CompactionEntry, Entry
from coppice.format.lenient import message_from
from coppice.format.messages import (
    Binding,
    EntryId,
    JsonObject,
    JsonValue,
    Message,
    OpaqueMessage,
    TextBlock,
    UserBlock,
    UserMessage,
    is_object,
)

LOST = "[message lost]"
"""What stands for a reference that cannot be read."""


class Replacement(NamedTuple):
    """The replacement of a compaction: its items as JSON, and whose its opaque items are."""

    items: tuple[JsonObject, ...]
    binding: Binding

    @property
    def references(self) -> tuple[EntryId, ...]:
        """The ids of the entries it refers to, in order."""
        return tuple(EntryId(item["entry"]) for item in self.items if isinstance(item.get("entry"), str))

    @property
    def has_opaque(self) -> bool:
        """Whether an opaque item is among them."""
        return any("item" in item or "itemText" in item for item in self.items)


def replacement_of(entry: Entry | None) -> Replacement | None:
    """The replacement a compaction carries; None where it has none (Pi's own have none)."""
    if not isinstance(entry, CompactionEntry) or not is_object(entry.details):
        return None
    items = entry.details.get("replacement")
    if not isinstance(items, list):
        return None
    binding = entry.details.get("binding")
    return Replacement(
        tuple(item for item in items if is_object(item)),  # pyright: ignore[reportUnknownVariableType]  (JSON edge)
        _binding(binding) if is_object(binding) else Binding("", ""),
    )


def _binding(fields: JsonObject) -> Binding:
    def text(key: str) -> str | None:
        value = fields.get(key)
        return value if isinstance(value, str) else None

    return Binding(text("provider") or "", text("api") or "", text("baseUrl"), text("account"))


class Replaced(NamedTuple):
    """A message of a replacement: the id of the entry it stands under, and the entry whose edits count for it, if it
    is a text that was made of one."""

    place: EntryId
    source: EntryId | None
    message: Message


class Referred(NamedTuple):
    """The messages that the referenced entries become, edits applied (what is not there is lost), and which entries
    are edited.

    ``readable`` is the text that the user put in the place of what only a provider can read, None for none.
    """

    messages: Mapping[EntryId, Sequence[Message]]
    edited: Container[EntryId] = ()
    readable: Message | None = None


def replaced_messages(
    compaction: EntryId, replacement: Replacement, referred: Referred, summary: Message
) -> list[Replaced]:
    """The messages of a replacement."""
    replaced: list[Replaced] = []
    for item in replacement.items:
        name, source = item.get("entry"), item.get("of")
        if isinstance(name, str):
            entry_id = EntryId(name)
            messages = referred.messages.get(entry_id, (UserMessage(LOST),))
            parts = None if entry_id in referred.edited else item.get("parts")
            replaced += [Replaced(entry_id, None, _parts_of(message, parts)) for message in messages]
        elif is_object(item.get("message")):
            of = EntryId(source) if isinstance(source, str) else None
            replaced.append(Replaced(compaction, of, message_from(item["message"])))
        elif "item" in item or "itemText" in item:
            opaque = _opaque(item, replacement.binding)
            replaced.append(Replaced(compaction, None, opaque if referred.readable is None else referred.readable))
        elif item.get("summary"):
            replaced.append(Replaced(compaction, None, summary))
    return replaced


def _parts_of(message: Message, parts: JsonValue) -> Message:
    """A user message with only these parts of its content; None is all of it."""
    if not isinstance(parts, list) or not isinstance(message, UserMessage) or isinstance(message.content, str):
        return message
    blocks: list[UserBlock] = []
    for part in parts:  # pyright: ignore[reportUnknownVariableType]  (JSON edge)
        if isinstance(part, str):
            blocks.append(TextBlock(part))
        elif isinstance(part, int) and 0 <= part < len(message.content):
            blocks.append(message.content[part])
    return msgspec.structs.replace(message, content=tuple(blocks))


def _opaque(item: JsonObject, binding: Binding) -> Message:
    held: JsonValue = item.get("item")
    if is_object(held):
        return OpaqueMessage(held, binding)
    try:
        found = json.loads(str(item.get("itemText")))
    except ValueError:
        found = None
    return OpaqueMessage(found, binding) if is_object(found) else UserMessage(LOST)


def opaque_item(item: JsonObject) -> JsonObject:
    """The item of a replacement that holds a provider's opaque item, so that it is read back as it came."""
    try:
        survives = decode_object(encode(item))[0] == item
    except (ValueError, OverflowError):
        survives = False
    return {"item": item} if survives else {"itemText": json.dumps(item)}
