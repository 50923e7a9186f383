"""Moving in the tree and between sessions: navigate, fork, clone, new, switch."""

from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.errors import CoppiceError, NotASession, SessionHeld, SessionNotFound, StorageFailure, UnknownEntryId
from coppice.format.events import LeafChanged, SessionSwitched
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    EntryId,
    TextBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from coppice.providers.scripted import say
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.session.writer import Setup
from tests.agent.stage import lines, reopened, stored, user_ids
from tests.app.house import House, asked, leaf, path_file

pytestmark = pytest.mark.anyio


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


def of_every_kind(session: SessionManager) -> dict[str, EntryId]:
    """A chain with an entry of each kind; ids by kind."""
    call = ToolCall(ToolCallId("c1"), "look", {})
    made: dict[str, EntryId] = {}
    made["user"] = session.append_message(UserMessage((TextBlock("hello"), TextBlock("there"))))
    made["reply"] = session.append_message(AssistantMessage((call,), "api", "p", "m", stop_reason="toolUse"))
    made["result"] = session.append_message(ToolResultMessage(call.id, "look", (TextBlock("seen"),)))
    made["bash"] = session.append_message(BashExecutionMessage("ls", "a", 0))
    made["custom role"] = session.append_message(CustomMessage("note", "a note"))
    made["custom message"] = session.append_custom_message_entry("note", "another note", display=True)
    made["custom"] = session.append_custom_entry("todo", {"n": 1})
    made["model"] = session.append_model_change("p", "m2")
    made["level"] = session.append_thinking_level_change("high")
    made["usage"] = session.append_usage("cache", "p", "m", Usage())
    made["edit"] = session.append_context_edit(made["bash"], None)
    made["summary"] = session.branch_with_summary(session.get_leaf_id(), "they looked")
    made["label"] = session.append_label_change(made["user"], "start")
    made["name"] = session.append_session_info("a name")
    draft = CompactionDraft("all of it", made["custom role"], 100)
    made["compaction"] = session.append_compaction(draft, expect=session.get_leaf_id())
    made["last"] = session.append_message(UserMessage("last"))
    return made


TAKEN_BACK = {"user": "hello\nthere", "custom role": "a note", "custom message": "another note", "last": "last"}


@pytest.mark.case("P11")
async def test_going_to_an_entry_of_any_kind_goes_after_it_or_takes_a_message_back(house: House) -> None:
    async with house.enter() as session:
        made = of_every_kind(session.session)
        parents = {entry.id: entry.parent_id for entry in session.session.entries()}
        for kind, entry_id in made.items():
            text = await session.navigate_tree(entry_id)
            expected = parents[entry_id] if kind in TAKEN_BACK else entry_id
            assert (kind, leaf(session), text) == (kind, expected, TAKEN_BACK.get(kind, ""))
            again = reopened(path_file(session), house.home)
            assert (kind, again.get_leaf_id()) == (kind, expected)
            again.close()
        changes = [event for event in house.heard if isinstance(event, LeafChanged)]
        assert changes[0] == LeafChanged(None, "hello\nthere")
        assert changes[1] == LeafChanged(made["reply"], None)


async def test_going_to_an_unknown_entry_is_refused_and_the_leaf_stays(house: House) -> None:
    async with house.enter(say("one")) as session:
        await session.prompt("hello")
        before = (leaf(session), path_file(session).read_bytes())
        with pytest.raises(UnknownEntryId):
            await session.navigate_tree(EntryId("ffffffff"))
        with pytest.raises(UnknownEntryId):
            session.fork(EntryId("ffffffff"))
        assert (leaf(session), path_file(session).read_bytes(), house.sessions()) == (*before, [path_file(session)])


@pytest.mark.case("P09")
async def test_a_branch_that_was_left_is_not_sent_and_comes_back_when_it_is_gone_to(house: House) -> None:
    async with house.enter(*map(say, "one two three four five".split())) as session:
        await session.prompt("first")
        await session.prompt("secret word: heron")
        heron = leaf(session)
        first = session.session.get_branch()[2].id
        await session.navigate_tree(first)
        await session.prompt("other")
        assert lines(asked(session).messages) == ["user: first", "reply: one [stop]", "user: other"]
        assert heron is not None
        await session.navigate_tree(heron)
        await session.prompt("and?")
        assert "user: secret word: heron" in lines(asked(session).messages)


@pytest.mark.case("P11")
async def test_a_move_is_where_the_next_process_begins(house: House) -> None:
    async with house.enter(say("one"), say("two")) as session:
        await session.prompt("first")
        target = leaf(session)
        await session.prompt("second")
        assert target is not None
        await session.navigate_tree(target)
    before = path_file(session).read_bytes()
    async with house.enter(say("three"), open_path=path_file(session)) as again:
        assert (leaf(again), path_file(session).read_bytes()) == (target, before)
    assert path_file(session).read_bytes() == before
    async with house.enter(say("three"), open_path=path_file(session)) as again:
        await again.prompt("third")
        assert again.session.get_entry(user_ids(again.session)[-1]).parent_id == target  # pyright: ignore[reportOptionalMemberAccess]  (it is there)
        assert stored(again.session) == ["user: first", "reply: one [stop]", "user: third", "reply: three [stop]"]


# --- forks ---------------------------------------------------------------------------------------


async def talked(house: House, prompts: int) -> tuple[AgentSession, Path]:
    session = house.enter(*[say(f"reply {number}") for number in range(9)])
    for number in range(prompts):
        await session.prompt(f"prompt {number}")
    return session, path_file(session)


@pytest.mark.case("P15")
@pytest.mark.parametrize("at", [0, 2], ids=["the first prompt", "the third prompt"])
async def test_a_fork_at_a_prompt_takes_it_back_and_writes_to_the_child_only(house: House, at: int) -> None:
    session, parent = await talked(house, 3)
    before = parent.read_bytes()
    text = session.fork(user_ids(session.session)[at])
    assert text == f"prompt {at}"
    await session.prompt("in the child")
    child = path_file(session)
    assert (parent.read_bytes() == before, child != parent) == (True, True)
    assert stored(session.session) == [
        *[line for n in range(at) for line in (f"user: prompt {n}", f"reply: reply {n} [stop]")],
        "user: in the child",
        "reply: reply 3 [stop]",
    ]
    check_child(house, child, parent)
    await session.close()


def check_child(house: House, child: Path, parent: Path) -> None:
    text = child.read_text()
    assert text.count('"type":"session"') == 1
    again = reopened(child, house.home)
    assert again.get_header().parent_session == str(parent)
    again.close()
    assert house.sessions() == sorted([child, parent])


@pytest.mark.case("P15")
async def test_a_fork_at_a_reply_keeps_it(house: House) -> None:
    session, parent = await talked(house, 2)
    before = parent.read_bytes()
    reply = session.session.get_branch()[2].id
    assert session.fork(reply) == ""
    assert stored(session.session) == ["user: prompt 0", "reply: reply 0 [stop]"]
    await session.prompt("in the child")
    assert parent.read_bytes() == before
    check_child(house, path_file(session), parent)
    switched = [event for event in house.heard if isinstance(event, SessionSwitched)]
    assert [(event.reason, event.session_file) for event in switched] == [("fork", str(path_file(session)))]
    await session.close()


@pytest.mark.case("P15")
async def test_a_fork_before_any_reply(house: House) -> None:
    session = house.enter(say("one"))
    prompt = session.session.append_message(UserMessage("hello"))
    parent = path_file(session)
    before = parent.read_bytes()
    assert session.fork(prompt) == "hello"
    await session.prompt("hello, child")
    assert (stored(session.session), parent.read_bytes()) == (["user: hello, child", "reply: one [stop]"], before)
    check_child(house, path_file(session), parent)
    await session.close()


@pytest.mark.case("P15")
async def test_a_fork_where_nothing_can_be_written_keeps_the_old_session_active(house: House) -> None:
    session, parent = await talked(house, 1)
    before, at = parent.read_bytes(), leaf(session)
    blocked = house.home / "blocked"
    blocked.write_text("a file, no directory")
    session.session._writer.setup = Setup(house.home, blocked / "sessions")  # pyright: ignore[reportPrivateUsage]  (a directory that cannot be made; root may write anywhere)
    assert at is not None
    for move in (lambda: session.fork(at), session.clone):
        with pytest.raises(StorageFailure):
            move()
    assert (path_file(session), parent.read_bytes(), leaf(session)) == (parent, before, at)
    await session.prompt("still here")
    assert stored(session.session)[-1] == "reply: reply 1 [stop]"
    await session.close()


@pytest.mark.case("P13")
async def test_a_clone_holds_the_path_to_the_leaf_labels_and_name(house: House) -> None:
    session, parent = await talked(house, 2)
    first = user_ids(session.session)[0]
    session.set_label(first, "start")
    session.set_session_name("the name")
    before, said = parent.read_bytes(), stored(session.session)
    session.clone()
    assert (stored(session.session), session.session.get_label(first), session.session.get_session_name()) == (
        said,
        "start",
        "the name",
    )
    await session.prompt("more")
    assert parent.read_bytes() == before
    check_child(house, path_file(session), parent)
    await session.close()


async def test_a_session_in_memory_is_forked_in_memory(house: House) -> None:
    session = AgentSession.create(house.project, session=SessionManager.in_memory(house.project), home=house.home)
    prompt = session.session.append_message(UserMessage("hello"))
    session.session.append_message(UserMessage("more"))
    reply = leaf(session)
    assert reply is not None
    session.fork(reply)
    assert (stored(session.session), session.session.session_file, leaf(session)) == (["user: hello"], None, prompt)
    await session.close()


# --- other sessions ------------------------------------------------------------------------------


async def test_a_new_session_is_empty_and_leaves_the_old_one_whole(house: House) -> None:
    session, first = await talked(house, 1)
    before = first.read_bytes()
    session.new_session()
    assert (session.messages, session.session.is_stored, house.sessions()) == ((), False, [first])
    await session.prompt("anew")
    assert (stored(session.session), first.read_bytes()) == (["user: anew", "reply: reply 1 [stop]"], before)
    other = house.enter(open_path=first)  # the old one was given back
    await other.close()
    await session.close()


async def test_switching_goes_on_in_the_other_session(house: House) -> None:
    session, first = await talked(house, 1)
    session.new_session()
    await session.prompt("anew")
    second = path_file(session)
    session.switch_session(first)
    await session.prompt("back")
    assert stored(session.session)[2:] == ["user: back", "reply: reply 2 [stop]"]
    session.switch_session(second)
    assert stored(session.session) == ["user: anew", "reply: reply 1 [stop]"]
    assert [event.reason for event in house.heard if isinstance(event, SessionSwitched)] == ["new", "resume", "resume"]
    await session.close()


async def test_switching_to_the_session_we_are_in_changes_nothing(house: House) -> None:
    session, first = await talked(house, 1)
    session.switch_session(first)
    await session.prompt("still here")
    assert stored(session.session)[2:] == ["user: still here", "reply: reply 1 [stop]"]
    await session.close()


@pytest.mark.case("P02")
async def test_a_switch_that_fails_keeps_the_old_session(house: House, tmp_path: Path) -> None:
    session, first = await talked(house, 1)
    picture, held = tmp_path / "picture.png", None
    picture.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    other, held = await talked(House(house.home, house.project), 1)
    failures: list[tuple[Path, type[CoppiceError]]] = [
        (tmp_path / "nothing.jsonl", SessionNotFound),
        (tmp_path, SessionNotFound),
        (picture, NotASession),
        (held, SessionHeld),
    ]
    for path, error in failures:
        with pytest.raises(error):
            session.switch_session(path)
        assert path_file(session) == first
    assert picture.read_bytes().startswith(b"\x89PNG")
    await session.prompt("still here")
    assert stored(session.session)[2:] == ["user: still here", "reply: reply 1 [stop]"]
    await other.close()
    await session.close()
