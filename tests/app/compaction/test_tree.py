"""Compactions in the tree: reopened, forked, rolled back, undone; what a replacement refers to."""

import json
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.compaction.strategy import NothingToCompact
from coppice.format.entries import CompactionEntry
from coppice.format.messages import (
    EntryId,
    ImageBlock,
    Message,
    TextBlock,
    UserMessage,
    is_object,
    text_of,
)
from coppice.providers.scripted import ScriptedModel, call, say
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.tree.replacement import LOST
from tests.agent.stage import reopened
from tests.app.house import House, leaf, path_file
from tests.compaction.stage import compacting, compactions, file_bytes, model_with, reply, shape, text

pytestmark = pytest.mark.anyio

SUMMARY = compacting(keep_recent_tokens=300)
INLINE = compacting(strategy="codex-inline")


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


def sent(session: AgentSession, number: int = -1) -> list[str]:
    model = session.agent.kit.model
    assert isinstance(model, ScriptedModel)
    return shape(model.requests[number].messages)


def context(session: SessionManager) -> list[Message]:
    return session.build_session_context().messages


def ids(session: AgentSession, role: str) -> list[EntryId]:
    """The path's messages of a role."""
    found = [entry for entry in session.session.get_branch() if getattr(entry, "message", None) is not None]
    return [entry.id for entry in found if entry.message.__struct_config__.tag == role]


# --- reopened and forked -------------------------------------------------------------------------


@pytest.mark.case("C38")
@pytest.mark.parametrize("settings", [SUMMARY, INLINE])
async def test_the_context_is_the_same_item_for_item_after_a_reopening(house: House, settings: object) -> None:
    model = model_with(200_000, reply("A1", 2000), reply("A2", 2000), say("S1"), say("A3"))
    async with house.enter(model=model, settings=settings) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        await session.prompt("U3")
        before, path = session.messages, path_file(session)
        request = model.requests[-1].messages
    again = model_with(200_000, say("A4"))
    async with house.enter(model=again, settings=settings, open_path=path) as session:
        assert session.messages == before
        await session.prompt("U4")
        assert again.requests[-1].messages[: len(request)] == request


@pytest.mark.case("C39")
async def test_a_fork_before_a_compaction_is_raw_and_one_after_it_is_condensed(house: House) -> None:
    model = model_with(
        200_000, reply("A1", 2000), reply("A2", 2000), say("S1"), say("A3"), say("raw"), say("S2"), reply("A9", 2000)
    )
    async with house.enter(model=model, settings=INLINE) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        before = leaf(session)
        await session.compact()
        await session.prompt("U3")
        parent, parent_bytes, parent_context = path_file(session), file_bytes(session), session.messages
        parent_id = session.session.session_id
        assert before is not None
        session.fork(before)
        await session.prompt("U4")
        assert sent(session) == ["U1", "A1", "U2", "A2", "U4"]
        assert model.requests[-1].cache_key == session.session.session_id != parent_id
        session.switch_session(parent)
        session.clone()
        assert session.messages == parent_context
        await session.compact()
        assert sent(session) == ["U1", "U2", "S1", "U3", "A3", "prompt"]
        assert parent.read_bytes() == parent_bytes
    with_parent = reopened(parent, house.home)
    assert tuple(context(with_parent)) == parent_context
    with_parent.close()


@pytest.mark.case("P14")
async def test_a_fork_and_a_clone_of_a_condensed_session_are_sent_as_it_is(house: House) -> None:
    replies = [reply(f"A{n}", 100, used=400) for n in range(20)]
    model = model_with(200_000, *replies, say("S1"), say("A20"), say("A21"))
    async with house.enter(model=model, settings=compacting(keep_recent_tokens=520)) as session:
        for n in range(20):
            await session.prompt(text(f"U{n}", 80))
        await session.compact()
        await session.prompt("U20")
        await session.prompt("U21")
        original, path = session.session.build_context(), path_file(session)
        kept = shape(session.session.request_messages(session.agent._parts().reader))
        assert kept == ["S1", "U17", "A17", "U18", "A18", "U19", "A19", "U20", "A20", "U21", "A21"]
        early, last = ids(session, "user")[5], leaf(session)
        assert last is not None
        sizes = [path.stat().st_size]
        for how in ("fork", "clone"):
            session.switch_session(path)
            session.fork(last) if how == "fork" else session.clone()
            copy = path_file(session)
            assert copy != path
            again = reopened(copy, house.home)
            assert again.build_context().pairs == original.pairs
            again.close()
            sizes.append(copy.stat().st_size)
        assert max(sizes[1:]) <= sizes[0] + len(str(path)) + 40  # the header names its parent
        session.switch_session(path)
        session.fork(early)
        assert sent_shape(session) == [f"{who}{n}" for n in range(5) for who in "UA"]


def sent_shape(session: AgentSession) -> list[str]:
    return shape(session.session.request_messages(session.agent._parts().reader))


IMAGE = ImageBlock("aGVsbG8" * 3000, "image/png")


async def test_a_compaction_holds_ids_and_no_images_and_a_fork_copies_each_image_once(house: House) -> None:
    async with condensed_remotely(house) as session:
        (entry,) = compactions(session)
        assert len(json.dumps(entry.details)) < 1_000
        session.clone()
        assert file_bytes(session).count(IMAGE.data.encode()) == 1
        first = session.messages[0]
        assert isinstance(first, UserMessage)
        assert first.content == (TextBlock("U1 see"), IMAGE)


def condensed_remotely(house: House) -> AgentSession:
    """A session with a compaction that refers to its two prompts, the first with an image."""
    session = house.enter(model=model_with(200_000, say("A3")))
    manager = session.session
    first = manager.append_message(UserMessage((TextBlock("U1 see"), IMAGE)))
    second = manager.append_message(UserMessage("U2"))
    details = {"replacement": [{"entry": first}, {"entry": second}, {"summary": True}], "earliestRef": first}
    manager.append_compaction(CompactionDraft("S1", None, 5000, details), expect=second)
    return session


async def test_an_edit_made_later_counts_for_what_a_compaction_refers_to(house: House) -> None:
    async with condensed_remotely(house) as session:
        entry_id = references(compactions(session)[0])[1]
        session.session.append_context_edit(entry_id, "U2 changed")
        assert [text_of(m.content) for m in session.messages if isinstance(m, UserMessage)] == ["U1 see", "U2 changed"]
        session.session.append_context_edit(entry_id, None)
        assert [text_of(m.content) for m in session.messages if isinstance(m, UserMessage)] == ["U1 see"]


def references(entry: CompactionEntry) -> list[EntryId]:
    assert is_object(entry.details)
    return [item["entry"] for item in entry.details["replacement"] if "entry" in item]


@pytest.mark.parametrize("harm", ["gone", "damaged", "elsewhere"])
async def test_a_reference_that_cannot_be_read_is_told_and_marked(house: House, harm: str) -> None:
    async with condensed_remotely(house) as session:
        path, entry_id = path_file(session), references(compactions(session)[0])[1]
    whole = path.read_bytes().split(b"\n")
    at = next(number for number, line in enumerate(whole) if f'"id":"{entry_id}"'.encode() in line)
    match harm:
        case "gone":
            del whole[at]
        case "damaged":
            whole[at] = whole[at][:-10]
        case _:
            referred = f'{{"entry":"{entry_id}"}}'.encode()
            whole = [line.replace(referred, b'{"entry":"0badf00d"}') for line in whole]
    path.write_bytes(b"\n".join(whole))
    again = reopened(path, house.home)
    again.accept_bridges()
    assert [text_of(m.content) for m in context(again) if isinstance(m, UserMessage)] == ["U1 see", LOST]
    assert any("refers to" in notice for notice in again.take_notices())
    again.close()


# --- going back ----------------------------------------------------------------------------------


@pytest.mark.case("C40")
async def test_rolling_back_a_turn_that_was_condensed_first_brings_back_the_raw_history(house: House) -> None:
    """Codex counts turns; with us the user goes to an entry. Taking back the prompt leaves the compaction, which stands
    before it, in force; going to the last reply before, or undoing the compaction, brings back the raw history."""
    settings = compacting(keep_recent_tokens=300)
    model = model_with(
        100_000, reply("A1", 2000), reply("A2", 50, used=90_000), say("S1"), say("A3"), say("A4"), say("A5")
    )
    async with house.enter(model=model, settings=settings) as session:
        await session.prompt("U1")
        await session.prompt(text("U2", 400))
        await session.prompt("U3")
        assert sent(session) == ["S1", "U2", "A2", "U3"]
        prompt, reply_before = ids(session, "user")[2], ids(session, "assistant")[1]
        assert await session.navigate_tree(prompt) == "U3"
        assert sent_shape(session) == ["S1", "U2", "A2"]
        await session.navigate_tree(reply_before)
        assert sent_shape(session) == ["U1", "A1", "U2", "A2"]


def work() -> str:
    """Work."""
    return text("output", 3_000)


@pytest.mark.case("C40")
async def test_rolling_back_a_turn_that_was_condensed_in_its_middle_leaves_none_of_its_output(house: House) -> None:
    """Codex restores discarded output there (openai/codex#32851)."""
    model = model_with(
        20_000, reply("A1", 500), call("work").with_usage(input_tokens=15_000, output_tokens=10), say("S1"), say("A2")
    )
    async with house.enter(model=model, tools=[work], settings=compacting(strategy="codex-inline")) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        assert len(compactions(session)) == 1
        await session.navigate_tree(ids(session, "user")[1])
        assert sent_shape(session) == ["U1", "A1"]


@pytest.mark.case("C41")
async def test_between_two_compactions_the_first_one_counts_and_an_older_summary_is_not_shown_twice(
    house: House,
) -> None:
    replies = [reply(f"A{n}", 200, used=400) for n in range(1, 5)]
    model = model_with(200_000, *replies[:2], say("S1 old"), *replies[2:], say("S2 new"))
    async with house.enter(model=model, settings=compacting(keep_recent_tokens=400)) as session:
        await session.prompt(text("U1", 300))
        await session.prompt(text("U2", 300))
        await session.compact()
        await session.prompt(text("U3", 300))
        between = leaf(session)
        await session.prompt(text("U4", 300))
        await session.compact()
        assert sent_shape(session) == ["S2", "U4", "A4"]
        assert between is not None
        await session.navigate_tree(between)
        assert sent_shape(session) == ["S1", "U2", "A2", "U3", "A3"]


@pytest.mark.case("C41")
async def test_a_summary_inside_the_kept_range_is_not_shown(house: House) -> None:
    """A cut behind an older compaction's kept range: what is kept may hold that compaction's entry."""
    async with house.enter(model=model_with(200_000)) as session:
        assert session.model is not None
        manager = session.session
        first = manager.append_message(UserMessage("U1"))
        manager.append_compaction(CompactionDraft("S1", first, 10), expect=first)
        manager.append_message(UserMessage("U2"))
        manager.append_compaction(CompactionDraft("S2", first, 10), expect=leaf(session))
        assert sent_shape(session) == ["S2", "U1", "U2"]


@pytest.mark.case("C44")
async def test_an_entry_that_says_codex_and_brings_no_replacement_is_read_by_pis_rule(house: House) -> None:
    """Codex rebuilds user messages and summary for such lines of its own old files; in this format an entry without a
    replacement keeps what its firstKeptEntryId says. The system prompt is fresh in any case."""
    async with house.enter(model=model_with(200_000, say("A3"))) as session:
        manager = session.session
        first = manager.append_message(UserMessage("U1"))
        manager.append_compaction(CompactionDraft("S1", None, 10, {"strategy": "codex-inline"}), expect=first)
        await session.prompt("U2")
        assert sent(session) == ["S1", "U2"]


async def test_a_compaction_is_undone_and_taken_up_again(house: House) -> None:
    model = model_with(200_000, reply("A1", 2000), reply("A2", 2000), say("S1"))
    async with house.enter(model=model, settings=SUMMARY) as session:
        assert session.undo_compaction() is None
        await session.prompt("U1")
        await session.prompt("U2")
        raw = session.messages
        made = await session.compact()
        condensed = session.messages
        assert session.undo_compaction() == made
        assert (session.messages, session.session.get_entry(made) is not None) == (raw, True)
        path = path_file(session)
        again = reopened(path, house.home)
        assert tuple(context(again)) == raw
        again.close()
        await session.navigate_tree(made)
        assert session.messages == condensed


async def test_a_preview_tells_what_goes_and_stays_and_calls_no_model(house: House) -> None:
    model = model_with(200_000, reply("A1", 2000, used=2100), reply("A2", 200, used=400), say("S1"))
    async with house.enter(model=model, settings=SUMMARY) as session:
        with pytest.raises(NothingToCompact):
            session.preview_compaction()
        await session.prompt("U1")
        await session.prompt(text("U2", 300))
        before = file_bytes(session)
        seen = session.preview_compaction()
        assert (seen.strategy, seen.goes, seen.stays, seen.first_kept) == ("summary", 2, 2, ids(session, "user")[1])
        assert (len(model.requests), file_bytes(session)) == (2, before)
        made = await session.compact()
        entry = session.session.get_entry(made)
        assert isinstance(entry, CompactionEntry)
        assert entry.first_kept_entry_id == seen.first_kept


@pytest.mark.case("C58")
async def test_context_is_in_a_request_once_after_a_roll_back_and_a_compaction(house: House) -> None:
    """Codex's context block stands twice there; ours is the system prompt, built for each request, and what extensions
    declare, which is in the tree."""
    model = model_with(
        20_000,
        reply("A1", 2000),
        call("work").with_usage(input_tokens=15_000, output_tokens=10),
        say("S1"),
        say("A2"),
        say("A3"),
    )
    async with house.enter(model=model, tools=[work], settings=compacting(strategy="codex-inline")) as session:
        session.session.append_custom_message_entry(
            "rules", "CONTEXT of a kind", display=False, details={"context": True}
        )
        await session.prompt("U1")
        await session.prompt("U2")
        assert sent(session) == ["U1", "CONTEXT", "U2", "S1"]
        await session.navigate_tree(ids(session, "user")[1])
        await session.prompt("U3")
        assert sent(session) == ["CONTEXT", "U1", "A1", "U3"]
        assert all(request.system_prompt for request in model.requests)
        directory = str(house.project)
        assert all(request.system_prompt.count(directory) == 1 for request in model.requests)
        assert not any(directory in repr(request.messages) for request in model.requests)
