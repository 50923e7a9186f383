"""What the user said last, wherever it stands on the path: no compaction may lose it."""

from dataclasses import dataclass

import msgspec

from coppice.format.entries import ContextEditEntry, MessageEntry
from coppice.format.heads import Kind
from coppice.format.messages import EntryId, UserMessage
from coppice.session.manager import SessionManager
from coppice.tree.family import NONE


@dataclass(frozen=True, slots=True)
class Said:
    """The newest user message of a path that no edit hides, as edits leave it; ``is_edited`` says whether one did."""

    entry_id: EntryId
    message: UserMessage
    is_edited: bool = False


def newest_said(session: SessionManager) -> Said | None:
    """What the user said last on the path, also where a compaction has taken it out of the context."""
    index, store = session.index, session.store
    edits: dict[EntryId, ContextEditEntry] = {}
    at = session.leaf
    while at != NONE:
        kind = index.kinds[at]
        if kind in (Kind.CONTEXT_EDIT, Kind.USER):
            match store.entry(at):
                case ContextEditEntry() as edit:
                    edits.setdefault(edit.target_id, edit)
                case MessageEntry(id=entry_id, message=UserMessage() as message):
                    said = _edited(entry_id, message, edits.get(entry_id))
                    if said is not None:
                        return said
                case _:
                    pass
        at = index.parents[at]
    return None


def _edited(entry_id: EntryId, message: UserMessage, edit: ContextEditEntry | None) -> Said | None:
    if edit is None:
        return Said(entry_id, message)
    if edit.replacement is None:
        return None
    return Said(entry_id, msgspec.structs.replace(message, content=edit.replacement.content), is_edited=True)
