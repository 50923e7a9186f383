"""User messages that stay word for word: newest first within a budget, as references where they are unchanged. Pure.

Shared by codex-inline and codex-remote (Codex keeps 20,000 and 64,000 tokens of them).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import msgspec

from coppice.compaction.strategy import Work
from coppice.format.codec import encode
from coppice.format.entries import CompactionEntry
from coppice.format.lenient import message_from
from coppice.format.messages import (
    Content,
    CustomMessage,
    EntryId,
    ImageBlock,
    JsonObject,
    JsonValue,
    Message,
    TextBlock,
    UserMessage,
    is_object,
    text_of,
)
from coppice.tree.context import edits_in
from coppice.tree.replacement import replacement_of

IMAGE_NOT_HELD = "[image left out: the message was edited before the conversation was condensed]"

Measure = Callable[[Message], int]


@dataclass(frozen=True, slots=True)
class Kept:
    """An item of a replacement and the message it stands for."""

    item: JsonObject
    message: Message


@dataclass(frozen=True, slots=True)
class _Spoken:
    """A user message of the context: the entry it comes from, and whether its text is no longer what stands there."""

    source: EntryId | None
    message: UserMessage
    is_changed: bool
    parts: Sequence[JsonValue] | None = None
    """Those parts of the entry's content that an earlier replacement kept, None for all."""


def kept_user_messages(work: Work, budget: int, *, images: bool) -> list[Kept]:
    """The newest user messages within `budget` tokens, oldest first; the one that does not fit is cut in its middle.

    With `images` they are kept (and charged); else texts only. Extensions' messages, commands and summaries are none.
    """
    kept: list[Kept] = []
    left = work.limits.user_tokens(budget)
    for spoken in reversed(_spoken(work)):
        whole = spoken.message if images else _text_only(spoken.message)
        if whole is None:
            continue
        cost = work.measure(whole)
        fits = cost <= left
        wanted = whole if fits else _fitted(whole, left, work.measure)
        if wanted is None:
            break
        kept.append(_kept(spoken, wanted))
        left -= cost
        if not fits:
            break
    return kept[::-1]


def every_user_message(work: Work) -> list[Kept]:
    """The context's user messages as they are, oldest first, and what would stand for each."""
    return [_kept(spoken, spoken.message) for spoken in _spoken(work)]


def _kept(spoken: _Spoken, wanted: UserMessage) -> Kept:
    source, parts = spoken.source, spoken.parts
    if spoken.is_changed or source is None:
        return Kept(held_message(wanted, of=source), wanted)
    if wanted is spoken.message:
        return Kept(reference(source) | ({} if parts is None else {"parts": [*parts]}), wanted)
    if isinstance(spoken.message.content, str) or not _has_images(wanted):
        return Kept(held_message(wanted, of=source), wanted)
    was = spoken.message.content
    places = zip(range(len(was)) if parts is None else parts, was, wanted.content, strict=False)
    kept = [place if old is new or not isinstance(new, TextBlock) else new.text for place, old, new in places]
    return Kept(reference(source) | {"parts": kept}, wanted)


def _has_images(message: UserMessage) -> bool:
    return any(isinstance(block, ImageBlock) for block in message.content)


def _without_copies(message: UserMessage) -> UserMessage:
    """A message that the compaction has to hold: no image is copied into it, a note stands for each."""
    if isinstance(message.content, str) or not _has_images(message):
        return message
    blocks = (TextBlock(IMAGE_NOT_HELD) if isinstance(block, ImageBlock) else block for block in message.content)
    return UserMessage(tuple(blocks), message.timestamp)


def _spoken(work: Work) -> list[_Spoken]:
    """The context's user messages, oldest first, and what the user said last where a split turn only quotes it."""
    edited = edits_in(work.view.entries)
    previous = work.previous
    held, parts = _sources(previous), _parts(previous)
    spoken: list[_Spoken] = []
    for entry_id, message in work.view.pairs:
        if not isinstance(message, UserMessage):
            continue
        if previous is not None and entry_id == previous.id:
            source = next((source for source, text in held if text == message), None)
            spoken.append(_Spoken(source, message, is_changed=True))
        else:
            is_changed = entry_id in edited
            own = _without_copies(message) if is_changed else message
            spoken.append(_Spoken(entry_id, own, is_changed, parts.get(entry_id)))
    said = work.said
    if said is not None and all(one.source != said.entry_id for one in spoken):
        own = _without_copies(said.message) if said.is_edited else said.message
        spoken.append(_Spoken(said.entry_id, own, is_changed=said.is_edited))
    return spoken


def _sources(previous: CompactionEntry | None) -> list[tuple[EntryId, Message]]:
    """The messages an earlier replacement holds, each with the entry it was made of."""
    replacement = replacement_of(previous)
    items = replacement.items if replacement is not None else ()
    return [(EntryId(str(item["of"])), message_from(item["message"])) for item in items if "of" in item]


def _parts(previous: CompactionEntry | None) -> dict[EntryId, Sequence[JsonValue]]:
    """The entries of which an earlier replacement keeps some parts only, and which."""
    replacement = replacement_of(previous)
    items = replacement.items if replacement is not None else ()
    return {EntryId(item["entry"]): item["parts"] for item in items if "entry" in item and "parts" in item}


def reference(entry_id: EntryId) -> JsonObject:
    """An item that refers to a stored entry."""
    return {"entry": entry_id}


def held_message(message: Message, *, of: EntryId | None = None) -> JsonObject:
    """An item that holds a message, in the file's form; `of` is the entry it was made of, whose edits count for it."""
    item: JsonObject = {"message": msgspec.json.decode(encode(message))}
    return item if of is None else item | {"of": of}


def context_messages(work: Work) -> list[Kept]:
    """What extensions declared as context (``details.context``): the newest of each kind, in order."""
    edited = edits_in(work.view.entries)
    held = work.previous.id if work.previous is not None else None
    newest: dict[str, Kept] = {}
    for entry_id, message in work.view.pairs:
        if is_context(message):
            is_held, is_edited = entry_id == held, entry_id in edited
            of = entry_id if is_edited else None
            item = held_message(message, of=of) if is_held or is_edited else reference(entry_id)
            newest.pop(message.custom_type, None)
            newest[message.custom_type] = Kept(item, message)
    return list(newest.values())


def is_context(message: Message) -> TypeGuard[CustomMessage]:
    """Whether an extension declares a message as context."""
    return isinstance(message, CustomMessage) and is_object(message.details) and message.details.get("context") is True


def with_context(kept: Sequence[Kept], context: Sequence[Kept]) -> list[Kept]:
    """Kept messages with the context before the last user message, without one at their end (Codex's place for it in
    the middle of a turn)."""
    users = [at for at, part in enumerate(kept) if isinstance(part.message, UserMessage)]
    at = users[-1] if users else len(kept)
    return [*kept[:at], *context, *kept[at:]]


def _text_only(message: UserMessage) -> UserMessage | None:
    if isinstance(message.content, str) or all(isinstance(block, TextBlock) for block in message.content):
        return message if text_of(message.content).strip() else None
    texts = tuple(block for block in message.content if isinstance(block, TextBlock) and block.text.strip())
    return UserMessage(texts, message.timestamp) if texts else None


def _fitted(message: UserMessage, budget: int, measure: Measure) -> UserMessage | None:
    """The message cut to a budget: its parts in order, the text that overflows cut in its middle, later ones dropped."""
    if budget <= 0:
        return None
    if isinstance(message.content, str):
        text = cut_middle(message.content, budget, measure)
        return UserMessage(text, message.timestamp) if text else None
    parts: list[TextBlock | ImageBlock] = []
    left = budget
    for block in message.content:
        cost = measure(UserMessage((block,)))
        if cost <= left and isinstance(block, TextBlock | ImageBlock):
            parts.append(block)
            left -= cost
        elif isinstance(block, TextBlock):
            text = cut_middle(block.text, left, measure)
            parts += [TextBlock(text)] if text else []
            break
        else:
            break
    content: Content = tuple(parts)
    return UserMessage(content, message.timestamp) if parts else None


def cut_middle(text: str, budget: int, measure: Measure) -> str:
    """The beginning and end of a text within a budget, between them a marker that names how many tokens are gone."""
    whole = measure(UserMessage(text))
    length = len(text) * budget // max(whole, 1)
    while length > 0:
        head = length // 2
        tail = length - head
        kept = text[:head], text[len(text) - tail :]
        removed = whole - measure(UserMessage(kept[0] + kept[1]))
        shown = f"{kept[0]}…{removed} tokens truncated…{kept[1]}"
        size = measure(UserMessage(shown))
        if size <= budget:
            return shown
        length = min(length - 1, length * budget // size)
    return ""
