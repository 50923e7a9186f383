"""Where a context is cut: what is summarised, what is kept. Pure.

Never between a call and its result. The newest user message is always kept; where its turn alone is too long, the cut
lies inside the turn (a split turn) and the message is quoted in the summary word for word.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CustomMessage,
    EntryId,
    Message,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
    tool_calls_of,
)

MOST_KEPT = 2
"""How many times what is to be kept may be kept, where a large message stands at the place (ours; Pi has no bound)."""


@dataclass(frozen=True, slots=True)
class Item:
    """A message of the context with the id of its entry and its size in tokens.

    ``is_entry`` is False for what only stands in an earlier compaction's replacement: a kept range cannot begin there.
    """

    entry_id: EntryId
    message: Message
    tokens: int
    is_entry: bool = True


@dataclass(frozen=True, slots=True)
class Cut:
    """Items before ``at`` are summarised, the others kept. ``turn_start`` is where the split turn begins, if it is one:
    items from there to ``at`` are summarised as the turn's beginning."""

    at: int
    turn_start: int | None = None


def find_cut(items: Sequence[Item], keep_tokens: int) -> Cut | None:
    """The latest place where at least `keep_tokens` are kept, or the next one where that would be far more; None where
    nothing could be summarised.

    Items are the context without an earlier summary, oldest first. A context smaller than that is cut before its newest
    user message.
    """
    places = [at for at in _places(items) if at > 0]
    if not places:
        return None
    if _size(items) < keep_tokens:
        newest = _newest_user(items)
        return None if newest is None or newest not in places else Cut(newest)
    wanted = _wanted(items, keep_tokens)
    before = [at for at in places if at <= wanted]
    at = before[-1] if before else places[0]
    later = [place for place in places if place > at]
    if later and _size(items[at:]) > keep_tokens * MOST_KEPT:  # one huge message would make the compaction useless
        at = later[0]
    user = _newest_user(items)
    if user is None or at <= user:
        return Cut(at)
    if _size(items[user:]) <= max(keep_tokens, 1) and user in places:
        return Cut(user)
    return Cut(at, user)


def _wanted(items: Sequence[Item], keep_tokens: int) -> int:
    """The place from which on the newest items reach `keep_tokens`."""
    kept = 0
    for at in range(len(items) - 1, -1, -1):
        kept += items[at].tokens
        if kept >= keep_tokens:
            return at
    return 0


def _places(items: Sequence[Item]) -> list[int]:
    """Where a kept range may begin: at an entry that is no result, with no result after it whose call stands before."""
    open_until = _last_result_of_each_call(items)
    places: list[int] = []
    blocked = -1
    for at, item in enumerate(items):
        if item.is_entry and at > blocked and _may_begin(item.message):
            places.append(at)
        if isinstance(item.message, AssistantMessage):
            ends = [open_until.get((at, call.id), -1) for call in tool_calls_of(item.message)]
            blocked = max([blocked, *ends])
    return places


def _may_begin(message: Message) -> bool:
    match message:
        case UserMessage() | AssistantMessage() | BashExecutionMessage() | CustomMessage() | BranchSummaryMessage():
            return True
        case _:
            return False


def _last_result_of_each_call(items: Sequence[Item]) -> dict[tuple[int, ToolCallId], int]:
    """(Place of the reply, call id) → place of the last result for it before the id is used again."""
    found: dict[tuple[int, ToolCallId], int] = {}
    callers: dict[ToolCallId, int] = {}
    for at, item in enumerate(items):
        match item.message:
            case AssistantMessage() as reply:
                callers |= {call.id: at for call in tool_calls_of(reply)}
            case ToolResultMessage(tool_call_id=call_id) if call_id in callers:
                found[callers[call_id], call_id] = at
            case _:
                pass
    return found


def _newest_user(items: Sequence[Item]) -> int | None:
    return next((at for at in range(len(items) - 1, -1, -1) if isinstance(items[at].message, UserMessage)), None)


def _size(items: Sequence[Item]) -> int:
    return sum(item.tokens for item in items)
