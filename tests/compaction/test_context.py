"""What stands around a compaction: the system prompt, and what extensions declare as context."""

from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.app.extensions.hooks import AfterCompact
from coppice.format.messages import EntryId
from coppice.providers.scripted import call, say
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from tests.app.house import House, path_file
from tests.compaction.stage import (
    CODEX,
    all_text,
    compacting,
    compactions,
    file_bytes,
    model_with,
    replaced_by,
    reply,
    shape,
    text,
)

pytestmark = pytest.mark.anyio

SETTINGS = compacting(**CODEX)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def work() -> str:
    """Work."""
    return text("output", 10_000)


def say_context(session: AgentSession, said: str) -> EntryId:
    """What an extension does that keeps a context up to date."""
    return session.session.append_custom_message_entry("env", said, display=False, details={"context": True})


@pytest.mark.case("C22")
@pytest.mark.parametrize("how", ["manual", "pre-turn"])
async def test_between_turns_the_context_is_left_out_and_said_anew_before_the_new_prompt(
    house: House, how: str
) -> None:
    used = 250_000 if how == "pre-turn" else 5_000
    model = model_with(272_000, reply("A1", 3_000, used=used), say("S1"), say("A2"))
    async with house.enter(model=model, settings=SETTINGS) as session:

        async def say_it_anew(event: AfterCompact) -> None:
            say_context(session, "ctx of today")

        session.hooks.after_compact.append(say_it_anew)
        say_context(session, "ctx of yesterday")
        await session.prompt("U1")
        if how == "manual":
            await session.compact()
        await session.prompt("U2")
        (made,) = compactions(session)
        assert (replaced_by(session, made.id), shape(model.requests[-1].messages)) == (
            ["U1", "S1"],
            ["U1", "S1", "ctx", "U2"],
        )
        assert ("of yesterday" in all_text(model.requests[-1:]), "of today" in all_text(model.requests[-1:])) == (
            False,
            True,
        )


@pytest.mark.case("C23")
async def test_in_the_middle_of_a_turn_the_context_stands_before_the_last_users_message(house: House) -> None:
    model = model_with(
        272_000, say("A1"), call("work").with_usage(input_tokens=239_900, output_tokens=100), say("S1"), say("A2")
    )
    async with house.enter(model=model, tools=[work], settings=SETTINGS) as session:
        say_context(session, "ctx old")
        await session.prompt("U1")
        newest = say_context(session, "ctx new")
        await session.prompt("U2")
        (made,) = compactions(session)
        assert replaced_by(session, made.id) == ["U1", "ctx", "U2", "S1"]
        assert shape(model.requests[-1].messages) == ["U1", "ctx", "U2", "S1"]
        assert "ctx old" not in all_text(model.requests[-1:])
        assert made.details["replacement"][1] == {"entry": newest}
        assert made.details["earliestRef"] == made.details["replacement"][0]["entry"]


@pytest.mark.case("C23")
async def test_without_a_users_message_the_context_stands_above_the_summary(house: House) -> None:
    model = model_with(272_000, call("work").with_usage(input_tokens=239_900, output_tokens=100), say("S1"), say("A1"))
    async with house.enter(model=model, tools=[work], settings=SETTINGS) as session:
        say_context(session, "ctx only")
        await session.continue_()
        (made,) = compactions(session)
        assert replaced_by(session, made.id) == ["ctx", "S1"]
        assert shape(model.requests[-1].messages) == ["ctx", "S1"]


@pytest.mark.case("C23")
async def test_a_context_that_was_edited_is_held_and_a_later_edit_counts_for_it_too(house: House) -> None:
    model = model_with(
        272_000, call("work").with_usage(input_tokens=239_900, output_tokens=100), say("S1"), say("A1"), say("A2")
    )
    async with house.enter(model=model, tools=[work], settings=SETTINGS) as session:
        context = say_context(session, "ctx heron")
        session.session.append_context_edit(context, "ctx egret")
        await session.prompt("U1")
        assert ("heron" in all_text(model.requests), "egret" in all_text(model.requests[-1:])) == (False, True)
        session.session.append_context_edit(context, None)
        await session.prompt("U2")
        assert "egret" not in all_text(model.requests[-1:])


@pytest.mark.case("C23")
async def test_the_earliest_reference_is_that_of_a_context_older_than_what_is_kept(house: House) -> None:
    model = model_with(
        272_000, say("A1"), call("work").with_usage(input_tokens=239_900, output_tokens=100), say("S1"), say("A2")
    )
    async with house.enter(model=model, tools=[work], settings=compacting(**CODEX, inline_user_tokens=50)) as session:
        oldest = say_context(session, "ctx old")
        await session.prompt(text("U1", 500))
        await session.prompt("U2")
        (made,) = compactions(session)
        assert replaced_by(session, made.id)[-3:] == ["ctx", "U2", "S1"]
        assert made.details["earliestRef"] == oldest


@pytest.mark.case("C22", "C24")
@pytest.mark.parametrize("strategy", ["codex-inline", "summary"])
async def test_the_system_prompt_has_the_current_instructions_once_and_the_entry_has_none(
    house: House, strategy: str
) -> None:
    instructions = house.project / "AGENTS.md"
    instructions.write_text("Always say heron.")
    model = model_with(272_000, reply("A1", 3_000), reply("A2", 3_000), say("S1"), say("A3"))
    async with house.enter(model=model, settings=compacting(strategy=strategy)) as session:
        await session.prompt("U1")
        await session.prompt("U2")
        await session.compact()
        instructions.write_text("Always say egret.")
        await session.prompt("U3")
        request = model.requests[-1]
        assert (request.system_prompt.count("Always say egret."), "heron" in all_text([request])) == (1, False)
        assert "Always say" not in repr(request.messages)
        assert b"Always say" not in file_bytes(session)


@pytest.mark.case("C24")
async def test_a_session_that_goes_on_elsewhere_has_the_instructions_of_that_place(
    house: House, tmp_path: Path
) -> None:
    (house.project / "AGENTS.md").write_text("Always say heron.")
    model = model_with(272_000, reply("A1", 3_000), say("S1"))
    async with house.enter(model=model, settings=compacting(strategy="codex-inline")) as session:
        await session.prompt("U1")
        await session.compact()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "AGENTS.md").write_text("Always say egret.")
    forked = SessionManager.fork_from(path_file(session), elsewhere, setup=Setup(house.home))
    path = forked.session_file
    forked.close()
    model = model_with(272_000, say("A2"))
    async with house.enter(model=model, open_path=path, settings=SETTINGS) as session:
        await session.prompt("U2")
        request = model.requests[-1]
        assert shape(request.messages) == ["U1", "S1", "U2"]
        assert ("heron" in all_text([request]), request.system_prompt.count("Always say egret.")) == (False, 1)
