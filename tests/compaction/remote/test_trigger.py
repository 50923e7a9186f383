"""OpenAI's trigger (Codex's second form): its request, its failures, and which user messages stay beside the blob."""

import json
from pathlib import Path

import pytest

from coppice.compaction.estimate import IMAGE_TOKENS
from coppice.compaction.strategy import CompactionFailed
from coppice.errors import CoppiceError
from coppice.format.events import SummarizationRetryScheduled
from coppice.format.messages import ImageBlock, TextBlock, UserMessage, text_of
from tests.app.house import House
from tests.compaction.remote.stage import BLOB, Reply, Talk, blob, calling, going_on, kinds_of, remote, said, talking
from tests.compaction.stage import compactions, file_bytes, kinds, text
from tests.fakes.openai_server import Message, Raw, Response, error_body

pytestmark = pytest.mark.anyio

IMAGE = ImageBlock("aGVsbG8=" * 100, "image/png")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


def kept(talk: Talk) -> list[str]:
    """The user messages that stand beside the blob, as their first words and the number of their images."""
    found = [message for message in talk.session.messages if isinstance(message, UserMessage)]
    return [
        f"{text_of(message.content)[:2]}{'+image' * repr(message.content).count('ImageBlock')}" for message in found
    ]


@pytest.mark.case("C28", "C60")
async def test_the_request_is_the_next_turns_request_with_a_trigger_at_its_end(house: House) -> None:
    async with talking(house, said("A1"), said("A2"), blob(), said("A3", 10)) as talk:
        await talk.session.prompt("U1")
        await talk.session.prompt("U2")
        await talk.session.compact()
        turn, asked = talk.server.bodies[1], talk.server.bodies[2]
        assert talk.sent() == ["U1", "A1", "U2", "A2", "trigger"]
        assert asked["input"][: len(turn["input"])] == turn["input"]
        assert {name: value for name, value in asked.items() if name != "input"} == {
            name: value for name, value in turn.items() if name != "input"
        }
        await talk.session.prompt("U3")
        assert talk.sent() == ["U1", "U2", "C", "U3"]
        assert json.dumps(talk.server.bodies[-1]["input"][2]) == json.dumps(BLOB)


FATAL: list[tuple[Reply, str]] = [
    (Response(content=(Message(("Sorry.",)),)), "holds no compaction"),
    (Response(content=(Raw(BLOB), Raw(BLOB | {"id": "cmp_2"}))), "holds 2 compactions"),
]


@pytest.mark.case("C28")
@pytest.mark.parametrize(("answer", "why"), FATAL)
async def test_no_compaction_or_two_fail_at_once_and_change_nothing(house: House, answer: Reply, why: str) -> None:
    async with talking(house, said("A1"), answer) as talk:
        await talk.session.prompt("U1")
        before = file_bytes(talk.session)
        with pytest.raises(CoppiceError, match=why):
            await talk.session.compact()
        assert (len(talk.server.requests), file_bytes(talk.session)) == (2, before)


@pytest.mark.case("C28")
async def test_a_stream_that_is_not_completed_is_asked_for_at_most_twice_again(house: House) -> None:
    cut = blob(events=4)
    async with talking(house, said("A1"), cut, cut, cut) as talk:
        await talk.session.prompt("U1")
        before = file_bytes(talk.session)
        with pytest.raises(CoppiceError, match="incomplete"):
            await talk.session.compact()
        assert (len(talk.server.requests), file_bytes(talk.session)) == (4, before)
    retries = [event for event in house.heard if isinstance(event, SummarizationRetryScheduled)]
    assert [(retry.attempt, retry.max_attempts) for retry in retries] == [(1, 2), (2, 2)]
    assert all(abs(retry.delay_ms - due) <= due // 10 for retry, due in zip(retries, (200, 400), strict=True))


@pytest.mark.case("C28")
async def test_a_stream_that_is_completed_at_the_second_try_makes_one_compaction(house: House) -> None:
    async with talking(house, said("A1"), blob(events=4), blob()) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        assert kinds(talk.session) == ["user", "assistant", "compaction"]


@pytest.mark.case("C28", "C33")
async def test_other_items_beside_the_compaction_are_dropped_and_counted(house: House) -> None:
    answer = Response(content=(Message(("I have compacted.",), id="msg_7"), Raw({"type": "future_item"}), Raw(BLOB)))
    async with talking(house, said("A1"), answer) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        assert kinds_of(talk.replacement) == ["entry", "item"]
        assert talk.details["droppedItems"] == {"assistant": 1, "future_item": 1}


@pytest.mark.case("C33")
async def test_a_compaction_under_its_first_name_is_kept_and_replayed_as_it_came(house: House) -> None:
    first = {"type": "context_compaction", "encrypted_content": "gAAA"}
    async with talking(house, said("A1"), blob(first), said("A2", 10)) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        await talk.session.prompt("U2")
        assert talk.server.bodies[-1]["input"][1] == first


@pytest.mark.case("C29")
async def test_64000_tokens_of_user_messages_stay_the_oldest_cut_in_its_middle_and_the_blob_last(house: House) -> None:
    replies = (said("A1", 3_000), said("A2", 3_000), blob(), said("A3", 10))
    async with talking(house, *replies, settings=remote(1_000_000)) as talk:
        await talk.session.prompt(text("U0", 5_000))
        talk.session.session.append_message(UserMessage(text("U1", 50_000)))
        await talk.session.prompt(text("U2", 30_000))
        await talk.session.compact()
        assert kinds_of(talk.replacement) == ["message/of", "entry", "item"]
        cut = talk.replacement[0]["message"]["content"]
        assert cut.startswith("U1")
        assert "tokens truncated" in cut
        assert 32_000 < talk.details["tokensAfter"] - 30_000 < 34_100
        await talk.session.prompt("U3")
        assert talk.sent() == ["U1", "U2", "C", "U3"]


@pytest.mark.case("C29")
async def test_an_earlier_blob_is_sent_and_not_kept(house: House) -> None:
    second = BLOB | {"id": "cmp_2", "encrypted_content": "gAAAtwo"}
    async with talking(house, said("A1"), blob(), said("A2"), blob(second), said("A3", 10)) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        await talk.session.prompt("U2")
        await talk.session.compact()
        assert talk.sent() == ["U1", "C", "U2", "A2", "trigger"]
        await talk.session.prompt("U3")
        assert talk.sent() == ["U1", "U2", "C", "U3"]
        assert [item for item in talk.replacement if "item" in item] == [{"item": second}]


@pytest.mark.case("C29")
async def test_a_message_over_the_budget_keeps_its_parts_in_order_and_its_image_where_it_lies(house: House) -> None:
    """The cut message refers to the stored one for its image: no image is copied into the compaction."""
    budget = IMAGE_TOKENS + 600
    settings = remote(remote_user_tokens=budget)
    parts = (TextBlock(text("U1", 300)), IMAGE, TextBlock(text("more", 2_000)), TextBlock("last"))
    async with talking(house, said("A1"), blob(), said("A2"), blob(), settings=settings) as talk:
        await talk.session.prompt(parts)
        await talk.session.compact()
        (message,) = [found for found in talk.session.messages if isinstance(found, UserMessage)]
        first, image, cut = message.content
        assert (first, image) == parts[:2]
        assert isinstance(cut, TextBlock)
        assert cut.text.startswith("more")
        assert "tokens truncated" in cut.text
        assert IMAGE.data not in json.dumps(talk.details)
        talk.session.session.append_message(UserMessage(text("U2", 100)))
        talk.session.session.append_message(UserMessage("U3"))
        kept_before = talk.session.messages[0]
        await talk.session.prompt("U4")
        await talk.session.compact()
        assert isinstance(kept_before, UserMessage)
        assert IMAGE.data not in json.dumps(talk.details)
        again = talk.session.messages[0]
        assert isinstance(again, UserMessage)
        assert again.content[:2] == parts[:2]
        assert len(text_of(again.content)) < len(text_of(kept_before.content))


@pytest.mark.case("C29")
@pytest.mark.parametrize(
    ("budget", "stays"),
    [
        (2 * IMAGE_TOKENS, ["ol", "+image", "ne"]),
        (IMAGE_TOKENS + 10, ["+image", "ne"]),
        (IMAGE_TOKENS, ["ne"]),
        (30, ["ne"]),
    ],
)
async def test_an_image_is_charged_its_estimate(house: House, budget: int, stays: list[str]) -> None:
    """Codex charges an image nothing beyond 1 token for its message, so that many fill the window; ours is charged."""
    settings = remote(remote_user_tokens=budget)
    async with talking(house, said("A1", 6_000), blob(), settings=settings) as talk:
        talk.session.session.append_message(UserMessage("old"))
        talk.session.session.append_message(UserMessage((IMAGE,)))
        await talk.session.prompt("new")
        await talk.session.compact()
        assert kept(talk) == stays


def big() -> str:
    """Big."""
    return text("big", 6_000)


async def test_a_turn_goes_on_after_a_compaction_in_its_middle(house: House) -> None:
    settings = remote(20_000)
    full = calling("c1", "big")
    replies = (Response(content=full.content, input_tokens=14_900), blob(), said("A1", 10))
    async with talking(house, *replies, settings=settings, tools=[big]) as talk:
        await talk.session.prompt("U1")
        assert [talk.sent(number) for number in range(3)] == [
            ["U1"],
            ["U1", "call", "out", "trigger"],
            ["U1", "C"],
        ]
        assert talk.details["phase"] == "mid_turn"


@pytest.mark.case("C38")
async def test_what_is_sent_after_a_reopening_begins_with_what_was_sent_before_it(house: House) -> None:
    async with talking(house, said("A1"), blob(), said("A2", 10), said("A3", 10)) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        await talk.session.prompt("U2")
        before, context = talk.server.bodies[-1]["input"], talk.session.messages
        async with going_on(house, talk) as again:
            assert again.session.messages == context
            await again.session.prompt("U3")
            after = again.server.bodies[-1]["input"]
            assert json.dumps(after[: len(before)]) == json.dumps(before)
            assert again.sent() == ["U1", "C", "U2", "A2", "U3"]


async def test_a_compaction_is_due_by_itself_where_the_limit_is_reached(house: House) -> None:
    settings = remote(20_000)
    full = Response(content=said("A1").content, input_tokens=18_000)
    async with talking(house, full, blob(), said("A2", 10), settings=settings) as talk:
        await talk.session.prompt("U1")
        await talk.session.prompt("U2")
        assert [talk.sent(number) for number in (1, 2)] == [["U1", "A1", "trigger"], ["U1", "C", "U2"]]
        assert [entry.details["reason"] for entry in compactions(talk.session)] == ["threshold"]


@pytest.mark.case("C28")
async def test_a_conversation_that_is_too_large_is_not_asked_for_again(house: House) -> None:
    """There is no loop that drops the oldest in this form (Codex has none either)."""
    overflow = Response(status=400, error=error_body("too long", "context_length_exceeded"))
    async with talking(house, said("A1"), overflow) as talk:
        await talk.session.prompt("U1")
        before = file_bytes(talk.session)
        with pytest.raises(CompactionFailed, match="too large"):
            await talk.session.compact()
        assert (len(talk.server.requests), file_bytes(talk.session)) == (2, before)


@pytest.mark.case("C29")
async def test_huge_context_of_an_extension_takes_nothing_of_the_budget(house: House) -> None:
    async with talking(house, said("A1"), blob(), settings=remote(remote_user_tokens=100)) as talk:
        huge = text("CONTEXT", 5_000)
        talk.session.session.append_custom_message_entry("rules", huge, display=False, details={"context": True})
        await talk.session.prompt("U1")
        await talk.session.compact()
        assert kept(talk) == ["U1"]


async def test_an_edit_made_later_counts_for_a_message_of_which_parts_are_kept(house: House) -> None:
    parts = (TextBlock(text("U1", 300)), IMAGE, TextBlock(text("more", 2_000)))
    async with talking(house, said("A1"), blob(), settings=remote(remote_user_tokens=IMAGE_TOKENS + 600)) as talk:
        await talk.session.prompt(parts)
        await talk.session.compact()
        talk.session.session.append_context_edit(talk.replacement[0]["entry"], "U1 in short")
        assert [m.content for m in talk.session.messages if isinstance(m, UserMessage)] == ["U1 in short"]


async def test_an_edited_message_is_held_as_text_and_its_image_as_a_note(house: House) -> None:
    async with talking(house, said("A1"), blob()) as talk:
        await talk.session.prompt("U1")
        entry_id = next(entry.id for entry in talk.session.session.get_branch() if "U1" in repr(entry))
        talk.session.session.append_context_edit(entry_id, (TextBlock("U1 changed"), IMAGE))
        await talk.session.compact()
        assert kinds_of(talk.replacement) == ["message/of", "item"]
        assert "U1 changed" in json.dumps(talk.details)
        assert IMAGE.data not in json.dumps(talk.details)
        assert "image left out" in json.dumps(talk.details)
