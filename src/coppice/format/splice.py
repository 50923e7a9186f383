"""Changing one id inside a raw line without touching any other byte (fork and clone; docs/format.md)."""

import json
import re

_PARENT = re.compile(rb'(\{"type":"[^"\\]*","id":"[^"\\]*","parentId":)(?:null|"[^"\\]*")')
_WHITESPACE = re.compile(r"[ \t\n\r]*")
_decoder = json.JSONDecoder()


def with_parent(line: bytes, parent_id: str | None) -> bytes:
    """The line with another ``parentId``; a damaged line whose first bytes do not give it is returned as it is."""
    found = _PARENT.match(line)
    if found is None:
        try:
            return with_value(line, ("parentId",), parent_id)
        except (ValueError, RecursionError):
            return line
    return found[1] + json.dumps(parent_id).encode() + line[found.end() :]


def with_value(line: bytes, path: tuple[str | int, ...], value: object) -> bytes:
    """The line with another JSON value at `path` (keys and list positions); a top-level key that is missing is added.

    Raises:
        ValueError: the line is not a JSON object, or the path leads nowhere.
    """
    text = line.decode("utf-8", "surrogateescape")
    start, end = 0, len(text)
    for depth, step in enumerate(path):
        span = _span(text, start, step)
        if span is None and depth == 0 and text.lstrip().startswith("{"):
            body = text.rstrip()
            text = body[:-1] + ("" if body[:-1].rstrip().endswith("{") else ",") + json.dumps(step) + ":"
            return (text + json.dumps(value) + "}").encode("utf-8", "surrogateescape") + line[len(line.rstrip()) :]
        if span is None:
            raise ValueError(f"no {step!r} in the line")
        start, end = span
    return (text[:start] + json.dumps(value) + text[end:]).encode("utf-8", "surrogateescape")


def _skip(text: str, at: int) -> int:
    found = _WHITESPACE.match(text, at)
    return found.end() if found else at


def _span(text: str, at: int, step: str | int) -> tuple[int, int] | None:
    """Start and end of the value of key or position `step` in the object or list that begins at `at`."""
    at = _skip(text, at)
    if at >= len(text) or text[at] not in "{[":
        raise ValueError("not an object or a list")
    is_object, found, position = text[at] == "{", None, 0
    at = _skip(text, at + 1)
    while at < len(text) and text[at] not in "}]":
        key: object = position
        if is_object:
            key, at = _decoder.raw_decode(text, at)
            at = _skip(text, _skip(text, at) + 1)
        _, end = _decoder.raw_decode(text, at)
        if key == step:
            found = (at, end)  # of several equal keys the last counts, as in every JSON reader
        at = _skip(text, end)
        at = _skip(text, at + 1) if at < len(text) and text[at] == "," else at
        position += 1
    return found
