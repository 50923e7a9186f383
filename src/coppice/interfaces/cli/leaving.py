"""The last words: the command that opens the session again, or what of it is missing."""

import os
import shlex
from collections.abc import Sequence
from pathlib import Path

from coppice.errors import CoppiceError
from coppice.session.listing import find_session
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup


def resume_command(session: SessionManager, directory: Path | None) -> str | None:
    """The exact command that opens this session; None where it has no file. `directory` is what --session-dir named."""
    path = session.session_file
    if path is None or not session.is_stored:
        return None
    words = ["coppice", "--session", session.session_id]
    if not _finds(session.session_id, path, session.setup):
        words[2] = str(path)
    return shlex.join([*words, "--session-dir", str(directory)] if directory is not None else words)


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
