"""Work a cancelled call must see through to its end: threads and clean-ups. What the work is, is the tools' matter.

A thread cannot be interrupted and a half-written file must not be left, so cancellation asks the work to stop, waits
for it, and only then propagates.
"""

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


async def settle(task: "asyncio.Future[Any]") -> None:
    """Wait until the task is done, whatever it raises and however often the caller is cancelled meanwhile."""
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            continue  # the caller is being cancelled already and raises after this
    if not task.cancelled():
        task.exception()


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run blocking file work in a thread; its argument is set when the call is cancelled.

    On cancellation the thread is awaited before `asyncio.CancelledError` propagates: nothing is written afterwards.

    Raises:
        Whatever the work raises.
    """
    stop = threading.Event()
    task = asyncio.ensure_future(asyncio.to_thread(work, stop))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        stop.set()
        await settle(task)
        raise
