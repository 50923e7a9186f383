"""A diff for people: changed lines with their numbers and a few lines around them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

CONTEXT_LINES = 4
"""Unchanged lines shown before and after a change. Source: what users of Pi know."""

_ALIGNED = 2000
"""Lines of the changed part up to which they are aligned (the time is quadratic at worst); above, all old lines come
before all new ones."""


@dataclass(frozen=True, slots=True)
class Diff:
    """``text`` has a row for each line: ``-`` or ``+`` or a space, the line number (of the new text for unchanged and
    added lines), the line. ``...`` stands for lines left out. ``first_changed_line`` counts from 1 in the new text."""

    text: str
    first_changed_line: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Lines ``i1:i2`` of the old text became lines ``j1:j2`` of the new."""

    equal: bool
    i1: int
    i2: int
    j1: int
    j2: int


def diff_of(before: str, after: str) -> Diff:
    """The difference between two texts that are not the same."""
    old, new = _lines(before), _lines(after)
    runs = list(_runs(old, new))
    width = len(str(max(len(old), len(new))))
    rows: list[str] = []
    for number, run in enumerate(runs):
        if run.equal:
            rows += _context_rows(run, new, width, first=number == 0, last=number == len(runs) - 1)
        else:
            rows += (f"-{i + 1:>{width}} {old[i]}" for i in range(run.i1, run.i2))
            rows += (f"+{j + 1:>{width}} {new[j]}" for j in range(run.j1, run.j2))
    first = next((run.j1 for run in runs if not run.equal), 0)
    return Diff("\n".join(rows), first + 1)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def _runs(old: Sequence[str], new: Sequence[str]) -> Iterator[_Run]:
    """Equal and changed runs in turn; what is equal at both ends is found without a matcher."""
    shorter = min(len(old), len(new))
    head = next((i for i in range(shorter) if old[i] != new[i]), shorter)
    rest = shorter - head
    tail = next((i for i in range(rest) if old[-1 - i] != new[-1 - i]), rest)
    i_end, j_end = len(old) - tail, len(new) - tail
    if head:
        yield _Run(True, 0, head, 0, head)
    yield from _middle_runs(old[head:i_end], new[head:j_end], head)
    if tail:
        yield _Run(True, i_end, len(old), j_end, len(new))


def _middle_runs(old: Sequence[str], new: Sequence[str], offset: int) -> Iterator[_Run]:
    if max(len(old), len(new)) > _ALIGNED:
        yield _Run(False, offset, offset + len(old), offset, offset + len(new))
        return
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        yield _Run(tag == "equal", offset + i1, offset + i2, offset + j1, offset + j2)


def _context_rows(run: _Run, new: Sequence[str], width: int, *, first: bool, last: bool) -> Iterator[str]:
    after_change = 0 if first else CONTEXT_LINES
    before_change = 0 if last else CONTEXT_LINES
    left_out = range(run.j1 + after_change, run.j2 - before_change)
    for j in range(run.j1, run.j2):
        if j not in left_out:
            yield f" {j + 1:>{width}} {new[j]}"
        elif j == left_out.start:
            yield f" {'':>{width}} ..."
