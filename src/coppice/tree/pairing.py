"""What a provider is sent (docs/format.md, step 5): the one function between a context and a request. Pure.

It pairs every tool call with exactly one result, leaves out what no provider takes, and never lets a provider see
another one's signatures. The stored entries don't change.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import msgspec

from coppice.format.messages import (
    AssistantBlock,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    EntryId,
    ImageBlock,
    Message,
    OpaqueMessage,
    RequestMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserBlock,
    UserMessage,
    tool_calls_of,
)

INTERRUPTED = "The tool call was interrupted before it gave a result. It was not run again; its effects are unknown."
"""What the model is told of a call without a stored result; the same at every rebuild."""

IMAGE_LEFT_OUT = "[image left out: this model takes no images]"

BEGINNING_GONE = "[the beginning of this conversation is not in the context]"
"""Stands first where the context begins with a reply: what came before it was hidden, or never was."""

COMPACTION_OPENING = "What was said before this point was condensed into this summary:\n\n<summary>\n"
BRANCH_OPENING = "The user came back from another branch of this conversation. Summary of that branch:\n\n<summary>\n"
SUMMARY_CLOSING = "\n</summary>"

FindResult = Callable[[EntryId, ToolCallId], ToolResultMessage | None]
"""Finds the first stored result for a call among the descendants of its reply that are not on the path."""


@dataclass(frozen=True, slots=True)
class Reader:
    """The model that will read: whose signatures it can take, and whether it takes images."""

    provider: str
    api: str
    model: str
    accepts_images: bool = True


def request_messages(
    context: Sequence[tuple[EntryId, Message]], reader: Reader, find_result: FindResult
) -> tuple[RequestMessage, ...]:
    """The messages a provider is sent for a context, given as (entry id, message) in path order."""
    paired = _paired(context)
    sent: list[RequestMessage] = []
    for position, (entry_id, message) in enumerate(context):
        match message:
            case UserMessage() | CustomMessage():
                sent.append(_user(message.content, message.timestamp, reader))
            case AssistantMessage():
                here = paired.get(position, {})
                find = _first_of(here, entry_id, find_result)
                sent.extend(_turn(message, reader, find))
            case BashExecutionMessage():
                if not message.exclude_from_context:
                    sent.append(UserMessage((TextBlock(bash_text(message)),), message.timestamp))
            case BranchSummaryMessage():
                text = BRANCH_OPENING + message.summary + SUMMARY_CLOSING
                sent.append(UserMessage((TextBlock(text),), message.timestamp))
            case CompactionSummaryMessage():
                text = COMPACTION_OPENING + message.summary + SUMMARY_CLOSING
                sent.append(UserMessage((TextBlock(text),), message.timestamp))
            case OpaqueMessage():
                sent.append(message)
            case ToolResultMessage() | SystemMessage() | UnknownMessage():
                pass  # results stand with their turn; our own system prompt is sent; nobody knows the rest
            case _:
                assert_never(message)
    if sent and isinstance(sent[0], AssistantMessage):  # providers refuse a conversation that the model begins
        sent.insert(0, UserMessage((TextBlock(BEGINNING_GONE),), sent[0].timestamp))
    return tuple(sent)


_FindCall = Callable[[ToolCall], ToolResultMessage | None]


def _paired(context: Sequence[tuple[EntryId, Message]]) -> dict[int, dict[ToolCallId, ToolResultMessage]]:
    """For each reply's position the results on the path: the first for each call after it, before the id is used again."""
    paired: dict[int, dict[ToolCallId, ToolResultMessage]] = {}
    waiting: dict[ToolCallId, ToolResultMessage] = {}
    for position in range(len(context) - 1, -1, -1):
        message = context[position][1]
        if isinstance(message, ToolResultMessage):
            waiting[message.tool_call_id] = message
        elif isinstance(message, AssistantMessage) and waiting:
            ids = {call.id for call in tool_calls_of(message)}
            paired[position] = {call_id: waiting.pop(call_id) for call_id in ids if call_id in waiting}
    return paired


def _first_of(here: dict[ToolCallId, ToolResultMessage], entry_id: EntryId, find_result: FindResult) -> _FindCall:
    def find(call: ToolCall) -> ToolResultMessage | None:
        return here.get(call.id) or find_result(entry_id, call.id)

    return find


def _turn(reply: AssistantMessage, reader: Reader, find: _FindCall) -> Iterable[RequestMessage]:
    """A reply and the results of its calls, or nothing where the reply is not to be sent."""
    if reply.stop_reason in ("error", "aborted") or not reply.content:
        return ()
    same = (reply.provider, reply.api, reply.model) == (reader.provider, reader.api, reader.model)
    content = tuple(_each_call_once(_own(reply.content) if same else _foreign(reply.content)))
    if not content:
        return ()
    results = [_result(block, find(block), reply, reader) for block in content if isinstance(block, ToolCall)]
    return [msgspec.structs.replace(reply, content=content), *results]


def _each_call_once(content: Iterable[AssistantBlock]) -> Iterable[AssistantBlock]:
    """The blocks without a second call of an id: it has no result of its own, and providers refuse such a pair."""
    called: set[ToolCallId] = set()
    for block in content:
        if isinstance(block, ToolCall):
            if block.id in called:
                continue
            called.add(block.id)
        yield block


def _own(content: Sequence[AssistantBlock]) -> Iterable[AssistantBlock]:
    return (block for block in content if not isinstance(block, UnknownBlock))


def _foreign(content: Sequence[AssistantBlock]) -> Iterable[AssistantBlock]:
    """Another provider's reply: without signatures; thinking that is hidden or empty goes."""
    for block in content:
        match block:
            case TextBlock():
                if block.text:
                    yield TextBlock(block.text)
            case ThinkingBlock():
                if block.thinking and not block.redacted:
                    yield ThinkingBlock(block.thinking)
            case ToolCall():
                yield ToolCall(block.id, block.name, block.arguments)
            case UnknownBlock():
                pass
            case _:
                assert_never(block)


def _result(
    call: ToolCall, stored: ToolResultMessage | None, reply: AssistantMessage, reader: Reader
) -> ToolResultMessage:
    if stored is None:
        return ToolResultMessage(call.id, call.name, (TextBlock(INTERRUPTED),), None, True, reply.timestamp)
    return msgspec.structs.replace(stored, content=_blocks(stored.content, reader), details=None)


def _user(content: Content, timestamp: float, reader: Reader) -> UserMessage:
    return UserMessage(content if isinstance(content, str) else _blocks(content, reader), timestamp)


def _blocks(content: Sequence[UserBlock], reader: Reader) -> tuple[UserBlock, ...]:
    return tuple(
        TextBlock(IMAGE_LEFT_OUT) if isinstance(block, ImageBlock) and not reader.accepts_images else block
        for block in content
        if not isinstance(block, UnknownBlock)
    )


def bash_text(message: BashExecutionMessage) -> str:
    """A command the user ran, as the model is told of it."""
    parts = [f"The user ran this command: {message.command}"]
    parts.append(f"Output:\n{message.output}" if message.output else "It printed nothing.")
    if message.cancelled:
        parts.append("It was cancelled.")
    elif message.exit_code:
        parts.append(f"Its exit code was {message.exit_code}.")
    if message.truncated and message.full_output_path:
        parts.append(f"The output is shortened; all of it is in {message.full_output_path}")
    return "\n\n".join(parts)
