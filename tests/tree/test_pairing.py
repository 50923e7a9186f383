"""What a provider is sent: every call with exactly one result, in order; nothing a provider may not see."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.format.messages import (
    AssistantMessage,
    ImageBlock,
    RequestMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from coppice.tree.pairing import BEGINNING_GONE, IMAGE_LEFT_OUT, INTERRUPTED, Reader, bash_text
from tests.session.build import Fields, assistant, call, compaction, entry, label, message, result, user
from tests.tree.strict import violations
from tests.tree.world import READER, World


def told(sent: Sequence[RequestMessage]) -> list[str]:
    """What is sent, in short: texts, and results as call id and text."""
    found: list[str] = []
    for each in sent:
        if isinstance(each, ToolResultMessage):
            found.append(f"{each.tool_call_id}={text_of(each.content)}")
        else:
            found.append(text_of(each.content))
    return found


@pytest.mark.case("P07")
def test_results_stored_side_by_side_are_all_sent_in_call_order() -> None:
    lines = [
        user("u1", None),
        assistant("a1", "u1", "a1", call("c1"), call("c2"), call("c3")),
        result("r2", "a1", "c2"),
        result("r1", "a1", "c1"),
        result("r3", "a1", "c3"),
        label("l1", "a1", "a1", "here"),
        entry("custom", "k1", "a1", customType="x"),
        assistant("a2", "r1"),
    ]
    world = World(lines)
    sent = world.sent("a2")
    assert told(sent) == ["u1", "a1", "c1=r1", "c2=r2", "c3=r3", "a2"]
    assert violations(sent) == []


def test_the_result_on_the_path_goes_before_one_beside_it_and_of_several_the_first_counts() -> None:
    lines = [
        user("u1", None),
        assistant("a1", "u1", "a1", call("c1")),
        result("side", "a1", "c1"),
        result("r1", "a1", "c1", "first"),
        result("r2", "r1", "c1", "second"),
        user("u2", "r2"),
    ]
    assert told(World(lines).sent("u2")) == ["u1", "a1", "c1=first", "u2"]
    assert told(World(lines).sent("a1")) == ["u1", "a1", "c1=side"]


def test_a_result_of_another_branch_is_no_result_of_this_reply() -> None:
    lines = [
        user("u1", None),
        assistant("a1", "u1", "a1", call("c1")),
        assistant("b1", "u1", "b1", call("c1")),
        result("r1", "b1", "c1"),
        user("u2", "a1"),
    ]
    assert told(World(lines).sent("u2")) == ["u1", "a1", f"c1={INTERRUPTED}", "u2"]


@pytest.mark.case("C34")
def test_an_interrupted_call_gets_the_same_bytes_at_every_rebuild() -> None:
    lines = [user("u1", None), assistant("a1", "u1", "a1", call("c1"), call("c2")), result("r2", "a1", "c2")]
    world = World([*lines, user("u2", "r2")])
    first = world.sent("u2")
    assert told(first) == ["u1", "a1", f"c1={INTERRUPTED}", "c2=r2", "u2"]
    assert first[2] == ToolResultMessage(ToolCallId("c1"), "read", (TextBlock(INTERRUPTED),), None, True, 1)
    world.add([assistant("a3", "u2"), user("x", "u1")])
    assert msgspec.json.encode(world.sent("u2")) == msgspec.json.encode(first)
    assert msgspec.json.encode(World([*lines, user("u2", "r2")]).sent("u2")) == msgspec.json.encode(first)


def test_results_asked_for_in_any_order_while_the_file_grows_are_found() -> None:
    world = World([user("u1", None), assistant("a1", "u1", "a1", call("c1"))])
    assert told(world.sent("a1")) == ["u1", "a1", f"c1={INTERRUPTED}"]
    world.add([assistant("a2", "u1", "a2", call("c2")), user("u2", "a2"), result("r2", "a2", "c2")])
    world.add([assistant("a3", "u1", "a3", call("c3"))])
    assert told(world.sent("a3")) == ["u1", "a3", f"c3={INTERRUPTED}"]
    assert told(world.sent("u2")) == ["u1", "a2", "c2=r2", "u2"]


@pytest.mark.parametrize(
    "reply",
    [
        assistant("a1", "u1", "half", call("c1"), stopReason="aborted"),
        assistant("a1", "u1", "half", call("c1"), stopReason="error", errorMessage="x"),
        message("a1", "u1", role="assistant", content=[], stopReason="stop"),
        message("a1", "u1", role="assistant", content=None, stopReason="stop"),
    ],
    ids=["aborted", "error", "empty", "null"],
)
def test_a_reply_that_failed_or_says_nothing_is_left_out_with_its_results(reply: Fields) -> None:
    world = World([user("u1", None), reply, result("r1", "a1", "c1"), user("u2", "r1")])
    assert told(world.sent("u2")) == ["u1", "u2"]


def test_a_result_without_its_call_is_left_out() -> None:
    lines = [user("u1", None), assistant("a1", "u1", "a1", call("c1")), result("r1", "a1", "c1"), user("u2", "r1")]
    world = World([*lines, result("r9", "u2", "c9"), compaction("k1", "r9", "r1"), user("u3", "k1")])
    assert [text for text in told(world.sent("u3")) if "=" in text] == []
    assert told(world.sent("r9")) == ["u1", "a1", "c1=r1", "u2"]


def test_a_call_id_used_again_belongs_to_the_nearer_reply() -> None:
    lines = [
        user("u1", None),
        assistant("a1", "u1", "a1", call("c1")),
        result("r1", "a1", "c1"),
        assistant("a2", "r1", "a2", call("c1")),
        result("r2", "a2", "c1"),
        assistant("a3", "r2", "a3", call("c1")),
    ]
    sent = World(lines).sent("a3")
    assert told(sent) == ["u1", "a1", "c1=r1", "a2", "c1=r2", "a3", f"c1={INTERRUPTED}"]
    assert violations(sent) == []


def test_what_no_provider_takes_is_left_out_and_summaries_are_user_messages() -> None:
    lines = [
        message("s1", None, role="system", content="prompt"),
        message("h1", "s1", role="bashExecution", command="ls", output="files"),
        message("h2", "h1", role="bashExecution", command="secret", output="x", excludeFromContext=True),
        message("o1", "h2", role="oracle", content="x"),
        entry("custom_message", "m1", "o1", customType="x", content="said", display=False),
        entry("branch_summary", "b1", "m1", fromId="root", summary="BRANCH"),
        compaction("c1", "b1", "h1", "SUMMARY"),
    ]
    sent = World(lines).sent("c1")
    assert all(isinstance(each, UserMessage) for each in sent)
    assert [word in told(sent)[n] for n, word in enumerate(["SUMMARY", "files", "said", "BRANCH"])] == [True] * 4
    assert len(sent) == 4


def test_bash_is_told_with_what_came_of_it() -> None:
    world = World([message("h", None, role="bashExecution", command="ls", output="", exitCode=2)])
    assert told(world.sent("h")) == ["The user ran this command: ls\n\nIt printed nothing.\n\nIts exit code was 2."]
    cut = World(
        [
            message(
                "h",
                None,
                role="bashExecution",
                command="l",
                output="o",
                truncated=True,
                fullOutputPath="/f",
                cancelled=True,
            )
        ]
    )
    [one] = cut.messages("h")
    assert bash_text(one) == (  # type: ignore[arg-type]
        "The user ran this command: l\n\nOutput:\no\n\nIt was cancelled.\n\nThe output is shortened; all of it is in /f"
    )


# --- providers -----------------------------------------------------------------------------------

SIGNED: list[Any] = [
    {"type": "thinking", "thinking": "why", "thinkingSignature": "S1"},
    {"type": "thinking", "thinking": "hidden", "thinkingSignature": "S2", "redacted": True},
    {"type": "thinking", "thinking": "", "thinkingSignature": "S3"},
    {"type": "text", "text": "says", "textSignature": "S4"},
    {"type": "text", "text": ""},
    {"type": "audio", "data": "x"},
    call("c1") | {"thoughtSignature": "S5"},
]


@pytest.mark.case("P29")
def test_the_model_that_signed_gets_its_blocks_back_as_they_were() -> None:
    world = World([user("u1", None), assistant("a1", "u1", *SIGNED), result("r1", "a1", "c1")])
    assert world.sent("r1")[1] == AssistantMessage(
        (
            ThinkingBlock("why", "S1"),
            ThinkingBlock("hidden", "S2", True),
            ThinkingBlock("", "S3"),
            TextBlock("says", "S4"),
            TextBlock(""),
            ToolCall(ToolCallId("c1"), "read", {}, "S5"),
        ),
        "a",
        "p",
        "m",
        timestamp=1,
    )


@pytest.mark.case("P29")
@pytest.mark.parametrize("reader", [Reader("q", "a", "m"), Reader("p", "b", "m"), Reader("p", "a", "n")])
def test_another_model_gets_no_signature_and_no_hidden_thinking(reader: Reader) -> None:
    world = World([user("u1", None), assistant("a1", "u1", *SIGNED), result("r1", "a1", "c1")])
    sent = world.sent("r1", reader)
    assert isinstance(sent[1], AssistantMessage)
    assert sent[1].content == (ThinkingBlock("why"), TextBlock("says"), ToolCall(ToolCallId("c1"), "read", {}))
    assert b"S1" not in msgspec.json.encode(sent)
    assert violations(sent) == []


def test_a_reply_of_which_nothing_is_left_for_another_model_is_left_out() -> None:
    hidden = {"type": "thinking", "thinking": "x", "thinkingSignature": "S", "redacted": True}
    world = World([user("u1", None), assistant("a1", "u1", hidden), user("u2", "a1")])
    assert told(world.sent("u2", Reader("q", "a", "m"))) == ["u1", "u2"]
    assert len(world.sent("u2")) == 3


def test_images_are_replaced_where_the_model_takes_none_in_results_too() -> None:
    image = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    answer = result("r1", "a1", "c1")
    answer["message"]["content"].append(image)
    world = World([user("u1", None, [image]), assistant("a1", "u1", call("c1")), answer])
    seen, blind = world.sent("r1"), world.sent("r1", Reader("p", "a", "m", accepts_images=False))
    assert [seen[0].content, seen[2].content] == [
        (ImageBlock("QUJD", "image/png"),),
        (TextBlock("r1"), ImageBlock("QUJD", "image/png")),
    ]
    assert [blind[0].content, blind[2].content] == [
        (TextBlock(IMAGE_LEFT_OUT),),
        (TextBlock("r1"), TextBlock(IMAGE_LEFT_OUT)),
    ]


def test_details_are_never_sent() -> None:
    answer = result("r1", "a1", "c1")
    answer["message"]["details"] = {"secret": 1}
    world = World([user("u1", None), assistant("a1", "u1", call("c1")), answer])
    assert b"secret" not in msgspec.json.encode(world.sent("r1"))


# --- any history ---------------------------------------------------------------------------------


@st.composite
def histories(draw: st.DrawFn) -> World:
    """Trees of users, replies with calls (ids reused, failed and empty replies too), results anywhere, compactions."""
    lines: list[Fields] = []
    for number in range(draw(st.integers(1, 20))):
        entry_id = f"{number:08x}"
        recent = st.integers(max(-1, number - 3), number - 1)
        parent_at = draw(recent)
        parent = None if parent_at < 0 else f"{parent_at:08x}"
        kind = draw(st.sampled_from("uaarrrk"))
        calls = draw(st.lists(st.sampled_from(["c1", "c2", "c3", "c4"]), unique=True, max_size=3))
        if kind == "u":
            lines.append(user(entry_id, parent))
        elif kind == "a":
            stop = draw(st.sampled_from(["toolUse", "stop", "aborted", "error"]))
            lines.append(assistant(entry_id, parent, "text", *map(call, calls), stopReason=stop))
        elif kind == "r":
            lines.append(result(entry_id, parent, draw(st.sampled_from(["c1", "c2", "c3", "c4"]))))
        else:
            lines.append(compaction(entry_id, parent, f"{draw(st.integers(0, number)):08x}"))
    return World(lines)


@given(histories())
def test_on_every_leaf_of_any_tree_a_strict_provider_accepts_what_is_sent(world: World) -> None:
    for entry_id in world.index.ids:
        first = world.sent(entry_id)
        assert violations(first) == []
        assert msgspec.json.encode(world.sent(entry_id)) == msgspec.json.encode(first)
        assert violations(world.sent(entry_id, Reader("q", "b", "n"))) == []
    assert READER.accepts_images


def test_of_two_calls_with_one_id_in_a_reply_only_the_first_is_sent() -> None:
    world = World([user("u1", None), assistant("a1", "u1", "a1", call("c1"), call("c1")), result("r1", "a1", "c1")])
    sent = world.sent("r1")
    assert told(sent) == ["u1", "a1", "c1=r1"]
    assert violations(sent) == []


def test_a_request_never_begins_with_a_reply() -> None:
    world = World(
        [
            user("u1", None),
            assistant("a1", "u1", "a1", call("c1")),
            result("r1", "a1", "c1"),
            entry("context_edit", "e1", "r1", targetId="u1", replacement=None),
        ]
    )
    sent = world.sent("e1")
    assert told(sent) == [BEGINNING_GONE, "a1", "c1=r1"]
    assert violations(sent) == []
