"""`AgentSession`: the product's controller. Commands in, events out; it joins agent, session and settings.

It owns the order of things, no state that could be derived. Each command's work is a function in a file of its own.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType

from coppice.agent.agent import Agent, Kit
from coppice.agent.listeners import Listeners
from coppice.agent.queues import Kind as QueueKind
from coppice.app.branching import Move, ask_before, leave_with_summary
from coppice.app.compactor import Preview, SessionCompactor
from coppice.app.extensions.hooks import BeforeNavigate, Hooks
from coppice.app.models import Resolve, default_name, follow_path, level_on_path, resolver
from coppice.app.navigation import fork_at, target_of
from coppice.app.prompting import Sender, compact_then_send, send_prompt
from coppice.app.resources import context_files
from coppice.app.settings import Settings, load_settings
from coppice.app.system_prompt import PromptParts, build_system_prompt
from coppice.app.user_bash import UserCommand, run_user_bash
from coppice.compaction.remote import check_readable, has_opaque
from coppice.errors import Busy, UnknownEntryId
from coppice.format.events import (
    BashExecutionUpdate,
    LabelChanged,
    LeafChanged,
    MessageEnd,
    MessageStart,
    ModelChanged,
    Notice,
    SessionEvent,
    SessionInfoChanged,
    SessionSwitched,
    ThinkingLevelChanged,
    TurnEnd,
)
from coppice.format.messages import BashExecutionMessage, Content, CustomMessage, EntryId, Message, UserMessage
from coppice.providers.base import Model
from coppice.session.manager import SessionManager
from coppice.session.opening import Mode
from coppice.session.stats import SessionStats, session_stats
from coppice.session.writer import Setup
from coppice.storage.directory import coppice_home
from coppice.storage.pending import Pending
from coppice.tools.base import Tool
from coppice.tools.toolset import make_tools

Listener = Callable[[SessionEvent], None]


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for at start-up: it goes before what the session and the settings say.

    ``model`` is a name ``provider/id`` or a `Model`; ``tools`` are names or tools; ``base_url`` another server for the
    model. ``resolve`` makes models of names (None: by the keys in the environment).
    """

    model: str | Model | None = None
    base_url: str | None = None
    thinking_level: str | None = None
    tools: Sequence[str | Tool] | None = None
    prompt: PromptParts = field(default_factory=PromptParts)
    resolve: Resolve | None = None


class AgentSession:
    """One conversation as a person or a program drives it. `close` it after, or use it with ``async with``."""

    __slots__ = (
        "_command",
        "_listeners",
        "_resolve",
        "_wishes",
        "agent",
        "compactor",
        "settings",
    )

    def __init__(
        self, session: SessionManager, wishes: Wishes | None = None, *, settings: Settings | None = None
    ) -> None:
        self._wishes = wishes = wishes or Wishes()
        self.settings = settings if settings is not None else load_settings(session.setup.home)
        self._resolve = wishes.resolve or resolver(wishes.base_url or self.settings.base_url)
        self._listeners = Listeners[SessionEvent]()
        self._command: UserCommand | None = None
        tools = _tools(self.settings.tools if wishes.tools is None else wishes.tools)
        kit = Kit(tools=tools, options=self.settings.options())
        self.agent, self.compactor = self._agent_for(session, kit, Hooks())

    @classmethod
    def create(
        cls,
        cwd: str | Path = ".",
        wishes: Wishes | None = None,
        *,
        session: SessionManager | None = None,
        home: Path | None = None,
    ) -> "AgentSession":
        """A controller for a new session in a directory, or for `session`.

        Raises:
            InvalidSettings: the settings file cannot be used.
        """
        base = coppice_home() if home is None else home
        settings = load_settings(base)
        directory = Path(settings.session_dir).expanduser() if settings.session_dir else None
        setup = Setup(base, directory, "write", settings.sync == "entry")
        return cls(session or SessionManager.create(cwd, setup=setup), wishes, settings=settings)

    def _agent_for(self, session: SessionManager, kit: Kit, hooks: Hooks) -> tuple[Agent, SessionCompactor]:
        kit.output_dir = session.setup.home / "output"
        kit.system_prompt = lambda: self.system_prompt
        agent = Agent(session, kit)
        agent.subscribe(self._hear)
        kit.compactor = SessionCompactor(agent, self.settings.compaction, hooks=hooks, resolve=self._resolve)
        return agent, kit.compactor

    # --- what it is --------------------------------------------------------------------------

    @property
    def session(self) -> SessionManager:
        """The session we are in."""
        return self.agent.session

    @property
    def is_running(self) -> bool:
        """Whether a run is active, or a compaction or branch summary."""
        return self.agent.is_running or self.compactor.is_active

    @property
    def hooks(self) -> Hooks:
        """The table of hooks; add functions to its lists. It is kept when the session is switched."""
        return self.compactor.hooks

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the context at the leaf."""
        return self.agent.state.messages

    @property
    def system_prompt(self) -> str:
        """The system prompt as the next request has it: current files, date and directory."""
        cwd = Path(self.session.cwd)
        files = context_files(cwd, self.session.setup.home)
        tools = tuple(self.agent.kit.tools or ())
        return build_system_prompt(self._wishes.prompt, files, tools=tools, cwd=cwd, date=today())

    @property
    def model(self) -> Model:
        """The model the next prompt goes to: what was asked for, else what the path names, else the default.

        Raises:
            UnknownModel: it cannot be used; the text says why.
        """
        return self._settle_model()[0]

    @property
    def model_name(self) -> str:
        """The name ``provider/id`` of the model the next prompt goes to; nothing is loaded to know it.

        Where the path's model turns out to be unusable, another one may answer, and the user is told then.
        """
        wanted = self._wishes.model
        if wanted is not None:
            return wanted if isinstance(wanted, str) else wanted.info.name
        ref = self.session.model()
        if ref is not None:
            return f"{ref.provider}/{ref.model_id}"
        kit = self.agent.kit
        return kit.model.info.name if kit.model is not None else default_name(self.settings.model)

    @property
    def thinking_level(self) -> str:
        """The thinking level the next prompt has."""
        return self._wishes.thinking_level or level_on_path(self.session, self.settings.thinking_level)

    def get_session_stats(self) -> SessionStats:
        """Messages, tokens and cost, of the branch and of the file."""
        return session_stats(self.session)

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear every event from now on, also after the session was switched; call what is returned to stop."""
        return self._listeners.subscribe(listener)

    def _hear(self, event: SessionEvent) -> None:
        if isinstance(event, TurnEnd) and self.settings.sync == "turn":
            self.session.sync()
        self._listeners.tell(event)

    def report_notices(self) -> None:
        """Tell the listeners what the session has to say: damage, a second writer, a file that goes on elsewhere."""
        for text in self.session.take_notices():
            self._hear(Notice("warning", text))

    # --- talking -----------------------------------------------------------------------------

    async def prompt(self, content: Content, *, entry_id: EntryId | None = None) -> None:
        """Store a prompt and run until the model is done; see `Agent.prompt` for what it raises.

        A model or thinking level that was asked for is recorded before it.

        Raises:
            OpaqueContext: only another provider or account can read the context; the text says what can be done.
        """
        self._check_free()
        await send_prompt(Sender(self.agent, self.compactor, self._prepare_run), content, entry_id)

    async def continue_(self) -> None:
        """Let the model go on from the leaf; see `Agent.continue_`."""
        self._check_idle("continue")
        self._prepare_run()
        await self.agent.continue_()

    def _check_free(self) -> None:
        """A prompt may wait for a compaction, not for a run or a command."""
        if self.agent.is_running or self._command is not None:
            self._check_idle("prompt")

    def _prepare_run(self) -> None:
        self._check_free()
        self.session.check_bridges()
        model, why_another = self._settle_model()
        check_readable(self.session.build_context(), model.info)
        level = self.thinking_level
        if why_another is not None:
            self._hear(Notice("warning", f"{why_another}; going on with {model.info.name}"))
        ref = self.session.model()
        if ref != (model.info.provider, model.info.id):
            self.session.append_model_change(model.info.provider, model.info.id)
        if level != self.session.thinking_level():
            self.session.append_thinking_level_change(level)
        self._wishes = replace(self._wishes, model=None, thinking_level=None)
        self.report_notices()

    def _settle_model(self) -> tuple[Model, str | None]:
        """The model of the next request, and why it is another one than the path names, if it is."""
        kit = self.agent.kit
        wanted = self._wishes.model
        if wanted is not None:
            kit.model = self._resolve(wanted) if isinstance(wanted, str) else wanted
            self._wishes = replace(self._wishes, model=kit.model)
            return kit.model, None
        found, why = follow_path(kit.model, self.session.model(), self._resolve)
        if found is None:
            found = self._resolve(default_name(self.settings.model))
        kit.model = found
        return found, why

    def steer(self, content: Content) -> EntryId:
        """Have a message enter after the current turn's tools; durable when this returns its future entry id."""
        return self.agent.steer(content)

    def follow_up(self, content: Content) -> EntryId:
        """Have a message enter after the run; durable when this returns its future entry id."""
        return self.agent.follow_up(content)

    async def abort(self) -> None:
        """Stop the active run, compaction, branch summary or user's command, and wait until it has settled."""
        if self._command is not None:
            await self._command.stop()
        await self.compactor.abort()
        await self.agent.abort()

    def pending_prompts(self) -> list[Pending]:
        """Prompts that an earlier process accepted and never stored: to send or to drop, never sent by themselves."""
        return self.agent.queues.left_over()

    async def send_pending(self, entry_id: EntryId) -> None:
        """Send a pending prompt as the next one; see `prompt`.

        Raises:
            UnknownEntryId: nothing pending has this id.
        """
        match self._pending(entry_id).message:
            case UserMessage(content=content) | CustomMessage(content=content):
                await self.prompt(content, entry_id=entry_id)
            case other:
                raise UnknownEntryId(f"the pending prompt {entry_id!r} holds {type(other).__name__}, nothing to send")

    def queue_pending(self, entry_id: EntryId, kind: QueueKind) -> None:
        """Let a pending prompt wait in this process's queue.

        Raises:
            UnknownEntryId: nothing pending has this id.
        """
        self._pending(entry_id)
        self.agent.adopt(entry_id, kind)

    def drop_pending(self, entry_id: EntryId) -> None:
        """Drop a pending prompt.

        Raises:
            UnknownEntryId: nothing pending has this id.
        """
        self._pending(entry_id)
        self.agent.queues.done(entry_id)

    def _pending(self, entry_id: EntryId) -> Pending:
        for item in self.pending_prompts():
            if item.id == entry_id:
                return item
        raise UnknownEntryId(f"no pending prompt {entry_id!r}")

    async def run_bash(self, command: str, *, exclude: bool = False) -> BashExecutionMessage:
        """Run the user's own command and store it; `exclude` keeps it from the model (``!!``).

        Aborted, or with its caller cancelled, it is stored as cancelled with what it printed. While it runs nothing
        else writes to the session.

        Raises:
            Busy: a run or another command is active.
            ToolError, StorageFailure: it could not be started, or not be stored.
        """
        self._check_idle("run a command")
        halt = asyncio.Event()
        running = self._command = UserCommand(asyncio.create_task(self._run_bash(command, exclude, halt)), halt)
        return await running.wait()

    async def _run_bash(self, command: str, exclude: bool, halt: asyncio.Event) -> BashExecutionMessage:
        try:
            message = await run_user_bash(
                command,
                Path(self.session.cwd),
                output_dir=self.agent.kit.output_dir or self.session.setup.home / "output",
                exclude=exclude,
                on_output=lambda delta: self._hear(BashExecutionUpdate(delta)),
                halt=halt,
            )
            stored = self.session.append_message(message)
        finally:
            self._command = None
        self._hear(MessageStart(message))
        self._hear(MessageEnd(message, stored))
        self.report_notices()
        return message

    # --- settings of the conversation --------------------------------------------------------

    def set_model(self, model: str | Model) -> Model:
        """Switch the model from here on.

        Raises:
            Busy: a run is active.
            UnknownModel: it cannot be used; the old one stays.
        """
        self._check_idle("switch the model")
        chosen = self._resolve(model) if isinstance(model, str) else model
        self.session.append_model_change(chosen.info.provider, chosen.info.id)
        self.agent.kit.model, self._wishes = chosen, replace(self._wishes, model=None)
        self._hear(ModelChanged(chosen.info.provider, chosen.info.id))
        return chosen

    def set_thinking_level(self, level: str) -> None:
        """Switch the thinking level from here on.

        Raises:
            Busy: a run is active.
        """
        self._check_idle("switch the thinking level")
        self.session.append_thinking_level_change(level)
        self._wishes = replace(self._wishes, thinking_level=None)
        self._hear(ThinkingLevelChanged(level))

    def set_tools(self, tools: Iterable[str | Tool]) -> None:
        """Choose the tools the model is offered from the next run on.

        Raises:
            UsageError: there is no tool of one of the names.
        """
        self.agent.kit.tools = _tools(tools)

    def set_session_name(self, name: str) -> None:
        """Name the session; an empty name clears it."""
        self.session.append_session_info(name)
        self._hear(SessionInfoChanged(self.session.get_session_name()))

    def set_label(self, entry_id: EntryId, label: str | None) -> None:
        """Label an entry; None or an empty label clears it.

        Raises:
            UnknownEntryId: there is no such entry.
        """
        self.session.append_label_change(entry_id, label)
        self._hear(LabelChanged(entry_id, self.session.get_label(entry_id)))

    # --- compaction --------------------------------------------------------------------------

    async def compact(self, instructions: str | None = None, strategy: str | None = None) -> EntryId:
        """Condense the context now; the compaction entry's id. A run is aborted first. Nothing of the history goes.

        What was steered or queued meanwhile is sent after it, but not where it was aborted.

        Raises:
            Busy: a command of the user's is active.
            NothingToCompact, CompactionFailed, ProviderError, LeafMoved, StorageFailure: nothing changed.
            UsageError: there is no such strategy.
        """
        if self._command is not None:
            self._check_idle("compact")
        await self.agent.abort()
        sender = Sender(self.agent, self.compactor, self._prepare_run)
        try:
            return await compact_then_send(sender, self.compactor.compact(self.model, instructions, strategy))
        finally:
            self.report_notices()

    def preview_compaction(self, strategy: str | None = None) -> Preview:
        """What a compaction would do: what goes, what stays, tokens before and after. No model is called.

        Raises:
            NothingToCompact: there is nothing it could do.
        """
        return self.compactor.preview(self.model, strategy)

    def undo_compaction(self) -> EntryId | None:
        """Move the leaf to just before the newest compaction; moving back redoes it. The compaction's id, None without
        one on the path.

        Raises:
            Busy: a run is active.
            StorageFailure: the leaf stays.
        """
        self._check_idle("undo a compaction")
        newest = self.session.store.newest_compaction(self.session.leaf)
        if newest is None:
            return None
        self.session.branch(newest.parent_id)
        self._hear(LeafChanged(newest.parent_id))
        return newest.id

    def use_readable_summary(self) -> EntryId | None:
        """Go on with the newest compaction's readable summary in the place of what only its provider can read, which may
        say little. Stored as a context edit, so going back before it undoes it. The compaction's id, None where nothing
        in the context is of this kind.

        Raises:
            Busy: a run is active.
            StorageFailure: nothing changed.
        """
        self._check_idle("change the context")
        newest = self.session.store.newest_compaction(self.session.leaf)
        if newest is None or not has_opaque(self.session.build_context()):
            return None
        self.session.append_context_edit(newest.id, newest.summary)
        return newest.id

    # --- the tree ----------------------------------------------------------------------------

    def _check_idle(self, what: str) -> None:
        if self.is_running or self._command is not None:
            active = "a run" if self.is_running else "a command"
            raise Busy(f"cannot {what} while {active} is active: abort it or wait for it")

    async def navigate_tree(
        self, entry_id: EntryId, *, summarize: bool = False, instructions: str | None = None
    ) -> str:
        """Go to an entry: on an assistant or other entry the conversation goes on after it, a user message comes back
        as the editor text that is returned, with the leaf before it.

        With `summarize` the branch that is left is summarised where the new one goes on (by a hook, if one gives the
        text); `instructions` are the user's for that summary.

        Raises:
            Busy: a run is active.
            NavigationCancelled: a hook forbids it.
            UnknownEntryId, CompactionFailed, ProviderError, LeafMoved, StorageFailure: the leaf stays.
        """
        self._check_idle("move in the tree")
        target, left = target_of(self.session, entry_id), self.session.get_leaf_id()
        given = await ask_before(self.agent, self.compactor, BeforeNavigate(entry_id, left, summarize))
        if summarize and target.leaf_id != left:
            move = Move(left, target.leaf_id)
            await leave_with_summary(
                self.agent, self.compactor, move, model=self.model, instructions=instructions, given=given
            )
        else:
            self.session.branch(target.leaf_id, expect=left)
        self._hear(LeafChanged(self.session.get_leaf_id(), target.editor_text or None))
        self.report_notices()
        return target.editor_text

    def fork(self, entry_id: EntryId) -> str:
        """Go on in a new session that holds the path to an entry (before a user message, whose text is returned).

        Raises:
            Busy: a run is active.
            UnknownEntryId, StorageFailure: this session stays the active one.
        """
        self._check_idle("fork")
        forked = fork_at(self.session, entry_id)
        self._switch_to(forked.session, "fork")
        return forked.editor_text

    def clone(self) -> None:
        """Go on in a new session that holds the path to the leaf.

        Raises:
            Busy, StorageFailure: as `fork`.
        """
        self._check_idle("clone")
        self._switch_to(self.session.create_branched_session(), "clone")

    def new_session(self) -> None:
        """Go on in a new, empty session of the same directory.

        Raises:
            Busy: a run is active.
        """
        self._check_idle("begin a new session")
        self._switch_to(self.session.new_session(), "new")

    def switch_session(self, path: str | Path, *, mode: Mode = "write") -> None:
        """Go on in another session file; where we are in it already, nothing happens.

        Raises:
            Busy: a run is active.
            SessionNotFound, NotASession, SessionHeld, StorageFailure: this session stays the active one.
        """
        self._check_idle("switch sessions")
        here = self.session
        if here.is_stored and here.setup.mode == mode and here.session_file == Path(path).expanduser().absolute():
            return
        self._switch_to(SessionManager.open(path, mode=mode, setup=self.session.setup), "resume")

    def _switch_to(self, session: SessionManager, reason: str) -> None:
        old = self.agent
        self.agent, self.compactor = self._agent_for(session, old.kit, self.compactor.hooks)
        old.session.close()
        path = session.session_file
        self._hear(SessionSwitched(reason, session.session_id, str(path) if path else None))
        self.report_notices()

    # --- the end -----------------------------------------------------------------------------

    async def close(self) -> None:
        """Abort what runs, give back the session. Safe to call twice."""
        await self.abort()
        self.session.close()

    async def __aenter__(self) -> "AgentSession":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def today() -> str:
    """Today's date where the user is, ISO 8601."""
    return datetime.now().astimezone().date().isoformat()


def _tools(wanted: Iterable[str | Tool]) -> dict[str, Tool]:
    made: dict[str, Tool] = {}
    for tool in wanted:
        made |= make_tools([tool]) if isinstance(tool, str) else {tool.name: tool}
    return made
