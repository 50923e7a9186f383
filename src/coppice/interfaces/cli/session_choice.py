"""Which session a command line means, opened; and what has to be said of it before anything else."""

import os
import shlex
import sys
from pathlib import Path

from coppice.app.settings import Settings
from coppice.errors import UsageError
from coppice.interfaces.cli.leaving import named, own_command
from coppice.interfaces.cli.options import SessionWish
from coppice.interfaces.cli.output import line_width
from coppice.interfaces.cli.printable import printable
from coppice.interfaces.cli.session_rows import session_line, unique_prefixes
from coppice.session.listing import SessionInfo, find_session
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.storage.directory import coppice_home


def setup_of(wish: SessionWish, settings: Settings) -> Setup:
    """How sessions are kept: what the command line says goes before the settings."""
    directory = wish.directory or (Path(settings.session_dir).expanduser() if settings.session_dir else None)
    return Setup(coppice_home(), directory, wish.access, settings.sync == "entry")


def choose_session(wish: SessionWish, setup: Setup) -> SessionManager:
    """Open the session that was asked for. A new one writes nothing yet.

    Raises:
        SessionNotFound, AmbiguousSession, NotASession, SessionHeld, StorageFailure: it cannot be opened.
        UsageError: no session was named, or there is no terminal to pick one at.
    """
    here = os.getcwd()
    match wish.how:
        case "new":
            return SessionManager.create(here, setup=setup)
        case "memory":
            return SessionManager.in_memory(here)
        case "continue":
            return SessionManager.continue_recent(here, mode=setup.mode, setup=setup)
        case "resume":
            return SessionManager.open(_picked(here, setup), mode=setup.mode, setup=setup)
        case "open":
            return SessionManager.open(_named("--session", wish.named, setup), mode=setup.mode, setup=setup)
        case "fork":
            return SessionManager.fork_from(_named("--fork", wish.named, setup), here, setup=setup)


def _named(option: str, word: str, setup: Setup) -> Path:
    if not word.strip():
        raise UsageError(f"{option} needs a path or the beginning of a session id; it was empty")
    return Path(word) if os.path.isfile(word) else find_session(word, setup)


def _picked(here: str, setup: Setup) -> Path:
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("--resume needs a terminal; name the session: --session ID (coppice sessions list)")
    rows = SessionManager.list(here, setup.session_dir, home=setup.home)
    if not rows:
        raise UsageError("there is no session of this directory yet")
    for line in numbered_sessions(rows):
        print(line, file=sys.stderr)
    print("number: ", end="", file=sys.stderr, flush=True)
    try:
        answer = input().strip()
    except EOFError:
        answer = ""
    if not answer.isdecimal() or not 0 < int(answer) <= len(rows):
        raise UsageError(f"no session was picked: {answer!r} is not a number from 1 to {len(rows)}")
    return rows[int(answer) - 1].path


def numbered_sessions(rows: "list[SessionInfo] | tuple[SessionInfo, ...]") -> list[str]:
    """A line for each session, numbered from 1."""
    prefixes = unique_prefixes([row.id for row in rows])
    digits = len(str(len(rows)))
    width = line_width() - digits - 2
    return [
        f"{number:>{digits}}  {session_line(row, prefixes[row.id], width, with_cwd=False)}"
        for number, row in enumerate(rows, 1)
    ]


def directory_notice(session: SessionManager) -> str | None:
    """What has to be said when the session's directory is not the current one; None otherwise."""
    cwd = session.cwd
    if not os.path.isdir(cwd):
        fork = shlex.join([*own_command(), "--fork", named(session)])
        return (
            f"this session's directory {printable(cwd)} is gone: nothing is made there, and its tools fail. To go on in "
            f"the current directory: {fork}"
        )
    if os.path.realpath(cwd) != os.path.realpath(os.getcwd()):
        return f"tools work in the session's directory, {printable(cwd)}"
    return None
