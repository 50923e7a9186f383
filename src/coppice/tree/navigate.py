"""Where going to an entry leads: the new leaf and what the editor then holds. Pure."""

from typing import NamedTuple

from coppice.format.entries import CustomMessageEntry, Entry, MessageEntry
from coppice.format.messages import CustomMessage, EntryId, UserMessage, text_of


class Target(NamedTuple):
    """The leaf to move to (None: before the first message) and the text to put into the editor."""

    leaf_id: EntryId | None
    editor_text: str


def navigation_target(entry: Entry, parent_id: EntryId | None) -> Target:
    """Going to a user or custom message takes it back into the editor; to any other entry goes on after it.

    `parent_id` is the entry's parent in the tree (a bridged one differs from the file's).
    """
    match entry:
        case MessageEntry(message=UserMessage() | CustomMessage() as message):
            return Target(parent_id, text_of(message.content))
        case CustomMessageEntry():
            return Target(parent_id, text_of(entry.content))
        case _:
            return Target(entry.id, "")
