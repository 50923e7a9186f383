"""How large a context is: the provider's own count where there is a usable one, plus an estimate of what came after.

Pure: what is learned about a model's tokens is passed in as a ratio (see corrections.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coppice.compaction.estimate import estimate_message
from coppice.compaction.triggers import context_tokens_of
from coppice.format.entries import reply_in
from coppice.format.messages import AssistantMessage, EntryId
from coppice.tree.context import ContextView, edits_in, message_pairs


@dataclass(frozen=True, slots=True)
class ContextSize:
    """A context's size in tokens: what the provider reported, and what was estimated on top of it.

    ``reported`` is 0 where no usable report stands on the path since the last compaction: all is an estimate then.
    ``first_report`` is the input of the first request in this compaction window, None before there was one.
    """

    reported: int
    estimated: int
    first_report: int | None = None

    @property
    def tokens(self) -> int:
        """The whole size."""
        return self.reported + self.estimated

    @property
    def is_known(self) -> bool:
        """Whether a provider's report is part of it."""
        return self.reported > 0


def is_usable(reply: AssistantMessage) -> bool:
    """Whether a reply's usage says how large its context was: not that of a failed or aborted reply, not all zero."""
    return reply.stop_reason not in ("error", "aborted") and context_tokens_of(reply.usage) > 0


def context_size(view: ContextView, *, overhead: int, ratio: float = 1.0) -> ContextSize:
    """The size of a context.

    `overhead` is the estimate for system prompt and tools, used where there is no report; `ratio` scales estimates to
    the model's tokens. Reports from before the newest compaction count for nothing, also those of what it kept; what was
    hidden since the newest report is taken off it.
    """
    reports = [
        (at, reply)
        for at, entry in enumerate(view.entries)
        if at >= view.first_new and (reply := reply_in(entry)) is not None and is_usable(reply)
    ]
    if not reports:
        estimate = overhead + sum(estimate_message(message) for _, message in view.pairs)
        return ContextSize(0, round(estimate * ratio))
    newest_at, newest = reports[-1]
    places = {entry.id: at for at, entry in enumerate(view.entries)}
    after = sum(estimate_message(message) for entry_id, message in view.pairs if places.get(entry_id, -1) > newest_at)
    reported = max(context_tokens_of(newest.usage) - round(_saved_since(view, places, newest_at) * ratio), 1)
    return ContextSize(reported, round(after * ratio), _input_of(reports[0][1]))


def _saved_since(view: ContextView, places: Mapping[EntryId, int], reported_at: int) -> int:
    """What context edits made since the newest report took out of what it counted, in estimated tokens."""
    edits = edits_in(view.entries[reported_at + 1 :])
    saved = 0
    for target in edits:
        at = places.get(target, len(places))
        if at <= reported_at:
            before = sum(estimate_message(message) for _, message in message_pairs([view.entries[at]]))
            saved += before - sum(estimate_message(message) for name, message in view.pairs if name == target)
    return saved


def _input_of(reply: AssistantMessage) -> int:
    return reply.usage.input + reply.usage.cache_read + reply.usage.cache_write


def what_is_large(view: ContextView, count: int = 3) -> Sequence[tuple[str, int]]:
    """The entries that take most of a context: (entry id, estimated tokens), the largest first."""
    sized = [(str(entry_id), estimate_message(message)) for entry_id, message in view.pairs]
    return sorted(sized, key=lambda item: item[1], reverse=True)[:count]
