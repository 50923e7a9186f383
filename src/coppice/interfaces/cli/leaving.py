"""The last words: the command that opens the session again, or what of it is missing."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from coppice.errors import CoppiceError
from coppice.session.listing import find_session
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup


def resume_command(session: SessionManager, directory: Path | None) -> str | None:
    """The exact command that opens this session; None where it has no file. `directory` is what --session-dir named."""
    if not session.is_stored:
        return None
    where = [] if directory is None else ["--session-dir", str(directory)]
    return shlex.join([*own_command(), "--session", named(session), *where])


def named(session: SessionManager) -> str:
    """What names a stored session on the command line: its id where that finds it, else its path."""
    path = session.session_file
    is_found = path is None or _finds(session.session_id, path, session.setup)
    return session.session_id if is_found else str(path)


def own_command() -> list[str]:
    """How this program was started, so that a command that is printed can be typed as it stands."""
    started = sys.argv[0]
    if os.path.basename(started) != "coppice":
        return [sys.executable, "-m", "coppice"]
    found = shutil.which("coppice")
    is_on_path = found is not None and os.path.exists(started) and os.path.samefile(found, started)
    return ["coppice"] if is_on_path else [started]


def _finds(session_id: str, path: Path, setup: Setup) -> bool:
    """Whether the id finds this file: not for one that lies elsewhere or is named otherwise."""
    try:
        return os.path.samefile(find_session(session_id, setup), path)
    except (CoppiceError, OSError):
        return False


def last_words(session: SessionManager, directory: Path | None, missing: Sequence[str] = ()) -> list[str]:
    """What is said on leaving; `missing` tells what could not be stored."""
    command = resume_command(session, directory)
    if missing:
        lost = f"not stored, and gone with this process: {'; '.join(missing)}"
        return [lost, f"what was stored before: {command}" if command else "nothing of this session is on disk"]
    return [] if command is None else [f"resume with: {command}"]
