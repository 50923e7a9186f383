"""Hooks: one typed table of functions that are asked at certain moments.

A hook sees read-only values and returns a verdict or a draft; it cannot move the leaf. What it raises becomes a notice,
and the work goes on as if it had said nothing.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from coppice.format.messages import EntryId

Event = TypeVar("Event")
Verdict = TypeVar("Verdict")
Listener: TypeAlias = Callable[[Event], Awaitable[Verdict | None]]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Do not do it; ``reason`` is told to the user."""

    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """Use this text instead of asking a model."""

    text: str


@dataclass(frozen=True, slots=True)
class Stop:
    """End the run after what was done; ``reason`` is told to the user."""

    reason: str


@dataclass(frozen=True, slots=True)
class BeforeCompact:
    """A compaction is about to begin: why, when, how, how large the context is (tokens), where the leaf is."""

    reason: str
    phase: str
    strategy: str
    tokens: int
    leaf: EntryId
    instructions: str | None


@dataclass(frozen=True, slots=True)
class AfterCompact:
    """A compaction was stored as entry ``entry_id``."""

    entry_id: EntryId
    reason: str
    strategy: str
    tokens_before: int
    tokens_after: int


@dataclass(frozen=True, slots=True)
class BeforeNavigate:
    """The leaf is about to move from ``from_id`` to where going to ``entry_id`` leads, with or without a summary."""

    entry_id: EntryId
    from_id: EntryId | None
    summarize: bool


@dataclass(slots=True)
class Hooks:
    """The table. Add functions to its lists; the first verdict that is not None counts."""

    before_compact: list[Listener[BeforeCompact, Cancel | Summary]] = field(
        default_factory=list[Listener[BeforeCompact, Cancel | Summary]]
    )
    after_compact: list[Listener[AfterCompact, Stop]] = field(default_factory=list[Listener[AfterCompact, Stop]])
    before_navigate: list[Listener[BeforeNavigate, Cancel | Summary]] = field(
        default_factory=list[Listener[BeforeNavigate, Cancel | Summary]]
    )


async def ask_hooks(
    hooks: Sequence[Listener[Event, Verdict]], event: Event, report: Callable[[str], None]
) -> Verdict | None:
    """The first verdict that hooks give; a hook that raises is reported and passed over."""
    for hook in tuple(hooks):
        try:
            verdict = await hook(event)
        except Exception as error:  # noqa: BLE001  (the fence: an extension's hook)
            report(f"a hook failed and was passed over: {type(error).__name__}: {error}")
            continue
        if verdict is not None:
            return verdict
    return None
