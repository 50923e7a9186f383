"""The bash tool: a shell command, told to a model. How commands are run and ended is in process.py."""

import math
from typing import Annotated

import msgspec

from coppice.errors import InvalidArguments
from coppice.format.messages import JsonObject
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.process import CommandOutcome, run_command
from coppice.tools.truncate import MAX_BYTES, MAX_LINES, keep_tail, size_text
from coppice.tools.typed_tool import TypedTool

MAX_TIMEOUT_SECONDS = 2_147_483
"""Largest timeout a call may ask for: about 24 days, what fits into 32 bits of milliseconds."""

_SHOWN_CHARS = 2 * MAX_BYTES


class BashArguments(msgspec.Struct, frozen=True):
    """What bash takes."""

    command: Annotated[str, msgspec.Meta(description="The shell command")]
    timeout: Annotated[
        float | None, msgspec.Meta(description="Seconds after which the command is ended; none when left out")
    ] = None


async def bash(arguments: BashArguments, context: ToolContext) -> ToolResult:
    """Run a command for the model. A failed command is a result with ``is_error``, not an exception.

    Raises:
        InvalidArguments: the timeout is no positive number of seconds.
        ToolError: the command could not be started.
    """
    timeout_ms = _timeout_ms(arguments.timeout)
    shown = ""

    def show(new_output: str) -> None:
        nonlocal shown
        shown = (shown + new_output)[-_SHOWN_CHARS:]
        context.update(text_result(keep_tail(shown).text))

    outcome = await run_command(
        arguments.command, context.cwd, on_output=show, timeout_ms=timeout_ms, output_dir=context.output_dir
    )
    return _told(outcome, arguments.timeout)


BASH: Tool = TypedTool(
    name="bash",
    description=(
        "Run a shell command in the working directory; stdout and stderr come back together. Of long output the last "
        f"{MAX_LINES} lines or {MAX_BYTES // 1024} KB are returned and the whole is kept in a file that the result "
        "names. There is no terminal and no input. Redirect the output of what is to stay in the background."
    ),
    arguments=BashArguments,
    call=bash,
)


def _timeout_ms(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    if not math.isfinite(seconds) or not 0 < seconds <= MAX_TIMEOUT_SECONDS:
        raise InvalidArguments(
            f"Invalid arguments for bash: timeout must be a number of seconds above 0 and at most {MAX_TIMEOUT_SECONDS}"
        )
    return seconds * 1000


def _told(outcome: CommandOutcome, timeout: float | None) -> ToolResult:
    notes = [note for note in (_cut_note(outcome), _background_note(outcome)) if note]
    ending = _ending(outcome, timeout)
    parts = [outcome.output.rstrip("\n") or ("" if ending else "(no output)"), *(f"[{note}]" for note in notes), ending]
    return text_result("\n\n".join(part for part in parts if part), _details(outcome), is_error=bool(ending))


def _ending(outcome: CommandOutcome, timeout: float | None) -> str:
    if outcome.timed_out:
        return f"Command timed out after {timeout:g} seconds and was ended"
    if outcome.cancelled:
        return "Command was cancelled"
    return "" if outcome.exit_code == 0 else f"Command exited with code {outcome.exit_code}"


def _cut_note(outcome: CommandOutcome) -> str:
    cut = outcome.truncation
    if not cut.truncated:
        return ""
    if cut.partial_line:
        shown = f"Only the last {size_text(cut.output_bytes)} of line {cut.total_lines}"
    else:
        shown = f"Lines {cut.total_lines - cut.output_lines + 1}-{cut.total_lines} of {cut.total_lines}"
    return f"{shown}, {size_text(cut.total_bytes)} in all. {_where(outcome)}"


def _where(outcome: CommandOutcome) -> str:
    if outcome.save_failure is None:
        return f"Full output: {outcome.full_output_path}"
    if outcome.full_output_path is None:
        return f"The full output could not be saved: {outcome.save_failure}"
    return (
        f"The beginning of the full output: {outcome.full_output_path} (not all could be saved: {outcome.save_failure})"
    )


def _background_note(outcome: CommandOutcome) -> str:
    if not outcome.left_running:
        return ""
    return "Background processes of the command still run; what they print from now on is lost"


def _details(outcome: CommandOutcome) -> JsonObject | None:
    if not outcome.truncated:
        return None
    return {"truncation": outcome.truncation.as_details(), "fullOutputPath": outcome.full_output_path}
