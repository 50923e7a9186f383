"""The token estimate: how it grows, what each kind of message costs, and how far it is from a real vocabulary."""

import base64
import json
import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from benchmarks import token_error
from coppice.compaction import characters
from coppice.compaction.estimate import (
    CALL_TOKENS,
    IMAGE_TOKENS,
    MESSAGE_TOKENS,
    WEIGHTS,
    estimate_encrypted,
    estimate_image,
    estimate_message,
    estimate_request,
    estimate_text,
)
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    Binding,
    BranchSummaryMessage,
    CompactionSummaryMessage,
    CustomMessage,
    ImageBlock,
    JsonObject,
    Message,
    OpaqueMessage,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UnknownBlock,
    UnknownMessage,
    UserMessage,
)
from coppice.providers.base import ToolSchema
from coppice.tree.pairing import BRANCH_OPENING, COMPACTION_OPENING, SUMMARY_CLOSING, bash_text

ENGLISH = "The leaf is a cursor into the tree; what the model sees is a function of the path. "
CHINESE = "叶子是树中的游标, 模型看到的内容是路径的函数。"
RUSSIAN = "Лист — это курсор в дереве, но модель видит функцию пути. "
CODE = "def context(self, path: Path) -> list[Message]:\n    return [entry.message for entry in path]\n\n"

TEXT = st.text(alphabet=st.characters(), max_size=60) | st.text(alphabet="aZ09 _.\n\tя的かカ한ب", max_size=60)
"""Any characters, half surrogates too, and mixtures in which runs and neighbours are frequent."""

TWO_MEGABYTES = base64.b64encode(random.Random(50).randbytes(2_000_000)).decode()


def call(**arguments: object) -> ToolCall:
    return ToolCall(ToolCallId("call-1"), "read", arguments)


def opaque(item: JsonObject) -> OpaqueMessage:
    return OpaqueMessage(item, Binding("openai", "openai-responses"))


# --- texts ---------------------------------------------------------------------------------------


def test_no_text_is_no_token_and_any_text_is_at_least_one() -> None:
    assert [estimate_text(text) for text in ("", " ", "a", "的", "\n")] == [0, 1, 1, 1, 1]


@given(TEXT, TEXT)
@example("0", "00")
@example("a", "A")
@example("\ud83d", "\ude00")
def test_text_that_is_appended_never_makes_an_estimate_smaller(text: str, more: str) -> None:
    assert estimate_text(text) <= estimate_text(text + more)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, RUSSIAN, CODE])
def test_two_texts_cost_within_three_percent_of_their_sum(text: str) -> None:
    one, other = text * 40, CODE * 40
    assert estimate_text(one + other) == pytest.approx(estimate_text(one) + estimate_text(other), rel=0.03)


@pytest.mark.parametrize("text", [ENGLISH, CHINESE, RUSSIAN, CODE])
def test_a_text_longer_than_a_slice_costs_what_its_parts_cost(text: str) -> None:
    times = 3 * characters.SLICE // len(text)
    assert estimate_text(text * times) == pytest.approx(estimate_text(text * 100) * times / 100, rel=0.01)


def test_languages_cost_what_they_cost_and_not_a_quarter_of_their_bytes() -> None:
    each = {text: estimate_text(text * 50) / len(text * 50) for text in (ENGLISH, RUSSIAN, CHINESE)}
    assert each[ENGLISH] < each[RUSSIAN] < each[CHINESE]
    assert 0.4 < each[CHINESE] < 1.2


def test_no_weight_is_negative_and_every_weight_has_its_measure() -> None:
    everything = "".join(map(chr, [*range(128), *range(128, 0x20000, 7)])) + ENGLISH + CHINESE + RUSSIAN + CODE
    assert [name for name, weight in WEIGHTS.items() if weight <= 0] == []
    assert set(WEIGHTS) - set(characters.measures(everything)) == set()


def test_a_huge_string_is_estimated_in_slices() -> None:
    assert estimate_text("x" * 30_000_000) > 30_000_000 / 8
    assert estimate_text("的" * 3_000_000) > 3_000_000 / 2


def test_half_characters_are_estimated_like_any_others() -> None:
    assert 0 < estimate_text("\ud800" * 100 + "text") < 1_000


# --- payloads ------------------------------------------------------------------------------------


@pytest.mark.case("C50")
def test_an_image_of_two_megabytes_costs_what_an_image_costs() -> None:
    image = ImageBlock(TWO_MEGABYTES, "image/png")
    small = ImageBlock("AAAA", "image/png")
    assert len(image.data) > 2_000_000
    assert estimate_image(image) == estimate_image(small) == IMAGE_TOKENS
    assert 1_200 <= estimate_message(UserMessage((image,))) <= 1_900


@pytest.mark.case("C50")
def test_an_image_inside_an_opaque_item_costs_what_an_image_costs() -> None:
    part = {"type": "input_image", "image_url": f"data:image/png;base64,{TWO_MEGABYTES}"}
    assert estimate_message(opaque({"type": "message", "content": [part]})) == pytest.approx(IMAGE_TOKENS, abs=20)


@pytest.mark.case("C51")
@pytest.mark.parametrize(
    ("length", "tokens"), [(0, 0), (866, 0), (867, 0), (872, 1), (10_000, 1_712), (1_000_000, 187_337)]
)
def test_an_encrypted_payload_costs_its_bytes_without_overhead_by_four(length: int, tokens: int) -> None:
    assert estimate_encrypted(length) == tokens == int(max(0.0, (length * 3 / 4 - 650) / 4))


@pytest.mark.case("C51")
def test_an_opaque_item_costs_its_encrypted_content() -> None:
    item = {"type": "compaction", "encrypted_content": "A" * 10_000}
    kind = estimate_text("compaction")
    assert estimate_message(opaque(item)) == 1_712 + kind + MESSAGE_TOKENS


@pytest.mark.case("C51")
def test_a_signature_costs_an_encrypted_payload_and_hides_no_thinking() -> None:
    signed = AssistantMessage((ThinkingBlock("So.", "A" * 10_000),))
    redacted = AssistantMessage((ThinkingBlock("", "A" * 10_000, True),))
    long_thought = AssistantMessage((ThinkingBlock(ENGLISH * 200, "A" * 1_000),))
    assert estimate_message(signed) == estimate_message(redacted) == 1_712 + MESSAGE_TOKENS
    assert estimate_message(long_thought) == estimate_text(ENGLISH * 200) + MESSAGE_TOKENS


def test_the_text_of_an_opaque_item_costs_what_text_costs_however_deep_it_stands() -> None:
    item: JsonObject = {"type": "compaction", "content": ENGLISH * 20}
    for _ in range(50_000):
        item = {"": [item]}
    assert estimate_message(opaque(item)) >= estimate_text(ENGLISH * 20)


# --- messages ------------------------------------------------------------------------------------

TOLD: dict[str, tuple[Message, str]] = {
    "a prompt": (UserMessage(ENGLISH), ENGLISH),
    "a prompt in blocks": (UserMessage((TextBlock(ENGLISH),)), ENGLISH),
    "an extension's message": (CustomMessage("note", ENGLISH), ENGLISH),
    "a reply": (AssistantMessage((TextBlock(ENGLISH),)), ENGLISH),
    "a command": (BashExecutionMessage("ls", "a\nb"), bash_text(BashExecutionMessage("ls", "a\nb"))),
    "a branch's summary": (BranchSummaryMessage(ENGLISH), BRANCH_OPENING + ENGLISH + SUMMARY_CLOSING),
    "a summary": (CompactionSummaryMessage(ENGLISH), COMPACTION_OPENING + ENGLISH + SUMMARY_CLOSING),
}


@pytest.mark.parametrize("kind", TOLD)
def test_a_message_costs_the_text_a_request_holds_of_it(kind: str) -> None:
    message, text = TOLD[kind]
    assert estimate_message(message) == estimate_text(text) + MESSAGE_TOKENS


def test_a_tool_call_costs_its_name_and_its_arguments_as_json() -> None:
    arguments = json.dumps({"path": "src/main.py"}, separators=(",", ":"))
    expected = CALL_TOKENS + estimate_text(f"read {arguments}") + MESSAGE_TOKENS
    assert estimate_message(AssistantMessage((call(path="src/main.py"),))) == expected


def test_a_tool_result_costs_its_content_and_not_its_details() -> None:
    plain = ToolResultMessage(ToolCallId("call-1"), "read", (TextBlock(CODE),))
    detailed = ToolResultMessage(ToolCallId("call-1"), "read", (TextBlock(CODE),), {"diff": CODE * 100})
    expected = CALL_TOKENS + estimate_text(CODE) + MESSAGE_TOKENS
    assert [estimate_message(plain), estimate_message(detailed)] == [expected, expected]


@pytest.mark.parametrize(
    "message",
    [
        SystemMessage(ENGLISH),
        UnknownMessage({"role": "other", "content": ENGLISH}),
        BashExecutionMessage("ls", "a", exclude_from_context=True),
        AssistantMessage((TextBlock(ENGLISH),), stop_reason="aborted"),
        AssistantMessage((TextBlock(ENGLISH),), stop_reason="error"),
        AssistantMessage(()),
        UserMessage((UnknownBlock({"type": "other", "text": ENGLISH}),)),
    ],
    ids=["Pi's prompt", "unknown role", "!!", "aborted", "failed", "empty", "unknown block"],
)
def test_what_no_request_holds_costs_nothing(message: Message) -> None:
    assert estimate_message(message) == 0


def test_half_characters_in_arguments_are_estimated() -> None:
    assert estimate_message(AssistantMessage((call(path="\ud800"),))) > 0


def test_a_request_costs_its_prompt_its_messages_and_its_tools() -> None:
    messages = (UserMessage(ENGLISH), AssistantMessage((TextBlock(CHINESE),)))
    tool = ToolSchema("read", "Read a file.", {"type": "object", "properties": {"path": {"type": "string"}}})
    bare = estimate_request("You are a coding agent.", messages, ())
    assert bare == estimate_text("You are a coding agent.") + sum(map(estimate_message, messages))
    assert bare < estimate_request("You are a coding agent.", messages, (tool,)) < bare + 60


# --- against a real vocabulary -------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:open_binary:DeprecationWarning")  # how bpe-openai reads its vocabulary
def test_the_estimate_is_within_its_bars_of_a_real_vocabulary_on_text_it_was_not_fitted_on() -> None:
    absent = token_error.missing()
    if absent:
        pytest.skip(f"{', '.join(absent)} not installed (the development packages)")
    errors = token_error.errors()
    bars = (token_error.TOTAL_BAR, token_error.CHUNK_BAR)
    over = {kind: error for kind, error in errors.items() if abs(error.total) > bars[0] or error.chunk > bars[1]}
    assert over == {}
    assert set(errors) == set(token_error.KINDS)
