"""The fenced blocks of a page of documentation, so that tests can run them. What they mean is each test's own."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"

FENCE = "```"


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: ```` ```language key=value … ````. ``line`` is the number of its fence, from 1."""

    language: str
    options: Mapping[str, str]
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """Every fenced block of a page, in order.

    Raises:
        ValueError: the page has code that this cannot see: an indented block, a fence that is indented or never closed.
    """
    found: list[Block] = []
    inside: list[str] | None = None
    info, start = "", 0
    for number, line in enumerate(page.read_text(encoding="utf-8").split("\n"), 1):
        if inside is not None and line == FENCE:
            found.append(_block(info, inside, start))
            inside = None
        elif inside is not None:
            inside.append(line)
        elif line.startswith(FENCE):
            info, start, inside = line.removeprefix(FENCE), number, []
        elif line.startswith("    ") or line.lstrip().startswith((FENCE, "~~~")):
            raise ValueError(f"{page}:{number}: code that no test sees: use a fence at the margin")
    if inside is not None:
        raise ValueError(f"{page}:{start}: the fence is never closed")
    return found


def _block(info: str, lines: list[str], start: int) -> Block:
    language, *pairs = shlex.split(info) or [""]
    options = dict(pair.split("=", 1) for pair in pairs)
    return Block(language, options, "".join(line + "\n" for line in lines), start)
