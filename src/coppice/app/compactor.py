"""`SessionCompactor`: compacts one session. It decides when, asks a strategy, judges the result and stores it.

The loop and the controller ask it; it calls no tool and knows no screen. A failed or useless compaction changes nothing.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

from coppice.agent.agent import Agent
from coppice.agent.run import reader_of
from coppice.app.compaction_entry import Wish, draft_of, dropped_context, result_of
from coppice.app.extensions.hooks import AfterCompact, Hooks, Stop, ask_hooks
from coppice.app.models import Resolve, newest_reply
from coppice.app.preview import Preview, preview_of
from coppice.compaction.corrections import Corrections
from coppice.compaction.estimate import estimate_message, estimate_request
from coppice.compaction.said import newest_said
from coppice.compaction.settings import CompactionSettings, Limits, limits_for
from coppice.compaction.strategy import (
    CompactionFailed,
    NothingToCompact,
    Occasion,
    Phase,
    Reason,
    Result,
    Retrying,
    Work,
)
from coppice.compaction.tokens import ContextSize, context_size, what_is_large
from coppice.compaction.triggers import (
    is_downshift,
    is_due,
    is_full_stop,
    is_hash_change,
    is_overflow,
    limit_of,
)
from coppice.errors import CoppiceError, ProviderError
from coppice.format.entries import MessageEntry
from coppice.format.events import CompactionEnd, CompactionStart, Notice, SummarizationRetryScheduled
from coppice.format.messages import (
    AssistantMessage,
    EntryId,
    Message,
    UserMessage,
)
from coppice.providers.base import Model
from coppice.tree.context import ContextView

T = TypeVar("T")

MIN_SHRINK = 0.95
"""A result must be at most this part of what it replaces; else it is discarded (5 %, from everruns' rule)."""

MAX_NO_PROGRESS = 3
"""After so many compactions in a row without progress a run stops; only a user message resets the count."""

REARM_TOKENS = 4_096
"""After a useless compaction the context must grow by this many tokens (and 5 %) before the next automatic one."""


class ContextFull(CoppiceError):
    """The context is too large and compaction does not help; the text says what is too large and what can be done."""


class CompactionAborted(CompactionFailed):
    """The user stopped a compaction; nothing changed."""


class RunStopped(CoppiceError):
    """A hook ended the run."""


@dataclass(slots=True)
class _Guard:
    """What keeps automatic compaction from running in circles; reset by a user's message only, the last of which is
    ``said``."""

    no_progress: int = 0
    overflowed: bool = False
    useless_at: int | None = None
    said: EntryId | None = None


class _Switch(NamedTuple):
    """The model that is left, and why the context is to be condensed with it first."""

    model: Model
    reason: Reason


class SessionCompactor:
    """Compacts the session of one agent."""

    __slots__ = ("_active", "_agent", "_corrections", "_guard", "_resolve", "hooks", "settings")

    def __init__(self, agent: Agent, settings: CompactionSettings, *, hooks: Hooks, resolve: Resolve) -> None:
        self._agent = agent
        self.settings = settings
        self.hooks = hooks
        self._resolve = resolve
        self._corrections = Corrections(agent.session.setup.home)
        self._guard = _Guard()
        self._active: asyncio.Future[Any] | None = None

    @property
    def is_active(self) -> bool:
        """Whether a compaction outside a run is active now."""
        return self._active is not None

    # --- sizes -------------------------------------------------------------------------------

    def limits(self, model: Model) -> Limits:
        """The numbers in force for a model."""
        return limits_for(self.settings, model.info.name, model.info.context_window)

    def size(self, model: Model) -> ContextSize:
        """The context's size in a model's tokens."""
        request = self._agent.next_frame()
        overhead = estimate_request(request.system_prompt, (), request.tools)
        ratio = self._corrections.ratio(model.info.name)
        return context_size(self._agent.session.build_context(), overhead=overhead, ratio=ratio)

    def is_due(self, model: Model, *, extra: Message | None = None) -> bool:
        """Whether an automatic compaction comes before the next request (with `extra` on top of the context)."""
        if not self.settings.auto:
            return False
        size = self.size(model)
        more = estimate_message(extra) if extra is not None else 0
        return is_due(size.tokens + more, self.limits(model), baseline=size.first_report) and self._is_armed(
            size.tokens
        )

    def _is_armed(self, tokens: int) -> bool:
        useless = self._guard.useless_at
        return useless is None or tokens >= max(useless + REARM_TOKENS, useless * 105 // 100)

    # --- automatic ---------------------------------------------------------------------------

    def user_said_something(self) -> None:
        """A real user message was accepted: the guards begin anew."""
        self._guard = _Guard(useless_at=self._guard.useless_at)

    def _hear_user(self) -> None:
        """What was steered or followed up inside a run is a user's message too."""
        said = newest_said(self._agent.session)
        if said is not None and said.entry_id != self._guard.said:
            self._guard = _Guard(useless_at=self._guard.useless_at, said=said.entry_id)

    async def before_prompt(self, message: UserMessage) -> None:
        """Compact before a turn if that is due with its prompt. A compaction that runs is waited for first.

        Raises:
            CompactionFailed, ProviderError, ContextFull: the context is as it was; do not send the prompt.
        """
        await self.wait()
        model = self._model()
        switch = self._switch_to(model)
        if switch is not None:
            await self.alone(self._compact_before(switch, model))
        if self.is_due(model, extra=message):
            await self.alone(self._automatic(model, "threshold", "pre_turn"))

    def comes_before(self, message: UserMessage) -> bool:
        """Whether a prompt has to wait for a compaction."""
        model = self._model()
        return self.is_active or self.is_due(model, extra=message) or self._switch_to(model) is not None

    async def before_request(self, *, is_mid_turn: bool) -> bool:
        """See `coppice.agent.run.Compactor`.

        Raises:
            ContextFull: the context is larger than the window and compaction does not help.
            CompactionFailed, ProviderError: the summary failed; nothing changed.
            RunStopped: a hook ended the run.
        """
        model = self._model()
        self._hear_user()
        if not self.is_due(model):
            return False
        return await self._automatic(model, "threshold", "mid_turn" if is_mid_turn else "pre_turn")

    async def after_overflow(self, error: ProviderError) -> bool:
        """See `coppice.agent.run.Compactor`."""
        model = self._model()
        self._hear_user()
        if not is_overflow(error, self.size(model).tokens, self.limits(model)):
            return False
        if not self.settings.auto or self._guard.overflowed:
            self._tell(self._too_large("the provider says that the request is larger than its window"))
            return False
        self._guard.overflowed = True
        return await self._try_to_make_room(model, "overflow")

    async def after_reply(self, reply: AssistantMessage) -> bool:
        """See `coppice.agent.run.Compactor`; also learns how this model counts."""
        model = self._model()
        self._hear_user()
        self._learn(model, reply)
        if reply.stop_reason != "length":
            return False
        if not is_full_stop(reply, self.limits(model)) or not self.settings.auto or self._guard.overflowed:
            self._tell("the reply was cut off: it reached its length limit")
            return False
        self._guard.overflowed = True
        return await self._try_to_make_room(model, "length")

    async def _try_to_make_room(self, model: Model, reason: Reason) -> bool:
        try:
            await self._compact(self._work(model, reason, "mid_turn"), strategy=None, will_retry=True)
        except (CompactionFailed, ProviderError) as error:
            self._tell(self._too_large(f"{error}; the context is full"))
            return False
        return True

    async def _automatic(self, model: Model, reason: Reason, phase: Phase) -> bool:
        if self._guard.no_progress >= MAX_NO_PROGRESS:
            raise ContextFull(self._too_large(f"{MAX_NO_PROGRESS} compactions in a row made no room"))
        if not self._agent.session.build_context().pairs:
            return False  # a first prompt that is large by itself
        work = self._work(model, reason, phase)
        try:
            await self._compact(work, strategy=None)
        except NothingToCompact as error:
            self._guard.useless_at = work.tokens
            self._guard.no_progress += 1
            window = work.limits.window
            if window is not None and work.tokens > window:
                raise ContextFull(self._too_large(str(error))) from error
            return False
        window = work.limits.window
        if window is not None and self.size(model).tokens > window:
            raise ContextFull(self._too_large("compaction did not make enough room"))
        return True

    # --- change of model ---------------------------------------------------------------------

    def _switch_to(self, new: Model) -> _Switch | None:
        """The model of the newest reply, where the context must be condensed with it before another one reads it."""
        session = self._agent.session
        reply, is_compacted = newest_reply(session)
        if reply is None or not self.settings.auto or (reply.provider, reply.model) == (new.info.provider, new.info.id):
            return None
        try:
            old = self._resolve(f"{reply.provider}/{reply.model}")
        except CoppiceError:
            return None
        if is_downshift(self.size(new).tokens, self.limits(old), self.limits(new)):
            return _Switch(old, "downshift")
        is_changed = is_hash_change(old.info.compaction_hash, new.info.compaction_hash)
        return _Switch(old, "hash") if is_changed and not is_compacted else None

    async def _compact_before(self, switch: _Switch, new: Model) -> None:
        """With the old model, which has the room; once more with the new one if that fails."""
        old, reason = switch
        try:
            await self._compact(self._work(old, reason, "pre_turn"), strategy=None)
        except NothingToCompact as error:
            self._tell(str(error))
        except (CompactionFailed, ProviderError) as error:
            self._tell(f"{old.info.name} could not condense the context ({error}); trying {new.info.name}")
            await self._compact(self._work(new, reason, "pre_turn"), strategy=None)

    # --- asked for ---------------------------------------------------------------------------

    async def compact(self, model: Model, instructions: str | None, strategy: str | None) -> EntryId:
        """Compact because the user asks; the entry's id. If one runs already and succeeds, it is that one.

        Raises:
            NothingToCompact, CompactionFailed, ProviderError, LeafMoved, StorageFailure: nothing changed.
        """
        session = self._agent.session
        running, before = self._active, session.store.newest_compaction(session.leaf)
        if running is not None:
            await self.wait()
            if running.cancelled():
                raise CompactionAborted("the compaction was aborted; nothing changed")
            newest = session.store.newest_compaction(session.leaf)
            if newest is not None and newest != before:
                if instructions or strategy:
                    self._tell("a compaction was running already: it stands, without what was asked for now")
                return newest.id
        return await self.alone(
            self._compact(self._work(model, "manual", "standalone", instructions), strategy=strategy)
        )

    async def alone(self, work: Coroutine[object, object, T]) -> T:
        """Run a compaction or a branch summary outside a run, so that `abort` can stop it.

        Raises:
            CompactionAborted: it was stopped; nothing changed.
        """
        try:
            await self.wait()
        except asyncio.CancelledError:
            work.close()
            raise
        active = asyncio.ensure_future(work)
        self._active = active
        try:
            return await asyncio.shield(active)
        except asyncio.CancelledError:
            if active.cancelled():
                raise CompactionAborted("the compaction was aborted; nothing changed") from None
            active.cancel()
            await asyncio.wait([active])
            raise
        finally:
            self._active = None

    async def abort(self) -> None:
        """Stop a compaction that was asked for, and wait until it is gone."""
        active = self._active
        if active is not None:
            active.cancel()
            await asyncio.wait([active])

    async def wait(self) -> None:
        """Wait until nothing runs outside a run, also not what began when another ended."""
        while (active := self._active) is not None:
            await asyncio.wait([active])

    def preview(self, model: Model, strategy: str | None) -> Preview:
        """What a compaction would do; no model is called.

        Raises:
            NothingToCompact, OpaqueContext: there is nothing it could do.
        """
        work = self._work(model, "manual", "standalone")
        return preview_of(work, Wish(self.settings.strategy, strategy))

    # --- the work ----------------------------------------------------------------------------

    def work_for_branch(self, model: Model, instructions: str | None) -> Work:
        """What a branch summary of the path to the leaf works with.

        Raises:
            NothingToCompact: the context is empty.
        """
        return self._work(model, "manual", "standalone", instructions)

    def _work(self, model: Model, reason: Reason, phase: Phase, instructions: str | None = None) -> Work:
        session = self._agent.session
        leaf = session.get_leaf_id()
        view = session.build_context()
        if leaf is None or not view.pairs:
            raise NothingToCompact("nothing to compact: the context is empty")
        ratio = self._corrections.ratio(model.info.name)

        def measure(message: Message) -> int:
            return round(estimate_message(message) * ratio)

        return Work(
            view=view,
            leaf=leaf,
            said=newest_said(session),
            model=model,
            request=replace(self._agent.next_frame(), messages=session.request_messages(reader_of(model))),
            tokens=self.size(model).tokens,
            limits=self.limits(model),
            settings=self.settings,
            occasion=Occasion(reason, phase, instructions),
            measure=measure,
            on_retry=self._on_retry,
        )

    async def _compact(self, work: Work, *, strategy: str | None, will_retry: bool = False) -> EntryId:
        wish = Wish(self.settings.strategy, strategy)
        about = (work.reason, work.phase, wish.strategy(work), work.tokens)
        session = self._agent.session
        self._agent.emit(CompactionStart(*about))
        try:
            result = await result_of(work, wish, self.hooks, self._tell)
            self._judge(work, result)
            draft = draft_of(work, result, session.store.ordinal)
            entry_id = session.append_compaction(draft, expect=work.leaf)
        except asyncio.CancelledError:
            self._agent.emit(CompactionEnd(*about, aborted=True))
            raise
        except CoppiceError as error:
            self._agent.emit(CompactionEnd(*about, error_message=str(error)))
            raise
        self._tell_losses(work, result)
        about = (work.reason, work.phase, result.strategy, work.tokens)
        after = self.size(work.model).tokens  # as the next request has it, system prompt and tools included
        self._agent.emit(CompactionEnd(*about, after, entry_id, result.summary, will_retry=will_retry))
        self._count(work, after)
        await self._after(AfterCompact(entry_id, work.reason, result.strategy, work.tokens, after))
        return entry_id

    def _tell_losses(self, work: Work, result: Result) -> None:
        if dropped := result.details.get("droppedOldest"):
            self._tell(f"the summariser could not be shown the oldest {dropped} messages: they did not fit")
        if kinds := dropped_context(work, result):
            self._tell(f"no longer word for word in the context, until an extension adds it again: {', '.join(kinds)}")

    def _judge(self, work: Work, result: Result) -> None:
        before = sum(work.measure(message) for _, message in work.view.pairs)
        if result.tokens_after > before * MIN_SHRINK:
            raise NothingToCompact(
                f"the compaction would not help: about {before:,} tokens before, {result.tokens_after:,} after; "
                "it was discarded"
            )

    def _count(self, work: Work, tokens_after: int) -> None:
        limit = limit_of(work.limits)
        if limit is not None and tokens_after >= limit:
            self._guard.no_progress += 1
        else:
            self._guard.no_progress, self._guard.useless_at = 0, None

    async def _after(self, event: AfterCompact) -> None:
        verdict = await ask_hooks(self.hooks.after_compact, event, self._tell)
        if isinstance(verdict, Stop):
            raise RunStopped(f"a hook ended the run after the compaction {event.entry_id}: {verdict.reason}")

    # --- small things ------------------------------------------------------------------------

    def _model(self) -> Model:
        return self._agent.model

    def _learn(self, model: Model, reply: AssistantMessage) -> None:
        usage = reply.usage
        reported = usage.input + usage.cache_read + usage.cache_write
        if not LEARN_FROM <= reported <= LEARN_TO or not self._corrections.wants_sample(model.info.name):
            return
        session = self._agent.session
        leaf = session.get_leaf_id()
        entry = None if leaf is None else session.get_entry(leaf)
        if not isinstance(entry, MessageEntry) or entry.message != reply:
            return
        request = self._agent.next_frame()
        sent = session.request_messages(reader_of(model), entry.parent_id)
        estimated = estimate_request(request.system_prompt, sent, request.tools)
        self._corrections.learn(model.info.name, estimated, reported)

    def _on_retry(self, retrying: Retrying) -> None:
        self._agent.emit(
            SummarizationRetryScheduled(retrying.attempt, retrying.max_attempts, retrying.delay_ms, retrying.error)
        )

    def _tell(self, text: str) -> None:
        self._agent.emit(Notice("warning", text))

    def _too_large(self, why: str) -> str:
        view: ContextView = self._agent.session.build_context()
        large = ", ".join(f"{entry_id} (about {tokens:,} tokens)" for entry_id, tokens in what_is_large(view))
        return (
            f"{why}. What takes most of the context: {large}. Go back before it in /tree, compact with other "
            "instructions (/compact), or switch to a model with a larger window (/model)"
        )


LEARN_FROM, LEARN_TO = 500, 60_000
"""Requests of this size in tokens teach how a model counts: smaller ones say little, larger ones cost time to estimate."""
