"""The one table of commands: what a user can ask of a session beside talking, for every interface.

A command is given words and answers with a plain value; how that is shown is the interface's. Nothing is printed here.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from coppice.app.agent_session import AgentSession
from coppice.app.compactor import Preview
from coppice.app.default_tools import tools_after_switch
from coppice.app.strategies import STRATEGIES
from coppice.errors import UnknownEntryId, UsageError
from coppice.format.events import CompactionEnd
from coppice.format.messages import THINKING_LEVELS, EntryId
from coppice.session.listing import SessionInfo, find_session
from coppice.session.manager import SessionManager
from coppice.session.stats import SessionStats
from coppice.tools.toolset import ALL_TOOLS
from coppice.tree.outline import Filter, Row, View, outline

# --- what commands answer with -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TreeShown:
    """The tree as rows, numbered from 1 in this order; ``command`` is what a number can be given to."""

    rows: tuple[Row, ...]
    command: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The leaf is elsewhere (None: before the first entry); ``editor_text`` is a message taken back to be changed."""

    leaf_id: EntryId | None
    editor_text: str


@dataclass(frozen=True, slots=True)
class Switched:
    """Another session is the current one; ``how``: new, fork, clone, resume."""

    how: str
    session_id: str
    editor_text: str = ""


@dataclass(frozen=True, slots=True)
class SessionsShown:
    """The sessions of this directory, the one used last first, numbered from 1."""

    rows: tuple[SessionInfo, ...]


@dataclass(frozen=True, slots=True)
class NameIs:
    """The session's name; None for none."""

    name: str | None


@dataclass(frozen=True, slots=True)
class LabelIs:
    """The label of an entry; None for none."""

    entry_id: EntryId
    label: str | None


@dataclass(frozen=True, slots=True)
class StatsShown:
    """The session's numbers."""

    stats: SessionStats


@dataclass(frozen=True, slots=True)
class ModelIs:
    """The model the next prompt goes to: ``provider/id`` and a line about it, if there is one."""

    name: str
    label: str


@dataclass(frozen=True, slots=True)
class LevelIs:
    """The thinking level of the next prompt, and the levels there are."""

    level: str
    known: tuple[str, ...] = THINKING_LEVELS


@dataclass(frozen=True, slots=True)
class ToolsAre:
    """The tools the model is offered, and those there are."""

    on: tuple[str, ...]
    known: tuple[str, ...] = ALL_TOOLS


@dataclass(frozen=True, slots=True)
class Compacted:
    """The context was condensed, as entry ``entry_id``; by which strategy, and its size in tokens, where that was told."""

    entry_id: EntryId
    strategy: str | None = None
    tokens_before: int | None = None
    tokens_after: int | None = None


@dataclass(frozen=True, slots=True)
class CompactionPreviewed:
    """What condensing the context would do; nothing was done."""

    preview: Preview


@dataclass(frozen=True, slots=True)
class CompactionUndone:
    """The leaf stands before the compaction ``entry_id`` now; going to that entry takes it up again."""

    entry_id: EntryId


@dataclass(frozen=True, slots=True)
class ReadableSummaryUsed:
    """The readable summary of the compaction ``entry_id`` stands in the place of what only its provider can read."""

    entry_id: EntryId


@dataclass(frozen=True, slots=True)
class HelpShown:
    """Every command, in the order of the table."""

    commands: "tuple[Command, ...]"


@dataclass(frozen=True, slots=True)
class Leave:
    """The user wants to go."""


Outcome: TypeAlias = (
    TreeShown
    | Moved
    | Switched
    | SessionsShown
    | NameIs
    | LabelIs
    | StatsShown
    | ModelIs
    | LevelIs
    | ToolsAre
    | Compacted
    | CompactionPreviewed
    | CompactionUndone
    | ReadableSummaryUsed
    | HelpShown
    | Leave
)


# --- the table ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """One use of a command.

    ``words`` is what stands after its name. ``entries`` and ``sessions`` are the ids and paths the user last saw
    numbered from 1; where nothing was shown yet, a number counts in what would be shown now.
    """

    session: AgentSession
    words: str = ""
    entries: tuple[EntryId, ...] = ()
    sessions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, how it is used, one line of help, and what it does.

    ``run`` raises `CoppiceError`s; then nothing was changed.
    """

    name: str
    usage: str
    help: str
    run: Callable[[Ask], Awaitable[Outcome]]


def find_command(text: str) -> tuple[Command, str] | None:
    """The command that a line begins with, and the words after it; None for a line that is no command."""
    name, _, words = text.strip().partition(" ")
    command = COMMANDS.get(name[1:]) if name.startswith("/") else None
    return None if command is None else (command, words.strip())


async def _tree(ask: Ask) -> Outcome:
    if not ask.words:
        return TreeShown(tuple(tree_rows(ask.session.session)), "tree")
    word, _, rest = ask.words.partition(" ")
    option, _, instructions = rest.strip().partition(" ")
    if option not in ("", "--summary"):
        raise UsageError(f"/tree takes an entry and --summary, not {option!r}")
    text = await ask.session.navigate_tree(
        _entry(ask, word), summarize=option == "--summary", instructions=instructions.strip() or None
    )
    return Moved(ask.session.session.get_leaf_id(), text)


async def _fork(ask: Ask) -> Outcome:
    if not ask.words:
        return TreeShown(tuple(tree_rows(ask.session.session, Filter.USER)), "fork")
    text = ask.session.fork(_entry(ask, ask.words, Filter.USER))
    return Switched("fork", ask.session.session.session_id, text)


async def _clone(ask: Ask) -> Outcome:
    ask.session.clone()
    return Switched("clone", ask.session.session.session_id)


async def _new(ask: Ask) -> Outcome:
    ask.session.new_session()
    return Switched("new", ask.session.session.session_id)


def _other_file(ask: Ask, named: str | Path) -> Path:
    path, here = Path(named).resolve(), ask.session.session.session_file
    if here is not None and here.resolve() == path:
        raise UsageError("that is the session we are in")
    return path


async def _resume(ask: Ask) -> Outcome:
    session = ask.session.session
    rows = SessionManager.list(session.cwd, session.setup.session_dir, home=session.setup.home)
    if not ask.words:
        return SessionsShown(tuple(rows))
    paths = ask.sessions or tuple(str(row.path) for row in rows)
    ask.session.switch_session(_other_file(ask, _numbered(ask.words, paths) or find_session(ask.words, session.setup)))
    return Switched("resume", ask.session.session.session_id)


async def _name(ask: Ask) -> Outcome:
    if ask.words:
        ask.session.set_session_name(ask.words)
    return NameIs(ask.session.session.get_session_name())


async def _label(ask: Ask) -> Outcome:
    word, _, text = ask.words.partition(" ")
    if not word:
        raise UsageError("/label needs an entry: its number in /tree or its id, then the label (none: takes it away)")
    entry_id = _entry(ask, word)
    ask.session.set_label(entry_id, text.strip() or None)
    return LabelIs(entry_id, ask.session.session.get_label(entry_id))


async def _session(ask: Ask) -> Outcome:
    return StatsShown(ask.session.get_session_stats())


async def _model(ask: Ask) -> Outcome:
    if ask.words:
        before = ask.session.model_name
        after = ask.session.set_model(ask.words).info.name
        tools = tools_after_switch(before, after, tuple(ask.session.agent.kit.tools or ()), ask.session.settings.tools)
        if tools is not None:
            ask.session.set_tools(tools)
    info = ask.session.model.info
    return ModelIs(info.name, info.label)


async def _thinking(ask: Ask) -> Outcome:
    if ask.words:
        if ask.words not in THINKING_LEVELS:
            raise UsageError(f"no thinking level {ask.words!r}: one of {', '.join(THINKING_LEVELS)}")
        ask.session.set_thinking_level(ask.words)
    return LevelIs(ask.session.thinking_level)


async def _tools(ask: Ask) -> Outcome:
    if ask.words:
        named = "" if ask.words == "none" else ask.words
        ask.session.set_tools(named.replace(",", " ").split())
    return ToolsAre(tuple(ask.session.agent.kit.tools or ()))


@dataclass(frozen=True, slots=True)
class _CompactWish:
    """What ``/compact`` was asked for."""

    instructions: str | None
    strategy: str | None = None
    preview: bool = False


def _compact_wish(words: str) -> _CompactWish:
    strategy, preview, rest = None, False, words
    while rest.startswith("--"):
        option, _, rest = rest.partition(" ")
        name, _, value = option.partition("=")
        match name:
            case "--":
                break
            case "--preview" if not value:
                preview = True
            case "--strategy":
                value, _, rest = (value, "", rest) if value else rest.strip().partition(" ")
                if value not in (*STRATEGIES, "auto"):
                    raise UsageError(f"--strategy takes one of {', '.join(STRATEGIES)}, auto; not {value!r}")
                strategy = value
            case _:
                raise UsageError(f"/compact takes --strategy NAME, --preview and instructions, not {option!r}")
        rest = rest.strip()
    return _CompactWish(rest.strip() or None, strategy, preview)


async def _compact(ask: Ask) -> Outcome:
    if ask.words == "undo":
        undone = ask.session.undo_compaction()
        if undone is None:
            raise UsageError("there is no compaction on the way from the beginning to here")
        return CompactionUndone(undone)
    if ask.words == "readable":
        used = ask.session.use_readable_summary()
        if used is None:
            raise UsageError("nothing in the context is readable by its provider only")
        return ReadableSummaryUsed(used)
    wish = _compact_wish(ask.words)
    if wish.preview:
        return CompactionPreviewed(ask.session.preview_compaction(wish.strategy))
    ends: list[CompactionEnd] = []
    stop = ask.session.subscribe(lambda event: ends.append(event) if isinstance(event, CompactionEnd) else None)
    try:
        entry_id = await ask.session.compact(wish.instructions, wish.strategy)
    finally:
        stop()
    end = next((event for event in ends if event.entry_id == entry_id), None)
    return (
        Compacted(entry_id) if end is None else Compacted(entry_id, end.strategy, end.tokens_before, end.tokens_after)
    )


async def _help(_: Ask) -> Outcome:
    return HelpShown(tuple(COMMANDS.values()))


async def _quit(_: Ask) -> Outcome:
    return Leave()


_TABLE = (
    Command("tree", "/tree [N|ID]", "show the tree; go to an entry, with --summary [TEXT] of what is left", _tree),
    Command("fork", "/fork [N|ID]", "go on in a new session that holds the way to an entry", _fork),
    Command("clone", "/clone", "go on in a new session that holds the way to here", _clone),
    Command("new", "/new", "begin a new session", _new),
    Command("resume", "/resume [N|ID]", "list this directory's sessions; with a number or an id open one", _resume),
    Command("name", "/name [TEXT]", "name the session, or show its name", _name),
    Command("label", "/label N|ID [TEXT]", "label an entry, or take its label away", _label),
    Command("session", "/session", "this session: file, messages, tokens, cost", _session),
    Command("model", "/model [PROVIDER/ID]", "show or switch the model", _model),
    Command("thinking", "/thinking [LEVEL]", "show or switch the thinking level", _thinking),
    Command("tools", "/tools [A,B|none]", "show or choose the tools the model is offered", _tools),
    Command(
        "compact",
        "/compact [TEXT|undo|readable]",
        "condense the context; --strategy NAME, --preview; TEXT: wishes",
        _compact,
    ),
    Command("help", "/help", "this list", _help),
    Command("quit", "/quit", "leave", _quit),
)

COMMANDS = {command.name: command for command in _TABLE}
"""Name -> command."""


# --- what words mean ---------------------------------------------------------------------------


def tree_rows(session: SessionManager, show: Filter = Filter.DEFAULT) -> list[Row]:
    """The rows of the tree as they are numbered."""
    return outline(session.index, View(session.leaf, show))


def _numbered(word: str, values: Sequence[str]) -> str | None:
    if word.isdecimal() and 0 < int(word) <= len(values):
        return values[int(word) - 1]
    return None


def _entry(ask: Ask, word: str, show: Filter = Filter.DEFAULT) -> EntryId:
    """The entry that an id, a number or the beginning of an id means, in this order.

    Raises:
        UnknownEntryId: it means none, or several.
    """
    session = ask.session.session
    by_id = session.index.by_id
    if word in by_id:
        return EntryId(word)
    numbered = _numbered(word, ask.entries or [row.id for row in tree_rows(session, show)])
    if numbered is not None:
        return EntryId(numbered)
    found = [entry_id for entry_id in by_id if entry_id.startswith(word)]
    if len(found) == 1:
        return found[0]
    what = "no entry has" if not found else f"{len(found)} entries have ids that begin with"
    raise UnknownEntryId(f"{what} {word!r}: take a number or an id from /tree")
