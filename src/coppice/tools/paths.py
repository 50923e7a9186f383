"""From a path as a model writes it to a path on disk. Nothing here opens a file."""

import os
import re
import unicodedata
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from coppice.errors import ToolError

_LOOKALIKES = str.maketrans({"\u2019": "'", "\u2018": "'", "\u202f": " ", "\u00a0": " "})
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def resolved(path: str, cwd: Path) -> Path:
    """The path a model means: relative to ``cwd``, with ``~`` expanded.

    A leading ``@`` (models copy it from prompts) is dropped when neither the path nor its first directory exists under
    that very name.

    Raises:
        ToolError: no file system can hold such a name.
    """
    if not path or "\0" in path or _LONE_SURROGATE.search(path):
        raise ToolError(f"Not a usable path: {path!r}")
    if path.startswith("@") and len(path) > 1 and not os.path.lexists(cwd / path.split("/", 1)[0]):
        path = path[1:]
    return cwd / os.path.expanduser(path)


def resolved_existing(path: str, cwd: Path) -> Path:
    """As `resolved`; where nothing has the name, the one file beside it whose name looks the same.

    macOS puts U+202F before AM and PM and U+2019 into names, and keeps some names decomposed; models do not.
    """
    exact = resolved(path, cwd)
    if os.path.lexists(exact):
        return exact
    try:
        names = os.listdir(exact.parent)
    except OSError:
        return exact
    alike = [name for name in names if _folded(name) == _folded(exact.name)]
    return exact.with_name(alike[0]) if len(alike) == 1 else exact


def _folded(name: str) -> str:
    return unicodedata.normalize("NFC", name.translate(_LOOKALIKES))


@contextmanager
def told_to_the_model(doing: str, path: str) -> Generator[None, None, None]:
    """Turn an operating system's refusal into a line for the model, e.g. ``Cannot read a.txt: Permission denied``.

    Raises:
        ToolError: the body raised an `OSError`.
    """
    try:
        yield
    except OSError as error:
        raise ToolError(f"Cannot {doing} {path}: {error.strerror or error}") from error
