"""Lines to values and back: every kind and role, what is unknown, what is missing, half characters, odd JSON."""

import json
import math
from typing import Any

import msgspec
import pytest

from coppice.format.codec import decode_entry, decode_json, decode_object, encode, encode_line, scrubbed
from coppice.format.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    ContextEditEntry,
    CustomEntry,
    CustomMessageEntry,
    DamagedEntry,
    Entry,
    Header,
    LabelEntry,
    MessageEntry,
    ModelChangeEntry,
    Replacement,
    SessionInfoEntry,
    ThinkingLevelChangeEntry,
    UnknownEntry,
    UsageEntry,
)
from coppice.format.heads import read_head
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    Cost,
    CustomMessage,
    EntryId,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    Usage,
    UserMessage,
)
from tests.session.build import STAMP, line

ID, PARENT = EntryId("aaaaaaaa"), EntryId("bbbbbbbb")
USAGE = Usage(1, 2, 3, 4, 10, Cost(0.1, 0.2, 0.3, 0.4, 1.0))
USAGE_JSON = {
    "input": 1,
    "output": 2,
    "cacheRead": 3,
    "cacheWrite": 4,
    "totalTokens": 10,
    "cost": {"input": 0.1, "output": 0.2, "cacheRead": 0.3, "cacheWrite": 0.4, "total": 1.0},
}


def entry_json(kind: str, /, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": ID, "parentId": PARENT, "timestamp": STAMP} | fields


ENTRIES: list[tuple[Any, dict[str, Any]]] = [
    (
        CustomMessageEntry(ID, PARENT, STAMP, "x", "hi", True, {"a": [1, None]}),
        entry_json("custom_message", customType="x", content="hi", display=True, details={"a": [1, None]}),
    ),
    (
        CompactionEntry(ID, PARENT, STAMP, "sum", PARENT, 12, {"d": 1}, USAGE, True, {"role": "system"}),
        entry_json(
            "compaction",
            summary="sum",
            firstKeptEntryId=PARENT,
            tokensBefore=12,
            details={"d": 1},
            usage=USAGE_JSON,
            fromHook=True,
            systemMessage={"role": "system"},
        ),
    ),
    (
        BranchSummaryEntry(ID, PARENT, STAMP, "root", "sum", {"d": 1}, USAGE, False),
        entry_json("branch_summary", fromId="root", summary="sum", details={"d": 1}, usage=USAGE_JSON, fromHook=False),
    ),
    (
        ContextEditEntry(ID, PARENT, STAMP, PARENT, None),
        entry_json("context_edit", targetId=PARENT, replacement=None),
    ),
    (
        ContextEditEntry(ID, PARENT, STAMP, PARENT, Replacement((TextBlock("new"),))),
        entry_json("context_edit", targetId=PARENT, replacement={"content": [{"type": "text", "text": "new"}]}),
    ),
    (
        ModelChangeEntry(ID, PARENT, STAMP, "p", "m"),
        entry_json("model_change", provider="p", modelId="m"),
    ),
    (
        ThinkingLevelChangeEntry(ID, PARENT, STAMP, "beyond"),
        entry_json("thinking_level_change", thinkingLevel="beyond"),
    ),
    (
        UsageEntry(ID, PARENT, STAMP, "warm", "p", "m", USAGE),
        entry_json("usage", kind="warm", provider="p", model="m", usage=USAGE_JSON),
    ),
    (CustomEntry(ID, PARENT, STAMP, "x"), entry_json("custom", customType="x")),
    (CustomEntry(ID, PARENT, STAMP, "x", [1, "b"]), entry_json("custom", customType="x", data=[1, "b"])),
    (LabelEntry(ID, PARENT, STAMP, PARENT), entry_json("label", targetId=PARENT)),
    (LabelEntry(ID, PARENT, STAMP, PARENT, "l"), entry_json("label", targetId=PARENT, label="l")),
    (SessionInfoEntry(ID, PARENT, STAMP, "name"), entry_json("session_info", name="name")),
]

MESSAGES: list[tuple[Message, dict[str, Any]]] = [
    (UserMessage("hi", 5), {"role": "user", "content": "hi", "timestamp": 5}),
    (
        UserMessage((TextBlock("a"), ImageBlock("QUJD", "image/png")), 5),
        {
            "role": "user",
            "content": [{"type": "text", "text": "a"}, {"type": "image", "data": "QUJD", "mimeType": "image/png"}],
            "timestamp": 5,
        },
    ),
    (
        AssistantMessage(
            (
                TextBlock("t", "sig"),
                ThinkingBlock("why", "tsig", True),
                ToolCall(ToolCallId("c1"), "bash", {"command": "ls"}, "csig"),
            ),
            "api",
            "prov",
            "model",
            USAGE,
            "toolUse",
            "oh",
            "resp",
            "high",
            5,
        ),
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "t", "textSignature": "sig"},
                {"type": "thinking", "thinking": "why", "thinkingSignature": "tsig", "redacted": True},
                {
                    "type": "toolCall",
                    "id": "c1",
                    "name": "bash",
                    "arguments": {"command": "ls"},
                    "thoughtSignature": "csig",
                },
            ],
            "api": "api",
            "provider": "prov",
            "model": "model",
            "usage": USAGE_JSON,
            "stopReason": "toolUse",
            "errorMessage": "oh",
            "responseId": "resp",
            "thinkingLevel": "high",
            "timestamp": 5,
        },
    ),
    (
        ToolResultMessage(ToolCallId("c1"), "bash", (TextBlock("out"),), {"code": 0}, True, 5),
        {
            "role": "toolResult",
            "toolCallId": "c1",
            "toolName": "bash",
            "content": [{"type": "text", "text": "out"}],
            "details": {"code": 0},
            "isError": True,
            "timestamp": 5,
        },
    ),
    (
        BashExecutionMessage("ls", "out", 1, True, True, "/tmp/f", True, 5),
        {
            "role": "bashExecution",
            "command": "ls",
            "output": "out",
            "exitCode": 1,
            "cancelled": True,
            "truncated": True,
            "fullOutputPath": "/tmp/f",
            "excludeFromContext": True,
            "timestamp": 5,
        },
    ),
    (
        CustomMessage("x", "hi", True, {"a": 1}, 5),
        {"role": "custom", "customType": "x", "content": "hi", "display": True, "details": {"a": 1}, "timestamp": 5},
    ),
    (
        BranchSummaryMessage("sum", "root", 5),
        {"role": "branchSummary", "summary": "sum", "fromId": "root", "timestamp": 5},
    ),
    (
        CompactionSummaryMessage("sum", 9, 5),
        {"role": "compactionSummary", "summary": "sum", "tokensBefore": 9, "timestamp": 5},
    ),
]


@pytest.mark.parametrize(("value", "fields"), ENTRIES, ids=lambda value: type(value).__name__)
def test_every_kind_of_entry_is_written_and_read_whole(value: Any, fields: dict[str, Any]) -> None:
    assert json.loads(encode_line(value)) == fields
    assert decode_entry(line(fields), ID, PARENT).entry == value


@pytest.mark.parametrize(("value", "fields"), MESSAGES, ids=lambda value: type(value).__name__)
def test_every_role_is_written_and_read_whole(value: Message, fields: dict[str, Any]) -> None:
    made = MessageEntry(ID, PARENT, STAMP, value)
    stored = entry_json("message", message=fields)
    assert json.loads(encode_line(made)) == stored
    assert decode_entry(line(stored), ID, PARENT).entry == made


def test_a_system_message_is_read_with_its_content() -> None:
    fields = {"role": "system", "content": "be good", "sections": {"a": None}, "toolsAdded": ["x"], "timestamp": 5}
    found = decode_entry(line(entry_json("message", message=fields)), ID, PARENT).entry
    assert found == MessageEntry(ID, PARENT, STAMP, SystemMessage("be good", 5))


def test_lines_are_written_in_the_order_of_keys_that_heads_read_fast() -> None:
    made = MessageEntry(ID, None, STAMP, UserMessage("hi", 5))
    assert encode_line(made) == (
        b'{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"2026-01-02T03:04:05.678Z",'
        b'"message":{"role":"user","content":"hi","timestamp":5}}\n'
    )


def test_a_header_names_its_parent_only_where_it_has_one() -> None:
    plain = Header(3, "i", STAMP, "/w")
    assert json.loads(encode_line(plain)) == {
        "type": "session",
        "version": 3,
        "id": "i",
        "timestamp": STAMP,
        "cwd": "/w",
    }
    forked = Header(3, "i", STAMP, "/w", "/p")
    assert json.loads(encode_line(forked))["parentSession"] == "/p"


# --- what is unknown or missing ------------------------------------------------------------------


def test_unknown_kinds_roles_and_blocks_are_kept_whole() -> None:
    odd = entry_json("from_the_future", deep={"a": [1, {"b": None}]})
    assert decode_entry(line(odd), ID, PARENT).entry == UnknownEntry("from_the_future", ID, PARENT, STAMP, odd)
    role = {"role": "oracle", "words": ["x"]}
    found = decode_entry(line(entry_json("message", message=role)), ID, PARENT).entry
    assert found == MessageEntry(ID, PARENT, STAMP, UnknownMessage(role))
    block = {"type": "audio", "data": "x", "n": 1}
    user = {"role": "user", "content": [{"type": "text", "text": "a"}, block], "timestamp": 5}
    found = decode_entry(line(entry_json("message", message=user)), ID, PARENT).entry
    assert found == MessageEntry(ID, PARENT, STAMP, UserMessage((TextBlock("a"), UnknownBlock(block)), 5))


def test_unknown_fields_at_any_depth_do_not_disturb_a_known_kind() -> None:
    fields = {"role": "user", "content": [{"type": "text", "text": "a", "zz": 1}], "timestamp": 5, "yy": {}}
    found = decode_entry(line(entry_json("message", message=fields, xx=[])), ID, PARENT).entry
    assert found == MessageEntry(ID, PARENT, STAMP, UserMessage((TextBlock("a"),), 5))


@pytest.mark.parametrize("content", [{}, {"content": None}], ids=["missing", "null"])
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"role": "user", "timestamp": 5}, UserMessage((), 5)),
        ({"role": "assistant", "timestamp": 5}, AssistantMessage((), timestamp=5)),
        (
            {"role": "toolResult", "toolCallId": "c", "toolName": "t", "timestamp": 5},
            ToolResultMessage(ToolCallId("c"), "t", (), timestamp=5),
        ),
        ({"role": "system", "timestamp": 5}, SystemMessage("", 5)),
        ({"role": "custom", "customType": "x", "timestamp": 5}, CustomMessage("x", (), timestamp=5)),
    ],
    ids=lambda value: value["role"] if isinstance(value, dict) else "",
)
def test_missing_or_null_content_reads_as_no_blocks(
    content: dict[str, Any], fields: dict[str, Any], expected: Message
) -> None:
    found = decode_entry(line(entry_json("message", message=fields | content)), ID, PARENT).entry
    assert found == MessageEntry(ID, PARENT, STAMP, expected)


def test_a_text_where_a_reply_has_blocks_reads_as_one_text_block() -> None:
    fields = {"role": "assistant", "content": "plain", "timestamp": 5}
    found = decode_entry(line(entry_json("message", message=fields)), ID, PARENT).entry
    assert found == MessageEntry(ID, PARENT, STAMP, AssistantMessage((TextBlock("plain"),), timestamp=5))


@pytest.mark.parametrize("value", [None, 3, True, "x", [1], {"a": 1}, [None], [{"type": 1}]], ids=repr)
@pytest.mark.parametrize("kind", ["message", *(fields["type"] for _, fields in ENTRIES)])
def test_whatever_json_stands_in_a_field_the_entry_is_read(kind: str, value: Any) -> None:
    names = "message content customType display details summary firstKeptEntryId tokensBefore usage fromHook fromId"
    names += " systemMessage targetId replacement provider modelId thinkingLevel kind model data label name timestamp"
    found = decode_entry(line(entry_json(kind) | dict.fromkeys(names.split(), value)), ID, PARENT).entry
    assert (found.id, found.parent_id) == (ID, PARENT)
    assert not isinstance(found, DamagedEntry)


# --- text ----------------------------------------------------------------------------------------

HALVES = [
    ("\ud800", "\ufffd"),
    ("\udc00", "\ufffd"),
    ("\udc00\ud800", "\ufffd\ufffd"),
    ("\ud83d\ude00", "\U0001f600"),
    ("\ud800\ud83d\ude00\udc00", "\ufffd\U0001f600\ufffd"),
]


@pytest.mark.case("P25")
@pytest.mark.parametrize(("half", "whole"), HALVES, ids=ascii)
def test_half_characters_become_ufffd_and_the_text_around_them_stays(half: str, whole: str) -> None:
    made = MessageEntry(
        ID, None, STAMP, ToolResultMessage(ToolCallId("c"), "t", (TextBlock(f"ä{half}z"),), {half: half})
    )
    stored = encode_line(made)
    text = json.loads(stored.decode("utf-8"))["message"]
    assert text["content"] == [{"type": "text", "text": f"ä{whole}z"}]
    assert text["details"] == {whole: whole}


@pytest.mark.case("P25")
@pytest.mark.parametrize(("half", "whole"), HALVES, ids=ascii)
def test_an_old_line_with_escaped_half_characters_reads_as_ufffd(half: str, whole: str) -> None:
    escaped = json.dumps(
        entry_json("message", message={"role": "user", "content": f"ä{half}z", "timestamp": 5})
    ).encode()
    found = decode_entry(escaped, ID, PARENT).entry
    assert found == MessageEntry(ID, PARENT, STAMP, UserMessage(f"ä{whole}z", 5))
    encode(found).decode("utf-8")


@pytest.mark.parametrize(
    "separator", ["\u2028", "\u2029", "\x85", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\n"], ids=ascii
)
def test_only_a_newline_byte_ends_a_line_every_other_separator_is_text(separator: str) -> None:
    made = MessageEntry(ID, PARENT, STAMP, UserMessage(f"a{separator}b", 5))
    stored = encode_line(made)
    assert stored.count(b"\n") == 1
    assert decode_entry(stored, ID, PARENT).entry == made
    raw = line(entry_json("message", message={"role": "user", "content": f"a{separator}b", "timestamp": 5}))
    assert decode_entry(raw, ID, PARENT).entry == made


def test_invalid_utf_8_reads_as_ufffd_and_is_reported() -> None:
    raw = line(entry_json("message", message={"role": "user", "content": "caf?", "timestamp": 5})).replace(
        b"?", b"\xe9"
    )
    entry, replaced = decode_entry(raw, ID, PARENT)
    assert (entry, replaced) == (MessageEntry(ID, PARENT, STAMP, UserMessage("caf\ufffd", 5)), True)


# --- odd JSON ------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_what_only_python_calls_json_is_refused(constant: str) -> None:
    raw = line(entry_json("custom", customType="x", data="?")).replace(b'"?"', constant.encode())
    with pytest.raises(ValueError):
        decode_json(raw)
    assert decode_entry(raw, ID, PARENT).entry == DamagedEntry(ID, PARENT)
    assert read_head(raw) is None


def test_a_nan_of_ours_is_written_as_null() -> None:
    assert encode({"a": math.nan, "b": [math.inf]}) == b'{"a":null,"b":[null]}'


def test_big_integers_and_long_fractions_keep_their_value() -> None:
    big = 2**200 + 1
    raw = line(entry_json("custom", customType="x", data=[big, -big, 0.1]))
    assert decode_entry(raw, ID, PARENT).entry == CustomEntry(ID, PARENT, STAMP, "x", [big, -big, 0.1])


@pytest.mark.parametrize("text", ["1", "[]", '"x"', "null", "", "  "])
def test_a_line_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        decode_object(text.encode())


DEEP = {
    "after": '{"type":"custom","customType":"x","data":%s,"id":"aaaaaaaa","parentId":null,"timestamp":"t"}',
    "half": '{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"t",'
    '"message":{"role":"user","content":"\\ud800","x":%s}}',
    "null": '{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"t",'
    '"message":{"role":"toolResult","toolCallId":"c","toolName":"t","content":null,"details":%s}}',
}


@pytest.mark.parametrize("shape", DEEP)
def test_no_depth_of_nesting_raises_anything(shape: str) -> None:
    for depth in [*range(300, 1100), 5000, 200_000]:
        raw = (DEEP[shape] % ("[" * depth + "]" * depth)).encode()
        read_head(raw)
        found: Entry = decode_entry(raw, ID, None).entry
        assert found.id == ID


def test_a_deep_value_with_half_characters_can_be_stored() -> None:
    deep: Any = "\ud800"
    for _ in range(800):
        deep = [deep]
    assert encode(CustomEntry(ID, None, STAMP, "x", deep)).count("\ufffd".encode()) == 1


def test_scrubbing_changes_nothing_of_the_value_it_is_given() -> None:
    given = {"a": ["\ud800", {"\udc00": (1, None, 2.5, True)}]}
    assert scrubbed(given) == {"a": ["\ufffd", {"\ufffd": [1, None, 2.5, True]}]}
    assert given == {"a": ["\ud800", {"\udc00": (1, None, 2.5, True)}]}


def test_a_line_is_read_under_the_id_and_parent_that_the_tree_gives_it() -> None:
    raw = line(entry_json("label", targetId=PARENT, label="l"))
    other = EntryId("cccccccc")
    assert decode_entry(raw, other, None).entry == LabelEntry(other, None, STAMP, PARENT, "l")


def test_structs_are_frozen() -> None:
    with pytest.raises(AttributeError):
        MessageEntry(ID, None, STAMP, UserMessage("x")).id = PARENT  # type: ignore[misc]
    assert msgspec.structs.replace(TextBlock("a"), text="b") == TextBlock("b")
