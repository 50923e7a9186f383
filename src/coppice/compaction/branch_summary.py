"""A summary of the branch that is left: from the common ancestor to the old leaf, newest first within a budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from coppice.compaction.estimate import estimate_text

from coppice.compaction.ask import ask
from coppice.compaction.prompts import prompt
from coppice.compaction.strategy import Result, Work
from coppice.compaction.transcript import FileLists, file_section, files_in, transcript, with_calls
from coppice.format.entries import BranchSummaryEntry, CompactionEntry, Entry
from coppice.format.messages import BranchSummaryMessage, Message, UserMessage
from coppice.providers.base import Request
from coppice.tree.context import ContextView

BUDGET_TOKENS = 40_000
"""Tokens of the branch that a summariser reads at most, newest first (our choice: a summary of a page)."""


@dataclass(frozen=True, slots=True)
class Branch:
    """What is left: its entries, oldest first, and the messages they become, context edits applied."""

    entries: tuple[Entry, ...]
    messages: tuple[Message, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing on it says anything."""
        return not transcript(self.messages)


def left_branch(entries: Sequence[Entry], view: ContextView) -> Branch:
    """The branch that is left. `entries` are those between the common ancestor and the old leaf, `view` the context at
    the old leaf. It stops at a compaction, whose summary stands for what came before."""
    newest = max((at for at, entry in enumerate(entries) if isinstance(entry, CompactionEntry)), default=0)
    left = tuple(entries[newest:])
    ids = {entry.id for entry in left}
    return Branch(left, tuple(message for entry_id, message in view.pairs if entry_id in ids))


async def summarise_branch(branch: Branch, work: Work) -> Result:
    """Summarise a branch.

    Raises:
        CompactionFailed, ProviderError: nothing usable came of it.
    """
    pieces = _newest_within(transcript(branch.messages), _budget(work))
    asked = ["<branch>\n" + "\n\n".join(pieces) + "\n</branch>", prompt("branch")]
    if work.instructions:
        asked.append(f"The user asks of this summary: {work.instructions}")
    request = Request(prompt("system"), (UserMessage("\n\n".join(asked)),), max_output=work.max_output)
    answer = await ask(work.model, request, work.on_retry)
    files = with_calls(_earlier_files(branch), branch.messages)
    text = "\n\n".join(part for part in (answer.text, file_section(files)) if part)
    return Result("branch", text, None, work.measure(BranchSummaryMessage(text)), answer.reply.usage, files.details())


def _budget(work: Work) -> int:
    window = work.limits.window
    if window is None:
        return BUDGET_TOKENS
    return max(min(BUDGET_TOKENS, window - (work.max_output or 0) - 2_000), window // 4)


def _newest_within(pieces: Sequence[str], budget: int) -> list[str]:
    kept: list[str] = []
    left = budget
    for piece in reversed(pieces):
        left -= estimate_text(piece)
        if left < 0 and kept:
            break
        kept.append(piece if left >= 0 else piece[-budget * 2 :])
    return kept[::-1]


def _earlier_files(branch: Branch) -> FileLists:
    found = FileLists()
    for entry in branch.entries:
        if isinstance(entry, CompactionEntry | BranchSummaryEntry):
            more = files_in(entry.details)
            found = FileLists((*found.read, *more.read), (*found.modified, *more.modified))
    return found
