"""A conversation as text, for a summariser to read: roles, calls and results in plain lines. Pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from coppice.format.messages import (
    AssistantBlock,
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Content,
    CustomMessage,
    ImageBlock,
    JsonValue,
    Message,
    OpaqueMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
    is_object,
    tool_calls_of,
)
from coppice.tree.pairing import bash_text

RESULT_CHARACTERS = 2_000
"""Characters of a tool result that a summariser is shown (Pi's number)."""

ARGUMENT_CHARACTERS = 2_000
"""Characters of a call's arguments that a summariser is shown: a written file is on disk anyway (our choice)."""


def shortened(text: str, limit: int) -> str:
    """The text, its middle left out where it is longer than `limit` characters, with a note of how much."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}\n[… {len(text) - limit} characters left out …]\n{text[len(text) - (limit - head) :]}"


def lines_of(message: Message) -> str:
    """One message as text; empty where it says nothing to a model."""
    match message:
        case UserMessage():
            return f"[User]: {_content(message.content)}"
        case CustomMessage():
            return f"[Context from {message.custom_type}]: {_content(message.content)}"
        case AssistantMessage():
            if message.stop_reason in ("error", "aborted"):
                return ""
            return "\n".join(line for block in message.content if (line := _block(block)))
        case ToolResultMessage():
            failed = " (failed)" if message.is_error else ""
            text = shortened(_content(message.content), RESULT_CHARACTERS)
            return f"[Result of {message.tool_name}{failed}]: {text}"
        case BashExecutionMessage():
            return "" if message.exclude_from_context else f"[User]: {shortened(bash_text(message), RESULT_CHARACTERS)}"
        case BranchSummaryMessage():
            return f"[Summary of another branch]: {message.summary}"
        case CompactionSummaryMessage():
            return f"[Earlier summary]: {message.summary}"
        case OpaqueMessage() | SystemMessage() | UnknownMessage():
            return ""
        case _:
            assert_never(message)


def _content(content: Content) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(
        block.text if isinstance(block, TextBlock) else f"[image {block.mime_type}]"
        for block in content
        if isinstance(block, TextBlock | ImageBlock)
    )


def _block(block: AssistantBlock) -> str:
    match block:
        case TextBlock():
            return f"[Agent]: {block.text}" if block.text.strip() else ""
        case ThinkingBlock():
            return f"[Agent, thinking]: {block.thinking}" if block.thinking.strip() else ""
        case ToolCall():
            arguments = json.dumps(block.arguments, ensure_ascii=False)
            return f"[Agent calls {block.name}]: {shortened(arguments, ARGUMENT_CHARACTERS)}"
        case UnknownBlock():
            return ""
        case _:
            assert_never(block)


def transcript(messages: Iterable[Message]) -> list[str]:
    """Messages as text, one piece each, those that say nothing left out."""
    return [text for message in messages if (text := lines_of(message))]


@dataclass(frozen=True, slots=True)
class FileLists:
    """Files that were read and files that were changed, in order of first use."""

    read: tuple[str, ...] = ()
    modified: tuple[str, ...] = field(default=())

    def details(self) -> dict[str, JsonValue]:
        """As they stand in a compaction's details (Pi's names)."""
        return {"readFiles": list(self.read), "modifiedFiles": list(self.modified)}


def files_in(details: JsonValue) -> FileLists:
    """The file lists of an earlier compaction's or branch summary's details."""
    if not is_object(details):
        return FileLists()

    def names(key: str) -> tuple[str, ...]:
        value = details.get(key)
        return tuple(str(name) for name in value) if isinstance(value, list) else ()  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]  (JSON edge)

    return FileLists(names("readFiles"), names("modifiedFiles"))


def with_calls(files: FileLists, messages: Iterable[Message]) -> FileLists:
    """The lists with what the calls in some messages read and changed; a changed file is listed there only."""
    read, modified = dict.fromkeys(files.read), dict.fromkeys(files.modified)
    for message in messages:
        if not isinstance(message, AssistantMessage) or message.stop_reason in ("error", "aborted"):
            continue
        for call in tool_calls_of(message):
            path = call.arguments.get("path")
            if isinstance(path, str) and call.name == "read":
                read[path] = None
            elif isinstance(path, str) and call.name in ("write", "edit"):
                modified[path] = None
    return FileLists(tuple(path for path in read if path not in modified), tuple(modified))


def file_section(files: FileLists) -> str:
    """The lists as text for the end of a summary; empty without files."""
    parts = [_listed("Files read", files.read), _listed("Files changed", files.modified)]
    return "\n\n".join(part for part in parts if part)


def _listed(title: str, names: Sequence[str]) -> str:
    return "\n".join([f"## {title}", *(f"- {name}" for name in names)]) if names else ""
