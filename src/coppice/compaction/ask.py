"""One summary from a model: sent without tools, tried again when a failure is a passing one, checked before it counts.

Delays are Codex's for its summaries: 200 ms doubling, ±10 %, at most five retries.
"""

import asyncio
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from coppice.compaction.strategy import CompactionFailed, Retrying
from coppice.errors import ContextOverflow, ProviderError
from coppice.format.events import StreamDone
from coppice.format.messages import AssistantMessage, TextBlock
from coppice.providers.base import Model, Request

MAX_RETRIES = 5
BASE_MS = 200
JITTER = 0.1


def delay_ms(attempt: int, jitter: float) -> int:
    """Milliseconds before retry `attempt` (the first is 1); `jitter` from -1 to 1 spreads it by a tenth."""
    return round(BASE_MS * 2 ** (attempt - 1) * (1 + JITTER * jitter))


@dataclass(frozen=True, slots=True)
class Answer:
    """A summary that can be used, the reply it came in, and how often it was asked for again."""

    text: str
    reply: AssistantMessage
    retries: int = 0


async def ask(
    model: Model, request: Request, on_retry: Callable[[Retrying], None], retries: int = MAX_RETRIES
) -> Answer:
    """Ask for a text.

    Raises:
        ContextOverflow: the request is too large.
        ProviderError: it failed for good.
        CompactionFailed: the answer is empty, cut off by its length, or no plain answer.
    """
    attempt = 0
    while True:
        try:
            return _checked(await _reply(model, request), attempt)
        except ContextOverflow:
            raise
        except ProviderError as error:
            attempt += 1
            if not error.transient or attempt > retries:
                raise
            delay = max(delay_ms(attempt, random.uniform(-1, 1)), min(error.retry_after_ms or 0, 60_000))
            on_retry(Retrying(attempt, retries, delay, str(error)))
            await asyncio.sleep(delay / 1000)


async def _reply(model: Model, request: Request) -> AssistantMessage:
    async with aclosing(model.stream(request)) as events:
        async for event in events:
            if isinstance(event, StreamDone):
                return event.message
    raise ProviderError("the summary's stream ended without a finished reply", transient=True)


def _checked(reply: AssistantMessage, retries: int) -> Answer:
    text = "\n".join(block.text for block in reply.content if isinstance(block, TextBlock)).strip()
    if reply.stop_reason == "length":
        raise CompactionFailed("the summary was cut off by its length limit; nothing was compacted")
    if reply.stop_reason != "stop":
        raise CompactionFailed(f"the summary ended with {reply.stop_reason!r}; nothing was compacted")
    if not text:
        raise CompactionFailed("the summary came back empty; nothing was compacted")
    return Answer(text, reply, retries)
