"""What one run works with: the session it writes, the model it asks, the tools it may use, the ears that listen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from coppice.agent.queues import Queues, Take
from coppice.errors import LeafMoved, ProviderError
from coppice.format.events import AgentEvent, MessageEnd, MessageStart, Notice
from coppice.format.heads import CONVERSATION
from coppice.format.messages import AssistantMessage, EntryId, Message
from coppice.providers.base import Model, Request, ToolSchema
from coppice.providers.retry import BASE_MS, CAP_MS, MAX_ATTEMPTS
from coppice.session.manager import SessionManager
from coppice.tools.base import Tool
from coppice.tree.family import NONE
from coppice.tree.pairing import Reader
from coppice.tree.path import is_on_path

Emit = Callable[[AgentEvent], None]


@dataclass(frozen=True, slots=True)
class Options:
    """How runs behave.

    ``max_retries`` retries of one request (0: none), the first after ``retry_base_ms`` milliseconds, none waiting
    longer than ``retry_cap_ms``. ``steering`` and ``follow_up`` say whether one waiting message is taken at a time.
    """

    max_retries: int = MAX_ATTEMPTS
    retry_base_ms: int = BASE_MS
    retry_cap_ms: int = CAP_MS
    steering: Take = "one"
    follow_up: Take = "one"
    max_output: int | None = None


class Compactor(Protocol):
    """Makes room in the context; passed in, so that the loop knows nothing of how. It stores what it makes itself."""

    async def before_request(self, *, is_mid_turn: bool) -> bool:
        """Compact if it is due before the next request; whether that was done.

        Raises:
            CoppiceError: the context is too large and nothing helps; the text says what is too large.
        """
        ...

    async def after_overflow(self, error: ProviderError) -> bool:
        """A request failed; whether it was too large and room was made, so that it can be sent once more."""
        ...

    async def after_reply(self, reply: AssistantMessage) -> bool:
        """A reply was stored; whether it was cut off by a full context and room was made to go on."""
        ...


@dataclass(frozen=True, slots=True)
class Run:
    """The parts of one run."""

    session: SessionManager
    model: Model
    tools: Mapping[str, Tool]
    queues: Queues
    emit: Emit
    system_prompt: str
    output_dir: Path
    options: Options = field(default_factory=Options)
    compactor: Compactor | None = None

    @property
    def reader(self) -> Reader:
        """The model as the reader of a request."""
        return reader_of(self.model)

    def schemas(self) -> tuple[ToolSchema, ...]:
        """The tools as the model is told of them."""
        return tuple(ToolSchema(tool.name, tool.description, tool.parameters) for tool in self.tools.values())

    def request(self) -> Request:
        """The request of the next turn: the context at the leaf, the tools, the level."""
        return replace(self.frame(), messages=self.session.request_messages(self.reader))

    def frame(self) -> Request:
        """The request of the next turn without its messages: what stands around any context."""
        return Request(
            system_prompt=self.system_prompt,
            messages=(),
            tools=self.schemas(),
            thinking_level=self.session.thinking_level(),
            max_output=self.options.max_output,
            cache_key=self.session.session_id,
        )

    def check_below(self, entry_id: EntryId | None) -> None:
        """Refuse to go on where the leaf was moved away from what a run began at, or from the reply it answers.

        Raises:
            LeafMoved: the leaf is not below `entry_id` (None is above everything).
        """
        session = self.session
        if entry_id is not None and not is_on_path(session.index, session.store.ordinal(entry_id), session.leaf):
            leaf = session.get_leaf_id() or "before the first entry"
            raise LeafMoved(f"the leaf was moved to {leaf} while a run was active, away from {entry_id}; the run ended")

    def place_for(self, leaf: EntryId | None) -> EntryId | None:
        """Where a reply goes whose request was made at `leaf`: to the leaf now, if only entries that give the model no
        message came in between (an extension's state, say), else to `leaf`, which an append then refuses."""
        session = self.session
        index, at = session.index, session.leaf
        above = NONE if leaf is None else session.store.ordinal(leaf)
        while at not in (NONE, above) and index.kinds[at] not in CONVERSATION:
            at = index.parents[at]
        return session.get_leaf_id() if at == above else leaf

    def store(self, message: Message, *, entry_id: EntryId | None = None, below: EntryId | None = None) -> EntryId:
        """Store a message, then say so. Nobody hears of it before it is on disk.

        Raises:
            LeafMoved: the leaf is not below the entry `below` any more.
            StorageFailure: it could not be stored.
        """
        self.check_below(below)
        stored = self.session.append_message(message, entry_id=entry_id)
        self.emit(MessageStart(message))
        self.emit(MessageEnd(message, stored))
        self.pass_on_notices()
        return stored

    def pass_on_notices(self) -> None:
        """Tell the user what the session has to say."""
        for notice in self.session.take_notices():
            self.emit(Notice("warning", notice))

    def queue_texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What waits, as text: steering, follow-ups."""
        return self.queues.texts("steering"), self.queues.texts("followUp")


def reader_of(model: Model) -> Reader:
    """A model as the reader of a request."""
    info = model.info
    return Reader(info.provider, info.api, info.id, info.accepts_images)
