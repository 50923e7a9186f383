"""What a command answered, as lines of text. Nothing is printed here."""

from typing import assert_never

from coppice.app.agent_session import AgentSession
from coppice.app.commands import (
    Compacted,
    CompactionPreviewed,
    CompactionUndone,
    HelpShown,
    LabelIs,
    Leave,
    LevelIs,
    ModelIs,
    Moved,
    NameIs,
    Outcome,
    ReadableSummaryUsed,
    SessionsShown,
    StatsShown,
    Switched,
    ToolsAre,
    TreeShown,
    tree_rows,
)
from coppice.app.compactor import Preview
from coppice.interfaces.cli.compaction_lines import sizes
from coppice.interfaces.cli.printable import cut, first_line, printable
from coppice.interfaces.cli.session_choice import numbered_sessions
from coppice.interfaces.cli.session_rows import said_in
from coppice.interfaces.cli.session_tree import tree_lines
from coppice.session.stats import SessionStats, Totals
from coppice.tree.family import NONE


def outcome_lines(session: AgentSession, outcome: Outcome, width: int) -> list[str]:
    """The lines that show what a command answered; a text that comes back to be changed is not among them."""
    match outcome:
        case TreeShown():
            return _tree(session, outcome, width)
        case Moved():
            return [f"← {place_of(session)}"]
        case Switched():
            return [f"{_SWITCHED[outcome.how]}: {outcome.session_id}, {place_of(session)}"]
        case SessionsShown(rows=()):
            return ["there is no other session of this directory"]
        case SessionsShown(rows=rows):
            return numbered_sessions(rows)
        case StatsShown(stats=stats):
            return _stats(stats)
        case Compacted(entry_id=entry_id, strategy=strategy, tokens_before=before, tokens_after=after):
            how = f" by {printable(strategy)}" if strategy else ""
            return [f"compacted{how}: {sizes(before, after)}, entry {printable(entry_id)}; /compact undo takes it back"]
        case CompactionPreviewed(preview=preview):
            return _preview(preview)
        case CompactionUndone(entry_id=entry_id):
            return [f"← {place_of(session)}", f"undone; /tree {printable(entry_id)} takes the compaction up again"]
        case ReadableSummaryUsed(entry_id=entry_id):
            return [f"its readable summary stands for the compaction {printable(entry_id)} from here on"]
        case HelpShown(commands=commands):
            return [f"{command.usage:<22} {command.help}" for command in commands]
        case NameIs() | LabelIs() | ModelIs() | LevelIs() | ToolsAre() | Leave():
            return _one_fact(outcome)
        case _:
            assert_never(outcome)


_SWITCHED = {"new": "a new session", "fork": "forked into", "clone": "cloned into", "resume": "opened"}


def _one_fact(outcome: "NameIs | LabelIs | ModelIs | LevelIs | ToolsAre | Leave") -> list[str]:
    match outcome:
        case NameIs(name=name):
            return [f"named: {first_line(name)}" if name else "the session has no name"]
        case LabelIs(entry_id=entry_id, label=label):
            return [f"{printable(entry_id)} [{first_line(label)}]" if label else f"{printable(entry_id)} has no label"]
        case ModelIs(name=name, label=label):
            return [printable(f"{name}: {label}" if label else name)]
        case LevelIs(level=level, known=known):
            return [f"thinking {printable(level)} (one of {', '.join(known)})"]
        case ToolsAre(on=on, known=known):
            off = [name for name in known if name not in on]
            return [printable(f"on: {', '.join(on) or 'none'}" + (f"; off: {', '.join(off)}" if off else ""))]
        case Leave():
            return []
        case _:
            assert_never(outcome)


def place_of(session: AgentSession) -> str:
    """Where we are, in one line: the newest thing that was said on the way here."""
    here = next((row for row in tree_rows(session.session) if row.here), None)
    if here is None:
        return "before the first entry"
    said = said_in(session.session.store.entry(here.ordinal))
    return f"at {printable(here.id)} {said.who}: {cut(said.text, 60)}"


def _tree(session: AgentSession, tree: TreeShown, width: int) -> list[str]:
    rows = tree.rows
    if not rows:
        return ["nothing has been said yet"]
    shown = [*tree_lines(session.session.store, rows, width, are_numbered=True)]
    if session.session.leaf == NONE:
        shown.append("← you are here: before the first entry")
    return [*shown, f"/{tree.command} NUMBER goes there"]


def _preview(preview: Preview) -> list[str]:
    first = f", from {printable(preview.first_kept)} on" if preview.first_kept is not None else ""
    stays = f"{preview.stays:,} stay{'s' if preview.stays == 1 else ''}{first}"
    return [
        f"{printable(preview.strategy)} would condense {_counted(preview.goes, 'message')}; {stays}",
        f"{sizes(preview.tokens_before, preview.tokens_after)}; nothing was done",
    ]


def _stats(stats: SessionStats) -> list[str]:
    lines = [f"session  {stats.session_id}" + (f" ({first_line(stats.name)})" if stats.name else "")]
    stored = stats.file_path is not None and stats.file_size > 0
    lines.append(
        f"file     {printable(stats.file_path or '')}, {stats.file_size:,} bytes" if stored else "file     none yet"
    )
    branches = f", {stats.branches} branches" if stats.branches > 1 else ""
    return [*lines, f"branch   {_totals(stats.branch)}", f"all      {_totals(stats.file)}{branches}"]


def _totals(totals: Totals) -> str:
    usage = totals.usage
    cost = f", ${usage.cost.total:.4f}" if usage.cost.total else ""
    parts = [
        _counted(totals.user, "prompt"),
        _counted(totals.replies, "repl", "y", "ies"),
        _counted(totals.tool_calls, "tool call"),
        _counted(usage.total_tokens, "token"),
    ]
    return ", ".join(parts) + cost


def _counted(number: int, noun: str, one: str = "", more: str = "s") -> str:
    return f"{number:,} {noun}{one if number == 1 else more}"
