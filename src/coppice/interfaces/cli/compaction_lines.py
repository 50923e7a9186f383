"""What compactions and branch summaries say while they happen, in one line each. Pure."""

from coppice.format.events import (
    BranchSummaryEnd,
    BranchSummaryStart,
    CompactionEnd,
    CompactionStart,
    SessionEvent,
    SummarizationRetryScheduled,
)

_REASONS = {
    "manual": "",
    "threshold": ": it is nearly full",
    "overflow": ": the provider found it too large",
    "length": ": the reply had no room in it",
    "downshift": ": the new model's window is smaller",
    "hash": ": the new model reads another form of it",
}


def compaction_line(event: SessionEvent) -> str | None:
    """The line of an event of a compaction or branch summary; None for any other, and for a failure: that is raised."""
    match event:
        case CompactionStart(reason=reason, strategy=strategy, tokens_before=tokens):
            return f"condensing the context ({strategy}, about {tokens:,} tokens){_REASONS.get(reason, '')} …"
        case CompactionEnd(aborted=True):
            return "(aborted; the context is as it was)"
        case CompactionEnd(entry_id=entry_id, tokens_before=before, tokens_after=after) if entry_id is not None:
            return f"condensed: {sizes(before, after)}, entry {entry_id}"
        case SummarizationRetryScheduled(error_message=error, delay_ms=delay):
            return f"{error}; asking for the summary again in {delay / 1000:.1f} s"
        case BranchSummaryStart():
            return "summarising the branch that is left …"
        case BranchSummaryEnd(aborted=True):
            return "(aborted; we are where we were)"
        case BranchSummaryEnd(entry_id=entry_id) if entry_id is not None:
            return f"summarised, entry {entry_id}"
        case _:
            return None


def untold_failure(event: SessionEvent) -> str | None:
    """Why an automatic compaction failed, where the run may go on without telling it; else None."""
    match event:
        case CompactionEnd(reason="threshold", error_message=error):
            return error
        case _:
            return None


def sizes(before: int | None, after: int | None) -> str:
    """``about 25,310 tokens before, 8,120 after``, as far as it is known."""
    told = [
        f"{tokens:,}{word}" for tokens, word in ((before, " tokens before"), (after, " after")) if tokens is not None
    ]
    return f"about {', '.join(told)}" if told else "sizes unknown"
