"""Ending every process of a process group. Starting one is process.py's."""

import asyncio
import os
import signal
from pathlib import Path

GRACE_SECONDS = 0.5
"""Time between SIGTERM and SIGKILL."""

_POLL_SECONDS = 0.02


async def end_group(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, a short grace, SIGKILL, for every process of the group ``process`` leads; back when they are gone."""
    signal_group(process.pid, signal.SIGTERM)
    signal_group(process.pid, signal.SIGCONT)  # a stopped process takes SIGTERM only when it goes on
    if not await _wait_gone(process, GRACE_SECONDS):
        signal_group(process.pid, signal.SIGKILL)
        await _wait_gone(process, GRACE_SECONDS)
    await process.wait()


def signal_group(group: int, number: int) -> bool:
    """Send the signal; False when no process of the group can get it."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # macOS says EPERM when only zombies are left
        return False
    return True


async def _wait_gone(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Whether the group is gone within the time. Polled: nothing waits for processes that are not our children."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while process.returncode is None or (signal_group(process.pid, 0) and _has_living(process.pid)):
        if loop.time() > deadline:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _has_living(group: int) -> bool:
    """Whether a process of the group is more than a zombie; in a container often nobody reaps orphans.

    Told from Linux's /proc; where there is none the answer is yes.
    """
    stats = list(Path("/proc").glob("[0-9]*/stat"))
    return not stats or any(_is_living_member(stat, group) for stat in stats)


def _is_living_member(stat: Path, group: int) -> bool:
    try:
        state, _, its_group = stat.read_bytes().rpartition(b") ")[2].split()[:3]
    except (OSError, ValueError):
        return False  # it ended while we looked
    return int(its_group) == group and state not in (b"Z", b"X")
