"""When a conversation is compacted: Pi's rule and Codex's rule, overflow, length stops, model changes. Pure.

Each strategy runs under any trigger. Section and case numbers are those of the project's compaction notes
(docs/compaction.md names the sources).
"""

from coppice.compaction.settings import Limits
from coppice.errors import ContextOverflow, ProviderError
from coppice.format.messages import AssistantMessage, TextBlock, Usage

FULL_PERCENT = 95
"""From this part of the window on a reply that was cut off without a text is taken for a full context, in percent."""


def codex_limit(limits: Limits) -> int | None:
    """Codex's automatic limit: the configured one, at most 90 % of the raw window; None where neither is known."""
    if limits.window is None:
        return limits.auto_limit
    ceiling = limits.window * 9 // 10
    return ceiling if limits.auto_limit is None else min(limits.auto_limit, ceiling)


def is_due(active: int, limits: Limits, *, baseline: int | None = None) -> bool:
    """Whether a context of `active` tokens is to be compacted before the next request.

    `baseline` is the prefix that Codex's scope ``body_after_prefix`` leaves out: the input of the first request in this
    compaction window; None while there was none (then the body counts as nothing).
    """
    if limits.trigger == "pi":
        return limits.window is not None and active > limits.window - limits.reserve
    if limits.scope == "body_after_prefix":
        return _is_body_due(active, limits, baseline)
    limit = codex_limit(limits)
    return limit is not None and active >= limit


def _is_body_due(active: int, limits: Limits, baseline: int | None) -> bool:
    if limits.effective_window is not None and active >= limits.effective_window:
        return True
    limit = limits.auto_limit if limits.auto_limit is not None else codex_limit(limits)
    body = active - (active if baseline is None else baseline)
    return limit is not None and body >= limit


def limit_of(limits: Limits) -> int | None:
    """The size from which on a context is due, for messages and for judging a compaction's result."""
    if limits.trigger == "codex":
        return codex_limit(limits)
    return None if limits.window is None else limits.window - limits.reserve + 1


def is_downshift(active: int, old: Limits, new: Limits) -> bool:
    """Whether to compact with the old model before a switch to one with a smaller window."""
    if old.effective_window is None or new.effective_window is None:
        return False
    if old.effective_window <= new.effective_window:
        return False
    if active >= new.effective_window:
        return True
    limit = codex_limit(new) if new.trigger == "codex" or new.window is None else new.window - new.reserve
    return new.scope == "total" and limit is not None and active > limit


def is_hash_change(old: str | None, new: str | None) -> bool:
    """Whether two models compact in ways that do not fit: both name theirs, and they differ."""
    return old is not None and new is not None and old != new


def is_overflow(error: ProviderError, active: int, limits: Limits) -> bool:
    """Whether a failed request was too large: the provider says so, or a refusal without a reason fits our estimate."""
    if isinstance(error, ContextOverflow):
        return True
    unexplained = error.status == 400 and not error.body.strip()
    return unexplained and limits.window is not None and active > limits.window


def context_tokens_of(usage: Usage) -> int:
    """The size of the context a reply was made from and adds to, in tokens."""
    parts = usage.input + usage.output + usage.cache_read + usage.cache_write
    return usage.total_tokens or parts


def is_full_stop(reply: AssistantMessage, limits: Limits) -> bool:
    """Whether a reply was cut off because the context was full: the window is all but used and no text came."""
    if reply.stop_reason != "length" or limits.window is None:
        return False
    has_text = any(isinstance(block, TextBlock) and block.text.strip() for block in reply.content)
    return not has_text and context_tokens_of(reply.usage) * 100 >= limits.window * FULL_PERCENT
