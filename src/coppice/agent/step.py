"""What a run does next, decided from the path alone. Pure; table-tested.

A tool call is run only if its reply stands after the entry the run began at and has no result. Calls of older replies
are never run, whatever ended their run: they are answered as interrupted when a request is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from coppice.format.entries import CustomMessageEntry, Entry, MessageEntry, reply_in
from coppice.format.messages import (
    CustomMessage,
    EntryId,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
    tool_calls_of,
)


@dataclass(frozen=True, slots=True)
class CallModel:
    """Ask the model."""


@dataclass(frozen=True, slots=True)
class RunTools:
    """Run these calls of the reply `reply_id`, in parallel."""

    calls: tuple[ToolCall, ...]
    reply_id: EntryId


@dataclass(frozen=True, slots=True)
class Finished:
    """Nothing is left to do; ``reason`` is the last reply's stop reason."""

    reason: str


Step: TypeAlias = CallModel | RunTools | Finished


def next_step(path: Sequence[Entry], since: EntryId | None) -> Step:
    """What comes next on a path, for a run that began at entry `since` (None: before the first entry).

    `path` may begin anywhere at or after `since`, but must hold the newest reply after it with all that follows.
    """
    after = _after(path, since)
    replies = [(at, reply) for at, entry in enumerate(after) if (reply := reply_in(entry)) is not None]
    if not replies:
        return CallModel()
    newest, reply = replies[-1]
    ended = CallModel() if _is_answered_by_more(after[newest + 1 :]) else Finished(reply.stop_reason)
    if reply.stop_reason in ("error", "aborted", "length"):
        return ended
    answered = {result.tool_call_id for result in results_in(after[newest + 1 :])}
    calls = tool_calls_of(reply)
    if not calls:
        return ended
    waiting = _unanswered(calls, answered)
    return RunTools(waiting, after[newest].id) if waiting else CallModel()


def _after(path: Sequence[Entry], since: EntryId | None) -> Sequence[Entry]:
    for at in range(len(path) - 1, -1, -1):
        if path[at].id == since:
            return path[at + 1 :]
    return path


def results_in(entries: Sequence[Entry]) -> list[ToolResultMessage]:
    """The tool results among some entries, in order."""
    messages = [entry.message for entry in entries if isinstance(entry, MessageEntry)]
    return [message for message in messages if isinstance(message, ToolResultMessage)]


def _unanswered(calls: tuple[ToolCall, ...], answered: set[ToolCallId]) -> tuple[ToolCall, ...]:
    """The calls without a result; of several with one id the first."""
    waiting: dict[ToolCallId, ToolCall] = {}
    for call in calls:
        if call.id not in answered:
            waiting.setdefault(call.id, call)
    return tuple(waiting.values())


def _is_answered_by_more(entries: Sequence[Entry]) -> bool:
    """Whether something the model has to answer follows: a message that is neither a reply nor a result."""
    return any(_speaks(entry) for entry in entries)


def _speaks(entry: Entry) -> bool:
    match entry:
        case MessageEntry(message=UserMessage() | CustomMessage()) | CustomMessageEntry():
            return True
        case _:
            return False
