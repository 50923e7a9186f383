"""The user's own commands: ``!command`` is told to the model, ``!!command`` is kept from it."""

from collections.abc import Callable
from pathlib import Path

from coppice.format.messages import BashExecutionMessage
from coppice.session.drafts import now_ms
from coppice.tools.process import run_command


async def run_user_bash(
    command: str, cwd: Path, *, output_dir: Path, exclude: bool, on_output: Callable[[str], None]
) -> BashExecutionMessage:
    """Run a command in the session's directory; what is stored of it. Cancelling ends it and all it started.

    Raises:
        ToolError: it could not be started.
    """
    outcome = await run_command(command, cwd, output_dir=output_dir, on_output=on_output)
    return BashExecutionMessage(
        command=command,
        output=outcome.output,
        exit_code=outcome.exit_code,
        cancelled=outcome.cancelled,
        truncated=outcome.truncated,
        full_output_path=outcome.full_output_path,
        exclude_from_context=True if exclude else None,
        timestamp=now_ms(),
    )
