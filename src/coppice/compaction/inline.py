"""Codex's inline strategy: the model that worked writes a hand-over; recent user messages stay, all else goes.

The request is the ordinary one without tools, with a prompt at its end. What does not fit is left out of the request
from its oldest end, by the estimated excess; the stored history is never touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import msgspec

from coppice.compaction.ask import Answer, ask
from coppice.compaction.kept import context_messages, cut_middle, kept_user_messages, with_context
from coppice.compaction.prompts import prompt
from coppice.compaction.strategy import CompactionFailed, NothingToCompact, Result, Work
from coppice.compaction.transcript import files_in, with_calls
from coppice.errors import ContextOverflow
from coppice.format.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    JsonObject,
    RequestMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from coppice.providers.base import Request

MAX_TRIES = 3
"""Requests at most, each cut further where the provider finds it too large (Codex: one for each message; ours: bounded)."""

LEFT_OUT = "[The oldest {count} messages of the conversation are left out here: they did not fit.]"


@dataclass(frozen=True, slots=True)
class InlineStrategy:
    """The model hands over to itself."""

    name: str = "codex-inline"

    async def compact(self, work: Work) -> Result:
        """See `CompactionStrategy`."""
        if not any(isinstance(message, AssistantMessage) for _, message in work.view.pairs):
            raise NothingToCompact("nothing to compact: there is no reply in the context yet")
        answer, dropped = await _ask_fitted(work)
        summary = f"{prompt('inline_opening')}\n\n{answer.text}"
        kept = kept_user_messages(work, work.settings.inline_user_tokens, images=False)
        if work.phase == "mid_turn":
            kept = with_context(kept, context_messages(work))
        replacement: list[JsonObject] = [*(part.item for part in kept), {"summary": True}]
        after = sum(work.measure(part.message) for part in kept) + work.measure(CompactionSummaryMessage(summary))
        before = work.previous.details if work.previous is not None else None
        files = with_calls(files_in(before), (message for _, message in work.view.pairs))
        details = files.details() | {"retries": answer.retries, "droppedOldest": dropped}
        return Result(self.name, summary, None, after, answer.reply.usage, details, tuple(replacement))


async def _ask_fitted(work: Work) -> tuple[Answer, int]:
    """Ask for the hand-over; the answer and how many of the oldest messages had to be left out of the request."""
    asked = prompt("inline") + (f"\n\nThe user asks of it: {work.instructions}" if work.instructions else "")
    units = units_of(work.request.messages)
    total = len(work.request.messages)
    if _excess(work, units, asked):
        units = [[_bounded(work, message) for message in unit] for unit in units]
    dropping = _excess(work, units, asked)
    for tried in range(1, MAX_TRIES + 1):
        units = _without_oldest(work, units, dropping)
        dropped = total - sum(map(len, units))
        try:
            return await ask(work.model, _request(work, units, asked, dropped), work.on_retry), dropped
        except ContextOverflow as error:
            if len(units) <= 1:
                raise CompactionFailed(
                    f"even one message is too large for the summary request ({error}); go back before it in /tree"
                ) from error
            share = _size(work, units) * tried // 4 + 1  # the estimate was wrong: a quarter less, then half
            dropping = max(_excess(work, units, asked), share)
    raise CompactionFailed(f"the provider found {MAX_TRIES} summary requests too large; nothing was compacted")


def _request(work: Work, units: Sequence[Sequence[RequestMessage]], asked: str, dropped: int) -> Request:
    opening = (UserMessage(LEFT_OUT.format(count=dropped)),) if dropped else ()
    messages = (*opening, *(message for unit in units for message in unit), UserMessage(asked))
    return replace(work.request, messages=messages, tools=(), max_output=work.max_output)


def units_of(messages: Sequence[RequestMessage]) -> list[list[RequestMessage]]:
    """Messages in groups that stay or go together: a reply with its results, every other message by itself."""
    units: list[list[RequestMessage]] = []
    for message in messages:
        if isinstance(message, ToolResultMessage) and units:
            units[-1].append(message)
        else:
            units.append([message])
    return units


def _size(work: Work, units: Sequence[Sequence[RequestMessage]]) -> int:
    return sum(work.measure(message) for unit in units for message in unit)


def _excess(work: Work, units: Sequence[Sequence[RequestMessage]], asked: str) -> int:
    """By how many tokens the request is larger than the window, by the estimate; 0 where it fits."""
    window = work.limits.window
    if window is None:
        return 0
    beside = work.measure(UserMessage(work.request.system_prompt)) + work.measure(UserMessage(LEFT_OUT + asked))
    return max(_size(work, units) + beside + (work.max_output or 0) - window, 0)


def _bounded(work: Work, message: RequestMessage) -> RequestMessage:
    """The message; a tool's output that takes more than a quarter of the window shortened in its middle."""
    share = (work.limits.window or 0) // 4
    if not isinstance(message, ToolResultMessage) or work.measure(message) <= share:
        return message
    text = cut_middle(text_of(message.content), share, work.measure)
    return msgspec.structs.replace(message, content=(TextBlock(text),))


def _without_oldest(work: Work, units: list[list[RequestMessage]], tokens: int) -> list[list[RequestMessage]]:
    """The units without as many of the oldest as make up `tokens`; the newest always stays."""
    gone = at = 0
    while gone < tokens and at < len(units) - 1:
        gone += _size(work, units[at : at + 1])
        at += 1
    return units[at:]
