"""The entries of a session file: one frozen struct for each kind, plus the header.

Every entry has ``id``, ``parent_id`` (None for a root) and ``timestamp`` (ISO 8601, UTC, milliseconds). Kinds coppice
does not know become `UnknownEntry`; a damaged line that still tells its place becomes `DamagedEntry`.
"""

from typing import TypeAlias

import msgspec

from coppice.format.messages import AssistantMessage, Content, EntryId, JsonObject, JsonValue, Message, Usage

SESSION_VERSION = 3
"""The version coppice writes (docs/format.md)."""

LEAF_MARKER = "coppice.leaf"
"""``customType`` of the custom entry that records a move of the leaf; it stands for its parent."""


class Header(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="session"):
    """Line 1. ``parent_session`` is the path of the file this one was forked from."""

    version: int
    id: str
    timestamp: str
    cwd: str
    parent_session: str | None = None


class MessageEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="message"):
    """A message of the conversation."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    message: Message


class CustomMessageEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="custom_message"
):
    """What an extension says to the model."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    custom_type: str
    content: Content
    display: bool
    details: JsonValue = None


class CompactionEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="compaction"
):
    """From here on the model sees ``summary`` and the entries from ``first_kept_entry_id`` on."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    summary: str
    first_kept_entry_id: EntryId | None
    tokens_before: int
    details: JsonValue = None
    usage: Usage | None = None
    from_hook: bool | None = None
    system_message: JsonValue = None


class BranchSummaryEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="branch_summary"
):
    """A summary of the branch that was left; ``from_id`` is the leaf it was left at, or ``"root"``."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    from_id: str
    summary: str
    details: JsonValue = None
    usage: Usage | None = None
    from_hook: bool | None = None


class Replacement(msgspec.Struct, frozen=True, rename="camel"):
    """The content that a context edit puts in place of its target's."""

    content: Content


class ContextEditEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="context_edit"
):
    """Hides its target from the model (``replacement`` None) or replaces its content. The target itself stays."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    target_id: EntryId
    replacement: Replacement | None


class ModelChangeEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="model_change"
):
    """The model from here on."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    provider: str
    model_id: str


class ThinkingLevelChangeEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="thinking_level_change"
):
    """The thinking level from here on; unknown values are kept."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    thinking_level: str


class UsageEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="usage"):
    """Usage of a request that is no reply (a cache warm-up, say); counts in the totals only."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    kind: str
    provider: str
    model: str
    usage: Usage


class CustomEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="custom"):
    """An extension's state; not in the context."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    custom_type: str
    data: JsonValue = None


class LabelEntry(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="label"):
    """Names an entry; an absent or empty ``label`` clears the name."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    target_id: EntryId
    label: str | None = None


class SessionInfoEntry(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="session_info"
):
    """The session's name; empty after trimming clears it."""

    id: EntryId
    parent_id: EntryId | None
    timestamp: str
    name: str


class UnknownEntry:
    """An entry of a kind coppice does not know; ``fields`` is the whole JSON object, kept byte for byte in the file."""

    __slots__ = ("fields", "id", "kind", "parent_id", "timestamp")

    def __init__(
        self, kind: str, entry_id: EntryId, parent_id: EntryId | None, timestamp: str, fields: JsonObject
    ) -> None:
        self.kind = kind
        self.id = entry_id
        self.parent_id = parent_id
        self.timestamp = timestamp
        self.fields = fields

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnknownEntry) and (other.id, other.parent_id, other.fields) == (
            self.id,
            self.parent_id,
            self.fields,
        )

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"UnknownEntry({self.kind!r}, {self.id!r}, {self.parent_id!r}, {self.fields!r})"


class DamagedEntry:
    """A line that is no JSON any more but whose first bytes still give its id and parent. It has no content."""

    __slots__ = ("id", "parent_id", "timestamp")

    def __init__(self, entry_id: EntryId, parent_id: EntryId | None) -> None:
        self.id = entry_id
        self.parent_id = parent_id
        self.timestamp = ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DamagedEntry) and (other.id, other.parent_id) == (self.id, self.parent_id)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"DamagedEntry({self.id!r}, {self.parent_id!r})"


KnownEntry: TypeAlias = (
    MessageEntry
    | CustomMessageEntry
    | CompactionEntry
    | BranchSummaryEntry
    | ContextEditEntry
    | ModelChangeEntry
    | ThinkingLevelChangeEntry
    | UsageEntry
    | CustomEntry
    | LabelEntry
    | SessionInfoEntry
)
Entry: TypeAlias = KnownEntry | UnknownEntry | DamagedEntry
"""Every entry of a session."""


def reply_in(entry: Entry | None) -> AssistantMessage | None:
    """The model's reply that an entry holds; None where it holds something else."""
    match entry:
        case MessageEntry(message=AssistantMessage() as reply):
            return reply
        case _:
            return None
