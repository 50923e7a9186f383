"""From a leaf to its messages: which entries, which edits, which messages, model and level."""

from typing import Any

import pytest

from coppice.format.messages import (
    AssistantMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    SystemMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)
from coppice.tree.context import level_of, model_of, unix_ms
from tests.session.build import STAMP, Fields, assistant, call, compaction, entry, marker, message, result, user
from tests.tree.world import World

STAMP_MS = 1767323045678


def edit(entry_id: str, parent: str, target: str, replacement: Any) -> Fields:
    return entry("context_edit", entry_id, parent, targetId=target, replacement=replacement)


def texts(world: World, leaf: str) -> list[str]:
    """What each message says, in short."""
    found: list[str] = []
    for each in world.messages(leaf):
        match each:
            case (
                UserMessage(content=str() as text) | CustomMessage(content=str() as text) | SystemMessage(content=text)
            ):
                found.append(str(text))
            case AssistantMessage(content=blocks) | ToolResultMessage(content=blocks):
                found.append("+".join(block.text for block in blocks if isinstance(block, TextBlock)))
            case BranchSummaryMessage(summary=text) | CompactionSummaryMessage(summary=text):
                found.append(f"<{text}>")
            case _:
                found.append(repr(each))
    return found


BASE = [user("u1", None), assistant("a1", "u1"), user("u2", "a1"), assistant("a2", "u2")]


def test_without_a_compaction_the_whole_path_is_the_context() -> None:
    world = World([*BASE, user("x1", "a1")])
    assert world.context_ids("a2") == ["u1", "a1", "u2", "a2"]
    assert world.context_ids("x1") == ["u1", "a1", "x1"]
    assert world.context_ids(None) == []


def test_the_newest_compaction_comes_first_then_what_it_keeps_then_what_follows() -> None:
    world = World([*BASE, compaction("c1", "a2", "u2"), user("u3", "c1")])
    assert world.context_ids("u3") == ["c1", "u2", "a2", "u3"]
    assert texts(world, "u3") == ["<summary>", "u2", "a2", "u3"]


def test_an_older_compaction_in_the_kept_range_is_an_entry_without_a_message() -> None:
    world = World([*BASE, compaction("c1", "a2", "a2", "old"), user("u3", "c1"), compaction("c2", "u3", "u2", "new")])
    assert world.context_ids("c2") == ["c2", "u2", "a2", "c1", "u3"]
    assert texts(world, "c2") == ["<new>", "u2", "a2", "u3"]


@pytest.mark.parametrize(
    ("first_kept", "problem"),
    [
        ("c1", None),
        ("nowhere", "the compaction 'c1' keeps nothing before it: its first kept entry 'nowhere' is not in the file"),
        (None, "the compaction 'c1' keeps nothing before it: its first kept entry None is not in the file"),
        ("x1", "the compaction 'c1' keeps nothing before it: its first kept entry 'x1' is not before it on its path"),
        ("u3", "the compaction 'c1' keeps nothing before it: its first kept entry 'u3' is not before it on its path"),
    ],
)
def test_a_first_kept_entry_that_is_none_keeps_nothing_and_is_reported_unless_meant(
    first_kept: str | None, problem: str | None
) -> None:
    world = World([*BASE, user("x1", "a1"), compaction("c1", "a2", first_kept), user("u3", "c1")])
    assert world.context_ids("u3") == ["c1", "u3"]
    assert world.selected("u3").problem == problem


def test_system_messages_are_dropped_from_the_kept_range_and_stay_after_the_compaction() -> None:
    one, two = message("s1", "u1", role="system", content="one"), message("s2", "c1", role="system", content="two")
    lines = [user("u1", None), one, user("u2", "s1"), compaction("c1", "u2", "u1"), two, user("u3", "s2")]
    world = World(lines)
    assert world.context_ids("u3") == ["c1", "u1", "u2", "s2", "u3"]
    assert texts(world, "u3") == ["<summary>", "u1", "u2", "two", "u3"]


def test_every_kind_is_in_the_list_and_only_some_become_messages() -> None:
    lines = [
        user("u1", None),
        entry("custom", "k1", "u1", customType="x"),
        entry("custom_message", "k2", "k1", customType="x", content="said", display=True, details={"d": 1}),
        entry("branch_summary", "k3", "k2", fromId="root", summary="branch"),
        entry("branch_summary", "k4", "k3", fromId="root", summary=""),
        entry("model_change", "k5", "k4", provider="p", modelId="m"),
        entry("thinking_level_change", "k6", "k5", thinkingLevel="high"),
        entry("usage", "k7", "k6", kind="k", provider="p", model="m", usage={}),
        entry("label", "k8", "k7", targetId="u1", label="x"),
        entry("session_info", "k9", "k8", name="n"),
        entry("future", "ka", "k9"),
        marker("kb", "ka"),
        user("u2", "kb"),
    ]
    world = World(lines)
    assert world.context_ids("u2") == [each["id"] for each in lines]
    assert world.messages("u2") == [
        UserMessage("u1", 1),
        CustomMessage("x", "said", True, {"d": 1}, STAMP_MS),
        BranchSummaryMessage("branch", "root", STAMP_MS),
        UserMessage("u2", 1),
    ]


def test_a_compaction_with_an_empty_summary_still_gives_a_message() -> None:
    world = World([user("u1", None), compaction("c1", "u1", "c1", "")])
    assert world.messages("c1") == [CompactionSummaryMessage("", 9, STAMP_MS)]


def test_the_system_message_of_a_compaction_comes_before_its_summary() -> None:
    system = {"role": "system", "content": "be good", "timestamp": 5}
    world = World([user("u1", None), compaction("c1", "u1", "c1", systemMessage=system)])
    assert world.messages("c1") == [SystemMessage("be good", 5), CompactionSummaryMessage("summary", 9, STAMP_MS)]


# --- edits ---------------------------------------------------------------------------------------


def test_an_edit_hides_or_replaces_and_the_last_one_counts() -> None:
    lines = [*BASE, edit("x1", "a2", "u1", None), edit("x2", "x1", "u2", {"content": "one"})]
    world = World([*lines, edit("x3", "x2", "u2", {"content": "two"})])
    assert texts(world, "x3") == ["a1", "two", "a2"]
    assert texts(world, "x2") == ["a1", "one", "a2"]
    assert texts(world, "a2") == ["u1", "a1", "u2", "a2"]


def test_an_edit_changes_the_content_of_its_target_and_nothing_else_of_it() -> None:
    reply = assistant("a1", "u1", "text", call("c1"), errorMessage="kept")
    lines = [user("u1", None), reply, result("r1", "a1", "c1"), edit("x1", "r1", "a1", {"content": "A"})]
    lines += [
        edit("x2", "x1", "r1", {"content": "R"}),
        edit("x3", "x2", "u1", {"content": [{"type": "text", "text": "U"}]}),
    ]
    user_message, answer, tool = World(lines).messages("x3")
    before = World(lines).messages("r1")
    assert user_message == UserMessage((TextBlock("U"),), 1)
    assert isinstance(answer, AssistantMessage)
    assert (answer.content, answer.error_message) == ((TextBlock("A"),), "kept")
    assert isinstance(tool, ToolResultMessage)
    assert tool == ToolResultMessage(before[2].tool_call_id, "read", (TextBlock("R"),))  # type: ignore[union-attr]


def test_an_edit_hides_any_kind_and_replaces_only_messages_with_content() -> None:
    lines = [
        user("u1", None),
        entry("branch_summary", "b1", "u1", fromId="root", summary="branch"),
        message("h1", "b1", role="bashExecution", command="ls", output="x"),
        entry("custom_message", "m1", "h1", customType="x", content="said", display=False),
    ]
    new = {"content": "new"}
    world = World([*lines, edit("x1", "m1", "b1", new), edit("x2", "x1", "h1", new), edit("x3", "x2", "m1", new)])
    assert world.messages("x2")[1:3] == World(lines).messages("m1")[1:3]
    assert world.messages("x3")[3] == CustomMessage("x", "new", False, None, STAMP_MS)
    hidden = World([*lines, edit("x1", "m1", "b1", None), edit("x2", "x1", "h1", None), edit("x3", "x2", "m1", None)])
    assert hidden.messages("x3") == [UserMessage("u1", 1)]


def test_an_edit_before_the_kept_range_does_not_count() -> None:
    lines = [user("u1", None), user("u2", "u1"), edit("x1", "u2", "u2", None), user("u3", "x1")]
    outside = World([*lines, compaction("c1", "u3", "u3"), user("u4", "c1")])
    assert texts(outside, "u4") == ["<summary>", "u3", "u4"]
    inside = World([*lines, compaction("c1", "u3", "u2"), user("u4", "c1")])
    assert texts(inside, "u4") == ["<summary>", "u3", "u4"]


def test_an_edit_can_hide_the_compaction_itself() -> None:
    world = World([user("u1", None), compaction("c1", "u1", "u1"), edit("x1", "c1", "c1", None)])
    assert texts(world, "x1") == ["u1"]


# --- model, level, time --------------------------------------------------------------------------


def test_model_and_level_are_the_newest_on_the_whole_path_also_before_a_compaction() -> None:
    lines = [
        user("u1", None),
        entry("model_change", "m1", "u1", provider="q", modelId="big"),
        entry("thinking_level_change", "t1", "m1", thinkingLevel="high"),
        compaction("c1", "t1", "c1"),
        user("u2", "c1"),
        assistant("a2", "u2", provider="r", model="small"),
        user("x1", "u1"),
    ]
    world = World(lines)
    newest, at = world.index.newest, world.at("u2")
    assert model_of(world.entry(newest.model[at])) == ("q", "big")
    assert level_of(world.entry(newest.level[at])) == "high"
    assert model_of(world.entry(newest.model[world.at("a2")])) == ("r", "small")
    assert (newest.model[world.at("x1")], newest.level[world.at("x1")]) == (-1, -1)
    assert (model_of(None), level_of(None)) == (None, "off")


@pytest.mark.parametrize(
    ("stamp", "ms"), [(STAMP, STAMP_MS), ("", 0), ("nonsense", 0), ("2026-01-02T03:04:05+01:00", 1767319445000)]
)
def test_a_time_is_milliseconds_or_0(stamp: str, ms: int) -> None:
    assert unix_ms(stamp) == ms
