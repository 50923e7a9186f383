"""OpenAI's endpoint (Codex's first form): what is sent, what of the answer is kept, and what does not fit."""

import json
from pathlib import Path

import pytest

from coppice.compaction.remote import REWRITTEN
from coppice.compaction.strategy import CompactionFailed
from coppice.format.entries import MessageEntry
from coppice.format.messages import ImageBlock, TextBlock, UserMessage
from tests.app.house import House
from tests.compaction.remote.stage import BLOB, calling, remote, returned, said, talking, user_item
from tests.compaction.stage import compactions, file_bytes, text
from tests.fakes.openai_server import Compaction, Message, Response

pytestmark = pytest.mark.anyio

V1 = ("openai-v1",)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


def message(role: str, said: str) -> dict[str, object]:
    return {"type": "message", "role": role, "content": [{"type": "output_text", "text": said}]}


FILTERED = (
    message("developer", "old permissions"),
    user_item("<environment_context>\n<cwd>/gone</cwd>\n</environment_context>"),
    user_item("U1 please"),
    message("assistant", "A1 in short"),
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "seen"},
    {"type": "future_item", "x": 1},
)


@pytest.mark.case("C25", "C33")
async def test_of_what_comes_back_messages_and_the_compaction_stay_and_the_rest_is_counted(house: House) -> None:
    async with talking(house, said("A1"), returned(*FILTERED), said("A2", 10), forms=V1) as talk:
        await talk.session.prompt("U1 please")
        await talk.session.compact()
        assert [list(item) for item in talk.replacement] == [["entry"], ["message"], ["item"]]
        prompt = talk.session.session.get_entry(talk.replacement[0]["entry"])
        assert isinstance(prompt, MessageEntry)
        assert isinstance(prompt.message, UserMessage)
        assert talk.replacement[1]["message"]["content"] == [{"type": "text", "text": "A1 in short"}]
        assert talk.details["droppedItems"] == {
            "developer": 1,
            "user": 1,
            "reasoning": 1,
            "function_call": 1,
            "function_call_output": 1,
            "future_item": 1,
        }
        await talk.session.prompt("U2")
        assert talk.sent() == ["U1", "A1", "C", "U2"]


@pytest.mark.case("C26")
async def test_the_endpoint_is_sent_the_conversation_and_no_prompt_for_a_summary(house: House) -> None:
    async with talking(house, said("A1"), returned(user_item("U1")), forms=V1) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        request = talk.server.requests[-1]
        assert request.path == "/v1/responses/compact"
        assert set(request.body) == {"model", "input", "instructions", "prompt_cache_key"} | (
            set(request.body) & {"reasoning", "text", "tools", "parallel_tool_calls"}
        )
        assert request.body["prompt_cache_key"] == talk.session.session.session_id
        assert talk.sent() == ["U1", "A1"]


async def test_an_image_that_was_sent_stays_by_reference_though_the_server_returns_text_only(house: House) -> None:
    async with talking(house, said("A1"), returned(user_item("U1 see")), forms=V1) as talk:
        await talk.session.prompt((TextBlock("U1 see"), ImageBlock("aGk=", "image/png")))
        await talk.session.compact()
        context = talk.session.messages
        assert isinstance(context[0], UserMessage)
        assert context[0].content == (TextBlock("U1 see"), ImageBlock("aGk=", "image/png"))
        assert "aGk=" not in json.dumps(talk.details)


async def test_what_a_person_said_stays_though_it_begins_like_a_wrapper(house: House) -> None:
    said_so = "# AGENTS.md instructions are what I want to talk about"
    async with talking(house, said("A1"), returned(user_item(said_so)), forms=V1) as talk:
        await talk.session.prompt(said_so)
        await talk.session.compact()
        assert [list(item) for item in talk.replacement] == [["entry"], ["item"]]


async def test_a_user_message_the_server_made_itself_is_held_as_text(house: House) -> None:
    async with talking(house, said("A1"), returned(user_item("U0 a warning"), user_item("U1")), forms=V1) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        assert [list(item) for item in talk.replacement] == [["message"], ["entry"], ["item"]]


HUGE = "x" * 500_000


def dump() -> str:
    """Dump."""
    return HUGE


def small() -> str:
    """Little."""
    return text("small", 300)


@pytest.mark.case("C27")
async def test_a_huge_output_is_left_out_of_the_request_though_an_assistant_item_follows(house: House) -> None:
    """Codex stops at the first item it cannot rewrite (openai/codex#18052); ours goes on past it."""
    settings = remote(8_000, auto=False)
    replies = (calling("c0", "small"), calling("c1", "dump"), said("A1", 3_000), returned(user_item("U1")))
    async with talking(house, *replies, forms=V1, settings=settings, tools=[dump, small]) as talk:
        await talk.session.prompt("U1")
        await talk.session.compact()
        assert talk.sent() == ["U1", "call", "out", "call", "out", "A1"]
        outputs = [item for item in talk.server.bodies[-1]["input"] if item.get("type") == "function_call_output"]
        assert [(item["call_id"], item["output"] == REWRITTEN) for item in outputs] == [("c0", False), ("c1", True)]
        results = [entry for entry in talk.session.session.entries() if HUGE[:1000] in repr(entry)]
        assert len(results) == 1


@pytest.mark.case("C27")
async def test_what_does_not_fit_without_its_outputs_is_an_error_before_anything_is_sent(house: House) -> None:
    async with talking(house, said("A1", 10), forms=V1, settings=remote(8_000, auto=False)) as talk:
        await talk.session.prompt(text("U1", 10_000))
        before = file_bytes(talk.session)
        with pytest.raises(CompactionFailed, match="does not fit the window of 8,000 tokens"):
            await talk.session.compact()
        assert (len(talk.server.requests), file_bytes(talk.session)) == (1, before)


async def test_an_answer_with_two_compactions_is_none(house: House) -> None:
    answer = Compaction(output=(user_item("U1"), BLOB, BLOB))
    async with talking(house, said("A1"), answer, forms=V1) as talk:
        await talk.session.prompt("U1")
        with pytest.raises(CompactionFailed, match="2 compaction items instead of one"):
            await talk.session.compact()
        assert compactions(talk.session) == []


async def test_instructions_are_refused_where_the_form_takes_none(house: House) -> None:
    async with talking(house, said("A1"), forms=V1) as talk:
        await talk.session.prompt("U1")
        with pytest.raises(CompactionFailed, match="takes no instructions"):
            await talk.session.compact("keep the names")
        assert len(talk.server.requests) == 1


@pytest.mark.case("C27")
async def test_what_does_not_fit_is_condensed_inline_where_that_is_set(house: House) -> None:
    settings = remote(8_000, auto=False, inline_fallback=True, reserve_tokens=1_000)
    replies = (said("A1", 10), said("A2", 10), Response(content=(Message(("S1 of it",)),)))
    async with talking(house, *replies, forms=V1, settings=settings) as talk:
        await talk.session.prompt(text("U1", 10_000))
        await talk.session.prompt("U2")
        await talk.session.compact()
        assert talk.details["strategy"] == "codex-inline"
        assert any("codex-inline is used instead" in notice for notice in house.notices())


async def test_declared_context_that_the_server_returns_is_kept_in_its_own_place_only(house: House) -> None:
    settings = remote(20_000)
    echo = (user_item("CONTEXT of a kind"), user_item("U1"))
    full = Response(content=calling("c1", "small").content, input_tokens=17_000)
    replies = (full, returned(*echo), said("A1", 3_000), returned(*echo), said("A2", 10))
    async with talking(house, *replies, forms=V1, settings=settings, tools=[small]) as talk:
        talk.session.session.append_custom_message_entry(
            "rules", "CONTEXT of a kind", display=False, details={"context": True}
        )
        await talk.session.prompt("U1")
        assert talk.sent() == ["CONTEXT", "U1", "C"]
        await talk.session.compact()
        assert talk.details["droppedContext"] == ["rules"]
        await talk.session.prompt("U2")
        assert talk.sent() == ["U1", "C", "U2"]


async def test_a_preview_counts_what_would_stay_and_asks_nobody(house: House) -> None:
    async with talking(house, said("A1"), said("A2"), forms=V1) as talk:
        await talk.session.prompt(text("U1", 300))
        await talk.session.prompt("U2")
        seen = talk.session.preview_compaction()
        assert (seen.strategy, seen.goes, seen.stays) == ("codex-remote", 2, 2)
        assert len(talk.server.requests) == 2
