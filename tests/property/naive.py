"""A session read the plain way, written from the page on the session file: dicts from the file's lines, nothing else."""

import json
from pathlib import Path
from typing import Any

Fields = dict[str, Any]
MARKER = "coppice.leaf"


class Naive:
    """What a file says, found by looking at all of it each time."""

    def __init__(self, path: Path) -> None:
        self.entries: list[Fields] = [json.loads(line) for line in path.read_bytes().split(b"\n") if line][1:]
        self.by_id = {each["id"]: each for each in self.entries}
        assert len(self.by_id) == len(self.entries)

    def is_marker(self, each: Fields) -> bool:
        return each["type"] == "custom" and each["customType"] == MARKER

    def leaf(self) -> str | None:
        last = self.entries[-1]
        return last["parentId"] if self.is_marker(last) else last["id"]

    def path(self, leaf: str | None) -> list[Fields]:
        found: list[Fields] = []
        while leaf is not None:
            found.insert(0, self.by_id[leaf])
            leaf = found[0]["parentId"]
        return found

    def tree(self) -> dict[str | None, list[str]]:
        children: dict[str | None, list[str]] = {None: []}
        for each in self.entries:
            if not self.is_marker(each):
                children[each["id"]] = []
                parent = each["parentId"]
                while parent is not None and self.is_marker(self.by_id[parent]):
                    parent = self.by_id[parent]["parentId"]
                children[parent].append(each["id"])
        return children

    def labels(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in self.entries:
            if each["type"] == "label":
                found[each["targetId"]] = each.get("label", "")
        return {target: text for target, text in found.items() if text}

    def name(self) -> str | None:
        names = [each["name"].strip() for each in self.entries if each["type"] == "session_info"]
        return names[-1] or None if names else None

    def model(self, leaf: str | None) -> tuple[str, str] | None:
        for each in reversed(self.path(leaf)):
            if each["type"] == "model_change":
                return each["provider"], each["modelId"]
            if each["type"] == "message" and each["message"]["role"] == "assistant":
                return each["message"]["provider"], each["message"]["model"]
        return None

    def level(self, leaf: str | None) -> str:
        levels = [each["thinkingLevel"] for each in self.path(leaf) if each["type"] == "thinking_level_change"]
        return levels[-1] if levels else "off"

    def context(self, leaf: str | None) -> list[Fields]:
        path = self.path(leaf)
        places = [at for at, each in enumerate(path) if each["type"] == "compaction"]
        if not places:
            return path
        newest = places[-1]
        before = [each["id"] for each in path[:newest]]
        first = path[newest]["firstKeptEntryId"]
        kept = path[before.index(first) : newest] if first in before else []
        return [path[newest], *kept, *path[newest + 1 :]]

    def messages(self, leaf: str | None) -> list[tuple[str, Any]]:
        """Role and content (or summary) of each message."""
        context = self.context(leaf)
        edits = {each["targetId"]: each["replacement"] for each in context if each["type"] == "context_edit"}
        found: list[tuple[str, Any]] = []
        for at, each in enumerate(context):
            role, said = self.said(each, at)
            if role is None or edits.get(each["id"], True) is None:
                continue
            if each["id"] in edits and role in ("user", "assistant", "toolResult", "custom"):
                said = edits[each["id"]]["content"]
                if role in ("assistant", "toolResult") and isinstance(said, str):
                    said = [{"type": "text", "text": said}]
            found.append((role, said))
        return found

    def said(self, each: Fields, at: int) -> tuple[str | None, Any]:
        if each["type"] == "message":
            return each["message"]["role"], each["message"]["content"]
        if each["type"] == "custom_message":
            return "custom", each["content"]
        if each["type"] == "compaction" and at == 0:
            return "compactionSummary", each["summary"]
        if each["type"] == "branch_summary" and each["summary"]:
            return "branchSummary", each["summary"]
        return None, None
