"""The messages of a conversation: roles, content blocks, usage.

Each struct is one JSON object of the session file (docs/format.md). Field names are Python's here and camelCase on
disk. Values are frozen. What coppice does not know is kept: a block or role of unknown kind becomes `UnknownBlock` or
`UnknownMessage`, and the raw line in the file stays the truth for every field that is not named here.
"""

from typing import Any, NewType, TypeAlias, TypeGuard

import msgspec

EntryId = NewType("EntryId", str)
"""Id of an entry: 8 hexadecimal digits, unique in its file (a full UUID after repeated collisions)."""

ToolCallId = NewType("ToolCallId", str)
"""Id of a tool call, as the provider gave it; unique within a conversation as far as providers keep their word."""

JsonValue: TypeAlias = Any
"""Any JSON value. `Any`, because this is the JSON edge: what stands in ``details`` or ``data`` is other people's."""

JsonObject: TypeAlias = dict[str, Any]


def is_object(value: JsonValue) -> TypeGuard[JsonObject]:
    """Whether a JSON value is an object."""
    return isinstance(value, dict)


STOP_REASONS = ("stop", "length", "toolUse", "error", "aborted")
"""Stop reasons coppice writes. Others (Pi's ``pending``, ``deferred``) are kept as they are."""

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh")
"""Thinking levels coppice offers; unknown values in a file are kept."""


class TextBlock(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="text"):
    """Text. ``text_signature`` is the provider's own metadata, opaque to us."""

    text: str
    text_signature: str | None = None


class ImageBlock(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="image"):
    """An image: ``data`` is base64, ``mime_type`` such as ``image/png``."""

    data: str
    mime_type: str


class ThinkingBlock(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="thinking"):
    """The model's reasoning. The signature is replayed byte for byte to the provider that made it, to no other."""

    thinking: str
    thinking_signature: str | None = None
    redacted: bool | None = None


class ToolCall(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="toolCall"):
    """The model asks for a tool. ``arguments`` is a JSON object."""

    id: ToolCallId
    name: str
    arguments: JsonObject
    thought_signature: str | None = None


class UnknownBlock(msgspec.Struct, frozen=True, tag_field="type", tag="coppice.unknown"):
    """A content block of a kind coppice does not know; ``fields`` is the whole JSON object."""

    fields: JsonObject


UserBlock: TypeAlias = TextBlock | ImageBlock | UnknownBlock
AssistantBlock: TypeAlias = TextBlock | ThinkingBlock | ToolCall | UnknownBlock
Block: TypeAlias = TextBlock | ImageBlock | ThinkingBlock | ToolCall | UnknownBlock
Content: TypeAlias = str | tuple[UserBlock, ...]


class Cost(msgspec.Struct, frozen=True, rename="camel"):
    """Cost in US dollars."""

    input: float = 0
    output: float = 0
    cache_read: float = 0
    cache_write: float = 0
    total: float = 0


class Usage(msgspec.Struct, frozen=True, rename="camel"):
    """Tokens a request used, by kind. ``input`` does not count what was read from or written to the cache."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    total_tokens: int = 0
    cost: Cost = Cost()


NO_USAGE = Usage()


class UserMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="user"):
    """What a person said. ``timestamp`` is in Unix milliseconds, here and in every message."""

    content: Content
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class AssistantMessage(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="assistant"
):
    """A model's reply, with the usage the provider reported and why it stopped."""

    content: tuple[AssistantBlock, ...]
    api: str = msgspec.field(default_factory=str)
    provider: str = msgspec.field(default_factory=str)
    model: str = msgspec.field(default_factory=str)
    usage: Usage = msgspec.field(default_factory=Usage)
    stop_reason: str = msgspec.field(default_factory=lambda: "stop")
    error_message: str | None = None
    response_id: str | None = None
    thinking_level: str | None = None
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class ToolResultMessage(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="toolResult"
):
    """The answer to one tool call. ``details`` is for people and programs, never sent to the model."""

    tool_call_id: ToolCallId
    tool_name: str
    content: tuple[UserBlock, ...]
    details: JsonValue = None
    is_error: bool = msgspec.field(default_factory=bool)
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class BashExecutionMessage(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="bashExecution"
):
    """A command the user ran with ``!`` (or ``!!``, which sets ``exclude_from_context``)."""

    command: str
    output: str
    exit_code: int | None = None
    cancelled: bool = msgspec.field(default_factory=bool)
    truncated: bool = msgspec.field(default_factory=bool)
    full_output_path: str | None = None
    exclude_from_context: bool | None = None
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class CustomMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="custom"):
    """What an extension says to the model; sent as a user message. ``display`` says whether people see it."""

    custom_type: str
    content: Content
    display: bool = msgspec.field(default_factory=bool)
    details: JsonValue = None
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class BranchSummaryMessage(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="branchSummary"
):
    """What a branch_summary entry becomes in a context."""

    summary: str
    from_id: str | None = None
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class CompactionSummaryMessage(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="compactionSummary"
):
    """What the newest compaction entry becomes in a context. ``tokens_before`` is the context's size before it."""

    summary: str
    tokens_before: int = msgspec.field(default_factory=int)
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class SystemMessage(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="role", tag="system"):
    """Pi's record of its own prompt. Kept in the file, never sent by us: we send our own system prompt."""

    content: str | tuple[TextBlock, ...] = ""
    timestamp: float | int = msgspec.field(default_factory=lambda: 0)


class Binding(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Whose opaque items these are: only the same provider, API, server and account can read them.

    ``account`` is a fingerprint of the key that was used, never the key; None where there was none.
    """

    provider: str
    api: str
    base_url: str | None = None
    account: str | None = None


class OpaqueMessage(msgspec.Struct, frozen=True, rename="camel", tag_field="role", tag="coppice.opaque"):
    """What a provider's own compaction made of a conversation: ``item`` is its JSON object, replayed as it came."""

    item: JsonObject
    binding: Binding


class UnknownMessage(msgspec.Struct, frozen=True, tag_field="role", tag="coppice.unknown"):
    """A message with a role coppice does not know; ``fields`` is the whole JSON object. Never sent to a model."""

    fields: JsonObject


Message: TypeAlias = (
    UserMessage
    | AssistantMessage
    | ToolResultMessage
    | BashExecutionMessage
    | CustomMessage
    | BranchSummaryMessage
    | CompactionSummaryMessage
    | SystemMessage
    | OpaqueMessage
    | UnknownMessage
)
"""Every message an entry can hold or become."""

RequestMessage: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage | OpaqueMessage
"""The kinds a provider is sent (docs/format.md, step 5)."""


def text_of(content: Content | tuple[Block, ...]) -> str:
    """The text of a content, its text blocks joined by newlines; other blocks count for nothing."""
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def tool_calls_of(message: AssistantMessage) -> tuple[ToolCall, ...]:
    """The tool calls of a reply, in call order."""
    return tuple(block for block in message.content if isinstance(block, ToolCall))
