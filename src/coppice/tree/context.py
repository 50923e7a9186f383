"""From a leaf to the messages of its context (docs/format.md, steps 1 to 4). Pure.

Step 5, what a provider is sent, is in pairing.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, assert_never

import msgspec

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
from coppice.format.lenient import message_from
from coppice.format.messages import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    is_object,
    text_of,
)
from coppice.tree.family import NONE
from coppice.tree.index import TreeIndex
from coppice.tree.path import is_on_path, path_to
from coppice.tree.replacement import Referred, Replacement, replaced_messages, replacement_of


class ModelRef(NamedTuple):
    """A model as the file names it."""

    provider: str
    model_id: str


class SessionContext(NamedTuple):
    """What `build_session_context` gives: the messages, the thinking level and the model (None before there is one)."""

    messages: list[Message]
    thinking_level: str
    model: ModelRef | None


class Selection(NamedTuple):
    """The ordinals of the context entries, and what is wrong with the compaction's kept range, if anything.

    ``first_new`` is the position of the first entry after the newest compaction (0 without one).
    """

    ordinals: list[int]
    problem: str | None
    first_new: int = 0


class ContextView(NamedTuple):
    """A context in full: its entries, its messages as (entry id, message), and where what came after the newest
    compaction begins among the entries."""

    entries: list[Entry]
    pairs: list[tuple[EntryId, Message]]
    first_new: int


def select(index: TreeIndex, leaf: int, compaction: CompactionEntry | None) -> Selection:
    """The context entries at `leaf`; `compaction` is the decoded newest compaction on the path, if there is one."""
    if leaf == NONE or compaction is None:
        return Selection(path_to(index, leaf), None)
    newest = index.newest.compaction[leaf]
    after = path_to(index, leaf, above=newest)
    kept, problem = ([], None) if replacement_of(compaction) is not None else _kept(index, newest, compaction)
    return Selection([newest, *kept, *after], problem, 1 + len(kept))


def _kept(index: TreeIndex, newest: int, compaction: CompactionEntry) -> tuple[list[int], str | None]:
    first_id = compaction.first_kept_entry_id
    if first_id == compaction.id:
        return [], None
    first = index.by_id.get(first_id, NONE) if first_id is not None else NONE
    where = f"the compaction {compaction.id!r} keeps nothing before it"
    if first == NONE:
        return [], f"{where}: its first kept entry {first_id!r} is not in the file"
    if not is_on_path(index, first, index.parents[newest]):
        return [], f"{where}: its first kept entry {first_id!r} is not before it on its path"
    kinds, system = index.kinds, Kind.SYSTEM
    kept = [first, *path_to(index, index.parents[newest], above=first)]
    return [ordinal for ordinal in kept if kinds[ordinal] != system], None


def edits_in(entries: Iterable[Entry]) -> dict[EntryId, ContextEditEntry]:
    """The context edit in force for each target: the last one among the context entries."""
    return {entry.target_id: entry for entry in entries if isinstance(entry, ContextEditEntry)}


def messages_of(entries: Sequence[Entry], referred: Mapping[EntryId, Entry] | None = None) -> list[Message]:
    """The messages that the context entries become, edits applied, in path order.

    `referred` are the entries that a compaction's replacement refers to.
    """
    return [message for _, message in message_pairs(entries, referred)]


def message_pairs(
    entries: Sequence[Entry], referred: Mapping[EntryId, Entry] | None = None
) -> list[tuple[EntryId, Message]]:
    """As `messages_of`, each message with the id of its entry."""
    edits = edits_in(entries)
    pairs: list[tuple[EntryId, Message]] = []
    first = 0
    if entries and isinstance(entries[0], CompactionEntry):
        pairs, first = _leading(entries[0], referred or {}, edits), 1
    for entry in entries[first:] if first else entries:
        if isinstance(entry, MessageEntry) and not edits:  # the common case, written out: this runs for each request
            pairs.append((entry.id, entry.message))
        else:
            pairs.extend([(entry.id, message) for message in _projected(entry, edits, newest=False)])
    return pairs


def _leading(
    compaction: CompactionEntry, referred: Mapping[EntryId, Entry], edits: Mapping[EntryId, ContextEditEntry]
) -> list[tuple[EntryId, Message]]:
    """What the newest compaction, which begins the context entries, becomes."""
    replacement = replacement_of(compaction)
    if replacement is not None:
        return _replaced(compaction, replacement, referred, edits)
    return [(compaction.id, message) for message in _projected(compaction, edits, newest=True)]


def _projected(entry: Entry, edits: Mapping[EntryId, ContextEditEntry], *, newest: bool) -> Sequence[Message]:
    found = _messages_of(entry, newest=newest)
    edit = edits.get(entry.id)
    return found if edit is None else _edited(found, edit)


def _replaced(
    compaction: CompactionEntry,
    replacement: Replacement,
    referred: Mapping[EntryId, Entry],
    edits: Mapping[EntryId, ContextEditEntry],
) -> list[tuple[EntryId, Message]]:
    messages = {entry_id: tuple(_projected(entry, edits, newest=False)) for entry_id, entry in referred.items()}
    edit = edits.get(compaction.id)
    if edit is not None and edit.replacement is None:
        return []
    readable = None
    if edit is not None and edit.replacement is not None:
        text = text_of(edit.replacement.content)
        readable = CompactionSummaryMessage(text, compaction.tokens_before, unix_ms(compaction.timestamp))
    referred_to = Referred(messages, edits, readable)
    replaced = replaced_messages(compaction.id, replacement, referred_to, _compaction_messages(compaction)[-1])
    kept: list[tuple[EntryId, Message]] = []
    for place, source, message in replaced:
        edit = None if source is None else edits.get(source)
        kept += [(place, left) for left in ((message,) if edit is None else _edited((message,), edit))]
    return kept


def _messages_of(entry: Entry, *, newest: bool) -> Sequence[Message]:
    match entry:
        case MessageEntry():
            return (entry.message,)
        case CustomMessageEntry():
            stamp = unix_ms(entry.timestamp)
            return (CustomMessage(entry.custom_type, entry.content, entry.display, entry.details, stamp),)
        case CompactionEntry():
            return _compaction_messages(entry) if newest else ()
        case BranchSummaryEntry():
            message = BranchSummaryMessage(entry.summary, entry.from_id, unix_ms(entry.timestamp))
            return (message,) if entry.summary else ()
        case (
            ContextEditEntry()
            | ModelChangeEntry()
            | ThinkingLevelChangeEntry()
            | UsageEntry()
            | CustomEntry()
            | LabelEntry()
            | SessionInfoEntry()
            | UnknownEntry()
            | DamagedEntry()
        ):
            return ()
        case _:
            assert_never(entry)


def _compaction_messages(entry: CompactionEntry) -> Sequence[Message]:
    summary = CompactionSummaryMessage(entry.summary, entry.tokens_before, unix_ms(entry.timestamp))
    if is_object(entry.system_message) and entry.system_message:
        return (message_from(entry.system_message), summary)
    return (summary,)


def _edited(messages: Sequence[Message], edit: ContextEditEntry) -> Sequence[Message]:
    if edit.replacement is None:
        return ()
    content = edit.replacement.content
    blocks = (TextBlock(content),) if isinstance(content, str) else content
    edited: list[Message] = []
    for message in messages:
        match message:
            case UserMessage() | CustomMessage():
                edited.append(msgspec.structs.replace(message, content=content))
            case AssistantMessage() | ToolResultMessage():
                edited.append(msgspec.structs.replace(message, content=blocks))
            case _:
                edited.append(message)
    return edited


def unix_ms(timestamp: str) -> int:
    """An entry's ISO 8601 timestamp in Unix milliseconds; 0 if it is none."""
    try:
        return round(datetime.fromisoformat(timestamp).timestamp() * 1000)
    except (ValueError, OverflowError):
        return 0


def model_of(entry: Entry | None) -> ModelRef | None:
    """The model that an entry sets: a model change or a reply."""
    match entry:
        case ModelChangeEntry():
            return ModelRef(entry.provider, entry.model_id)
        case MessageEntry(message=AssistantMessage() as reply):
            return ModelRef(reply.provider, reply.model)
        case _:
            return None


def level_of(entry: Entry | None) -> str:
    """The thinking level that an entry sets; ``off`` where there is none."""
    return entry.thinking_level if isinstance(entry, ThinkingLevelChangeEntry) else "off"
