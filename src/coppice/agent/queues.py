"""Messages that wait: steering enters after the current turn's tools, follow-ups after the run.

Each lies in the pending file from the moment it is accepted until its entry is stored (docs/format.md). What an earlier
process left there is shown, and sent or dropped by the user; nothing of it is sent by itself.
"""

from collections.abc import Callable
from typing import Literal, Protocol

from coppice.format.messages import CustomMessage, EntryId, Message, UserMessage, text_of
from coppice.session.drafts import new_entry_id
from coppice.session.manager import SessionManager
from coppice.storage.pending import Pending, PendingFile

Kind = Literal["steering", "followUp", "prompt"]
"""How a message waits: for the current turn, for the run, or for what comes before a turn."""

Take = Literal["one", "all"]
"""Whether one message is taken at a time, or all that wait."""


class PendingStore(Protocol):
    """Where waiting messages lie."""

    def read(self) -> list[Pending]:
        """What waits, in order."""
        ...

    def change(self, edit: Callable[[list[Pending]], list[Pending]]) -> list[Pending]:
        """Change what waits, durably, with nobody else between; what waits then."""
        ...


class PendingMemory:
    """Waiting messages of a session without a file."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: list[Pending] = []

    def read(self) -> list[Pending]:
        """See `PendingStore`."""
        return list(self._items)

    def change(self, edit: Callable[[list[Pending]], list[Pending]]) -> list[Pending]:
        """See `PendingStore`."""
        self._items = edit(self._items)
        return list(self._items)


class Queues:
    """The waiting messages of one session. The pending file is the only copy; here are only ids."""

    __slots__ = ("_memory", "_mine", "_session")

    def __init__(self, session: SessionManager) -> None:
        self._session = session
        in_memory = session.session_file is None or session.setup.mode == "read"
        self._memory = PendingMemory() if in_memory else None
        self._mine: set[EntryId] = set()

    @property
    def _store(self) -> PendingStore:
        """The session's id is asked for each time: the first write to an old session gives it a new one."""
        return self._memory or PendingFile(self._session.setup.home, self._session.session_id)

    def accept(self, kind: Kind, message: Message) -> EntryId:
        """Take a message in; it is durable when this returns the id that its entry will have."""
        taken = self._session.index.by_id
        item = Pending(new_entry_id(taken), kind, message)
        self._store.change(lambda items: [*items, item])
        self._mine.add(item.id)
        return item.id

    def waiting(self, kind: Kind) -> list[Pending]:
        """What waits in this process, in order."""
        return [item for item in self._live() if item.kind == kind and item.id in self._mine]

    def left_over(self) -> list[Pending]:
        """What an earlier process accepted and never stored; to be sent or dropped by the user."""
        return [item for item in self._live() if item.id not in self._mine]

    def _live(self) -> list[Pending]:
        stored = self._session.index.by_id
        return [item for item in self._store.read() if item.id not in stored]

    def take(self, kind: Kind, how: Take) -> list[Pending]:
        """The messages that are due, still pending until `done`."""
        waiting = self.waiting(kind)
        return waiting[:1] if how == "one" else waiting

    def done(self, entry_id: EntryId) -> None:
        """A message was stored, or dropped: it waits no longer."""
        stored = self._session.index.by_id
        self._store.change(lambda items: [item for item in items if item.id != entry_id and item.id not in stored])
        self._mine.discard(entry_id)

    def release(self, entry_id: EntryId) -> None:
        """Let a message wait no longer in this process: it stays pending, to be sent or dropped by the user."""
        self._mine.discard(entry_id)

    def adopt(self, entry_id: EntryId, kind: Kind) -> bool:
        """Let a left-over message wait in this process, as `kind`; whether there was one."""
        found = [item for item in self.left_over() if item.id == entry_id]
        if not found:
            return False
        adopted = Pending(entry_id, kind, found[0].message)
        self._store.change(lambda items: [adopted if item.id == entry_id else item for item in items])
        self._mine.add(entry_id)
        return True

    def clear(self) -> list[Pending]:
        """Take back everything that waits in this process (for the editor); left-over messages stay."""
        gone = self.waiting("steering") + self.waiting("followUp")
        ids = {item.id for item in gone}
        if ids:
            self._store.change(lambda items: [item for item in items if item.id not in ids])
            self._mine -= ids
        return gone

    def texts(self, kind: Kind) -> tuple[str, ...]:
        """What waits in this process, as text."""
        return tuple(text_of_message(item.message) for item in self.waiting(kind))


def text_of_message(message: Message) -> str:
    """The text of a waiting message."""
    return text_of(message.content) if isinstance(message, UserMessage | CustomMessage) else ""
