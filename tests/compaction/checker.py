"""What a request must be after any history and any compaction, judged without the code that made it."""

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from coppice.format.entries import ContextEditEntry, Entry, MessageEntry
from coppice.format.messages import (
    AssistantMessage,
    Content,
    EntryId,
    ImageBlock,
    OpaqueMessage,
    RequestMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from coppice.providers.base import Request
from tests.strict import faults_of

TAG = re.compile(r"\b[aru]\d+q\b")
"""Every text of the property test begins with a word of its own: who said it, and a number."""

IMAGE_TOKENS = 1_600


def tokens_of(request: Request) -> int:
    """The checker's own count: a token for every four characters, and 1,600 for an image."""
    return len(request.system_prompt) // 4 + sum(map(_tokens, request.messages))


def _tokens(message: RequestMessage) -> int:
    match message:
        case UserMessage(content=str(content)):
            return len(content) // 4
        case UserMessage(content=blocks) | ToolResultMessage(content=blocks):
            images = sum(isinstance(block, ImageBlock) for block in blocks)
            return len(text_of(blocks)) // 4 + images * IMAGE_TOKENS
        case AssistantMessage(content=blocks):
            return len(json.dumps(msgspec.to_builtins(blocks))) // 4
        case OpaqueMessage():
            return 100


@dataclass(frozen=True, slots=True)
class Path:
    """What a path says of its texts: the tags that edits have taken away, and those of what the user said last."""

    hidden: frozenset[str]
    said: frozenset[str]


def read_path(entries: Sequence[Entry]) -> Path:
    """Read a path from its root on; edits count wherever their target stands."""
    texts: dict[EntryId, list[str]] = {}
    users: list[EntryId] = []
    gone: set[EntryId] = set()
    for entry in entries:
        match entry:
            case MessageEntry(id=entry_id, message=message):
                texts[entry_id] = [_text(message)]
                if isinstance(message, UserMessage):
                    users.append(entry_id)
            case ContextEditEntry(target_id=target, replacement=replacement) if target in texts:
                texts[target].append("" if replacement is None else text_of(replacement.content))
                (gone.add if replacement is None else gone.discard)(target)
            case _:
                pass
    shown = tags(versions[-1] for versions in texts.values())
    every = tags(text for versions in texts.values() for text in versions)
    newest = next((entry_id for entry_id in reversed(users) if entry_id not in gone), None)
    return Path(every - shown, frozenset() if newest is None else tags([texts[newest][-1]]))


def tags(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(tag for text in texts for tag in TAG.findall(text))


def _text(message: object) -> str:
    match message:
        case UserMessage(content=content) | ToolResultMessage(content=content) | AssistantMessage(content=content):
            return _content(content)
        case _:
            return ""


def _content(content: Content | tuple[object, ...]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in content if isinstance(block, TextBlock))


def faults_in(request: Request, path: Path, *, is_summary: bool) -> list[str]:
    """What is wrong with a request for a path; a provider's item may stand at its beginning, like a summary."""
    messages = list(request.messages)
    if messages and isinstance(messages[0], OpaqueMessage):
        messages[0] = UserMessage("what a provider condensed")
    faults = faults_of(messages)
    everything = msgspec.json.encode(request.messages).decode() + request.system_prompt
    found = tags([everything.replace("\\n", "\n")])
    faults += [f"{tag} is hidden and is sent" for tag in sorted(found & path.hidden)]
    if not is_summary:
        faults += [f"what the user said last, {tag}, is not sent" for tag in sorted(path.said - found)]
    return faults
