"""Runs the examples of docs/format.md on real files: a session, and what the library must answer to a question about it.

A fence ``jsonl name=…`` is a session file; its options say what a page cannot show (see `session_bytes`). Each fence with
``expect=…`` after it is a question about that file (or, with ``of=…``, about another one of the page); ``do=…`` are steps
to take first (see `STEPS`). Text in angle brackets stands for what differs at every run (see `HOLES`).
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coppice.errors import CoppiceError
from coppice.format.entries import DamagedEntry, UnknownEntry
from coppice.format.messages import NO_USAGE, EntryId, Message, UserMessage
from coppice.session.manager import SessionManager, TreeNode
from coppice.session.writer import Setup
from coppice.storage.directory import directory_for
from coppice.storage.pending import Pending, PendingFile
from coppice.tree.pairing import Reader
from tests.docs.blocks import DOCS, Block, blocks_of

PAGE = DOCS / "format.md"

HOLES = {
    "id": r"[0-9a-f]{8}",
    "uuid": r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
    "cwd": r"/.+",
    "file": r".+\.jsonl",
    "pid": r"\d+",
    "host": r".+",
    "command": r".+",
}
"""What ``<name>`` in an expected line stands for, as a regular expression."""

SESSION_OPTIONS = {"name", "end", "lines", "start", "bytes"}
ANSWER_OPTIONS = {"expect", "of", "do", "at", "reader", "images"}


# --- the page ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Example:
    """A question about a session of the page."""

    session: Block
    question: Block

    def __str__(self) -> str:
        return f"{self.session.options['name']}-{self.question.options['expect']}-line-{self.question.line}"


def examples() -> list[Example]:
    """Every question of the page with its session."""
    sessions: dict[str, Block] = {}
    last, found = "", list[Example]()
    for block in blocks_of(PAGE):
        if "name" in block.options:
            last = block.options["name"]
            assert last not in sessions, f"line {block.line}: {last} is there twice"
            sessions[last] = block
        elif "expect" in block.options:
            found.append(Example(sessions[block.options.get("of", last)], block))
    return found


def session_bytes(block: Block) -> bytes:
    """The file a session block shows.

    ``end=torn`` has no newline after the last line, ``lines=crlf`` ends lines with CR LF, ``start=bom`` begins with a
    byte order mark, ``bytes=hex`` takes ``<FF>`` for the byte FF.
    """
    data = block.text.encode()
    if block.options.get("bytes") == "hex":
        data = re.sub(rb"<([0-9A-F]{2})>", lambda found: bytes.fromhex(found[1].decode()), data)
    if block.options.get("end") == "torn":
        data = data.removesuffix(b"\n")
    if block.options.get("lines") == "crlf":
        data = data.replace(b"\n", b"\r\n")
    if block.options.get("start") == "bom":
        data = b"\xef\xbb\xbf" + data
    return data


def stamped(data: bytes) -> bytes:
    """The same session with a timestamp in every entry and message that shows none, as a writer would have put it."""
    data = re.sub(
        rb'("parentId":(?:null|"[^"]*"),)(?!"timestamp")', rb'\1"timestamp":"2026-01-02T03:04:05.678Z",', data
    )
    return re.sub(
        rb'("message":\{"role":"(?:user|assistant|toolResult|system)",)', rb'\1"timestamp":1767323045678,', data
    )


# --- one example -------------------------------------------------------------------------------


class Desk:
    """A session file of an example, in a directory and a COPPICE_HOME of its own, and the managers opened on it."""

    def __init__(self, example: Example, root: Path, data: bytes) -> None:
        self.options = example.question.options
        self.setup = Setup(home=root / "home", session_dir=root / "new")
        self.path = root / "session.jsonl"
        self.path.write_bytes(data)
        self.path.chmod(0o600)
        self.opened: list[SessionManager] = []
        self._current: SessionManager | None = None
        self._other: SessionManager | None = None

    @property
    def session(self) -> SessionManager:
        """The session as its writer has it; opened when it is first asked for."""
        if self._current is None:
            self._current = self.open("write")
        return self._current

    @session.setter
    def session(self, manager: SessionManager) -> None:
        self.opened.append(manager)
        self._current = manager

    @property
    def other(self) -> SessionManager:
        """A second program's view of the file."""
        if self._other is None:
            self._other = self.open("shared")
        return self._other

    def open(self, mode: Any) -> SessionManager:
        manager = SessionManager.open(self.path, mode=mode, setup=self.setup)
        self.opened.append(manager)
        return manager

    @property
    def at(self) -> EntryId | None:
        """The entry the question is about: ``at=``, else the leaf."""
        return entry_id(self.options["at"]) if "at" in self.options else self.session.get_leaf_id()

    def close(self) -> None:
        for manager in self.opened:
            manager.close()


def entry_id(text: str) -> EntryId | None:
    return None if text == "null" else EntryId(text)


# --- what an example can do first --------------------------------------------------------------

Step = Callable[[Desk, str, str], object]


def _user(session: SessionManager, text: str) -> object:
    return session.append_message(UserMessage(text, 1767323045678))


def _fork(desk: Desk, at: str, _: str) -> None:
    desk.session = desk.session.create_branched_session(entry_id(at))


def _clone(desk: Desk, _: str, __: str) -> None:
    desk.session = desk.session.create_branched_session()


def _reopen(desk: Desk, _: str, __: str) -> None:
    desk.session.close()
    desk.session = SessionManager.open(desk.path, setup=desk.setup)


def _new(desk: Desk, _: str, __: str) -> None:
    desk.session = SessionManager.create("/w", setup=desk.setup)


STEPS: dict[str, Step] = {
    "user": lambda desk, text, _: _user(desk.session, text),
    "other-user": lambda desk, text, _: _user(desk.other, text),
    "other-opens": lambda desk, mode, _: desk.open(mode) and desk.session,
    "reader-user": lambda desk, text, _: _user(desk.open("read"), text),
    "context": lambda desk, at, _: desk.session.build_session_context(entry_id(at)),
    "open": lambda desk, _, __: desk.session,
    "move": lambda desk, at, _: desk.session.branch(entry_id(at)),
    "summary": lambda desk, at, text: desk.session.branch_with_summary(entry_id(at), text),
    "label": lambda desk, at, text: desk.session.append_label_change(EntryId(at), text),
    "hide": lambda desk, at, _: desk.session.append_context_edit(EntryId(at), None),
    "edit": lambda desk, at, text: desk.session.append_context_edit(EntryId(at), text),
    "name": lambda desk, text, _: desk.session.append_session_info(text),
    "expect": lambda desk, at, text: desk.session.append_message(UserMessage(text), expect=entry_id(at)),
    "check-bridges": lambda desk, _, __: desk.session.check_bridges(),
    "new": _new,
    "model": lambda desk, provider, model_id: desk.session.append_model_change(provider, model_id),
    "fork": _fork,
    "clone": _clone,
    "reopen": _reopen,
}


def do_steps(desk: Desk) -> None:
    for step in filter(None, desk.options.get("do", "").split("; ")):
        name, first, second = (*step.split(":", 2), "", "")[:3]
        STEPS[name](desk, first, second)


# --- what can be asked -------------------------------------------------------------------------


def short(message: Message) -> Any:
    """A message as the page shows it: without times, and without fields that hold nothing."""
    fields = msgspec.to_builtins(message)
    nothing = (0, "", False, None, msgspec.to_builtins(NO_USAGE))
    kept = {k: v for k, v in fields.items() if k in ("content", "summary") or (k != "timestamp" and v not in nothing)}
    return {k: v for k, v in kept.items() if (k, v) != ("stopReason", "stop")}


def _request(desk: Desk) -> Any:
    provider, model = desk.options.get("reader", "here/model").split("/")
    reader = Reader(provider, "", model, desk.options.get("images") != "no")
    return [short(message) for message in desk.session.request_messages(reader, desk.at)]


def _tree(nodes: list[TreeNode]) -> Any:
    return {node.id: _tree(node.children) for node in nodes}


def _settings(desk: Desk) -> Any:
    model = desk.session.model(desk.at)
    name = None if model is None else f"{model.provider}/{model.model_id}"
    return {"model": name, "thinkingLevel": desk.session.thinking_level(desk.at)}


def _entry(desk: Desk) -> Any:
    assert desk.at is not None
    entry = desk.session.get_entry(desk.at)
    match entry:
        case DamagedEntry():
            return {"damaged": entry.id, "parentId": entry.parent_id}
        case UnknownEntry():
            return {"unknown": entry.kind, "fields": {k: v for k, v in entry.fields.items() if k != "timestamp"}}
        case _:
            return {k: v for k, v in msgspec.to_builtins(entry).items() if k != "timestamp"}


def _labels(desk: Desk) -> Any:
    facts = desk.session.index.facts
    return {"name": desk.session.get_session_name(), "labels": {i: label.text for i, label in facts.labels.items()}}


def _notices(desk: Desk) -> Any:
    return [text.replace(str(desk.path), "<path>") for text in desk.session.take_notices()]


def _places(desk: Desk) -> Any:
    homes = Path("/h")
    return {cwd: str(directory_for(Path(cwd), homes)) for cwd in json.loads(desk.options["at"])}


ANSWERS: dict[str, Callable[[Desk], Any]] = {
    "header": lambda desk: msgspec.to_builtins(desk.session.get_header()),
    "path": lambda desk: [entry.id for entry in desk.session.get_branch(desk.at)],
    "leaf": lambda desk: desk.session.get_leaf_id(),
    "tree": lambda desk: _tree(desk.session.get_tree()),
    "entry": _entry,
    "context-entries": lambda desk: [entry.id for entry in desk.session.build_context_entries(desk.at)],
    "context": lambda desk: [short(message) for message in desk.session.build_session_context(desk.at).messages],
    "request": _request,
    "settings": _settings,
    "labels": _labels,
    "damage": lambda desk: [f"{line}: {text}" for line, text in desk.session.index.facts.damages],
    "notices": _notices,
    "guesses": lambda desk: desk.session.uncertain_bridges(),
    "places": _places,
}
"""Questions whose answer is a JSON value."""


def _written(desk: Desk) -> bytes:
    assert desk.session.session_file is not None
    return desk.session.session_file.read_bytes()


def _pending(desk: Desk) -> bytes:
    waits = Pending(EntryId("0a1b2c3d"), "steering", UserMessage("wait", 1767323045678))
    PendingFile(desk.setup.home, "s1").change(lambda items: [*items, waits])
    return (desk.setup.home / "pending" / "s1.jsonl").read_bytes()


LINES: dict[str, Callable[[Desk, bytes], bytes]] = {
    "appended": lambda desk, before: desk.path.read_bytes().removeprefix(before),
    "new-file": lambda desk, _: _written(desk),
    "pending": lambda desk, _: _pending(desk),
}
"""Questions whose answer is bytes of a file, compared byte by byte."""


def pattern(text: str) -> str:
    """A regular expression for a text with holes."""
    return re.sub(r"<(\w+)>", lambda found: HOLES.get(found[1], re.escape(found[0])), re.escape(text))


def check(example: Example, root: Path, data: bytes) -> None:
    """Ask the question of a file with these bytes."""
    desk, kind = Desk(example, root, data), example.question.options["expect"]
    before = desk.path.stat().st_mtime_ns
    try:
        check_answer(desk, kind, example.question.text, data)
    finally:
        desk.close()
    assert desk.path.read_bytes().startswith(data), "bytes that were there have changed"
    if not desk.options.get("do"):
        assert (desk.path.read_bytes(), desk.path.stat().st_mtime_ns) == (data, before), "reading changed the file"


def check_answer(desk: Desk, kind: str, expected: str, data: bytes) -> None:
    if kind == "error":
        with pytest.raises(CoppiceError) as caught:
            do_steps(desk)
        told = f"{type(caught.value).__name__}: {caught.value}".replace(str(desk.path), "<path>")
        assert re.fullmatch(pattern(json.loads(expected)), told), told
        return
    do_steps(desk)
    if kind in LINES:
        answer = LINES[kind](desk, data).decode("utf-8", "backslashreplace")
        assert re.fullmatch(pattern(expected), answer), answer
    else:
        assert json.loads(json.dumps(ANSWERS[kind](desk))) == json.loads(expected)


def shown_and_stamped() -> Iterator[Any]:
    for example in examples():
        yield pytest.param(example, False, id=str(example))
        if example.question.options["expect"] in ANSWERS and stamped(example.session.text.encode()):
            yield pytest.param(example, True, id=f"{example}-with-times")


@pytest.mark.parametrize(("example", "with_times"), [*shown_and_stamped()])
def test_the_library_answers_as_the_page_says(example: Example, with_times: bool, tmp_path: Path) -> None:
    data = session_bytes(example.session)
    check(example, tmp_path, stamped(data) if with_times else data)


def test_every_fence_of_the_page_is_run() -> None:
    asked = {example.session.line for example in examples()} | {example.question.line for example in examples()}
    assert [block.line for block in blocks_of(PAGE) if block.line not in asked] == []


def test_every_fence_of_the_page_has_only_options_that_mean_something() -> None:
    for block in blocks_of(PAGE):
        known = SESSION_OPTIONS if "name" in block.options else ANSWER_OPTIONS
        assert set(block.options) <= known, f"line {block.line}"
        assert block.options.get("expect", "error") in {*ANSWERS, *LINES, "error"}, f"line {block.line}"


def test_the_page_has_a_good_number_of_examples() -> None:
    assert len(examples()) >= 60
