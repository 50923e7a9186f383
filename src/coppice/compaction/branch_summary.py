"""A summary of the branch that is left: from the common ancestor to the old leaf, newest first within a budget."""

from collections.abc import Sequence
from dataclasses import dataclass

from coppice.compaction.ask import ask
from coppice.compaction.estimate import estimate_text
from coppice.compaction.prompts import prompt
from coppice.compaction.remote import has_opaque
from coppice.compaction.strategy import Result, Work
from coppice.compaction.transcript import FileLists, file_section, files_in, shortened, transcript, with_calls
from coppice.format.entries import BranchSummaryEntry, CompactionEntry, Entry
from coppice.format.messages import BranchSummaryMessage, Message, UserMessage
from coppice.providers.base import Request
from coppice.tree.context import ContextView, messages_of

BUDGET_TOKENS = 40_000
"""Tokens of the branch that a summariser reads at most, newest first (our choice: a summary of a page)."""

OVERHEAD_TOKENS = 2_000
"""Tokens allowed for prompts, framing and the user's wishes (our prompts are 200)."""


@dataclass(frozen=True, slots=True)
class Branch:
    """What is left: its messages as text, oldest first, context edits applied, and the files it read and changed."""

    pieces: tuple[str, ...]
    files: FileLists

    @property
    def is_empty(self) -> bool:
        """Whether nothing on it says anything."""
        return not self.pieces


def left_branch(entries: Sequence[Entry], view: ContextView) -> Branch:
    """The branch that is left. `entries` are those between the common ancestor and the old leaf, `view` the context at
    the old leaf: what a compaction on the branch took out of it is told by that compaction's summary.

    Where that summary can be read by a provider only, the entries themselves are told instead.
    """
    ids = {entry.id for entry in entries}
    if has_opaque(view):
        left = [entry for entry in entries if not isinstance(entry, CompactionEntry)]
        return _branch(left, messages_of(left))
    left = [entry for entry in view.entries if entry.id in ids]
    return _branch(left, [message for entry_id, message in view.pairs if entry_id in ids])


def _branch(entries: Sequence[Entry], messages: Sequence[Message]) -> Branch:
    return Branch(tuple(transcript(messages)), with_calls(_earlier_files(entries), messages))


async def summarise_branch(branch: Branch, work: Work) -> Result:
    """Summarise a branch.

    Raises:
        CompactionFailed, ProviderError: nothing usable came of it.
    """
    pieces = _newest_within(branch.pieces, _budget(work))
    asked = ["<branch>\n" + "\n\n".join(pieces) + "\n</branch>", prompt("branch")]
    if work.instructions:
        asked.append(f"The user asks of this summary: {work.instructions}")
    request = Request(prompt("system"), (UserMessage("\n\n".join(asked)),), max_output=work.max_output)
    answer = await ask(work.model, request, work.on_retry)
    text = "\n\n".join(part for part in (answer.text, file_section(branch.files)) if part)
    after = work.measure(BranchSummaryMessage(text))
    return Result("branch", text, None, after, answer.reply.usage, branch.files.details())


def _budget(work: Work) -> int:
    window = work.limits.window
    if window is None:
        return BUDGET_TOKENS
    return min(BUDGET_TOKENS, max(window - (work.max_output or 0) - OVERHEAD_TOKENS, window // 4))


def _newest_within(pieces: Sequence[str], budget: int) -> list[str]:
    """The newest pieces within a budget, oldest first; where not even the newest fits, its beginning and end."""
    kept: list[str] = []
    left = budget
    for piece in reversed(pieces):
        left -= estimate_text(piece)
        if left < 0:
            break
        kept.append(piece)
    return kept[::-1] or [_cut(piece, budget) for piece in pieces[-1:]]


def _cut(piece: str, budget: int) -> str:
    length = len(piece)
    cut = piece
    while estimate_text(cut) > budget and length > 1:
        length = length * 3 // 4
        cut = shortened(piece, length)
    return cut


def _earlier_files(entries: Sequence[Entry]) -> FileLists:
    found = FileLists()
    for entry in entries:
        if isinstance(entry, CompactionEntry | BranchSummaryEntry):
            more = files_in(entry.details)
            found = FileLists((*found.read, *more.read), (*found.modified, *more.modified))
    return found
