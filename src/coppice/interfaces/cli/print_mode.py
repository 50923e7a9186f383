"""`coppice -p`: the text of the final reply on standard output; tools, progress and notices on standard error."""

import asyncio
import sys
from collections.abc import Callable, Sequence

from coppice.app.agent_session import AgentSession
from coppice.app.commands import Ask, Command, Moved, Outcome, Switched, find_command
from coppice.format.events import (
    AutoRetryStart,
    MessageUpdate,
    Notice,
    SessionEvent,
    TextDelta,
    ThinkingDelta,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from coppice.format.messages import Content, text_of
from coppice.interfaces.cli.call_lines import call_line, failure_line, last_line
from coppice.interfaces.cli.compaction_lines import compaction_line, untold_failure
from coppice.interfaces.cli.one_run import Done, exit_code, newest_reply, run_prompt, run_to_its_end
from coppice.interfaces.cli.outcome_lines import outcome_lines
from coppice.interfaces.cli.output import line_width, write_line
from coppice.interfaces.cli.printable import printable
from coppice.interfaces.cli.status_line import StatusLine


class Progress:
    """Shows the events of a run on a status line."""

    def __init__(self, status: StatusLine) -> None:
        self._status = status
        self._characters = 0
        self._told: str | None = None

    def hear(self, event: SessionEvent) -> None:
        """Show one event."""
        status = self._status
        match event:
            case MessageUpdate(assistant_message_event=TextDelta(delta=text) | ThinkingDelta(delta=text)):
                self._characters += len(text)
                status.show(f"replying, {self._characters:,} characters")
            case ToolExecutionStart():
                self._characters = 0
                status.say(f"→ {call_line(event.tool_name, event.args)}")
            case ToolExecutionUpdate():
                status.show(f"  {printable(event.tool_name)}: {last_line(event.partial_result.content)}")
            case ToolExecutionEnd(is_error=True):
                status.say(f"✗ {printable(event.tool_name)}: {failure_line(event.result.content)}")
            case AutoRetryStart():
                status.notice(f"{event.error_message}; trying again in {event.delay_ms / 1000:.1f} s")
            case Notice(level="error"):
                pass  # the run raises it too, and then it is told
            case Notice():
                status.notice(event.message)
            case _:
                self._compaction(event)

    def _compaction(self, event: SessionEvent) -> None:
        shown, failure = compaction_line(event), untold_failure(event)
        if shown is not None:
            self._status.say(printable(shown))
        if failure is not None:
            self.refuse(failure)

    def refuse(self, text: str) -> None:
        """Why something was not done, unless that was the last thing told."""
        if text != self._told:
            self._status.refuse(text)
        self._told = text


def run_command(session: AgentSession, text: str, status: StatusLine) -> int | None:
    """Do the command that a prompt is, and print what it answers; the exit code, None for a prompt that is none.

    Raises:
        CoppiceError: the command was refused.
    """
    found = find_command(text)
    if found is None:
        return None
    command, words = found
    session.subscribe(Progress(status).hear)
    session.report_notices()
    outcome, number = asyncio.run(_outcome(command, Ask(session, words)))
    if outcome is None:
        return 128 + number
    for line in outcome_lines(session, outcome, line_width()):
        write_line(line)
    match outcome:
        case Moved(editor_text=text) | Switched(editor_text=text) if text:
            write_line(printable(text, lines=True))
        case _:
            pass
    return 0


async def _outcome(command: Command, ask: Ask) -> tuple[Outcome | None, int]:
    """What a command answered; None and the signal's number where one stopped it."""
    answered: list[Outcome] = []

    async def answer() -> None:
        answered.append(await command.run(ask))

    ended = await run_to_its_end(ask.session, answer())
    if ended.signal is not None:
        return None, ended.signal
    if ended.failure is not None:
        raise ended.failure
    return answered[0], 0


def run(session: AgentSession, content: Content, opening: Callable[[], Sequence[str]], status: StatusLine) -> Done:
    """Answer one prompt. `opening` tells what has to be said first."""
    return asyncio.run(_answer(session, content, opening, status))


async def _answer(
    session: AgentSession, content: Content, opening: Callable[[], Sequence[str]], status: StatusLine
) -> Done:
    progress = Progress(status)
    stop = session.subscribe(progress.hear)
    try:
        for notice in opening():
            status.notice(notice)
        session.report_notices()
        ended = await run_prompt(session, content)
    finally:
        stop()
    status.clear()
    code = exit_code(session, ended, progress.refuse)
    reply = newest_reply(session)
    if code == 0 and reply is not None:
        if reply.stop_reason == "length":
            status.notice("the reply was cut off at the model's output limit")
        text = text_of(reply.content).rstrip("\n")
        write_line(printable(text, lines=True) if sys.stdout.isatty() else text)
    return Done(code, ended.missing)
