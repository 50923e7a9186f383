"""Context files: what AGENTS.md and CLAUDE.md files say about a directory. Read anew for each run.

Order: the home's own file, then from the file system's root down to the directory. Of several names in one directory
the first counts (Pi's rule).
"""

from dataclasses import dataclass
from pathlib import Path

NAMES = ("AGENTS.md", "CLAUDE.md")
MAX_BYTES = 256 * 1024
"""The most bytes of one context file that are used (our choice: beyond it a file is no instruction any more)."""


@dataclass(frozen=True, slots=True)
class ContextFile:
    """A context file and its text."""

    path: Path
    text: str


def context_files(cwd: Path, home: Path) -> tuple[ContextFile, ...]:
    """The context files for a directory, the most general first."""
    directories = [home.resolve(), *reversed(cwd.resolve().parents), cwd.resolve()]
    found: list[ContextFile] = []
    for directory in dict.fromkeys(directories):
        file = _context_file(directory)
        if file is not None:
            found.append(file)
    return tuple(found)


def _context_file(directory: Path) -> ContextFile | None:
    for name in NAMES:
        path = directory / name
        try:
            with path.open("rb") as file:
                data = file.read(MAX_BYTES)
        except OSError:
            continue
        return ContextFile(path, data.decode("utf-8", "replace"))
    return None
