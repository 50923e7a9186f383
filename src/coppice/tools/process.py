"""Running a shell command: its own process group, its output as it comes, an end that leaves nothing running.

`run_command` serves the bash tool and the user's own ``!command``. What a model is told is bash.py's.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Literal

from coppice.errors import ToolError
from coppice.tools.background import settle
from coppice.tools.capture import Capture
from coppice.tools.environment import child_environment
from coppice.tools.process_group import end_group, signal_group
from coppice.tools.truncate import MAX_BYTES, Truncation, well_formed

ANNOUNCE_SECONDS = 0.1
"""Output is announced at most this often. Source: what people can follow; Pi does the same."""

_IDLE_SECONDS = 0.2
_DRAIN_SECONDS = 2.0
_CHUNK = 64 * 1024

_Ending = Literal["exited", "cancelled", "timed out"]


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """What came of a command.

    ``exit_code`` is 128 + the signal's number when a signal ended it, None when we ended it (``cancelled``,
    ``timed_out``). ``output`` is the tail of stdout and stderr within the limits of truncate.py; what it leaves out is
    in ``full_output_path``, unless ``save_failure`` says why not. ``left_running`` says that background processes of
    the command still held its output open when it had ended.
    """

    exit_code: int | None
    output: str
    truncation: Truncation
    full_output_path: str | None = None
    cancelled: bool = False
    timed_out: bool = False
    left_running: bool = False
    save_failure: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether ``output`` is not all of it."""
        return self.truncation.truncated


@dataclass(frozen=True, slots=True)
class _Job:
    """One command and everything it is run with."""

    command: str
    cwd: Path
    capture: Capture
    announcer: "_Announcer"
    timeout_ms: float | None
    cancel: asyncio.Event


async def run_command(
    command: str,
    cwd: Path,
    *,
    output_dir: Path,
    on_output: Callable[[str], None] | None = None,
    timeout_ms: float | None = None,
    cancel: asyncio.Event | None = None,
) -> CommandOutcome:
    """Run ``command`` with bash (sh where there is none) in ``cwd``, stdin at its end.

    ``on_output`` gets new output in batches, at most ten a second; of a flood only the newest part. Setting ``cancel``
    ends the command and gives an outcome with ``cancelled``; cancelling the calling task sets ``cancel`` too, waits for
    the end, and propagates. Ending means SIGTERM to the whole process group, half a second later SIGKILL. Only a
    process that left the group by itself (a daemon) survives that.

    Processes the command leaves in the background live on. They do not keep the call waiting: their output is read
    until it pauses for 0.2 seconds, for 2 seconds at most.

    Raises:
        ToolError: the command could not be started.
    """
    halt = cancel or asyncio.Event()
    capture, announcer = Capture(output_dir), _Announcer(on_output)
    job = _Job(well_formed(command), cwd, capture, announcer, timeout_ms, halt)
    work = asyncio.ensure_future(_run(job))
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        halt.set()
        await settle(work)
        raise
    finally:
        announcer.flush()
        capture.file.close()


async def _run(job: _Job) -> CommandOutcome:
    async with _started(job) as (process, feeding):
        ending = await _wait_ending(process, job)
        if ending == "exited":
            await _drain(feeding, job)
        if ending != "exited" or job.cancel.is_set():
            await end_group(process)
            await asyncio.wait({feeding}, timeout=_IDLE_SECONDS)
        left_running = not feeding.done()
    job.announcer.add(job.capture.feed(b"", final=True))
    return _outcome(job, ending, process.returncode, left_running=left_running)


def _outcome(job: _Job, ending: _Ending, returncode: int | None, *, left_running: bool) -> CommandOutcome:
    kept, file = job.capture.shortened(), job.capture.file
    cancelled = ending != "timed out" and job.cancel.is_set()
    killed = cancelled or ending == "timed out"
    return CommandOutcome(
        exit_code=None if killed or returncode is None else returncode if returncode >= 0 else 128 - returncode,
        output=kept.text,
        truncation=kept.truncation,
        full_output_path=None if file.path is None else str(file.path),
        cancelled=cancelled,
        timed_out=ending == "timed out",
        left_running=left_running and not killed,
        save_failure=file.failure,
    )


@asynccontextmanager
async def _started(job: _Job) -> AsyncGenerator[tuple[asyncio.subprocess.Process, "asyncio.Task[None]"], None]:
    """The running command and the task that reads its output; the reading ends with the block."""
    pipe, write_end = _pipe()
    with pipe:
        try:
            process = await _start(job, write_end)
        finally:
            os.close(write_end)
        try:
            async with _reading(pipe, job) as feeding:
                yield process, feeding
        finally:
            if process.returncode is None:  # only when the event loop itself is being shut down
                signal_group(process.pid, signal.SIGKILL)


@asynccontextmanager
async def _reading(pipe: FileIO, job: _Job) -> AsyncGenerator["asyncio.Task[None]", None]:
    reader = asyncio.StreamReader(limit=_CHUNK)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    feeding = asyncio.create_task(_feed(reader, job))
    try:
        yield feeding
    finally:
        feeding.cancel()
        await settle(feeding)
        transport.close()


def _pipe() -> tuple[FileIO, int]:
    read_end, write_end = os.pipe()
    return FileIO(read_end, "rb"), write_end


async def _start(job: _Job, output: int) -> asyncio.subprocess.Process:
    if not job.cwd.is_dir():
        raise ToolError(f"The working directory {job.cwd} does not exist")
    try:
        return await asyncio.create_subprocess_exec(
            *_shell_arguments(job.command),
            cwd=job.cwd,
            env=child_environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"The command could not be started: {error}") from error


def _shell_arguments(command: str) -> tuple[str, ...]:
    return (shutil.which("bash") or "sh", "-c", "--", command)


async def _feed(reader: asyncio.StreamReader, job: _Job) -> None:
    while chunk := await reader.read(_CHUNK):
        job.announcer.add(job.capture.feed(chunk))


async def _wait_ending(process: asyncio.subprocess.Process, job: _Job) -> _Ending:
    exited = asyncio.ensure_future(process.wait())
    asked = asyncio.ensure_future(job.cancel.wait())
    timeout = None if job.timeout_ms is None else job.timeout_ms / 1000
    done, pending = await asyncio.wait({exited, asked}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
        await settle(task)
    if exited in done:
        return "exited"
    return "cancelled" if asked in done else "timed out"


async def _drain(feeding: "asyncio.Task[None]", job: _Job) -> None:
    """Read on after the shell ended, until every writer closed the output, or it pauses, or it takes too long."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _DRAIN_SECONDS
    while not feeding.done() and not job.cancel.is_set() and loop.time() < deadline:
        before = job.capture.total_bytes
        await asyncio.wait({feeding}, timeout=_IDLE_SECONDS)
        if job.capture.total_bytes == before:
            return


class _Announcer:
    """Owns output not yet announced; guards the pace, and that a flood does not pile up."""

    def __init__(self, announce: Callable[[str], None] | None) -> None:
        self._announce = announce
        self._waiting = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, text: str) -> None:
        """Announce the text soon, together with what comes until then."""
        if self._announce is None or not text:
            return
        self._waiting += text
        if len(self._waiting) > 2 * MAX_BYTES:
            self._waiting = self._waiting[-MAX_BYTES:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(ANNOUNCE_SECONDS, self.flush)

    def flush(self) -> None:
        """Announce what waits, now."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, ""
        if waiting and self._announce is not None:
            self._announce(waiting)
