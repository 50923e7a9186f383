"""Text from files made fit for a terminal: no control characters, no escape sequences, no change of direction.

Everything a command prints that comes from a session, a path or an error goes through `printable` first. Pure.
"""

import re
from functools import lru_cache
from unicodedata import combining, east_asian_width

_SEQUENCES = re.compile(
    r"\x1b(?:\[[0-?]{0,100}[ -/]{0,10}[@-~]|[\]PX^_][^\x07\x1b\x9c]{0,2000}(?:\x07|\x1b\\|\x9c)|[ -/]{0,10}[0-Z\\^-~])?"
    r"|\x9b[0-?]{0,100}[ -/]{0,10}[@-~]"
)
"""Escape sequences with their parameters: CSI, the strings that end in BEL or ST, and the short ones."""

_BREAKS = re.compile("\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_HIDDEN = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f"
    "\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)
"""Control characters, changes of direction (the bidi overrides and isolates) and what cannot be seen."""

_HALVES = re.compile("[\ud800-\udfff]")
_SPACES = re.compile(r"[\t\n ]+")


def printable(text: str, *, lines: bool = False) -> str:
    """The text without anything a terminal would obey. With `lines`, newlines and tabs stay; else each run is a space."""
    if not (text.isascii() and text.isprintable()):
        text = _HIDDEN.sub("", _BREAKS.sub("\n", _SEQUENCES.sub("", text)))
        text = _HALVES.sub("\ufffd", text)
    return text if lines else _SPACES.sub(" ", text).strip()


def first_line(text: str, limit: int = 500) -> str:
    """The first line of a text that is not blank, printable; looked for in the first `limit` characters only."""
    start = text[:limit].lstrip()
    return printable(_BREAKS.sub("\n", start).partition("\n")[0])


def columns(text: str) -> int:
    """How many columns of a terminal a printable text takes."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


@lru_cache(maxsize=4096)
def _columns_of(character: str) -> int:
    if combining(character) or character in "\u200c\u200d\ufe0e\ufe0f":
        return 0
    return 2 if east_asian_width(character) in "WF" else 1


def cut(text: str, width: int) -> str:
    """The text cut to `width` columns, the last one an ellipsis where something was cut off."""
    start = text[: 4 * width]  # marks over letters take no column, but nobody needs more of them than this
    if len(start) == len(text) and columns(text) <= width:
        return text
    if start.isascii():
        return f"{start[: width - 1]}…"
    kept, left = 0, width - 1
    while kept < len(start) and left >= _columns_of(start[kept]):
        left -= _columns_of(start[kept])
        kept += 1
    return f"{start[:kept]}…"
