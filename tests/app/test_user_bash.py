"""The user's own commands: told to the model or kept from it, stored where they were given, ended by abort."""

import asyncio
from pathlib import Path

import pytest

from coppice.errors import Busy
from coppice.format.events import BashExecutionUpdate
from coppice.providers.scripted import say
from tests.agent.stage import lines, reopened, started, stored, told, user_ids
from tests.app.house import House, asked, path_file

pytestmark = pytest.mark.anyio


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def test_a_command_is_told_to_the_model_and_an_excluded_one_is_not(house: House) -> None:
    async with house.enter(say("I see")) as session:
        shown = await session.run_bash("echo seen; exit 3")
        hidden = await session.run_bash("echo hidden", exclude=True)
        await session.prompt("and?")
        assert (shown.output.strip(), shown.exit_code, hidden.exclude_from_context) == ("seen", 3, True)
        sent = "\n".join(lines(asked(session).messages))
        assert ("echo seen" in sent, "Its exit code was 3" in sent, "hidden" in sent) == (True, True, False)
        assert [line.split(" ->")[0] for line in stored(session.session)[:2]] == [
            "bash: echo seen; exit 3",
            "bash: echo hidden",
        ]
    again = reopened(path_file(session), house.home)
    assert len(lines(again.build_session_context().messages)) == 4
    again.close()


async def test_a_commands_output_is_told_as_it_comes_and_then_its_entry(house: House) -> None:
    async with house.enter() as session:
        await session.run_bash("echo one")
        shown = "".join(event.delta for event in house.heard if isinstance(event, BashExecutionUpdate))
        assert shown.strip() == "one"
        assert told(house.heard)[-2:] == ["message_start bashExecution", "message_end bashExecution"]


async def test_a_command_runs_in_the_sessions_directory(house: House) -> None:
    async with house.enter() as session:
        assert (await session.run_bash("pwd")).output.strip() == str(house.project.resolve())


async def begun(house: House) -> None:
    while not any(isinstance(event, BashExecutionUpdate) for event in house.heard):
        await asyncio.sleep(0.01)


async def test_while_a_command_runs_nothing_else_writes_or_moves(house: House) -> None:
    async with house.enter(say("one"), say("two")) as session:
        await session.prompt("hello")
        at = user_ids(session.session)[0]
        run = await started(session.run_bash("echo ready; sleep 20"))
        await begun(house)
        for refused in (
            lambda: session.fork(at),
            session.clone,
            session.new_session,
            lambda: session.switch_session(path_file(session)),
        ):
            with pytest.raises(Busy):
                refused()
        for coroutine in (
            session.navigate_tree(at),
            session.prompt("more"),
            session.continue_(),
            session.run_bash("true"),
        ):
            with pytest.raises(Busy):
                await coroutine
        await session.abort()
        await run
        await session.prompt("more")
        assert [line.split(" ->")[0] for line in stored(session.session)[2:]] == [
            "bash: echo ready; sleep 20",
            "user: more",
            "reply: two [stop]",
        ]


@pytest.mark.parametrize("how", ["abort", "cancel", "close"])
async def test_a_command_that_is_stopped_is_stored_as_cancelled_with_what_it_printed(house: House, how: str) -> None:
    async with house.enter() as session:
        run = await started(session.run_bash("echo ready; sleep 20"))
        await begun(house)
        match how:
            case "abort":
                await asyncio.wait_for(session.abort(), 10)
            case "close":
                await asyncio.wait_for(session.close(), 10)
            case _:
                run.cancel()
        await asyncio.wait([run])
    again = reopened(path_file(session), house.home)
    (message,) = again.build_session_context().messages
    assert (getattr(message, "cancelled", None), getattr(message, "output", "").strip()) == (True, "ready")
    again.close()
