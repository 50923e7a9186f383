"""Session files for tests, made as plain dicts and bytes: nothing here imports what it helps to test."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Fields = dict[str, Any]

STAMP = "2026-01-02T03:04:05.678Z"
SESSION_ID = "11111111-2222-4333-8444-555555555555"


def header(version: int = 3, **fields: Any) -> Fields:
    """Line 1."""
    base = {"type": "session", "version": version, "id": SESSION_ID, "timestamp": STAMP, "cwd": "/w"}
    return base | fields


def entry(kind: str, entry_id: str, parent: str | None, /, **fields: Any) -> Fields:
    """Any entry."""
    return {"type": kind, "id": entry_id, "parentId": parent, "timestamp": STAMP} | fields


def message(entry_id: str, parent: str | None, /, **fields: Any) -> Fields:
    """A message entry; `fields` are the message's."""
    return entry("message", entry_id, parent, message=fields)


def user(entry_id: str, parent: str | None, text: Any = None) -> Fields:
    """A user message, its id for a text unless one is given."""
    return message(entry_id, parent, role="user", content=entry_id if text is None else text, timestamp=1)


def assistant(entry_id: str, parent: str | None, *blocks: Fields | str, **fields: Any) -> Fields:
    """A reply: texts and blocks, or its id for a text."""
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks or (entry_id,)]
    base = {"role": "assistant", "content": content, "api": "a", "provider": "p", "model": "m", "stopReason": "stop"}
    return message(entry_id, parent, **(base | fields), timestamp=1)


def call(call_id: str, name: str = "read") -> Fields:
    """A tool call block."""
    return {"type": "toolCall", "id": call_id, "name": name, "arguments": {}}


def result(entry_id: str, parent: str | None, call_id: str, text: str | None = None) -> Fields:
    """A tool result."""
    content = [{"type": "text", "text": entry_id if text is None else text}]
    return message(
        entry_id, parent, role="toolResult", toolCallId=call_id, toolName="read", content=content, isError=False
    )


def label(entry_id: str, parent: str | None, target: str, text: str | None) -> Fields:
    """A label."""
    return entry("label", entry_id, parent, targetId=target) | ({} if text is None else {"label": text})


def marker(entry_id: str, parent: str | None, left: str | None = None) -> Fields:
    """A leaf marker: `parent` is the target."""
    return entry("custom", entry_id, parent, customType="coppice.leaf", data={"from": left})


def compaction(entry_id: str, parent: str | None, first_kept: Any, summary: str = "summary", **fields: Any) -> Fields:
    """A compaction."""
    base = {"summary": summary, "firstKeptEntryId": first_kept, "tokensBefore": 9}
    return entry("compaction", entry_id, parent, **(base | fields))


def chain(count: int, start: int = 1) -> list[Fields]:
    """One chain of user and assistant turns, with ids e00000001 and so on."""
    made: list[Fields] = []
    for number in range(start, start + count):
        parent = f"e{number - 1:07d}" if number > 1 else None
        make = user if number % 2 else assistant
        made.append(make(f"e{number:07d}", parent))
    return made


def line(fields: Fields) -> bytes:
    """A line as Pi writes it, without its newline."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def content(entries: Iterable[Fields | bytes]) -> bytes:
    """The bytes of a file of these lines."""
    return b"".join((each if isinstance(each, bytes) else line(each)) + b"\n" for each in entries)


def session_file(path: Path, entries: Sequence[Fields | bytes], head: Fields | None = None) -> Path:
    """Write a session file, mode 0600."""
    path.write_bytes(content([header() if head is None else head, *entries]))
    path.chmod(0o600)
    return path


def objects(path: Path) -> list[Fields]:
    """The JSON objects of a file's lines."""
    return [json.loads(each) for each in path.read_bytes().split(b"\n") if each]
