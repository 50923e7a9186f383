"""Leaving a branch with a summary of it: what was left, told where the new branch goes on."""

import asyncio
from typing import NamedTuple

from coppice.agent.agent import Agent
from coppice.app.compactor import SessionCompactor
from coppice.app.extensions.hooks import BeforeNavigate, Cancel, Summary, ask_hooks
from coppice.compaction.branch_summary import Branch, left_branch, summarise_branch
from coppice.compaction.strategy import CompactionFailed, Result
from coppice.errors import CoppiceError
from coppice.format.events import BranchSummaryEnd, BranchSummaryStart, Notice
from coppice.format.messages import NO_USAGE, EntryId
from coppice.providers.base import Model
from coppice.session.manager import SessionManager
from coppice.tree.family import NONE
from coppice.tree.path import common_ancestor, path_to


class NavigationCancelled(CoppiceError):
    """A hook forbade the move; the leaf stays."""


class Move(NamedTuple):
    """A move of the leaf from ``left`` to ``target`` (None: before the first entry)."""

    left: EntryId | None
    target: EntryId | None


def branch_left_by(session: SessionManager, target: EntryId | None) -> Branch:
    """What is left by going to `target` (None: before the first entry)."""
    index = session.index
    goal = NONE if target is None else session.store.ordinal(target)
    above = common_ancestor(index, goal, session.leaf)
    entries = session.store.entries(path_to(index, session.leaf, above=above))
    return left_branch(entries, session.build_context())


async def ask_before(agent: Agent, compactor: SessionCompactor, event: BeforeNavigate) -> Summary | None:
    """What hooks say to a move.

    Raises:
        NavigationCancelled: one forbids it.
    """
    verdict = await ask_hooks(compactor.hooks.before_navigate, event, lambda text: agent.emit(Notice("warning", text)))
    if isinstance(verdict, Cancel):
        raise NavigationCancelled(f"the move was cancelled: {verdict.reason}")
    return verdict


async def leave_with_summary(
    agent: Agent,
    compactor: SessionCompactor,
    move: Move,
    *,
    model: Model,
    instructions: str | None = None,
    given: Summary | None = None,
) -> EntryId | None:
    """Summarise the branch that is left (or take the summary a hook gave) and move; the summary's entry, None where
    there was nothing to summarise.

    Raises:
        CompactionFailed, ProviderError, LeafMoved, StorageFailure: the leaf stays.
    """
    session = agent.session
    branch = branch_left_by(session, move.target)
    if branch.is_empty:
        session.branch(move.target, expect=move.left)
        return None

    async def store() -> EntryId:
        if given is not None:
            return store_summary(session, move, given_summary(given.text))
        result = await summarise_branch(branch, compactor.work_for_branch(model, instructions))
        return store_summary(session, move, result)

    async def tell() -> EntryId:
        agent.emit(BranchSummaryStart(move.left))
        try:
            stored = await store()
        except asyncio.CancelledError:
            agent.emit(BranchSummaryEnd(aborted=True))
            raise
        except CoppiceError as error:
            agent.emit(BranchSummaryEnd(error_message=str(error)))
            raise
        agent.emit(BranchSummaryEnd(stored))
        return stored

    return await compactor.alone(tell())


def store_summary(session: SessionManager, move: Move, result: Result) -> EntryId:
    """Store a branch summary where the new branch goes on, if the leaf is still the one it was made for."""
    return session.branch_with_summary(
        move.target,
        result.summary,
        details=result.details or None,
        usage=result.usage if result.usage != NO_USAGE else None,
        from_hook=True if result.strategy == "hook" else None,
        expect=move.left,
    )


def given_summary(text: str) -> Result:
    """A hook's text in the place of a model's summary."""
    if not text.strip():
        raise CompactionFailed("the summary a hook gave is empty; the leaf stays")
    return Result("hook", text, None, 0)
