"""Any sequence of appends, moves, forks and reopenings, by one writer or two, gives what the file plainly says."""

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coppice.format.messages import (
    AssistantBlock,
    AssistantMessage,
    EntryId,
    Message,
    TextBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from coppice.session.manager import CompactionDraft, SessionManager, TreeNode
from coppice.session.writer import Setup
from coppice.tree.pairing import Reader
from tests.property.naive import Naive
from tests.tree.strict import violations

texts = st.text(max_size=8)
call_ids = st.sampled_from(["c1", "c2", "c3"])
who = st.integers(0, 1)
READER = Reader("p", "a", "m")


def in_short(message: Message) -> tuple[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(message)
    said = fields["summary"] if "summary" in fields else fields["content"]
    return fields["role"], json.loads(json.dumps(said))


def as_children(nodes: list[TreeNode]) -> dict[str | None, list[str]]:
    children: dict[str | None, list[str]] = {None: [str(node.id) for node in nodes]}
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        children[node.id] = [str(child.id) for child in node.children]
        waiting += node.children
    return children


class Sessions(RuleBasedStateMachine):
    """One file, its writer, and somebody who shares it; what each of them thinks is compared with the file."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.setup = Setup(home=self.root / "home", sync=False)
        self.managers: list[SessionManager] = []
        self.leaves: list[str | None] = []
        self.bytes = b""

    def teardown(self) -> None:
        for manager in self.managers:
            manager.close()
        shutil.rmtree(self.root)

    @initialize(text=texts)
    def begin(self, text: str) -> None:
        session = SessionManager.create(self.root, setup=self.setup)
        first = session.append_message(UserMessage(text))
        assert session.session_file is not None
        self.path = session.session_file
        other = SessionManager.open(self.path, mode="shared", setup=self.setup)
        self.managers, self.leaves = [session, other], [first, first]
        self.bytes = self.path.read_bytes()

    # --- what was announced is in the file, and the file only grows ------------------------------

    def grown(self) -> list[dict[str, Any]]:
        before, self.bytes = self.bytes, self.path.read_bytes()
        assert self.bytes.startswith(before)
        assert self.bytes.endswith(b"\n")
        return [json.loads(line) for line in self.bytes[len(before) :].split(b"\n")[:-1]]

    def stored(self, at: int, entry_id: str, parent: str | None, *, moves: bool = True) -> None:
        [one] = self.grown()
        assert (one["id"], one["parentId"]) == (entry_id, parent)
        if moves:
            self.leaves[at] = entry_id

    def any_id(self, data: st.DataObject) -> EntryId:
        ids = [each["id"] for each in Naive(self.path).entries if each.get("customType") != "coppice.leaf"]
        return EntryId(data.draw(st.sampled_from(ids)))

    # --- appends ---------------------------------------------------------------------------------

    def message(self, at: int, message: Message) -> None:
        self.stored(at, self.managers[at].append_message(message), self.leaves[at])

    @rule(at=who, text=texts)
    def user(self, at: int, text: str) -> None:
        self.message(at, UserMessage(text))

    @rule(
        at=who, text=texts, calls=st.lists(call_ids, unique=True), stop=st.sampled_from(["stop", "toolUse", "aborted"])
    )
    def assistant(self, at: int, text: str, calls: list[str], stop: str) -> None:
        blocks: list[AssistantBlock] = [ToolCall(ToolCallId(each), "read", {"path": text}) for each in calls]
        self.message(at, AssistantMessage((TextBlock(text), *blocks), "a", "p", "m", Usage(), stop))

    @rule(at=who, text=texts, call=call_ids)
    def result(self, at: int, text: str, call: str) -> None:
        self.message(at, ToolResultMessage(ToolCallId(call), "read", (TextBlock(text),)))

    @rule(at=who, text=texts, kind=st.sampled_from(["model", "level", "custom", "said"]))
    def setting(self, at: int, text: str, kind: str) -> None:
        manager = self.managers[at]
        match kind:
            case "model":
                made = manager.append_model_change("q", text)
            case "level":
                made = manager.append_thinking_level_change(text)
            case "custom":
                made = manager.append_custom_entry("x", {"text": text})
            case _:
                made = manager.append_custom_message_entry("x", text, display=True)
        self.stored(at, made, self.leaves[at])

    @rule(at=who, text=texts, keeps=st.booleans(), data=st.data())
    def compaction(self, at: int, text: str, keeps: bool, data: st.DataObject) -> None:
        first = self.known_id(at, data) if keeps else None
        leaf = self.managers[at].get_leaf_id()
        made = self.managers[at].append_compaction(CompactionDraft(text, first, 1), expect=leaf)
        self.stored(at, made, self.leaves[at])

    def known_id(self, at: int, data: st.DataObject) -> EntryId:
        """An id this manager has seen; what the other one added since, it knows after its next append."""
        found = self.any_id(data)
        known = self.managers[at].get_entry(found) is not None
        return found if known else EntryId(Naive(self.path).entries[0]["id"])

    @rule(at=who, text=st.none() | texts, data=st.data())
    def edit(self, at: int, text: str | None, data: st.DataObject) -> None:
        made = self.managers[at].append_context_edit(self.known_id(at, data), text)
        self.stored(at, made, self.leaves[at])

    @rule(at=who, text=texts, data=st.data())
    def label(self, at: int, text: str, data: st.DataObject) -> None:
        target, leaf = self.known_id(at, data), Naive(self.path).leaf()
        self.stored(at, self.managers[at].append_label_change(target, text), leaf, moves=False)

    @rule(at=who, text=texts)
    def name(self, at: int, text: str) -> None:
        leaf = Naive(self.path).leaf()
        self.stored(at, self.managers[at].append_session_info(text), leaf, moves=False)

    # --- moves -----------------------------------------------------------------------------------

    def moved(self, at: int, target: str | None) -> None:
        before = self.leaves[at]
        markers = [(each["customType"], each["parentId"], each["data"]) for each in self.grown()]
        assert markers == ([] if target == before else [("coppice.leaf", target, {"from": before})])
        self.leaves[at] = target

    @rule(at=who, data=st.data())
    def branch(self, at: int, data: st.DataObject) -> None:
        target = self.known_id(at, data)
        self.managers[at].branch(target)
        self.moved(at, target)

    @rule(at=who)
    def reset(self, at: int) -> None:
        self.managers[at].reset_leaf()
        self.moved(at, None)

    @rule(at=who, text=texts, data=st.data())
    def branch_with_summary(self, at: int, text: str, data: st.DataObject) -> None:
        target, left = self.known_id(at, data), self.leaves[at]
        self.stored(at, self.managers[at].branch_with_summary(target, text), target)
        assert Naive(self.path).entries[-1]["fromId"] == (left or "root")

    # --- other files and other openings ----------------------------------------------------------

    @rule(at=who, data=st.data(), here=st.booleans())
    def fork(self, at: int, data: st.DataObject, here: bool) -> None:
        manager = self.managers[at]
        leaf = self.leaves[at] if here else self.known_id(at, data)
        naive = Naive(self.path)
        child = manager.create_branched_session(None if leaf is None else EntryId(leaf))
        assert (self.grown(), child.take_notices()) == ([], [])
        known = [str(each.id) for each in manager.entries()]  # what the other one added since is not asked for
        copied = [each["id"] for each in naive.path(leaf) if each["type"] != "label"]
        assert child.is_stored == bool(copied)
        if copied:
            assert child.session_file is not None
            copy = Naive(child.session_file)
            assert [each["id"] for each in copy.entries][: len(copied)] == copied
            assert copy.messages(copy.leaf()) == naive.messages(leaf)
            origins = [each["fromId"] for each in copy.entries if each["type"] == "branch_summary"]
            assert set(origins) <= {*copy.by_id, "root"}
            assert (copy.model(copy.leaf()), copy.level(copy.leaf())) == (naive.model(leaf), naive.level(leaf))
            if len(known) == len(naive.entries):
                assert copy.name() == naive.name()
                assert copy.labels() == {k: v for k, v in naive.labels().items() if k in copied}
            assert [in_short(each) for each in child.build_session_context().messages] == copy.messages(copy.leaf())
        child.close()

    @rule()
    def reopen_the_writer(self) -> None:
        self.managers[0].close()
        self.managers[0] = SessionManager.open(self.path, setup=self.setup)
        assert self.managers[0].get_leaf_id() == Naive(self.path).leaf()
        self.leaves[0] = Naive(self.path).leaf()

    @rule()
    def reopen_the_other(self) -> None:
        self.managers[1].close()
        self.managers[1] = SessionManager.open(self.path, mode="shared", setup=self.setup)
        self.leaves[1] = Naive(self.path).leaf()

    # --- always ----------------------------------------------------------------------------------

    @invariant()
    def what_each_thinks_is_what_the_file_says(self) -> None:
        if not self.managers:
            return
        naive = Naive(self.path)
        assert self.grown() == []
        for manager, leaf in zip(self.managers, self.leaves, strict=True):
            assert manager.get_leaf_id() == leaf
            assert [each.id for each in manager.get_branch()] == [each["id"] for each in naive.path(leaf)]
            assert [each.id for each in manager.build_context_entries()] == [each["id"] for each in naive.context(leaf)]
            context = manager.build_session_context()
            assert [in_short(each) for each in context.messages] == naive.messages(leaf)
            assert (context.model, context.thinking_level) == (naive.model(leaf), naive.level(leaf))
            assert violations(manager.request_messages(READER)) == []
            if len(manager.index) == len(naive.entries):
                assert as_children(manager.get_tree()) == naive.tree()
                assert manager.get_session_name() == naive.name()
                labels = {each["id"]: manager.get_label(each["id"]) for each in naive.entries}
                assert {target: text for target, text in labels.items() if text} == naive.labels()


TestSessions = pytest.mark.slow(Sessions.TestCase)
TestSessions.settings = settings(max_examples=150, stateful_step_count=30)
