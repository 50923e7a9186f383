"""Asking the model for one reply: streaming, storing what came, trying again when the failure is a passing one."""

import asyncio
import random
from contextlib import aclosing

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
from coppice.providers.base import Request
from coppice.providers.retry import GiveUp, Wait, next_try
from coppice.session.drafts import now_ms


async def sample(run: Run) -> AssistantMessage:
    """Ask for a reply and store it; a reply that failed for good is stored as such and returned.

    A failure before anything streamed leaves no entry while it is retried; what did stream is stored as it came.

    Raises:
        StorageFailure: the reply could not be stored.
        asyncio.CancelledError: aborted; what had come is stored.
    """
    attempt = 0
    while True:
        draft = ReplyDraft(run.model.info, run.session.thinking_level())
        try:
            reply = await _stream(run, draft)
        except ProviderError as error:
            attempt += 1
            failed = await _after_failure(run, draft, error, attempt)
            if failed is not None:
                return failed
        except asyncio.CancelledError:
            _store_cut(run, draft, "aborted", "aborted by the user")
            raise
        else:
            if attempt:
                run.emit(AutoRetryEnd(success=True, attempt=attempt))
            return reply


async def _stream(run: Run, draft: ReplyDraft) -> AssistantMessage:
    leaf, level = run.session.get_leaf_id(), run.session.thinking_level()
    request = Request(
        system_prompt=run.system_prompt,
        messages=run.session.request_messages(run.reader),
        tools=run.schemas(),
        thinking_level=level,
        max_output=run.options.max_output,
        cache_key=run.session.session_id,
    )
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
    stored = run.session.append_message(reply, expect=leaf)
    if draft.is_empty:
        run.emit(MessageStart(reply))
    run.emit(MessageEnd(reply, stored))
    run.pass_on_notices()
    return reply


def _store_cut(run: Run, draft: ReplyDraft, stop_reason: str, error: str) -> AssistantMessage:
    """Store a reply that was cut off, as far as it came."""
    message = draft.message(stop_reason, now_ms(), error)
    stored = run.session.append_message(message)
    if draft.is_empty:
        run.emit(MessageStart(message))
    run.emit(MessageEnd(message, stored))
    return message


async def _after_failure(run: Run, draft: ReplyDraft, error: ProviderError, attempt: int) -> AssistantMessage | None:
    """Wait before the next try (None), or give up: the failed reply."""
    options = run.options
    verdict = next_try(
        error,
        attempt,
        max_attempts=options.max_retries,
        base_ms=options.retry_base_ms,
        cap_ms=options.retry_cap_ms,
        jitter=random.random() / 4,
    )
    match verdict:
        case GiveUp(reason=reason):
            failed = _store_cut(run, draft, "error", reason)
            if attempt > 1:
                run.emit(AutoRetryEnd(success=False, attempt=attempt - 1, final_error=reason))
            return failed
        case Wait(delay_ms=delay):
            if not draft.is_empty:
                _store_cut(run, draft, "error", str(error))
            run.emit(AutoRetryStart(attempt, options.max_retries, delay, str(error)))
            try:
                await asyncio.sleep(delay / 1000)
            except asyncio.CancelledError:
                _store_cut(run, ReplyDraft(run.model.info, run.session.thinking_level()), "aborted", str(error))
                raise
            return None
