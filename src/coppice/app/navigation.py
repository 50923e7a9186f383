"""Going to an entry, forking at one, cloning: what the tree commands do. Functions of `AgentSession`'s parts."""

from typing import NamedTuple

from coppice.errors import UnknownEntryId
from coppice.format.messages import EntryId
from coppice.session.manager import SessionManager
from coppice.tree.navigate import Target, navigation_target


class Forked(NamedTuple):
    """A new session and the text its editor begins with."""

    session: SessionManager
    editor_text: str


def target_of(session: SessionManager, entry_id: EntryId) -> Target:
    """Where going to an entry leads.

    Raises:
        UnknownEntryId: there is no such entry.
    """
    entry = session.get_entry(entry_id)
    if entry is None:
        raise UnknownEntryId(f"no entry {entry_id!r} in this session")
    return navigation_target(entry, session.index.parent_id(session.store.ordinal(entry_id)))


def fork_at(session: SessionManager, entry_id: EntryId) -> Forked:
    """A new session with the path to where going to an entry leads; this one stays as it is.

    Raises:
        UnknownEntryId, StorageFailure: no session was made.
    """
    target = target_of(session, entry_id)
    return Forked(session.create_branched_session(target.leaf_id), target.editor_text)
