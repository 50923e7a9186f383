"""`coppice sessions`: what is stored, looked at from outside. Its subcommands, their words, and which file they mean.

Everything here opens sessions to read along: no byte changes, no session is locked, no home is needed.
"""

import argparse
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coppice.errors import UsageError
from coppice.format.messages import EntryId
from coppice.interfaces.cli.output import line_width, write_json, write_line, write_notices
from coppice.interfaces.cli.session_context import print_answers, print_context
from coppice.interfaces.cli.session_report import print_report
from coppice.interfaces.cli.session_rows import session_json, session_line, unique_prefixes
from coppice.interfaces.cli.session_tree import print_path, print_tree
from coppice.interfaces.cli.words import Words
from coppice.session.listing import all_session_files, find_session, id_in_name
from coppice.session.manager import HERE, Expect, SessionManager
from coppice.session.writer import Setup
from coppice.tree.family import NONE
from coppice.tree.outline import Filter, View


def run(words: list[str]) -> int:
    """Run a subcommand; the value is the exit code.

    Raises:
        CoppiceError: it cannot be done; nothing was changed.
    """
    try:
        options = _parser().parse_args(words)
    except SystemExit:  # argparse has printed its help
        return 0
    match options.command:
        case "list":
            _list(options)
        case "show":
            with _opened(options, notices=False) as session:
                print_report(session, as_json=options.json)
        case "tree":
            with _opened(options) as session:
                print_tree(session, _view(session, options), as_json=options.json)
        case "path":
            with _opened(options) as session:
                print_path(session, _leaf(session, options), as_json=options.json)
        case _:
            _context(options)
    return 0


# --- words ---------------------------------------------------------------------------------------


def _parser() -> Words:
    parser = Words(prog="coppice sessions", description="Look at stored sessions; nothing is changed.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    listing = _command(commands, "list", "the sessions of this directory, the one used last first")
    listing.add_argument("--all", action="store_true", help="the sessions of every directory")
    _of_one(_command(commands, "show", "what a session is: counts, name, labels, model, damage"))
    tree = _of_one(_command(commands, "tree", "the tree of a session"))
    tree.add_argument(
        "--filter", choices=[show.value for show in Filter], default=Filter.DEFAULT.value, help="which entries to show"
    )
    tree.add_argument("--fold", metavar="ID", nargs="+", action="extend", default=[], help="hide what is below these")
    _with_leaf(tree)
    _with_leaf(_of_one(_command(commands, "path", "the entries from a root to the leaf")))
    context = _of_one(_command(commands, "context", "what the model sees at the leaf"))
    _with_leaf(context)
    context.add_argument("--all", action="store_true", help="at the leaf, at every entry, and before the first one")
    return parser


def _command(
    commands: "argparse._SubParsersAction[Words]",  # pyright: ignore[reportPrivateUsage]  (its only name)
    name: str,
    what: str,
) -> Words:
    parser = commands.add_parser(name, help=what, description=f"Print {what}.")
    parser.add_argument("--json", action="store_true", help="print JSON, an object a line")
    parser.add_argument("--session-dir", metavar="DIR", help="where session files lie")
    return parser


def _of_one(parser: Words) -> Words:
    parser.add_argument("session", metavar="FILE|ID", help="a session file, or the beginning of a session id")
    return parser


def _with_leaf(parser: Words) -> None:
    parser.add_argument("--leaf", metavar="ID", help="an entry's id, or null for before the first entry")


# --- which session -------------------------------------------------------------------------------


def _setup(options: argparse.Namespace) -> Setup:
    chosen = options.session_dir
    if chosen == "":
        raise UsageError("--session-dir needs a directory; it was empty")
    return Setup(session_dir=Path(chosen).expanduser().absolute() if chosen else None, mode="read")


@contextmanager
def _opened(options: argparse.Namespace, *, notices: bool = True) -> Generator[SessionManager, None, None]:
    """The session a command names, open to read along; what the user has to be told goes to standard error."""
    wanted: str = options.session
    if not wanted.strip():
        raise UsageError(
            f"coppice sessions {options.command} needs a file or the beginning of a session id; it was empty"
        )
    setup = _setup(options)
    path = Path(wanted) if os.path.isfile(wanted) else find_session(wanted, setup)
    session = SessionManager.open(path, setup=setup, mode="read")
    try:
        if notices:
            write_notices(session.take_notices())
        yield session
        if notices:
            write_notices(session.take_notices())
    finally:
        session.close()


def _leaf(session: SessionManager, options: argparse.Namespace) -> EntryId | None:
    """The leaf that ``--leaf`` names; without it where the session is."""
    named: Expect = HERE if options.leaf is None else None if options.leaf == "null" else EntryId(options.leaf)
    if named is HERE:
        return session.get_leaf_id()
    if named is not None:
        session.store.ordinal(named)
    return named


def _view(session: SessionManager, options: argparse.Namespace) -> View:
    leaf_id = _leaf(session, options)
    folded = frozenset(map(EntryId, options.fold))
    for entry_id in folded:
        session.store.ordinal(entry_id)
    return View(NONE if leaf_id is None else session.store.ordinal(leaf_id), Filter(options.filter), folded)


# --- commands ------------------------------------------------------------------------------------


def _list(options: argparse.Namespace) -> None:
    setup = _setup(options)
    rows = (
        SessionManager.list_all(setup.session_dir, home=setup.home)
        if options.all
        else SessionManager.list(Path.cwd(), setup.session_dir, home=setup.home)
    )
    if options.json:
        for row in rows:
            write_json(session_json(row))
        return
    prefixes = unique_prefixes([id_in_name(path) for path in all_session_files(setup)])
    for row in rows:
        prefix = prefixes.get(id_in_name(row.path), row.id)
        write_line(session_line(row, prefix, line_width(), with_cwd=options.all))
    if not rows:
        where = "" if options.all else " in this directory (coppice sessions list --all)"
        write_notices([f"no sessions{where}"])


def _context(options: argparse.Namespace) -> None:
    if options.all and not options.json:
        raise UsageError("coppice sessions context --all needs --json")
    if options.all and options.leaf is not None:
        raise UsageError("coppice sessions context takes --all or --leaf, not both")
    with _opened(options) as session:
        if options.json:
            print_answers(session, None if options.all else [_leaf(session, options)])
        else:
            print_context(session, _leaf(session, options))
