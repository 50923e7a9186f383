"""What coppice tells its listeners: stream events of one reply, and events of a run and a session.

Names and fields are Pi's (its docs/json.md), so that a program that reads Pi's JSON mode reads ours; ``entry_id`` on
``message_end`` is ours: the entry is on disk before the event is emitted. One JSON object each (`msgspec.json.encode`).
"""

from typing import TypeAlias

import msgspec

from coppice.format.messages import (
    NO_USAGE,
    AssistantMessage,
    EntryId,
    JsonObject,
    JsonValue,
    Message,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    Usage,
    UserBlock,
)

# --- one reply, as it streams ------------------------------------------------------------------
# ``content_index`` is the block's place in the reply's content. Deltas are text; `*_end` carries the whole block.


class TextStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="text_start"):
    content_index: int


class TextDelta(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="text_delta"):
    content_index: int
    delta: str


class TextEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="text_end"):
    content_index: int
    content: str


class ThinkingStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="thinking_start"):
    content_index: int


class ThinkingDelta(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="thinking_delta"):
    content_index: int
    delta: str


class ThinkingEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="thinking_end"):
    content_index: int
    content: str


class ToolCallStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="toolcall_start"):
    content_index: int
    id: ToolCallId
    tool_name: str


class ToolCallDelta(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="toolcall_delta"):
    """``delta`` is a piece of the arguments' JSON text."""

    content_index: int
    delta: str


class ToolCallEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="toolcall_end"):
    content_index: int
    tool_call: ToolCall


class UsageReport(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="usage"):
    """The provider's cumulative usage for this reply so far."""

    usage: Usage


class StreamDone(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="done"):
    """The reply is complete; ``message`` is what is stored. Always the last event of a stream that did not fail."""

    message: AssistantMessage


BlockEvent: TypeAlias = (
    TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
)
StreamEvent: TypeAlias = BlockEvent | UsageReport | StreamDone

# --- a run -------------------------------------------------------------------------------------


class AgentStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="agent_start"):
    """A run began."""


class AgentEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="agent_end"):
    """A run ended; ``entry_ids`` are the entries it stored. A retry follows when ``will_retry``."""

    entry_ids: tuple[EntryId, ...]
    messages: tuple[Message, ...] = ()
    will_retry: bool = False


class AgentSettled(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="agent_settled"):
    """Nothing more will happen by itself: no retry, no queued message."""

    aborted: bool


class TurnStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="turn_start"):
    """One reply and its tool calls begin."""


class TurnEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="turn_end"):
    """One reply and its tool calls ended."""

    message: AssistantMessage
    tool_results: tuple[ToolResultMessage, ...]


class MessageStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="message_start"):
    """A message began; for a reply its content is still empty and its stop reason ``pending``."""

    message: Message


class MessageUpdate(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="message_update"):
    """A block of the streamed reply grew."""

    assistant_message_event: BlockEvent
    usage: Usage = NO_USAGE


class MessageEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="message_end"):
    """The message is on disk as entry ``entry_id``."""

    message: Message
    entry_id: EntryId


class PartialResult(msgspec.Struct, frozen=True, rename="camel"):
    """What a tool has to show so far, or in the end; an update replaces the one before it."""

    content: tuple[UserBlock, ...]
    details: JsonValue = None


class ToolExecutionStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="tool_execution_start"):
    tool_call_id: ToolCallId
    tool_name: str
    args: JsonObject


class ToolExecutionUpdate(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="tool_execution_update"):
    tool_call_id: ToolCallId
    tool_name: str
    args: JsonObject
    partial_result: PartialResult


class ToolExecutionEnd(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="tool_execution_end"):
    """The tool ended; its result is stored next. ``duration_ms`` is None when it did not run."""

    tool_call_id: ToolCallId
    tool_name: str
    result: PartialResult
    is_error: bool
    duration_ms: float | None = None


class AutoRetryStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="auto_retry_start"):
    """The request failed for a passing reason and is sent again after ``delay_ms`` milliseconds."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class AutoRetryEnd(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="auto_retry_end"
):
    success: bool
    attempt: int
    final_error: str | None = None


# --- compaction --------------------------------------------------------------------------------


class CompactionStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="compaction_start"):
    """A compaction begins. It is no end of a turn. ``tokens_before`` is the context's size in tokens."""

    reason: str
    phase: str
    strategy: str
    tokens_before: int


class CompactionEnd(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="compaction_end"
):
    """A compaction ended: stored as entry ``entry_id``, or aborted, or failed with ``error_message``."""

    reason: str
    phase: str
    strategy: str
    tokens_before: int
    tokens_after: int | None = None
    entry_id: EntryId | None = None
    summary: str | None = None
    aborted: bool = False
    will_retry: bool = False
    error_message: str | None = None


class SummarizationRetryScheduled(
    msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="summarization_retry_scheduled"
):
    """A summary request failed for a passing reason and is sent again after ``delay_ms`` milliseconds."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error_message: str


class BranchSummaryStart(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="branch_summary_start"):
    """The branch that is left is being summarised."""

    from_id: EntryId | None


class BranchSummaryEnd(
    msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, tag_field="type", tag="branch_summary_end"
):
    """The branch summary ended: stored as entry ``entry_id``, or aborted, or failed with ``error_message``."""

    entry_id: EntryId | None = None
    aborted: bool = False
    error_message: str | None = None


# --- the session -------------------------------------------------------------------------------


class QueueUpdate(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="queue_update"):
    """The queues of messages that wait; both in full, as text."""

    steering: tuple[str, ...]
    follow_up: tuple[str, ...]


class SessionInfoChanged(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="session_info_changed"):
    name: str | None


class ThinkingLevelChanged(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="thinking_level_changed"):
    level: str


class ModelChanged(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="model_changed"):
    provider: str
    model_id: str


class LeafChanged(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="leaf_changed"):
    """The leaf was moved by navigation (not by an append)."""

    leaf_id: EntryId | None
    editor_text: str | None = None


class LabelChanged(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="label_changed"):
    target_id: EntryId
    label: str | None


class SessionSwitched(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="session_switched"):
    """Another session is the current one now. ``reason``: new, fork, clone, resume."""

    reason: str
    session_id: str
    session_file: str | None


class BashExecutionUpdate(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="bash_execution_update"):
    """Output of a command the user runs, as it comes."""

    delta: str


class Notice(msgspec.Struct, frozen=True, rename="camel", tag_field="type", tag="notice"):
    """Something the user has to be told: damage, a second writer, a failed write. ``level``: info, warning, error."""

    level: str
    message: str


AgentEvent: TypeAlias = (
    AgentStart
    | AgentEnd
    | AgentSettled
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolExecutionStart
    | ToolExecutionUpdate
    | ToolExecutionEnd
    | AutoRetryStart
    | AutoRetryEnd
    | QueueUpdate
    | Notice
    | CompactionStart
    | CompactionEnd
    | SummarizationRetryScheduled
    | BranchSummaryStart
    | BranchSummaryEnd
)
SessionEvent: TypeAlias = (
    AgentEvent
    | SessionInfoChanged
    | ThinkingLevelChanged
    | ModelChanged
    | LeafChanged
    | LabelChanged
    | SessionSwitched
    | BashExecutionUpdate
)
"""Everything a listener of `AgentSession` can hear."""
