"""`Agent`: the runtime of one conversation. What runs now is here; what was said is the session's alone.

``agent.state.messages`` is derived from the session at every read, so it cannot disagree with it.
"""

import asyncio
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from coppice.agent.listeners import Listeners
from coppice.agent.loop import close_turn, run_until_finished
from coppice.agent.queues import Kind, Queues
from coppice.agent.run import Compactor, Options, Run
from coppice.agent.step import Finished, next_step
from coppice.errors import Busy, CoppiceError, NothingToContinue, UnknownModel
from coppice.format.entries import CustomMessageEntry, MessageEntry
from coppice.format.events import (
    AgentEnd,
    AgentEvent,
    AgentSettled,
    AgentStart,
    MessageEnd,
    MessageStart,
    Notice,
    QueueUpdate,
)
from coppice.format.messages import Content, EntryId, Message, UserMessage
from coppice.providers.base import Model, ModelInfo, Request
from coppice.session.drafts import now_ms
from coppice.session.manager import SessionManager
from coppice.tools.base import Tool

Listener = Callable[[AgentEvent], None]
"""Hears every event, in order, on the event loop's thread. It must not block."""


class AgentState:
    """What an agent is. Each field is worked out when it is read; nothing is kept here."""

    __slots__ = ("_agent",)

    def __init__(self, agent: "Agent") -> None:
        self._agent = agent

    @property
    def messages(self) -> tuple[Message, ...]:
        """The context at the session's leaf."""
        return tuple(self._agent.session.build_session_context().messages)

    @property
    def model(self) -> ModelInfo | None:
        """The model that is asked; None before there is one."""
        return self._agent.kit.model.info if self._agent.kit.model is not None else None

    @property
    def thinking_level(self) -> str:
        """The thinking level in force at the leaf."""
        return self._agent.session.thinking_level()

    @property
    def is_running(self) -> bool:
        """Whether a run is active."""
        return self._agent.is_running

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of the tools the model is offered."""
        return tuple(self._agent.kit.tools or ())


def _no_prompt() -> str:
    return ""


@dataclass(slots=True)
class Kit:
    """What an agent works with; what is changed here counts from the next run on.

    ``system_prompt`` is called before each run, so it is always current. ``output_dir`` takes files with full outputs
    of tools (None: a directory under the session's home).
    """

    model: Model | None = None
    tools: Mapping[str, Tool] | None = None
    system_prompt: Callable[[], str] = _no_prompt
    output_dir: Path | None = None
    options: Options = field(default_factory=Options)
    compactor: Compactor | None = None


class Agent:
    """Runs a conversation: prompts, tools, queues, abort."""

    __slots__ = ("_listeners", "_task", "kit", "queues", "session")

    def __init__(self, session: SessionManager, kit: Kit) -> None:
        self.session = session
        self.kit = kit
        self.queues = Queues(session)
        self._listeners = Listeners[AgentEvent]()
        self._task: asyncio.Task[None] | None = None

    @property
    def state(self) -> AgentState:
        """What the agent is, whenever it is asked."""
        return AgentState(self)

    @property
    def is_running(self) -> bool:
        """Whether a run is active."""
        return self._task is not None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on; call what is returned to stop."""
        return self._listeners.subscribe(listener)

    def emit(self, event: AgentEvent) -> None:
        """Tell every listener."""
        self._listeners.tell(event)

    # --- running -----------------------------------------------------------------------------

    async def prompt(self, content: Content, *, entry_id: EntryId | None = None) -> None:
        """Store a user message and run until the model is done. Returns when the run has settled.

        `entry_id` is for a message that was pending. Cancelling the caller aborts the run.

        Raises:
            Busy: a run is active (use `steer` or `follow_up`).
            UnknownModel: there is no model.
            BridgeNeedsConsent: the path crosses a gap that was guessed.
            StorageFailure: the prompt (or, later, a reply or result) could not be stored.
        """
        self._check_ready()
        message = UserMessage(content, now_ms())
        stored = self.session.append_message(message, entry_id=entry_id)
        if entry_id is not None:
            self.queues.done(entry_id)
        await self._start(stored, (MessageStart(message), MessageEnd(message, stored)))

    async def continue_(self) -> None:
        """Let the model go on from the leaf: after a user message, results, or a reply that failed.

        Raises:
            NothingToContinue: the leaf is before the first message, or a reply that is complete.
            Busy, UnknownModel, BridgeNeedsConsent, StorageFailure: as `prompt`.
        """
        self._check_ready()
        newest = self.session.turn_after(None)
        if not any(isinstance(entry, MessageEntry | CustomMessageEntry) for entry in newest):
            raise NothingToContinue("there is nothing to continue: no message stands before this place")
        if next_step(newest, None) == Finished("stop"):
            raise NothingToContinue("there is nothing to continue: the last reply is complete")
        await self._start(self.session.get_leaf_id(), ())

    async def _start(self, since: EntryId | None, announced: tuple[AgentEvent, ...]) -> None:
        task = asyncio.create_task(self._run(since, announced))
        self._task = task
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await self.abort()
            raise

    def _check_ready(self) -> None:
        if self._task is not None:
            raise Busy("a run is active: steer it, queue a follow-up, or abort it")
        if self.kit.model is None:
            raise UnknownModel("there is no model: name one with --model provider/id")
        self.session.check_bridges()

    def _parts(self) -> Run:
        if self.kit.model is None:
            raise UnknownModel("there is no model")
        return Run(
            session=self.session,
            model=self.kit.model,
            tools=self.kit.tools or {},
            queues=self.queues,
            emit=self.emit,
            system_prompt=self.kit.system_prompt(),
            output_dir=self.kit.output_dir or Path(tempfile.gettempdir()) / "coppice",
            options=self.kit.options,
            compactor=self.kit.compactor,
        )

    @property
    def model(self) -> Model:
        """The model.

        Raises:
            UnknownModel: there is none.
        """
        if self.kit.model is None:
            raise UnknownModel("there is no model: name one with --model provider/id")
        return self.kit.model

    def next_request(self) -> Request:
        """The request that a run would send now.

        Raises:
            UnknownModel: there is no model.
        """
        return self._parts().request()

    def next_frame(self) -> Request:
        """The request that a run would send now, without its messages: for what needs to know only what stands around.

        Raises:
            UnknownModel: there is no model.
        """
        return self._parts().frame()

    async def _run(self, since: EntryId | None, announced: tuple[AgentEvent, ...]) -> None:
        aborted = False
        before = self._parent_of(since) if announced else since
        try:
            run = self._parts()
            self.emit(AgentStart())
            try:
                await run_until_finished(run, since, announced)
            except asyncio.CancelledError:
                aborted = True
                close_turn(run, since)
        except CoppiceError as error:
            self.emit(Notice("error", str(error)))
            raise
        except Exception as error:
            self.emit(Notice("error", f"the run failed: {type(error).__name__}: {error}"))
            raise
        finally:  # whatever a listener raises, the agent is idle again
            self._task = None
            self._tell_end(before, aborted)

    def _tell_end(self, before: EntryId | None, aborted: bool) -> None:
        made = [entry for entry in self.session.path_after(before) if isinstance(entry, MessageEntry)]
        self.emit(AgentEnd(tuple(entry.id for entry in made), tuple(entry.message for entry in made)))
        self.emit(AgentSettled(aborted))

    def _parent_of(self, entry_id: EntryId | None) -> EntryId | None:
        return None if entry_id is None else self.session.index.parent_id(self.session.store.ordinal(entry_id))

    # --- while it runs -----------------------------------------------------------------------

    def steer(self, content: Content) -> EntryId:
        """Have a message enter after the current turn's tools. It is durable when this returns its future entry id."""
        return self._queue("steering", content)

    def follow_up(self, content: Content) -> EntryId:
        """Have a message enter after the run. It is durable when this returns its future entry id."""
        return self._queue("followUp", content)

    def _queue(self, kind: Kind, content: Content) -> EntryId:
        entry_id = self.queues.accept(kind, UserMessage(content, now_ms()))
        self._tell_queues()
        return entry_id

    def adopt(self, entry_id: EntryId, kind: Kind) -> bool:
        """Let a message that an earlier process left wait here, as `kind`; whether there was one."""
        adopted = self.queues.adopt(entry_id, kind)
        self._tell_queues()
        return adopted

    def _tell_queues(self) -> None:
        self.emit(QueueUpdate(self.queues.texts("steering"), self.queues.texts("followUp")))

    def clear_queue(self) -> tuple[str, ...]:
        """Take back everything that waits: its texts, for the editor."""
        texts = (*self.queues.texts("steering"), *self.queues.texts("followUp"))
        self.queues.clear()
        self.emit(QueueUpdate((), ()))
        return texts

    def abort_nowait(self) -> bool:
        """Ask the active run to stop; whether there is one. It settles a little later."""
        if self._task is None:
            return False
        _cancel(self._task)
        return True

    async def abort(self) -> None:
        """Stop the active run and wait until it has settled: every call has a result then."""
        task = self._task
        if task is not None:
            _cancel(task)
            await asyncio.wait([task])

    async def wait_for_idle(self) -> None:
        """Wait until no run is active."""
        task = self._task
        if task is not None:
            await asyncio.wait([task])


def _cancel(task: "asyncio.Task[None]") -> None:
    """Cancel a run after what is due already: one that was made just now begins before, or it could not end properly."""
    asyncio.get_running_loop().call_soon(task.cancel)
