"""Pi's strategy: a structured summary of what is old, the recent entries kept as they are.

An earlier summary is passed on and updated; files read and changed are carried along. What is too long for one request
is summarised in parts, each within the window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from coppice.compaction.ask import Answer, ask
from coppice.compaction.cut import Cut, Item, find_cut
from coppice.compaction.prompts import prompt
from coppice.compaction.strategy import CompactionFailed, NothingToCompact, OpaqueContext, Result, Work
from coppice.compaction.transcript import file_section, files_in, shortened, transcript, with_calls
from coppice.errors import ContextOverflow
from coppice.format.messages import (
    CompactionSummaryMessage,
    OpaqueMessage,
    SystemMessage,
    Usage,
    UserMessage,
    text_of,
)
from coppice.providers.base import Request
from coppice.session.stats import sum_of

OVERHEAD_TOKENS = 1_000
"""Tokens allowed for prompts and framing in a summary request (our prompts are 400)."""

SHRINKS = (1, 2, 4)
"""How many times smaller than we think is possible the requests of each try are (ours: three tries)."""

QUOTE_TITLE = "## The current request, word for word"

CHARACTERS_PER_TOKEN = 2
"""How many characters a token has at least, for cutting a single text that is too long for a request (our estimate)."""


@dataclass(frozen=True, slots=True)
class SummaryStrategy:
    """Summarise what is old, keep what is recent."""

    name: str = "summary"

    async def compact(self, work: Work) -> Result:
        """See `CompactionStrategy`."""
        items = items_of(work)
        cut = find_cut(items, work.limits.keep)
        if cut is None:
            raise NothingToCompact("nothing to compact: all of the context is recent")
        usages: list[Usage] = []
        summary = await _fitted_summary(work, usages, items, cut)
        old, kept = items[: cut.at], items[cut.at :]
        before = work.previous.details if work.previous is not None else None
        files = with_calls(files_in(before), (item.message for item in old))
        text = "\n\n".join(part for part in (summary, file_section(files)) if part)
        after = work.measure(CompactionSummaryMessage(text)) + sum(item.tokens for item in kept)
        return Result(self.name, text, kept[0].entry_id, after, sum_of(usages), files.details())


async def _fitted_summary(work: Work, usages: list[Usage], items: Sequence[Item], cut: Cut) -> str:
    """The summary; where the summariser finds a request too large, in smaller parts.

    Raises:
        CompactionFailed: it finds even these too large.
    """
    too_large: ContextOverflow | None = None
    for shrink in SHRINKS:
        try:
            return await _Writer(work, usages, shrink).summary_of(items, cut)
        except ContextOverflow as error:
            too_large = error
    raise CompactionFailed(f"the summariser found {len(SHRINKS)} requests too large: {too_large}") from too_large


def items_of(work: Work) -> list[Item]:
    """The context's messages as items, without the earlier summary.

    Raises:
        OpaqueContext: one of them can be read by its provider only.
    """
    entries = {entry.id for entry in work.view.entries}
    previous = work.previous.id if work.previous is not None else None
    items: list[Item] = []
    for entry_id, message in work.view.pairs:
        if isinstance(message, OpaqueMessage):
            raise OpaqueContext(
                "the context holds an item that only its provider can read, so it cannot be summarised as text: use that "
                "provider's compaction again (--strategy codex-remote), or undo the last compaction (/compact undo)"
            )
        is_old_summary = isinstance(message, CompactionSummaryMessage) and entry_id == previous
        if not is_old_summary and not isinstance(message, SystemMessage):
            is_entry = entry_id in entries and entry_id != previous
            items.append(Item(entry_id, message, work.measure(message), is_entry))
    return items


@dataclass(frozen=True, slots=True)
class _Writer:
    """Asks for the parts of one summary and adds up what they cost; each request is `shrink` times smaller than could
    be."""

    work: Work
    usages: list[Usage]
    shrink: int = 1

    async def summary_of(self, items: Sequence[Item], cut: Cut) -> str:
        history_end = cut.at if cut.turn_start is None else cut.turn_start
        quote = self._quote(items[cut.at :])
        earlier = self._earlier(quote)
        history = transcript(item.message for item in items[:history_end])
        summary = await self._history(history, earlier) if history else earlier
        turn = "" if cut.turn_start is None else await self._turn(items[cut.turn_start : cut.at], quote)
        return "\n\n".join(part for part in (summary, quote, turn) if part)

    def _quote(self, kept: Sequence[Item]) -> str:
        """What the user said last, word for word, where it is not among what is kept."""
        said = self.work.said
        if said is None or any(item.entry_id == said.entry_id for item in kept):
            return ""
        text = text_of(said.message.content)
        limit = max(self.work.limits.keep, 1_000) * CHARACTERS_PER_TOKEN
        return f"{QUOTE_TITLE}\n{shortened(text, limit)}" if text else ""

    def _earlier(self, quote: str) -> str:
        """The earlier summary to pass on, without the quote that stands beside it anyway."""
        earlier = self.work.earlier_summary
        if quote:
            earlier = earlier.replace(quote, "").strip()
        window = self.work.limits.window
        is_long = window is not None and self._size(earlier) > window // 4
        return shortened(earlier, window // 4 * CHARACTERS_PER_TOKEN) if is_long and window is not None else earlier

    async def _history(self, pieces: Sequence[str], earlier: str) -> str:
        """Summarise pieces with the earlier summary passed on, as many at a time as fit."""
        summary = earlier
        for part in self._parts(pieces, summary):
            asked = [f"<conversation>\n{part}\n</conversation>"]
            if summary:
                asked.append(f"<previous-summary>\n{summary}\n</previous-summary>")
                asked.append(prompt("update"))
            asked.append(prompt("summary"))
            if self.work.instructions:
                asked.append(f"The user asks of this summary: {self.work.instructions}")
            summary = (await self._ask("\n\n".join(asked))).text
        return summary

    async def _turn(self, items: Sequence[Item], quote: str) -> str:
        """What was done in the beginning of a turn that is split, after the user's message."""
        pieces = transcript(item.message for item in items[1:])
        summary = ""
        for part in self._parts(pieces, quote):
            earlier = f"<so-far>\n{summary}\n</so-far>\n\n" if summary else ""
            asked = f"<request>\n{quote}\n</request>\n\n{earlier}<turn>\n{part}\n</turn>\n\n{prompt('turn_prefix')}"
            summary = (await self._ask(asked)).text
        return f"## Done in this turn so far\n{summary}" if summary else ""

    def _parts(self, pieces: Sequence[str], beside: str) -> list[str]:
        """The pieces joined to parts that fit a request with `beside`; one that is too long by itself is shortened."""
        budget = self._budget(beside)
        if budget is None and self.shrink == 1:
            return ["\n\n".join(pieces)] if pieces else []
        if budget is None:
            budget = sum(map(self._size, pieces)) // self.shrink + 1
        parts: list[list[str]] = [[]]
        size = 0
        for whole in pieces:
            piece = self._shortened(whole, budget)
            tokens = self._size(piece)
            if size + tokens > budget and parts[-1]:
                parts.append([])
                size = 0
            parts[-1].append(piece)
            size += tokens
        return ["\n\n".join(part) for part in parts if part]

    def _shortened(self, piece: str, budget: int) -> str:
        limit = max(budget, 1) * CHARACTERS_PER_TOKEN
        while self._size(piece) > budget and limit > 0:
            piece = shortened(piece, limit)
            limit = limit * 2 // 3
        return piece

    def _budget(self, beside: str) -> int | None:
        window = self.work.limits.window
        if window is None:
            return None
        output = self.work.max_output or 0
        taken = output + OVERHEAD_TOKENS + max(self._size(beside), output)
        return max((window - taken) * 9 // 10, window // 8) // self.shrink

    def _size(self, text: str) -> int:
        return self.work.measure(UserMessage(text)) if text else 0

    async def _ask(self, text: str) -> Answer:
        request = Request(
            system_prompt=prompt("system"),
            messages=(UserMessage(text),),
            max_output=self.work.max_output,
            cache_key=None,
        )
        answer = await ask(self.work.model, request, self.work.on_retry)
        self.usages.append(answer.reply.usage)
        return answer
