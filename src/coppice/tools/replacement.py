"""Exact text replacement, pure: find each old text once, put the new texts in, keep everything else byte for byte.

Texts are compared with ``\\r\\n`` read as ``\\n``; what is put in takes the line ending of the place it is put.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from coppice.errors import ToolError

BOM = "\ufeff"
_NAMED_LINES = 5


@dataclass(frozen=True, slots=True)
class Edit:
    """One replacement as it is asked for."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """One replacement as it was found: characters ``start`` to ``end`` (exclusive) of the text become ``new``."""

    start: int
    end: int
    new: str


@dataclass(frozen=True, slots=True)
class Edited:
    """The whole text after the edits, and both texts with ``\\n`` line endings, for a diff."""

    text: str
    before_lf: str
    after_lf: str


def edited(original: str, edits: Sequence[Edit], named: str) -> Edited:
    """The text with all edits made; each is matched against the original, so their order does not matter.

    Raises:
        ToolError: no edit, an empty or missing old text, one that occurs several times, overlap, or no change.
    """
    if not edits:
        raise ToolError(f"No edits were given for {named}")
    bom = BOM if original.startswith(BOM) else ""
    body = original[len(bom) :]
    plain = _lf(body)
    found = sorted(
        (_found(plain, edit, _label(number, len(edits)), named) for number, edit in enumerate(edits, 1)),
        key=lambda replacement: replacement.start,
    )
    _refuse_overlap(plain, found, named)
    after = _with(plain, found)
    if after == plain:
        raise ToolError(f"The edits change nothing in {named}: old and new text are the same")
    return Edited(bom + _with(body, _in_original(body, plain, found)), plain, after)


def _lf(text: str) -> str:
    return text.replace("\r\n", "\n")


def _label(number: int, count: int) -> str:
    return "oldText" if count == 1 else f"oldText of edit {number}"


def _found(text: str, edit: Edit, label: str, named: str) -> Replacement:
    old = _lf(edit.old).removeprefix(BOM)
    if not old:
        raise ToolError(f"{label} is empty; give the text of {named} that is to be replaced")
    places = _places(text, old)
    if not places:
        raise ToolError(f"{label} was not found in {named}. It must match exactly{_near_miss(text, old)}")
    if len(places) > 1:
        lines = ", ".join(str(_line_of(text, place)) for place in places[:_NAMED_LINES])
        more = ", ..." if len(places) > _NAMED_LINES else ""
        raise ToolError(
            f"{label} occurs {len(places)} times in {named} (lines {lines}{more}). Add surrounding text so that it "
            "occurs once"
        )
    return Replacement(places[0], places[0] + len(old), _lf(edit.new))


def _places(text: str, old: str) -> list[int]:
    places: list[int] = []
    place = text.find(old)
    while place >= 0:
        places.append(place)
        place = text.find(old, place + 1)
    return places


def _line_of(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


def _near_miss(text: str, old: str) -> str:
    """A hint at the first place that differs in white space at the ends of lines only; else a general one."""
    wanted = [line.strip() for line in old.strip("\n").split("\n")]
    lines = [line.strip() for line in text.split("\n")]
    for start, line in enumerate(lines):
        if line == wanted[0] and any(wanted) and lines[start : start + len(wanted)] == wanted:
            return f"; line {start + 1} differs from it in white space only"
    return ", white space and line breaks included; read the file again"


def _refuse_overlap(text: str, found: Sequence[Replacement], named: str) -> None:
    for first, second in pairwise(found):
        if second.start < first.end:
            raise ToolError(
                f"Two edits of {named} overlap at line {_line_of(text, second.start)}. Merge them into one edit"
            )


def _with(text: str, replacements: Sequence[Replacement]) -> str:
    parts: list[str] = []
    place = 0
    for replacement in replacements:
        parts += (text[place : replacement.start], replacement.new)
        place = replacement.end
    return "".join([*parts, text[place:]])


def _in_original(body: str, plain: str, found: Sequence[Replacement]) -> Sequence[Replacement]:
    """The replacements in terms of the text with its own line endings."""
    if len(body) == len(plain):
        return found
    dropped = _dropped_returns(body)
    return [
        Replacement(
            start := replacement.start + bisect_left(dropped, replacement.start),
            replacement.end + bisect_left(dropped, replacement.end),
            replacement.new.replace("\n", _line_ending_at(body, start)),
        )
        for replacement in found
    ]


def _dropped_returns(body: str) -> list[int]:
    """Where, in the text without them, the newlines stand that had a ``\\r`` before."""
    places: list[int] = []
    place = body.find("\r\n")
    while place >= 0:
        places.append(place - len(places))
        place = body.find("\r\n", place + 2)
    return places


def _line_ending_at(body: str, place: int) -> str:
    newline = body.find("\n", place)
    if newline < 0:
        newline = body.rfind("\n")
    return "\r\n" if newline > 0 and body[newline - 1] == "\r" else "\n"
