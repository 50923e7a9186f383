"""What a session amounts to: messages, tokens and cost, of the branch we are on and of the whole file."""

from collections.abc import Iterable
from dataclasses import dataclass

from coppice.format.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry, UsageEntry
from coppice.format.messages import (
    NO_USAGE,
    AssistantMessage,
    BashExecutionMessage,
    Cost,
    ToolResultMessage,
    Usage,
    UserMessage,
    tool_calls_of,
)
from coppice.session.manager import SessionManager
from coppice.tree.path import tips


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts of messages, and the usage (tokens, US dollars) of replies, summaries and usage entries together."""

    user: int = 0
    replies: int = 0
    tool_calls: int = 0
    tool_results: int = 0
    bash: int = 0
    entries: int = 0
    usage: Usage = NO_USAGE

    @property
    def messages(self) -> int:
        """All messages."""
        return self.user + self.replies + self.tool_results + self.bash


@dataclass(frozen=True, slots=True)
class SessionStats:
    """A session's numbers. ``branches`` counts tips; ``branch`` is the path to the leaf, ``file`` everything."""

    session_id: str
    file_path: str | None
    file_size: int
    name: str | None
    branches: int
    branch: Totals
    file: Totals


def session_stats(session: SessionManager) -> SessionStats:
    """The numbers of a session. Reads every entry once."""
    path = session.session_file
    return SessionStats(
        session_id=session.session_id,
        file_path=str(path) if path else None,
        file_size=path.stat().st_size if path and session.is_stored else 0,
        name=session.get_session_name(),
        branches=len(tips(session.index)),
        branch=totals_of(session.get_branch()),
        file=totals_of(session.entries()),
    )


def totals_of(entries: Iterable[Entry]) -> Totals:
    """The totals of some entries."""
    counts = dict.fromkeys(("user", "replies", "tool_calls", "tool_results", "bash", "entries"), 0)
    usages: list[Usage] = []
    for entry in entries:
        counts["entries"] += 1
        match entry:
            case MessageEntry(message=UserMessage()):
                counts["user"] += 1
            case MessageEntry(message=AssistantMessage() as reply):
                counts["replies"] += 1
                counts["tool_calls"] += len(tool_calls_of(reply))
                usages.append(reply.usage)
            case MessageEntry(message=ToolResultMessage()):
                counts["tool_results"] += 1
            case MessageEntry(message=BashExecutionMessage()):
                counts["bash"] += 1
            case UsageEntry():
                usages.append(entry.usage)
            case CompactionEntry() | BranchSummaryEntry():
                usages += [entry.usage] if entry.usage else []
            case _:
                pass
    return Totals(**counts, usage=sum_of(usages))


def sum_of(usages: Iterable[Usage]) -> Usage:
    """Usages added up."""
    tokens, cost = [0] * 5, [0.0] * 5
    for usage in usages:
        for at, value in enumerate(
            (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens)
        ):
            tokens[at] += value
        paid = usage.cost
        for at, value in enumerate((paid.input, paid.output, paid.cache_read, paid.cache_write, paid.total)):
            cost[at] += value
    return Usage(tokens[0], tokens[1], tokens[2], tokens[3], tokens[4], Cost(*cost))
