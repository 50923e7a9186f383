"""A conversation as plain lines on standard output, as it happens: replies as they stream, calls, results, notices."""

import sys

from coppice.format.events import (
    AutoRetryStart,
    BashExecutionUpdate,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Notice,
    QueueUpdate,
    SessionEvent,
    TextDelta,
    ThinkingStart,
    ToolExecutionEnd,
    ToolExecutionStart,
)
from coppice.format.messages import AssistantMessage, BashExecutionMessage, Message, UserMessage, text_of
from coppice.interfaces.cli.call_lines import call_line, result_lines
from coppice.interfaces.cli.compaction_lines import compaction_line, untold_failure
from coppice.interfaces.cli.output import line_width
from coppice.interfaces.cli.printable import first_line, printable
from coppice.interfaces.cli.status_line import StatusLine


class Transcript:
    """Prints events. It keeps only whether a line is open, and which error was told."""

    def __init__(self, status: StatusLine) -> None:
        self._status = status
        self._open = False
        self._typed = False
        self.told: str | None = None
        """The newest error that was shown."""

    def hear(self, event: SessionEvent) -> None:
        """Print one event."""
        match event:
            case MessageStart(message=UserMessage(content=content)):
                if not self._typed:
                    self.line(f"> {printable(text_of(content), lines=True)}")
                self._typed = False
            case MessageUpdate(assistant_message_event=TextDelta(delta=delta)):
                self._write(printable(delta, lines=True))
            case MessageUpdate(assistant_message_event=ThinkingStart()):
                self.line("(thinking)")
            case MessageEnd(message=message):
                self._ended(message)
            case ToolExecutionStart():
                self.line(f"→ {call_line(event.tool_name, event.args)}")
            case ToolExecutionEnd():
                self._result(event)
            case BashExecutionUpdate(delta=delta):
                self._write(printable(delta, lines=True))
            case _:
                self._notice(event)

    def _notice(self, event: SessionEvent) -> None:
        match event:
            case AutoRetryStart():
                self.notice(f"{event.error_message}; trying again in {event.delay_ms / 1000:.1f} s")
            case Notice(level="error", message=text):
                self.refuse(text)
            case Notice(message=text):
                self.notice(text)
            case QueueUpdate(steering=steering, follow_up=follow_up) if steering or follow_up:
                waiting = [f"next: {first_line(text)}" for text in steering]
                waiting += [f"after the run: {first_line(text)}" for text in follow_up]
                self.line(f"({'; '.join(waiting)})")
            case _:
                self._compaction(event)

    def _compaction(self, event: SessionEvent) -> None:
        shown, failure = compaction_line(event), untold_failure(event)
        if shown is not None:
            self.line(printable(shown))
        if failure is not None:
            self.refuse(failure)

    def expect_prompt(self, *, on_screen: bool) -> None:
        """A prompt is about to be sent; `on_screen`: it was typed, so it is not shown again."""
        self._typed = on_screen
        self.told = None

    def line(self, text: str) -> None:
        """A line of its own."""
        self._write(f"{self._break()}{text}\n")

    def notice(self, text: str) -> None:
        """Something the user has to be told."""
        self._write(self._break())
        self._status.notice(text)

    def refuse(self, text: str) -> None:
        """Why something was not done."""
        self._write(self._break())
        self._status.refuse(text)
        self.told = text

    def _ended(self, message: Message) -> None:
        match message:
            case AssistantMessage(stop_reason="error", error_message=error):
                self.refuse(error or "the reply failed")
            case AssistantMessage(stop_reason="aborted"):
                self.line("(aborted)")
            case AssistantMessage(stop_reason="length"):
                self.notice("the reply was cut off at the model's output limit")
            case BashExecutionMessage(exit_code=code) if code is not None and code != 0:
                self.line(f"(exit code {code})")
            case _:
                self._write(self._break())

    def _result(self, event: ToolExecutionEnd) -> None:
        lines = result_lines(event.result.content, line_width() - 4) or ["(nothing)"]
        mark = "✗" if event.is_error else " "
        self.line("\n".join(f"{mark if at == 0 else ' '} │ {line}" for at, line in enumerate(lines)))

    def _break(self) -> str:
        return "\n" if self._open else ""

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            sys.stdout.flush()
            self._open = not text.endswith("\n")
