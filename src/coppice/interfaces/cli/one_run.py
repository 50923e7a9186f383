"""One run with nobody at the keyboard: a prompt is sent, signals settle it, and how it ended becomes an exit code."""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType

from coppice.app.agent_session import AgentSession
from coppice.errors import CoppiceError, StorageFailure
from coppice.format.entries import MessageEntry
from coppice.format.events import MessageEnd, SessionEvent
from coppice.format.messages import AssistantMessage, Content, UserMessage

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What a terminal, a supervisor and a closed terminal send."""


class Interruption:
    """While it is entered, the first of `SIGNALS` asks the run to stop; the one after `patience` ends the process."""

    def __init__(self, stop: Callable[[], object], patience: int) -> None:
        self._stop = stop
        self._patience = patience
        self.signal: int | None = None

    def __enter__(self) -> "Interruption":
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self._heard, number)
        return self

    def _heard(self, number: int) -> None:
        self._patience -= 1
        if self._patience <= 0:
            for each in SIGNALS:
                signal.signal(each, signal.SIG_DFL)
        if self.signal is None:
            self.signal = number
            self._stop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.remove_signal_handler(number)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: what it raised, if anything, and the signal that stopped it, if one did."""

    failure: BaseException | None = None
    signal: int | None = None
    missing: str | None = None
    """What could not be stored, in words; None if everything was."""

    @property
    def refusal(self) -> str | None:
        """What went wrong outside the model, in one line; None if nothing did."""
        if self.failure is None or self.signal is not None:
            return None
        if isinstance(self.failure, CoppiceError):
            return str(self.failure)
        return f"the run failed, which is a bug: {type(self.failure).__name__}: {self.failure}"


async def run_prompt(session: AgentSession, content: Content) -> Ended:
    """Send a prompt and wait until its run has settled, whatever ends it."""
    return await run_to_its_end(session, session.prompt(content))


async def run_to_its_end(session: AgentSession, work: Coroutine[None, None, object], *, patience: int = 1) -> Ended:
    """Do some work of a session and wait until it has settled. `patience`: how many signals do not end the process."""
    with Stored(session) as stored:
        run = asyncio.ensure_future(work)
        with Interruption(run.cancel, patience) as interruption:
            await asyncio.wait([run])
    failure = None if run.cancelled() else run.exception()
    return Ended(failure, interruption.signal, stored.missing(failure))


class Stored:
    """Knows, while it is entered, what was stored last, so that it can be said what is missing when storing fails."""

    def __init__(self, session: AgentSession) -> None:
        self._session = session
        self._leave: Callable[[], None] | None = None
        self._last: str | None = None

    def __enter__(self) -> "Stored":
        self._leave = self._session.subscribe(self._hear)
        return self

    def _hear(self, event: SessionEvent) -> None:
        if isinstance(event, MessageEnd):
            self._last = "prompt" if isinstance(event.message, UserMessage) else "more"

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._leave is not None:
            self._leave()

    def missing(self, failure: BaseException | None) -> str | None:
        """What a run that ended so could not store."""
        if not isinstance(failure, StorageFailure):
            return None
        match self._last:
            case None:
                return "the prompt"
            case "prompt":
                return "the reply"
            case _:
                return "the newest reply or tool result"


def newest_reply(session: AgentSession) -> AssistantMessage | None:
    """The newest reply on the path."""
    for entry in session.session.turn_after(None):
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
            return entry.message
    return None


def exit_code(session: AgentSession, ended: Ended, tell: Callable[[str], None]) -> int:
    """The exit code of a run; `tell` is given the reason where it failed."""
    if ended.signal is not None:
        return 128 + ended.signal
    refusal = ended.refusal
    if refusal is not None:
        tell(refusal)
        return 1
    reply = newest_reply(session)
    if reply is None or reply.stop_reason not in ("error", "aborted"):
        return 0
    tell(reply.error_message or f"the reply ended as {reply.stop_reason!r}")
    return 1


@dataclass(frozen=True, slots=True)
class Done:
    """What one answer came to: the exit code, and what could not be stored."""

    code: int
    missing: str | None = None
