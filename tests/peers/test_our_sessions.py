"""Files that coppice writes open in Pi with the same answer at every entry."""

from pathlib import Path

import pytest
from tests.peers.pi import Pi, compare, markers_of, our_answers

from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    EntryId,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.session.writer import Setup

pytestmark = pytest.mark.peers

LINE_SEPARATOR = "before\u2028after\u2029next\u0085last\rend"
HALF_CHARACTERS = "high \ud83d low \ude00 turned \ude00\ud83d pair \U0001f600"


@pytest.fixture
def session(tmp_path: Path) -> SessionManager:
    return SessionManager.create(tmp_path, setup=Setup(tmp_path / "home"))


def file_of(session: SessionManager) -> Path:
    assert session.session_file is not None
    return session.session_file


def reply(text: str, *calls: str) -> AssistantMessage:
    blocks = tuple(ToolCall(ToolCallId(call), "read", {"path": f"{call}.txt"}) for call in calls)
    return AssistantMessage(
        (ThinkingBlock("hm", "signature"), TextBlock(text), *blocks),
        api="anthropic-messages",
        provider="anthropic",
        model="some-model",
        usage=Usage(10, 20, 30, 40, 100),
        stop_reason="toolUse" if calls else "stop",
        timestamp=1764000000001,
    )


def result(call: str, text: str) -> ToolResultMessage:
    return ToolResultMessage(ToolCallId(call), "read", (TextBlock(text),), {"lines": 3}, False, 1764000000002)


def every_kind(session: SessionManager) -> dict[str, EntryId]:
    """Append one entry of every kind; what may be needed again, by name."""
    session.append_model_change("anthropic", "some-model")
    session.append_thinking_level_change("high")
    session.append_message(SystemMessage("be kind", 1764000000000))
    first = session.append_message(UserMessage("hello", 1764000000000))
    asked = session.append_message(reply("looking", "c1", "c2"))
    session.append_message(result("c1", LINE_SEPARATOR))
    second = session.append_message(result("c2", HALF_CHARACTERS))
    picture = (TextBlock("look"), ImageBlock("QUJD", "image/png"))
    session.append_message(UserMessage(picture, 1764000000003))
    session.append_message(BashExecutionMessage("ls", "a\nb", 0, timestamp=1764000000004))
    session.append_message(BashExecutionMessage("pwd", "/x", exclude_from_context=True, timestamp=1764000000005))
    session.append_message(CustomMessage("note", "from an extension", True, {"n": 1}, 1764000000006))
    custom = session.append_custom_message_entry("rule", "said so", display=False, details={"why": None})
    session.append_custom_entry("state", {"deep": [1, 2.5, None, {"\u2028": "é"}]})
    session.append_usage("warm-up", "anthropic", "some-model", Usage(1, 2, 3, 4, 10))
    session.append_label_change(first, "start")
    session.append_label_change(asked, "question \u2028 中")
    session.append_session_info("  the name  ")
    last = session.append_message(reply("done"))
    return {"first": first, "asked": asked, "second": second, "custom": custom, "last": last}


def test_a_session_with_every_kind_of_entry_is_the_same_in_pi(pi: Pi, session: SessionManager) -> None:
    every_kind(session)
    session.close()
    assert compare(pi, file_of(session), "--all") == len(session.index) + 2


def test_moves_with_markers_summaries_and_roots_are_the_same_in_pi(pi: Pi, session: SessionManager) -> None:
    ids = every_kind(session)
    session.branch(ids["second"])
    session.append_message(UserMessage("another way", 1764000000007))
    session.branch_with_summary(ids["asked"], "what was tried", details={"readFiles": ["a"]})
    session.append_message(UserMessage("and on", 1764000000008))
    session.branch_with_summary(None, "")
    session.append_message(UserMessage("a second root", 1764000000009))
    session.reset_leaf()
    session.append_message(UserMessage("a third root", 1764000000010))
    session.append_label_change(ids["first"], None)
    session.append_session_info("")
    session.branch(ids["custom"])
    session.close()
    file = file_of(session)
    assert len(markers_of(file)) == 3
    compare(pi, file, "--all")
    assert our_answers(file)[0]["leaf"] == ids["custom"]


def test_compactions_and_context_edits_are_the_same_in_pi(pi: Pi, session: SessionManager) -> None:
    ids = every_kind(session)
    session.append_context_edit(ids["first"], "said otherwise")
    session.append_context_edit(ids["second"], (TextBlock("cut"),))
    session.append_context_edit(ids["custom"], None)
    leaf = session.get_leaf_id()
    compacted = session.append_compaction(
        CompactionDraft("so far", ids["asked"], 1234, {"readFiles": []}, Usage(1, 2, 3, 4, 10), False), expect=leaf
    )
    session.append_message(UserMessage("after it", 1764000000011))
    session.append_context_edit(ids["asked"], "now")
    session.append_context_edit(compacted, None)
    nothing = session.append_compaction(CompactionDraft("nothing kept", None, 99), expect=session.get_leaf_id())
    session.append_message(UserMessage("and after that", 1764000000012))
    session.branch(compacted)
    session.append_compaction(CompactionDraft("", nothing, 5), expect=compacted)  # names what is not before it
    session.append_message(reply("end"))
    session.close()
    compare(pi, file_of(session), "--all")


def test_forks_and_clones_with_spliced_ids_are_the_same_in_pi(pi: Pi, session: SessionManager) -> None:
    ids = every_kind(session)
    label = session.append_label_change(ids["last"], "here")
    session.branch(label)
    session.append_message(UserMessage("child of a label", 1764000000013))
    session.append_compaction(CompactionDraft("keeps from a label", label, 7), expect=session.get_leaf_id())
    session.branch_with_summary(session.get_leaf_id(), "from here", details=None)
    session.append_message(UserMessage("end", 1764000000014))
    compare(pi, file_of(session), "--all")
    for place in (ids["second"], ids["last"], session.get_leaf_id()):
        copy = session.create_branched_session(place)
        copy.append_message(UserMessage("goes on", 1764000000015))
        copy.close()
        compare(pi, file_of(copy), "--all")
    session.close()
    setup = Setup(session.setup.home)
    clone = SessionManager.fork_from(file_of(session), session.cwd, setup=setup)
    clone.close()
    (theirs,), (ours,) = pi.answers(file_of(session)), our_answers(file_of(clone))
    assert ours["messages"] == theirs["messages"]
    compare(pi, file_of(clone), "--all")


def test_a_session_of_a_newer_version_that_was_gone_on_with_is_the_same_in_pi(
    pi: Pi, session: SessionManager, tmp_path: Path
) -> None:
    every_kind(session)
    session.close()
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(file_of(session).read_bytes().replace(b'"version":3', b'"version":4', 1))
    again = SessionManager.open(newer, setup=Setup(tmp_path / "home"))
    again.append_message(UserMessage("going on", 1764000000016))
    again.close()
    assert file_of(again) != newer
    compare(pi, file_of(again), "--all")


def test_a_version_2_session_that_was_gone_on_with_is_the_same_in_pi(pi: Pi, tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    old.write_text(
        '{"type":"session","version":2,"id":"two","timestamp":"2025-01-02T03:04:05.678Z","cwd":"/x"}\n'
        '{"type":"message","id":"0000000a","parentId":null,"timestamp":"2025-01-02T03:04:06.000Z",'
        '"message":{"role":"user","content":"hi","timestamp":1}}\n'
        '{"type":"message","id":"0000000b","parentId":"0000000a","timestamp":"2025-01-02T03:04:07.000Z",'
        '"message":{"role":"hookMessage","customType":"h","content":"hook","display":true,"timestamp":2}}\n'
    )
    compare(pi, old, "--all")
    session = SessionManager.open(old, setup=Setup(tmp_path / "home"))
    session.append_message(UserMessage("going on", 1764000000017))
    session.close()
    assert file_of(session) != old
    compare(pi, file_of(session), "--all")
