"""What is said of entries and sessions in one line each. Pure: values in, text out, all of it printable."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, TypeAlias, assert_never

from coppice.format.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    DamagedEntry,
    Entry,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UnknownEntry,
    UsageEntry,
)
from coppice.format.heads import Kind
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    ImageBlock,
    Message,
    OpaqueMessage,
    SystemMessage,
    ToolResultMessage,
    UnknownMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from coppice.interfaces.cli.printable import columns, cut, first_line, printable
from coppice.session.listing import SessionInfo

KIND_NAMES = {
    Kind.USER: "user",
    Kind.ASSISTANT: "assistant",
    Kind.TOOL_RESULT: "toolResult",
    Kind.BASH: "bashExecution",
    Kind.CUSTOM_ROLE: "custom message role",
    Kind.SYSTEM: "system",
    Kind.OTHER_MESSAGE: "message of another role",
    Kind.CUSTOM_MESSAGE: "custom_message",
    Kind.COMPACTION: "compaction",
    Kind.BRANCH_SUMMARY: "branch_summary",
    Kind.CONTEXT_EDIT: "context_edit",
    Kind.MODEL_CHANGE: "model_change",
    Kind.THINKING_LEVEL: "thinking_level_change",
    Kind.USAGE: "usage",
    Kind.CUSTOM: "custom",
    Kind.LABEL: "label",
    Kind.SESSION_INFO: "session_info",
    Kind.UNKNOWN: "unknown",
    Kind.DAMAGED: "damaged",
    Kind.LEAF: "leaf marker",
}
"""What kinds are called: the file's own word where it has one."""

SHORTEST_PREFIX = 8
"""Characters of a session id that are shown at least."""


_Note: TypeAlias = (
    ContextEditEntry
    | ModelChangeEntry
    | ThinkingLevelChangeEntry
    | UsageEntry
    | CustomEntry
    | LabelEntry
    | SessionInfoEntry
)


class Said(NamedTuple):
    """Who speaks (a role or a kind) and the first line of what is said."""

    who: str
    text: str


def said_in(entry: Entry) -> Said:
    """What an entry is and says, in one line."""
    match entry:
        case MessageEntry(message=message):
            return said_by(message)
        case CustomMessageEntry():
            return Said(printable(entry.custom_type), _content(entry.content))
        case CompactionEntry():
            return Said("compaction", f"({entry.tokens_before:,} tokens before) {first_line(entry.summary)}")
        case BranchSummaryEntry():
            return Said("branch summary", first_line(entry.summary))
        case (
            ContextEditEntry()
            | ModelChangeEntry()
            | ThinkingLevelChangeEntry()
            | UsageEntry()
            | CustomEntry()
            | LabelEntry()
            | SessionInfoEntry()
        ):
            return _noted_in(entry)
        case UnknownEntry():
            return Said(first_line(entry.kind), "(a kind coppice does not know)")
        case DamagedEntry():
            return Said("damaged", "(its line is no JSON any more)")
        case _:
            assert_never(entry)


def _noted_in(entry: _Note) -> Said:
    match entry:
        case ContextEditEntry(replacement=None):
            return Said("context edit", f"hides {printable(entry.target_id)}")
        case ContextEditEntry():
            return Said("context edit", f"replaces the content of {printable(entry.target_id)}")
        case ModelChangeEntry():
            return Said("model", printable(f"{entry.provider}/{entry.model_id}"))
        case ThinkingLevelChangeEntry():
            return Said("thinking", printable(entry.thinking_level))
        case UsageEntry():
            return Said("usage", f"{printable(entry.kind)}: {entry.usage.total_tokens:,} tokens")
        case CustomEntry():
            return Said("custom", printable(entry.custom_type))
        case LabelEntry(label=None | ""):
            return Said("label", f"taken from {printable(entry.target_id)}")
        case LabelEntry():
            return Said("label", f"{first_line(entry.label or '')} on {printable(entry.target_id)}")
        case SessionInfoEntry():
            return Said("name", first_line(entry.name) or "(taken away)")
        case _:
            assert_never(entry)


def said_by(message: Message) -> Said:
    """The role of a message and its first line."""
    match message:
        case UserMessage():
            return Said("user", _content(message.content))
        case AssistantMessage():
            return Said("assistant", _reply(message))
        case ToolResultMessage():
            failed = " failed" if message.is_error else ""
            return Said("toolResult", f"{printable(message.tool_name)}{failed}: {_content(message.content)}")
        case BashExecutionMessage():
            return Said(
                "bashExecution", f"{'!!' if message.exclude_from_context else '!'}{first_line(message.command)}"
            )
        case CustomMessage():
            return Said(printable(message.custom_type), _content(message.content))
        case BranchSummaryMessage():
            return Said("branchSummary", first_line(message.summary))
        case CompactionSummaryMessage():
            return Said("compactionSummary", first_line(message.summary))
        case SystemMessage():
            return Said("system", first_line(text_of(message.content)))
        case OpaqueMessage():
            return Said("opaque", "(what the provider's own compaction made of the conversation)")
        case UnknownMessage():
            return Said(first_line(str(message.fields.get("role"))), "(a role coppice does not know)")
        case _:
            assert_never(message)


def _content(content: Content) -> str:
    text = first_line(text_of(content))
    if text or isinstance(content, str):
        return text
    images = sum(isinstance(block, ImageBlock) for block in content)
    return f"({images} images)" if images else "(empty)"


def _reply(message: AssistantMessage) -> str:
    text = first_line(text_of(message.content))
    calls = ", ".join(printable(call.name) for call in tool_calls_of(message)[:5])
    ended = f" ({printable(message.stop_reason)})" if message.stop_reason in ("error", "aborted", "length") else ""
    if not text and message.error_message:
        text = first_line(message.error_message)
    return " ".join(part for part in (text, f"→ {calls}" if calls else "") if part) + ended


# --- sessions ------------------------------------------------------------------------------------


def unique_prefixes(ids: Sequence[str]) -> dict[str, str]:
    """Each id -> its shortest beginning (of 8 characters or more) that no other id begins with."""
    ordered = sorted(set(ids))
    found: dict[str, str] = {}
    for at, one in enumerate(ordered):
        neighbours = ordered[max(0, at - 1) : at] + ordered[at + 1 : at + 2]
        needed = max((_shared(one, other) for other in neighbours), default=0) + 1
        found[one] = one[: max(needed, SHORTEST_PREFIX)]
    return found


def _shared(one: str, other: str) -> int:
    length = min(len(one), len(other))
    return next((at for at in range(length) if one[at] != other[at]), length)


def session_line(info: SessionInfo, prefix: str, width: int, *, with_cwd: bool) -> str:
    """A session in the list: last used, id, messages, and its name or first prompt; the directory where asked."""
    if info.problem is not None:
        return cut(f"{'cannot be read':16}  {printable(prefix)}  {printable(info.problem)}", max(width, 200))
    title = first_line(info.name) if info.name else first_line(info.first_prompt) or "(no prompt yet)"
    count = f"{info.messages} message{'' if info.messages == 1 else 's'}"
    where = f"  [{printable(info.cwd)}]" if with_cwd else ""
    start = f"{local_time(info.last_used):16}  {printable(prefix)}  {count:>14}  "
    room = max(20, width - columns(start) - columns(where))
    return f"{start}{cut(title, room)}{where}"


def local_time(stamp: str) -> str:
    """An ISO 8601 time as ``YYYY-MM-DD HH:MM`` where we are; the text itself where it is none."""
    try:
        return datetime.fromisoformat(stamp).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return cut(printable(stamp), 16)


def session_json(info: SessionInfo) -> dict[str, str | int | None]:
    """A session of the list as JSON, every field."""
    return {
        "path": str(info.path),
        "id": info.id,
        "cwd": info.cwd,
        "name": info.name,
        "created": info.created,
        "lastUsed": info.last_used,
        "messages": info.messages,
        "firstPrompt": info.first_prompt,
        "parentSession": info.parent_session,
        "problem": info.problem,
    }
