"""The user's own commands: ``!command`` is told to the model, ``!!command`` is kept from it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from coppice.format.messages import BashExecutionMessage
from coppice.session.drafts import now_ms
from coppice.tools.process import run_command


@dataclass(frozen=True, slots=True)
class UserCommand:
    """A command that runs; its work ends with the command stored."""

    work: "asyncio.Task[BashExecutionMessage]"
    halt: asyncio.Event

    async def wait(self) -> BashExecutionMessage:
        """What was stored of it. Cancelling the caller ends the command, and propagates once it is stored.

        Raises:
            ToolError, StorageFailure: it could not be started, or not be stored.
        """
        try:
            return await asyncio.shield(self.work)
        except asyncio.CancelledError:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End the command and all it started, and wait until it is stored as cancelled."""
        self.halt.set()
        await asyncio.wait([self.work])


async def run_user_bash(
    command: str, cwd: Path, *, output_dir: Path, exclude: bool, on_output: Callable[[str], None], halt: asyncio.Event
) -> BashExecutionMessage:
    """Run a command in the session's directory; what is to be stored of it. Setting `halt` ends it.

    Raises:
        ToolError: it could not be started.
    """
    outcome = await run_command(command, cwd, output_dir=output_dir, on_output=on_output, cancel=halt)
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
