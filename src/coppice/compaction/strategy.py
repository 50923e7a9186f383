"""What a strategy of compaction is: it takes a context and gives what is to stand in its place.

A strategy stores nothing and decides nothing about when. Its result is appended by the caller with the leaf it was
computed for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from coppice.compaction.said import Said
from coppice.compaction.settings import CompactionSettings, Limits
from coppice.errors import CoppiceError
from coppice.format.entries import CompactionEntry
from coppice.format.messages import (
    NO_USAGE,
    CompactionSummaryMessage,
    EntryId,
    JsonObject,
    JsonValue,
    Message,
    Usage,
)
from coppice.providers.base import Model, Request
from coppice.tree.context import ContextView

Reason = Literal["manual", "threshold", "overflow", "downshift", "length", "hash"]
Phase = Literal["standalone", "pre_turn", "mid_turn"]


UNKNOWN_OUTPUT = 4_096
"""What a summary may take where the window is unknown, in tokens: a local server's window may be small (our choice)."""


class CompactionFailed(CoppiceError):
    """A compaction gave nothing that could be used; nothing was stored and nothing changed."""


class NothingToCompact(CompactionFailed):
    """The context has nothing that could be summarised away."""


class OpaqueContext(CompactionFailed):
    """The context holds a provider's opaque item that this strategy (or model) cannot read."""


@dataclass(frozen=True, slots=True)
class Retrying:
    """A summary request failed for a passing reason and is sent again after ``delay_ms`` milliseconds."""

    attempt: int
    max_attempts: int
    delay_ms: int
    error: str


@dataclass(frozen=True, slots=True)
class Occasion:
    """Why and when a context is compacted, and what the user asks of it this time."""

    reason: Reason
    phase: Phase
    instructions: str | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What there is to compact.

    ``view`` is the context at ``leaf``, edits applied; ``said`` what the user said last, which may stand in no context
    any more. ``request`` is the request an ordinary turn would send now (same system prompt, messages, tools, settings).
    ``tokens`` is the context's size, ``measure`` estimates one message in this model's tokens.
    """

    view: ContextView
    leaf: EntryId
    said: Said | None
    model: Model
    request: Request
    tokens: int
    limits: Limits
    settings: CompactionSettings
    occasion: Occasion
    measure: Callable[[Message], int]
    on_retry: Callable[[Retrying], None] = field(default=lambda _: None)

    @property
    def reason(self) -> Reason:
        """Why."""
        return self.occasion.reason

    @property
    def phase(self) -> Phase:
        """When."""
        return self.occasion.phase

    @property
    def instructions(self) -> str | None:
        """What the user asks of it."""
        return self.occasion.instructions

    @property
    def previous(self) -> CompactionEntry | None:
        """The newest compaction of the context."""
        first = self.view.entries[0] if self.view.entries else None
        return first if isinstance(first, CompactionEntry) else None

    @property
    def earlier_summary(self) -> str:
        """The summary that the context begins with, as it is sent; empty where there is none or it is hidden."""
        previous = self.previous
        for entry_id, message in self.view.pairs:
            if isinstance(message, CompactionSummaryMessage) and previous is not None and entry_id == previous.id:
                return message.summary
        return ""

    @property
    def max_output(self) -> int | None:
        """What a summary may take: most of the reserve, at most what the model can put out (tokens)."""
        wanted = min(max(self.limits.reserve * 4 // 5, 256), max(self.limits.reserve, 1))
        if self.limits.window is None:
            wanted = min(wanted, UNKNOWN_OUTPUT)
        most = self.model.info.max_output
        return wanted if most is None else min(wanted, most)


@dataclass(frozen=True, slots=True)
class Result:
    """What stands in the context's place.

    ``first_kept`` None keeps nothing before the compaction. ``tokens_after`` is an estimate. ``replacement`` is the
    list of docs/format.md, None for strategies without one.
    """

    strategy: str
    summary: str
    first_kept: EntryId | None
    tokens_after: int
    usage: Usage = NO_USAGE
    details: JsonObject = field(default_factory=dict[str, JsonValue])
    replacement: tuple[JsonObject, ...] | None = None


class CompactionStrategy(Protocol):
    """One way to compact."""

    @property
    def name(self) -> str:
        """Its name in settings and in details."""
        ...

    async def compact(self, work: Work) -> Result:
        """Compact. Cancelling it leaves nothing behind.

        Raises:
            NothingToCompact: there is nothing to summarise away.
            CompactionFailed: nothing usable came of it.
            ProviderError: a request failed for good.
        """
        ...
