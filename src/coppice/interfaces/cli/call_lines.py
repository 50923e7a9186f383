"""Tool calls and their results as lines. Pure; all of it printable."""

from collections.abc import Sequence

from coppice.format.messages import ImageBlock, JsonObject, JsonValue, TextBlock, UserBlock
from coppice.interfaces.cli.printable import cut, first_line, printable

ARGUMENT = 60
"""Columns of one argument at most."""

RESULT_LINES = 6
"""Lines of a result that are shown; the whole of it is in the session."""


def call_line(name: str, arguments: JsonObject) -> str:
    """``bash ls -la``: the tool and what it is called with, as far as that fits on a line."""
    shown = [text for value in arguments.values() if (text := _argument(value))]
    return " ".join([printable(name), *shown])


def _argument(value: JsonValue) -> str:
    match value:
        case str():
            more = "…" if "\n" in value.strip() else ""
            return cut(first_line(value) + more, ARGUMENT)
        case int() | float() if not isinstance(value, bool):
            return str(value)
        case _:
            return ""


def result_lines(content: Sequence[UserBlock], width: int, limit: int = RESULT_LINES) -> list[str]:
    """The beginning of a result, each line cut to `width`, and how many lines follow."""
    lines: list[str] = []
    for block in content:
        match block:
            case TextBlock(text=text):
                lines += printable(text, lines=True).expandtabs(4).strip("\n").split("\n")
            case ImageBlock(mime_type=kind):
                lines.append(f"({printable(kind)})")
            case _:
                lines.append("(a block of an unknown kind)")
    while lines and not lines[-1].strip():
        lines.pop()
    shown = [cut(line, width) for line in lines[:limit]]
    more = len(lines) - len(shown)
    return [*shown, f"… {more:,} more line{'' if more == 1 else 's'}"] if more else shown


def last_line(content: Sequence[UserBlock]) -> str:
    """The newest line of what a tool has shown so far."""
    texts = [block.text for block in content if isinstance(block, TextBlock)]
    return printable(texts[-1][-2000:].rstrip().rpartition("\n")[2]) if texts else ""


def failure_line(content: Sequence[UserBlock]) -> str:
    """Why a call failed, in one line: its first one, and its last one where that differs."""
    lines = result_lines(content, 200, limit=10_000) or ["failed"]
    return lines[0] if len(lines) == 1 else f"{cut(lines[0], 90)} … {cut(lines[-1], 90)}"
