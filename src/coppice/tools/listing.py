"""Rows of a search or a listing, and the notes under them: what grep, find and ls have in common."""

from collections.abc import Sequence

from coppice.format.messages import JsonObject
from coppice.tools.base import ToolResult, text_result
from coppice.tools.truncate import MAX_BYTES, keep_head, size_text


def listing(rows: Sequence[str], *, notes: Sequence[str] = (), details: JsonObject | None = None) -> ToolResult:
    """A result of the rows, cut at the byte limit (rows are limited before), with notes in brackets below."""
    kept = keep_head("\n".join(rows), max_lines=len(rows) + 1)
    shown = list(notes)
    if kept.truncation.truncated:
        shown.append(f"Cut at {size_text(MAX_BYTES)}; ask for less to see all")
        details = {**(details or {}), "truncation": kept.truncation.as_details()}
    text = "\n\n".join([kept.text, *([f"[{'. '.join(shown)}]"] if shown else ())])
    return text_result(text, details)


def one_line(name: str) -> str:
    """A file name as one row: control characters, newlines among them, are shown as ``\\x0a``."""
    return "".join(
        character if character.isprintable() or ord(character) > 0x9F else _escaped(character) for character in name
    )


def _escaped(character: str) -> str:
    return f"\\x{ord(character):02x}"
