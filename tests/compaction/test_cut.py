"""Where a context is cut, and that a call and its results stay together."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coppice.compaction.cut import Cut, Item, find_cut
from coppice.format.messages import (
    AssistantMessage,
    EntryId,
    Message,
    TextBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
)


def items(words: str) -> list[Item]:
    """``u`` a user message, ``a`` a reply, ``c2`` a reply with two calls, ``r`` the next result; each is 100 tokens."""
    made: list[Item] = []
    open_calls: list[ToolCallId] = []
    for at, word in enumerate(words.split()):
        match word[0]:
            case "u":
                message: Message = UserMessage(word)
            case "r":
                message = ToolResultMessage(open_calls.pop(0), "tool", (TextBlock("done"),))
            case "c":
                ids = [ToolCallId(f"call_{at}_{number}") for number in range(int(word[1:] or 1))]
                open_calls += ids
                message = AssistantMessage(tuple(ToolCall(call_id, "tool", {}) for call_id in ids))
            case _:
                message = AssistantMessage((TextBlock(word),))
        made.append(Item(EntryId(f"e{at}"), message, 100))
    return made


@pytest.mark.case("C35")
@pytest.mark.parametrize("keep", [100, 150, 200, 250, 300])
def test_a_cut_on_a_result_moves_to_the_reply_that_made_the_call(keep: int) -> None:
    assert find_cut(items("u1 a1 u2 c3 r r r"), keep) == Cut(3, 2)


@pytest.mark.case("C35")
def test_a_cut_between_parallel_results_takes_all_of_them_along() -> None:
    assert find_cut(items("u1 c2 r r a1 u2 a2"), 300) == Cut(4)
    assert find_cut(items("u1 c2 r r a1 u2 a2"), 350) == Cut(1)


@pytest.mark.case("C35")
@pytest.mark.parametrize("keep", [100, 200, 250, 300, 400])
def test_what_was_steered_between_a_call_and_its_last_result_is_no_place_for_a_cut(keep: int) -> None:
    cut = find_cut(items("u1 a1 c2 r u2 r"), keep)
    assert cut in (Cut(1), Cut(2))


def test_a_cut_at_a_user_message_splits_no_turn() -> None:
    assert find_cut(items("u1 a1 u2 a2"), 150) == Cut(2)


def test_a_small_context_is_cut_before_its_newest_user_message() -> None:
    assert find_cut(items("u1 a1 u2 a2"), 10_000) == Cut(2)


@pytest.mark.case("C37")
@pytest.mark.parametrize("words", ["", "u1", "u1 a1", "u1 c1 r a1"])
def test_where_all_is_recent_nothing_is_cut(words: str) -> None:
    assert find_cut(items(words), 10_000) is None


def test_one_huge_message_at_the_place_is_not_kept_where_others_come_after_it() -> None:
    """Ours: Pi keeps it, and the compaction is useless."""
    made = items("u1 a1 u2 a2")
    made[1] = Item(made[1].entry_id, made[1].message, 5_000)
    assert find_cut(made, 300) == Cut(2)


TURNS = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 3)).map(
        lambda turn: " ".join(["u", *([f"c{turn[0]}", *["r"] * turn[0]] if turn[0] else []) * turn[1], "a"])
    ),
    min_size=1,
    max_size=6,
).map(" ".join)


@pytest.mark.case("C35", "P17")
@given(TURNS, st.integers(1, 2_000))
def test_no_cut_parts_a_call_from_its_result(words: str, keep: int) -> None:
    made = items(words)
    cut = find_cut(made, keep)
    if cut is None:
        return
    assert 0 < cut.at < len(made)
    calls = {
        call.id
        for item in made[cut.at :]
        if isinstance(item.message, AssistantMessage)
        for call in item.message.content
        if isinstance(call, ToolCall)
    }
    results = {item.message.tool_call_id for item in made[cut.at :] if isinstance(item.message, ToolResultMessage)}
    assert results == calls
    newest = max(at for at, item in enumerate(made) if isinstance(item.message, UserMessage))
    assert cut.at <= newest or cut.turn_start == newest
