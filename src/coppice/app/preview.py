"""What a compaction would do, without a model: what goes, what stays, how large the context is before and after."""

from dataclasses import dataclass

from coppice.app.compaction_entry import Wish
from coppice.compaction.cut import find_cut
from coppice.compaction.kept import kept_user_messages
from coppice.compaction.remote import check_readable
from coppice.compaction.strategy import NothingToCompact, Work
from coppice.compaction.summary import items_of
from coppice.format.messages import EntryId


@dataclass(frozen=True, slots=True)
class Preview:
    """What a compaction would do, without a model: counts of messages and tokens that go and stay."""

    strategy: str
    goes: int
    stays: int
    tokens_before: int
    tokens_after: int
    first_kept: EntryId | None


def preview_of(work: Work, wish: Wish) -> Preview:
    """What a compaction would do; the size of its summary is a guess: half of what it may take.

    Raises:
        NothingToCompact, OpaqueContext: there is nothing it could do.
    """
    check_readable(work.view, work.model.info)
    name, summary = wish.strategy(work), (work.max_output or 0) // 2
    if name == "summary":
        items = items_of(work)
        cut = find_cut(items, work.limits.keep)
        if cut is None:
            raise NothingToCompact("nothing to compact: all of the context is recent")
        kept = items[cut.at :]
        after = summary + sum(item.tokens for item in kept)
        return Preview(name, cut.at, len(kept), work.tokens, after, kept[0].entry_id)
    images = name != "codex-inline"
    budget = work.settings.remote_user_tokens if images else work.settings.inline_user_tokens
    stay = kept_user_messages(work, budget, images=images)
    if name == "anthropic-server":
        stay = stay[-1:]
    after = summary + sum(work.measure(part.message) for part in stay)
    return Preview(name, max(len(work.view.pairs) - len(stay), 0), len(stay), work.tokens, after, None)
