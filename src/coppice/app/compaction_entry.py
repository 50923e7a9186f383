"""What stands in a context's place: asked of hooks, then of a strategy; and the entry it is stored as.

When to compact, and whether a result is good enough, is not decided here.
"""

from collections.abc import Callable
from dataclasses import dataclass

from coppice.app.extensions.hooks import BeforeCompact, Cancel, Hooks, Summary, ask_hooks
from coppice.app.strategies import strategy_for
from coppice.compaction.cut import find_cut
from coppice.compaction.kept import is_context
from coppice.compaction.remote import DoesNotFit, NotOffered, check_readable, has_opaque, offered_forms
from coppice.compaction.strategy import CompactionFailed, NothingToCompact, Result, Work
from coppice.compaction.summary import items_of
from coppice.compaction.triggers import context_tokens_of
from coppice.format.messages import CompactionSummaryMessage, EntryId, JsonObject
from coppice.session.manager import CompactionDraft


@dataclass(frozen=True, slots=True)
class Wish:
    """Which strategy is to compact: the ``setting``, or ``once``, what the user names for this time."""

    setting: str
    once: str | None = None

    def strategy(self, work: Work) -> str:
        """The strategy's name. Where only the provider can read the context, its own goes before the setting.

        Raises:
            UsageError: there is none of this name.
        """
        if self.once is None and has_opaque(work.view) and offered_forms(work.model.info):
            return strategy_for("auto", work.model.info).name
        return strategy_for(self.once or self.setting, work.model.info).name


async def result_of(work: Work, wish: Wish, hooks: Hooks, tell: Callable[[str], None]) -> Result:
    """What is to stand in the context's place.

    Raises:
        CompactionFailed, ProviderError: nothing usable came of it, or a hook cancelled it.
    """
    name = wish.strategy(work)
    event = BeforeCompact(work.reason, work.phase, name, work.tokens, work.leaf, work.instructions)
    match await ask_hooks(hooks.before_compact, event, tell):
        case Cancel(reason=reason):
            raise CompactionFailed(f"compaction was cancelled: {reason}")
        case Summary(text=text):
            return _given(work, text)
        case None:
            pass
    check_readable(work.view, work.model.info)
    try:
        return await strategy_for(name, work.model.info).compact(work)
    except (NotOffered, DoesNotFit) as error:
        other = _instead(work, wish, name)
        if other is None:
            raise
        tell(f"{error}; {other} is used instead")
        return await strategy_for(other, work.model.info).compact(work)


def _instead(work: Work, wish: Wish, name: str) -> str | None:
    """The strategy to use where a server turns out to have none of its own, or the conversation does not fit it; None
    where that would lose something or is not wished for."""
    if has_opaque(work.view):
        return None
    again = wish.strategy(work)
    return again if again != name else "codex-inline" if work.settings.inline_fallback else None


def _given(work: Work, text: str) -> Result:
    """A hook's summary in the place of a model's: cut as the summary strategy cuts."""
    if not text.strip():
        raise CompactionFailed("the summary a hook gave is empty; nothing was compacted")
    items = items_of(work)
    cut = find_cut(items, work.limits.keep)
    if cut is None:
        raise NothingToCompact("nothing to compact: all of the context is recent")
    kept = items[cut.at :]
    after = work.measure(CompactionSummaryMessage(text)) + sum(item.tokens for item in kept)
    return Result("hook", text, kept[0].entry_id, after)


def draft_of(work: Work, result: Result, ordinal: Callable[[EntryId], int]) -> CompactionDraft:
    """The entry's fields (docs/format.md): what every strategy says in details, and its replacement if it has one."""
    details: JsonObject = dict(result.details)
    if result.strategy != "summary":
        details |= {"strategy": result.strategy, "reason": work.reason, "phase": work.phase}
        details |= {"tokensAfter": result.tokens_after}
    if result.replacement is not None:
        details["replacement"] = list(result.replacement)
        references = [EntryId(str(item["entry"])) for item in result.replacement if "entry" in item]
        details |= {"earliestRef": min(references, key=ordinal)} if references else {}
    if dropped := dropped_context(work, result):
        details["droppedContext"] = list(dropped)
    return CompactionDraft(
        summary=result.summary,
        first_kept_entry_id=result.first_kept,
        tokens_before=work.tokens,
        details=details,
        usage=result.usage if context_tokens_of(result.usage) else None,
        from_hook=True if result.strategy == "hook" else None,
    )


def dropped_context(work: Work, result: Result) -> tuple[str, ...]:
    """The kinds of context that extensions had declared and that no longer stand in the context word for word."""
    ids = [entry_id for entry_id, _ in work.view.pairs]
    if result.replacement is not None:
        kept = {str(item[key]) for item in result.replacement for key in ("entry", "of") if key in item}
    else:
        first = result.first_kept
        kept = {str(entry_id) for entry_id in (ids[ids.index(first) :] if first is not None and first in ids else ())}
    found = {message.custom_type: False for _, message in work.view.pairs if is_context(message)}
    found |= {m.custom_type: True for entry_id, m in work.view.pairs if is_context(m) and entry_id in kept}
    return tuple(kind for kind, stays in found.items() if not stays)
