"""Asking the model for one reply: streaming, storing what came, trying again when the failure is a passing one."""

import asyncio
import random
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from coppice.agent.draft import ReplyDraft
from coppice.agent.run import Run
from coppice.errors import ProviderError
from coppice.format.events import (
    AutoRetryEnd,
    AutoRetryStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    StreamDone,
    UsageReport,
)
from coppice.format.messages import AssistantMessage, EntryId
from coppice.providers.retry import GiveUp, Verdict, Wait, next_try
from coppice.session.drafts import now_ms

ABORTED = "aborted by the user"
"""What a reply that was aborted gives as its error."""


class Sampled(NamedTuple):
    """A reply as it was stored, and why it failed for good, if it did."""

    reply: AssistantMessage
    error: ProviderError | None = None


async def sample(run: Run) -> Sampled:
    """Ask for a reply and store it; a reply that failed for good is stored as such and returned.

    A failure before anything streamed leaves no entry while it is retried; what did stream is stored as it came.

    Raises:
        StorageFailure: the reply could not be stored.
        asyncio.CancelledError: aborted; what had come is stored.
    """
    attempt = 0
    while True:
        draft = ReplyDraft(run.model.info, run.session.thinking_level())
        leaf = run.session.get_leaf_id()
        try:
            reply = await _stream(run, draft, leaf)
        except ProviderError as error:
            attempt += 1
            match _verdict(run, error, attempt):
                case GiveUp(reason=reason):
                    return Sampled(_give_up(run, draft, leaf, reason, attempt), error)
                case Wait(delay_ms=delay):
                    await _wait(run, draft, leaf, AutoRetryStart(attempt, run.options.max_retries, delay, str(error)))
        except asyncio.CancelledError:
            _store_cut(run, draft, leaf, "aborted", ABORTED)
            if attempt:
                run.emit(AutoRetryEnd(success=False, attempt=attempt, final_error=ABORTED))
            raise
        else:
            if attempt:
                run.emit(AutoRetryEnd(success=True, attempt=attempt))
            return Sampled(reply)


async def _stream(run: Run, draft: ReplyDraft, leaf: EntryId | None) -> AssistantMessage:
    request = run.request()
    run.pass_on_notices()
    async with aclosing(run.model.stream(request)) as events:
        async for event in events:
            match event:
                case StreamDone(message=reply):
                    return _store_reply(run, draft, reply, leaf)
                case UsageReport():
                    draft.take(event)
                case _:
                    if draft.is_empty:
                        run.emit(MessageStart(draft.message("pending", now_ms())))
                    draft.take(event)
                    run.emit(MessageUpdate(event, draft.usage))
    raise ProviderError("the model's stream ended without a finished reply", transient=True)


def _store_reply(run: Run, draft: ReplyDraft, reply: AssistantMessage, leaf: EntryId | None) -> AssistantMessage:
    if reply.thinking_level is None:
        reply = msgspec.structs.replace(reply, thinking_level=run.session.thinking_level())
    stored = run.session.append_message(reply, expect=run.place_for(leaf))
    if draft.is_empty:
        run.emit(MessageStart(reply))
    run.emit(MessageEnd(reply, stored))
    run.pass_on_notices()
    return reply


def _store_cut(run: Run, draft: ReplyDraft, leaf: EntryId | None, stop_reason: str, error: str) -> AssistantMessage:
    """Store a reply that was cut off, as far as it came."""
    message = draft.message(stop_reason, now_ms(), error)
    stored = run.session.append_message(message, expect=run.place_for(leaf))
    if draft.is_empty:
        run.emit(MessageStart(message))
    run.emit(MessageEnd(message, stored))
    run.pass_on_notices()
    return message


def _verdict(run: Run, error: ProviderError, attempt: int) -> Verdict:
    options = run.options
    return next_try(
        error,
        attempt,
        max_attempts=options.max_retries,
        base_ms=options.retry_base_ms,
        cap_ms=options.retry_cap_ms,
        jitter=random.random() / 4,
    )


def _give_up(run: Run, draft: ReplyDraft, leaf: EntryId | None, reason: str, attempt: int) -> AssistantMessage:
    failed = _store_cut(run, draft, leaf, "error", reason)
    if attempt > 1:
        run.emit(AutoRetryEnd(success=False, attempt=attempt - 1, final_error=reason))
    return failed


async def _wait(run: Run, draft: ReplyDraft, leaf: EntryId | None, announced: AutoRetryStart) -> None:
    """Wait before the next try. Aborted meanwhile, the failure that was waited for is stored."""
    if not draft.is_empty:
        _store_cut(run, draft, leaf, "error", announced.error_message)
        leaf = run.session.get_leaf_id()
    run.emit(announced)
    try:
        await asyncio.sleep(announced.delay_ms / 1000)
    except asyncio.CancelledError:
        nothing = ReplyDraft(run.model.info, run.session.thinking_level())
        _store_cut(run, nothing, leaf, "aborted", announced.error_message)
        run.emit(AutoRetryEnd(success=False, attempt=announced.attempt, final_error=ABORTED))
        raise
