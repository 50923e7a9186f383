"""Walking a directory for find and grep: everything but ``.git`` and what ``.gitignore`` files leave out.

The subset of gitignore honoured: the ``.gitignore`` of every directory walked and, inside a repository, of the
directories above it up to the repository's root; comments, ``!``, a leading, middle or closing ``/``, ``*``, ``?``,
``[...]``, ``**``. The last matching line counts; nothing below an ignored directory comes back. Not honoured:
``.git/info/exclude``, the user's global excludes, and that tracked files are never ignored. Symbolic links are not
followed.
"""

import os
import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from coppice.errors import ToolError
from coppice.tools.glob import translated


@dataclass(frozen=True, slots=True)
class Found:
    """Something below the directory walked; ``path`` is relative to it, with ``/``."""

    path: str
    is_directory: bool
    is_regular: bool


@dataclass(frozen=True, slots=True)
class _Rule:
    """One line of a .gitignore that stands ``base`` (absolute, closing ``/``)."""

    base: str
    pattern: re.Pattern[str]
    keeps: bool
    directories_only: bool


def searched_directory(path: Path, named: str) -> Path:
    """The path, if it is a directory.

    Raises:
        ToolError: it is not.
    """
    if not path.exists():
        raise ToolError(f"{named} does not exist")
    if not path.is_dir():
        raise ToolError(f"{named} is not a directory")
    return path


def walk(root: Path, stop: threading.Event) -> Iterator[Found]:
    """What is below ``root``, in the order of names, a directory before what is in it. Unreadable directories are
    passed over. Ends early once ``stop`` is set."""
    real = os.path.realpath(root)
    yield from _walk(real, "", _rules_above(real), stop)


def _walk(root: str, prefix: str, above: Sequence[_Rule], stop: threading.Event) -> Iterator[Found]:
    directory = os.path.join(root, prefix)
    rules = (*above, *_rules_in(directory))
    for entry in _entries(directory):
        if stop.is_set():
            return
        is_directory = entry.is_dir(follow_symlinks=False)
        if (is_directory and entry.name == ".git") or _is_ignored(entry.path, rules, is_directory=is_directory):
            continue
        path = prefix + entry.name
        yield Found(path, is_directory, entry.is_file(follow_symlinks=False))
        if is_directory:
            yield from _walk(root, f"{path}/", rules, stop)


def _entries(directory: str) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        return []


def _is_ignored(path: str, rules: Sequence[_Rule], *, is_directory: bool) -> bool:
    for rule in reversed(rules):
        if rule.directories_only and not is_directory:
            continue
        if rule.pattern.fullmatch(path, len(rule.base)):
            return not rule.keeps
    return False


def _rules_above(root: str) -> tuple[_Rule, ...]:
    """The rules of the directories above ``root``, outermost first; none outside a repository."""
    above: list[str] = []
    directory = root
    while not os.path.exists(os.path.join(directory, ".git")):
        parent = os.path.dirname(directory)
        if parent == directory:
            return ()
        above.append(parent)
        directory = parent
    return tuple(rule for directory in reversed(above) for rule in _rules_in(directory))


def _rules_in(directory: str) -> tuple[_Rule, ...]:
    try:
        text = Path(directory, ".gitignore").read_text("utf-8", "surrogateescape")
    except OSError:
        return ()
    base = directory.rstrip("/") + "/"
    return tuple(rule for line in text.splitlines() if (rule := _rule(line, base)) is not None)


def _rule(line: str, base: str) -> _Rule | None:
    pattern = re.sub(r"(?<!\\) +$", "", line)
    if not pattern or pattern.startswith("#"):
        return None
    keeps = pattern.startswith("!")
    pattern = pattern[1:] if keeps else pattern
    directories_only = pattern.endswith("/")
    pattern = pattern.rstrip("/")
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    escaped = re.sub(r"(?<!\\)([{},])", r"\\\1", pattern.removeprefix("/"))  # gitignore knows no braces
    try:
        return _Rule(base, re.compile(anywhere + translated(escaped), re.DOTALL), keeps, directories_only)
    except re.error:
        return None  # git, too, passes over a line it cannot use
