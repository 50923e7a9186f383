"""Talking through `AgentSession`: prompts, queues, what is refused while a run is active, what is told."""

import asyncio
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.app.settings import Settings
from coppice.errors import Busy, UnknownEntryId, UsageError
from coppice.format.events import (
    LabelChanged,
    ModelChanged,
    QueueUpdate,
    SessionInfoChanged,
    ThinkingLevelChanged,
    ToolExecutionStart,
)
from coppice.format.messages import EntryId, ThinkingBlock
from coppice.providers.scripted import ScriptedModel, call, say, stall
from tests.agent.killed import killed
from tests.agent.stage import lines, reopened, started, stored, told, user_ids
from tests.app.house import House, asked, leaf, model_named, path_file
from tests.strict import faults_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def test_a_prompt_is_answered_and_stored_with_the_model_it_went_to(house: House) -> None:
    async with house.enter(say("hi there")) as session:
        await session.prompt("hello")
        assert (stored(session.session), lines(session.messages)) == (
            ["user: hello", "reply: hi there [stop]"],
            ["user: hello", "reply: hi there [stop]"],
        )
        assert session.session.model() == ("scripted", "scripted")
        kinds = [entry.__struct_config__.tag for entry in session.session.get_branch()]  # pyright: ignore[reportAttributeAccessIssue]  (known kinds)
        assert kinds == ["model_change", "message", "message"]
    assert house.sessions() == [path_file(session)]


async def test_steering_and_follow_ups_pass_through_the_controller(house: House) -> None:
    async with house.enter(say("one").timed(chunk_delay_ms=1), say("two"), say("three")) as session:
        model = session.model
        assert isinstance(model, ScriptedModel)
        run = await started(session.prompt("hello"))
        await model.wait_for_request()
        ids = [session.steer("left"), session.follow_up("then")]
        await run
        assert user_ids(session.session)[1:] == ids
        assert [event.steering for event in house.heard if isinstance(event, QueueUpdate)] == [
            ("left",),
            ("left",),
            (),
            (),
        ]


async def test_the_listener_hears_the_next_session_too_until_it_stops(house: House) -> None:
    async with house.enter(say("one"), say("two"), say("three")) as session:
        heard: list[object] = []
        stop = session.subscribe(heard.append)
        await session.prompt("a")
        session.new_session()
        await session.prompt("b")
        stop()
        count = len(heard)
        await session.prompt("c")
        assert (told(house.heard).count("agent_settled"), count, len(heard)) == (3, count, count)


@pytest.mark.case("P12")
async def test_while_a_run_is_active_everything_that_moves_is_refused(house: House) -> None:
    async with house.enter(say("one"), call("forever"), say("fine"), tools=[forever]) as session:
        await session.prompt("first")
        first = user_ids(session.session)[0]
        begun = asyncio.Event()
        session.subscribe(lambda event: begun.set() if isinstance(event, ToolExecutionStart) else None)
        run = await started(session.prompt("second"))
        await begun.wait()
        before = (leaf(session), path_file(session).read_bytes(), house.sessions())
        for refused in (
            lambda: session.fork(first),
            session.clone,
            session.new_session,
            lambda: session.switch_session(path_file(session)),
            lambda: session.set_model(model_named("a", "b")),
            lambda: session.set_thinking_level("high"),
        ):
            with pytest.raises(Busy):
                refused()
        for coroutine in (
            session.navigate_tree(first),
            session.prompt("third"),
            session.continue_(),
            session.run_bash("true"),
        ):
            with pytest.raises(Busy):
                await coroutine
        assert (leaf(session), path_file(session).read_bytes(), house.sessions()) == before

        session.set_session_name("named meanwhile")
        session.set_label(first, "here")
        await session.abort()
        await run
        for at in [entry.id for entry in session.session.get_branch()]:
            await session.navigate_tree(at)
            assert faults_of(session.session.request_messages(session.agent._parts().reader)) in (  # pyright: ignore[reportPrivateUsage]  (the reader of its model)
                [],
                ["it does not begin with a user message"],
            )


async def forever() -> str:
    """Wait for ever."""
    await asyncio.get_running_loop().create_future()
    return "never"


async def test_names_labels_levels_and_models_are_told_and_survive_reopening(house: House) -> None:
    async with house.enter(say("one")) as session:
        await session.prompt("hello")
        first = user_ids(session.session)[0]
        session.set_session_name("  a name ")
        session.set_label(first, "start")
        session.set_thinking_level("high")
        session.set_model(model_named("a", "b"))
        told_of = [
            event
            for event in house.heard
            if isinstance(event, SessionInfoChanged | LabelChanged | ThinkingLevelChanged | ModelChanged)
        ]
        assert told_of == [
            SessionInfoChanged("a name"),
            LabelChanged(first, "start"),
            ThinkingLevelChanged("high"),
            ModelChanged("a", "b"),
        ]
    again = reopened(path_file(session), house.home)
    assert (again.get_session_name(), again.get_label(first), again.thinking_level(), again.model()) == (
        "a name",
        "start",
        "high",
        ("a", "b"),
    )
    again.close()


async def test_the_numbers_count_the_branch_and_the_file(house: House) -> None:
    async with house.enter(say("one").with_usage(input_tokens=10, output_tokens=5), say("two"), tools=[]) as session:
        await session.prompt("hello")
        await session.navigate_tree(user_ids(session.session)[0])
        await session.prompt("hello again")
        stats = session.get_session_stats()
        assert (stats.branches, stats.branch.messages, stats.file.messages) == (2, 2, 4)
        assert stats.file.usage.input >= 10


async def test_tools_can_be_chosen_and_an_unknown_one_is_refused(house: House) -> None:
    async with house.enter(say("one"), say("two")) as session:
        session.set_tools(["read", "ls"])
        await session.prompt("hello")
        assert [tool.name for tool in asked(session).tools] == ["read", "ls"]
        with pytest.raises(UsageError):
            session.set_tools(["nope"])
        await session.prompt("again")
        assert [tool.name for tool in asked(session).tools] == ["read", "ls"]


async def test_continuing_goes_on_from_the_leaf(house: House) -> None:
    async with house.enter(stall(), say("fine")) as session:
        model = session.model
        assert isinstance(model, ScriptedModel)
        run = await started(session.prompt("hello"))
        await model.wait_for_request()
        await session.abort()
        await run
        await session.continue_()
        assert stored(session.session) == ["user: hello", "reply:  [aborted]", "reply: fine [stop]"]


async def test_closing_aborts_the_run_and_gives_the_session_back(house: House) -> None:
    session = house.enter(stall())
    model = session.model
    assert isinstance(model, ScriptedModel)
    run = await started(session.prompt("hello"))
    await model.wait_for_request()
    await session.close()
    await session.close()
    await run
    other = house.enter(open_path=path_file(session))
    assert stored(other.session) == ["user: hello", "reply:  [aborted]"]
    await other.close()


@pytest.mark.parametrize("sync", ["entry", "turn", "never"])
async def test_every_sync_setting_keeps_what_was_said(house: House, sync: str) -> None:
    (house.home).mkdir()
    (house.home / "settings.json").write_text(f'{{"sync": "{sync}", "tools": []}}')
    session = AgentSession.create(house.project, home=house.home)
    session.agent.kit.model = ScriptedModel([say("one"), say("two")])
    session.set_model(session.agent.kit.model)
    async with session:
        assert session.session.setup.sync == (sync == "entry")
        await session.prompt("hello")
        await session.prompt("again")
    again = reopened(path_file(session), house.home)
    assert stored(again) == ["user: hello", "reply: one [stop]", "user: again", "reply: two [stop]"]
    again.close()


# --- what an earlier process left ----------------------------------------------------------------


@pytest.mark.case("P24")
async def test_pending_prompts_are_shown_and_sent_or_dropped_by_the_user_only(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    found = killed("waiting", house.home)
    path, ids = Path(str(found["path"])), found["ids"]
    assert isinstance(ids, list)
    async with house.enter(say("one"), say("two"), open_path=path) as session:
        assert [(item.id, lines([item.message])) for item in session.pending_prompts()] == [
            (ids[0], ["user: look left"]),
            (ids[1], ["user: and then?"]),
        ]
        await session.prompt("hello again")
        assert (lines(asked(session).messages), len(session.pending_prompts())) == (
            ["user: hello", "user: hello again"],
            2,
        )

        await session.send_pending(EntryId(ids[1]))
        assert stored(session.session)[-2:] == ["user: and then?", "reply: two [stop]"]
        assert session.session.get_entry(EntryId(ids[1])) is not None
        session.drop_pending(EntryId(ids[0]))
        assert (session.pending_prompts(), list((house.home / "pending").iterdir())) == ([], [])
        for gone in ids:
            with pytest.raises(UnknownEntryId):
                await session.send_pending(EntryId(gone))
            with pytest.raises(UnknownEntryId):
                session.drop_pending(EntryId(gone))


async def test_a_pending_prompt_can_join_the_queue_of_this_process(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    found = killed("waiting", house.home)
    ids = found["ids"]
    assert isinstance(ids, list)
    async with house.enter(say("one"), say("two"), open_path=Path(str(found["path"]))) as session:
        session.queue_pending(EntryId(ids[0]), "followUp")
        await session.prompt("hello again")
        assert stored(session.session)[-2:] == ["user: look left", "reply: two [stop]"]
        assert [item.id for item in session.pending_prompts()] == [ids[1]]


async def test_a_pending_prompt_that_cannot_be_sent_yet_stays_pending(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    found = killed("waiting", house.home)
    ids = found["ids"]
    assert isinstance(ids, list)
    async with house.enter(say("one").timed(chunk_delay_ms=1), open_path=Path(str(found["path"]))) as session:
        model = session.model
        assert isinstance(model, ScriptedModel)
        run = await started(session.prompt("hello again"))
        await model.wait_for_request()
        with pytest.raises(Busy):
            await session.send_pending(EntryId(ids[0]))
        await run
        assert [item.id for item in session.pending_prompts()] == ids


async def test_a_pending_prompt_is_gone_from_the_pending_file_once_it_is_stored(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    found = killed("waiting", house.home)
    ids = found["ids"]
    assert isinstance(ids, list)
    async with house.enter(stall(), open_path=Path(str(found["path"]))) as session:
        model = session.model
        assert isinstance(model, ScriptedModel)
        session.drop_pending(EntryId(ids[0]))
        run = await started(session.send_pending(EntryId(ids[1])))
        await model.wait_for_request()
        assert list((house.home / "pending").iterdir()) == []
        await session.abort()
        await run


async def test_settings_say_the_level_of_a_new_session_also_when_its_model_was_switched_first(house: House) -> None:
    settings = Settings(tools=(), thinking_level="high")
    async with house.enter(say("one"), settings=settings) as session:
        assert session.thinking_level == "high"
        session.set_model(ScriptedModel([say("two")]))
        assert session.thinking_level == "high"
        await session.prompt("hello")
        assert (asked(session).thinking_level, session.session.thinking_level()) == ("high", "high")


async def test_thinking_is_streamed_and_stored_with_the_level_it_was_made_at(house: House) -> None:
    async with house.enter(say("one"), level="low") as session:
        await session.prompt("hello")
        reply = session.messages[-1]
        assert getattr(reply, "thinking_level", None) == "low"
        assert not any(isinstance(block, ThinkingBlock) for block in getattr(reply, "content", ()))
