"""The conversation at a terminal, in plain lines: what is typed becomes prompts, commands and steering.

At the prompt the system's line editing reads; while a run is active the event loop does, so that lines steer it.
"""

import asyncio
import signal
import threading
from collections.abc import Container, Coroutine
from dataclasses import replace
from types import FrameType

from coppice import __version__
from coppice.agent.queues import text_of_message
from coppice.app.agent_session import AgentSession
from coppice.app.commands import Ask, Command, Leave, Moved, SessionsShown, Switched, TreeShown, find_command
from coppice.errors import BridgeNeedsConsent, CoppiceError
from coppice.format.messages import Content, EntryId
from coppice.interfaces.cli.leaving import last_words
from coppice.interfaces.cli.line_editor import LineEditor, TypedLines
from coppice.interfaces.cli.one_run import Ended, run_to_its_end
from coppice.interfaces.cli.options import Options
from coppice.interfaces.cli.outcome_lines import outcome_lines, place_of
from coppice.interfaces.cli.output import line_width
from coppice.interfaces.cli.printable import cut, first_line, printable
from coppice.interfaces.cli.starting import start_notices
from coppice.interfaces.cli.status_line import StatusLine
from coppice.interfaces.cli.transcript import Transcript
from coppice.providers.catalogue import warm_up

PATIENCE = 3
"""The Ctrl-C of a run that ends the process: people press it twice without meaning that."""


def run(session: AgentSession, options: Options, first: Content | None) -> int:
    """Talk until the user leaves; the value is the exit code.

    Raises:
        CoppiceError: the model cannot be used.
    """
    status = StatusLine()
    with asyncio.Runner() as runner:
        repl = Repl(session, runner, Transcript(status))
        try:
            repl.open(options)
            repl.talk(first)
        finally:
            runner.run(session.close())
            for line in last_words(session.session, options.session.directory, repl.missing):
                status.refuse(line)
    return 0


def _leave(number: int, _: FrameType | None) -> None:
    raise SystemExit(128 + number)


class Repl:
    """One conversation. It owns what the numbers on the screen mean, and what could not be stored."""

    def __init__(self, session: AgentSession, runner: asyncio.Runner, transcript: Transcript) -> None:
        self.session = session
        self.missing: list[str] = []
        self._runner = runner
        self._transcript = transcript
        self._editor = LineEditor()
        self._shown = Ask(session)
        self._leaving = False
        self._under_way: set[asyncio.Future[None]] = set()

    # --- from the first line to the last ---------------------------------------------------------

    def open(self, options: Options) -> None:
        """Say where we are and what has to be said first."""
        self.session.subscribe(self._transcript.hear)
        notices = start_notices(self.session, options.model)
        self._transcript.line(f"coppice {__version__}, /help lists the commands; {place_of(self.session)}")
        for notice in notices:
            self._transcript.notice(notice)
        self.session.report_notices()
        threading.Thread(target=warm_up, args=(self.session.model_name,), daemon=True).start()
        self._offer_left_over()

    def talk(self, first: Content | None) -> None:
        """Send the first prompt, if there is one, then read until the user leaves."""
        if first is not None and not self._leaving:
            self._said(first, on_screen=False)
        interrupted = False
        while not self._leaving:
            try:
                line = self._read(self._prompt())
            except KeyboardInterrupt:
                leave, interrupted = interrupted and not self._editor.has_text(), not self._editor.has_text()
                self._transcript.line("" if leave or not interrupted else " (Ctrl-C again leaves)")
                self._leaving = leave
                continue
            except EOFError:
                self._transcript.line("")
                break
            interrupted = False
            self._take(line)

    def _prompt(self) -> str:
        session = self.session.session
        name = first_line(session.get_session_name() or "") or session.session_id[:8]
        model = self.session.model_name
        along = ", read-only" if session.setup.mode == "read" else ""
        return f"{cut(name, 30)} [{printable(model)}{along}]> "

    def _read(self, prompt: str) -> str:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _leave)
        return self._editor.read(prompt)

    # --- what is typed at the prompt -------------------------------------------------------------

    def _take(self, line: str) -> None:
        text = line.strip()
        found = find_command(text)
        name = text.partition(" ")[0]
        if found is not None:
            self._command(*found)
        elif name.startswith("/") and "/" not in name[1:] and name[1:].isalpha():
            self._transcript.refuse(f"there is no command {name}; /help lists them")
        elif text.startswith("!") and text.strip("!").strip():
            command = text.removeprefix("!")
            exclude = command.startswith("!")
            self._settle(self.session.run_bash(command.removeprefix("!").strip(), exclude=exclude))
        elif text:
            self._said(line.strip("\n"))

    def _command(self, command: Command, words: str) -> None:
        """Do a command at the prompt, to its end; Ctrl-C aborts it as it aborts a run."""
        self._settle(self._done(command, words))

    async def _done(self, command: Command, words: str) -> None:
        ask = Ask(self.session, words, self._shown.entries, self._shown.sessions)
        try:
            outcome = await command.run(ask)
        except CoppiceError as error:
            self._transcript.refuse(str(error))
            return
        for shown in outcome_lines(self.session, outcome, line_width()):
            self._transcript.line(shown)
        match outcome:
            case Leave():
                self._leaving = True
                self.session.agent.abort_nowait()
            case TreeShown(rows=rows):
                self._shown = Ask(self.session, "", tuple(row.id for row in rows), self._shown.sessions)
            case SessionsShown(rows=rows):
                self._shown = Ask(self.session, "", self._shown.entries, tuple(str(row.path) for row in rows))
            case Moved(editor_text=text):
                self._editor.draft = text
            case Switched(editor_text=text):
                self._editor.draft, self._shown = text, Ask(self.session)
            case _:
                pass

    def _said(self, content: Content, *, on_screen: bool = True) -> None:
        self._transcript.expect_prompt(on_screen=on_screen)
        known = {item.id for item in self.session.pending_prompts()}
        ended = self._settle(self.session.prompt(content))
        if isinstance(ended.failure, BridgeNeedsConsent) and self._asked("Go on all the same? [y/N] ") == "y":
            self.session.session.accept_bridges()
            ended = self._settle(self.session.prompt(content))
        if ended.missing == "the prompt" and isinstance(content, str):
            self._editor.draft = content
        self._offer_left_over("The prompt has not entered the conversation", known)

    def _asked(self, question: str) -> str:
        try:
            return self._read(question).strip().lower()[:1]
        except (EOFError, KeyboardInterrupt):
            self._transcript.line("")
            return ""

    # --- while a run is active -------------------------------------------------------------------

    def _settle(self, work: "Coroutine[None, None, object]") -> Ended:
        """Do some work to its end, while lines that are typed steer it."""
        ended, typed = self._runner.run(self._with_typing(work))
        if ended.refusal is not None and ended.refusal != self._transcript.told:
            self._transcript.refuse(ended.refusal)
        if ended.missing is not None:
            self.missing.append(ended.missing)
        back = [*self.session.agent.clear_queue(), *([typed.rest] if typed.rest else [])]
        if back:
            self._editor.draft = "\n".join(back)
        if ended.signal is not None and ended.signal != signal.SIGINT:
            raise SystemExit(128 + ended.signal)
        self._leaving = self._leaving or typed.ended
        return ended

    async def _with_typing(self, work: "Coroutine[None, None, object]") -> tuple[Ended, TypedLines]:
        with TypedLines(self._typed) as typed:
            ended = await run_to_its_end(self.session, work, patience=PATIENCE)
            while self._under_way:  # a command that was typed may have stopped the run to do its own work
                later = await run_to_its_end(self.session, self._commands(), patience=PATIENCE)
                ended = replace(ended, signal=ended.signal or later.signal)
            return ended, typed

    async def _commands(self) -> None:
        await asyncio.gather(*self._under_way)

    def _typed(self, line: str) -> None:
        text = line.strip()
        found = find_command(text)
        try:
            if found is not None:
                task = asyncio.ensure_future(self._done(*found))
                self._under_way.add(task)
                task.add_done_callback(self._under_way.discard)
            elif text.startswith("!"):
                self._transcript.refuse("a run is active: commands of yours can follow it")
            elif text.startswith(">"):
                self.session.follow_up(text[1:].strip())
            elif text:
                self.session.steer(text)
        except CoppiceError as error:
            self._transcript.refuse(str(error))

    # --- what an earlier process left ------------------------------------------------------------

    def _offer_left_over(
        self, what: str = "A prompt of an earlier run never entered the conversation", known: Container[EntryId] = ()
    ) -> None:
        """Ask about the prompts that wait in no queue, but not about those that are known."""
        for item in self.session.pending_prompts():
            if item.id in known:
                continue
            text = printable(text_of_message(item.message), lines=True).replace("\n", "\n  ")
            self._transcript.line(f"{what}:\n  {text}")
            match self._asked("Send it, drop it, or keep it for later? [s/d/K] "):
                case "s":
                    self._settle(self.session.send_pending(item.id))
                case "d":
                    self.session.drop_pending(item.id)
                case _:
                    pass
            if self._leaving:
                return
