"""Codex's inline strategy: the model that worked writes a hand-over; recent user messages stay, all else goes.

The request is the ordinary one without tools, with a prompt at its end. What does not fit is left out of the request
from its oldest end, by the estimated excess; the stored history is never touched.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coppice.compaction.estimate import estimate_request

from coppice.compaction.ask import Answer, ask
from coppice.compaction.kept import context_messages, kept_user_messages, with_context
from coppice.compaction.prompts import prompt
from coppice.compaction.strategy import CompactionFailed, NothingToCompact, Result, Work
from coppice.compaction.transcript import files_in, with_calls
from coppice.errors import ContextOverflow
from coppice.format.messages import (
    AssistantMessage,
    CompactionSummaryMessage,
    JsonObject,
    RequestMessage,
    ToolResultMessage,
    UserMessage,
)
from coppice.providers.base import Request

MAX_OVERFLOWS = 8
"""How often a request that the provider finds too large is cut further (Codex: once for each message; ours: bounded)."""


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
        details = files.details() | ({"droppedOldest": dropped} if dropped else {})
        return Result(self.name, summary, None, after, answer.reply.usage, details, tuple(replacement))


async def _ask_fitted(work: Work) -> tuple[Answer, int]:
    """Ask for the hand-over; the answer and how many of the oldest messages had to be left out of the request."""
    asked = prompt("inline") + (f"\n\nThe user asks of it: {work.instructions}" if work.instructions else "")
    units = units_of(work.request.messages)
    total = len(work.request.messages)
    units = _within(work, units, asked, 0)
    for overflow in range(1, MAX_OVERFLOWS + 1):
        try:
            answer = await ask(work.model, _request(work, units, asked), work.on_retry)
        except ContextOverflow as error:
            if len(units) <= 1:
                raise CompactionFailed(f"even one message is too large for the summary request: {error}") from error
            units = _without_oldest(work, units, asked, overflow)
        else:
            return answer, total - sum(map(len, units))
    raise CompactionFailed(f"the summary request was too large {MAX_OVERFLOWS} times; nothing was compacted")


def _request(work: Work, units: Sequence[Sequence[RequestMessage]], asked: str) -> Request:
    messages = (*(message for unit in units for message in unit), UserMessage(asked))
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


def _size(work: Work, units: Sequence[Sequence[RequestMessage]], asked: str) -> int:
    request = _request(work, units, asked)
    return estimate_request(request.system_prompt, request.messages, ())


def _within(work: Work, units: list[list[RequestMessage]], asked: str, excess: int) -> list[list[RequestMessage]]:
    """The units without as many of the oldest as the estimate is over the window."""
    window = work.limits.window
    if window is None:
        return units
    room = window - (work.max_output or 0)
    over = max(_size(work, units, asked) - room, excess)
    return _drop(work, units, over) if over > 0 else units


def _without_oldest(
    work: Work, units: list[list[RequestMessage]], asked: str, overflow: int
) -> list[list[RequestMessage]]:
    """At least the oldest unit less; as much as the estimate says, and more each time the estimate was wrong."""
    share = _size(work, units, asked) * overflow // 10
    return _within(work, units[1:], asked, share) if work.limits.window else _drop(work, units, share)


def _drop(work: Work, units: list[list[RequestMessage]], tokens: int) -> list[list[RequestMessage]]:
    gone = 0
    at = 0
    while at < len(units) - 1 and gone < max(tokens, 1):
        gone += sum(work.measure(message) for message in units[at])
        at += 1
    return units[at:]
