"""A compaction's replacement: the list that stands in the context's place (docs/format.md, Compactions that replace). Pure.

Items: ``{"entry": id}`` is a stored entry's message, edits in force applied; ``{"message": …}`` a message held here
because it was cut (``of`` names the entry it was made of: edits of that one count); ``{"summary": true}`` the
compaction's own summary; ``{"item": …}`` a provider's opaque item, bound as ``details.binding`` says.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coppice.format.entries import CompactionEntry, Entry
from coppice.format.lenient import message_from
from coppice.format.messages import Binding, EntryId, JsonObject, Message, OpaqueMessage, UserMessage, is_object

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
        return any("item" in item for item in self.items)


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


def replaced_messages(
    compaction: EntryId, replacement: Replacement, referred: Mapping[EntryId, tuple[Message, ...]], summary: Message
) -> list[Replaced]:
    """The messages of a replacement.

    `referred` are the messages that the referenced entries become, edits applied; what is not there is lost.
    """
    replaced: list[Replaced] = []
    for item in replacement.items:
        name, source = item.get("entry"), item.get("of")
        if isinstance(name, str):
            entry_id = EntryId(name)
            messages = referred.get(entry_id, (UserMessage(LOST),))
            replaced += [Replaced(entry_id, None, message) for message in messages]
        elif is_object(item.get("message")):
            of = EntryId(source) if isinstance(source, str) else None
            replaced.append(Replaced(compaction, of, message_from(item["message"])))
        elif is_object(item.get("item")):
            replaced.append(Replaced(compaction, None, OpaqueMessage(item["item"], replacement.binding)))
        elif item.get("summary"):
            replaced.append(Replaced(compaction, None, summary))
    return replaced
