"""A change of model: to a smaller window, or to one that expects a condensed context in another form."""

from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.errors import CoppiceError
from coppice.format.events import CompactionStart
from coppice.providers.scripted import ScriptedModel, ScriptStep, fail, overflow, say
from tests.app.house import House, path_file
from tests.compaction.stage import CODEX, compacting, compactions, is_summary_request, model_with, reply, shape

pytestmark = pytest.mark.anyio

SETTINGS = compacting(**CODEX)
OLD, NEW = "old/big", "new/small"


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


async def switched(house: House, old: ScriptedModel, new: ScriptedModel) -> AgentSession:
    """A session with two turns on the old model, switched to the new one."""
    session = house.enter(model=old, models=(old, new), settings=SETTINGS)
    await session.prompt("U1")
    await session.prompt("U2")
    session.set_model(NEW)
    return session


def big(used: int, *more: ScriptStep, **facts: object) -> ScriptedModel:
    return model_with(272_000, reply("A1", 3_000), reply("A2", 3_000, used=used), *more, name=OLD, **facts)


@pytest.mark.case("C10", "P29")
async def test_a_switch_to_a_smaller_window_compacts_with_the_old_model_first(house: House) -> None:
    old, new = big(150_000, say("S1")), model_with(128_000, say("A3"), name=NEW)
    async with await switched(house, old, new) as session:
        await session.prompt("U3")
        assert (shape(old.requests[-1].messages), [shape(request.messages) for request in new.requests]) == (
            ["U1", "A1", "U2", "A2", "prompt"],
            [["U1", "U2", "S1", "U3"]],
        )
        assert [event.reason for event in house.heard if isinstance(event, CompactionStart)] == ["downshift"]


@pytest.mark.case("C10")
@pytest.mark.parametrize(("used", "window"), [(100_000, 128_000), (150_000, 400_000), (150_000, None)])
async def test_a_switch_that_fits_compacts_nothing(house: House, used: int, window: int | None) -> None:
    old, new = big(used), model_with(window, say("A3"), name=NEW)
    async with await switched(house, old, new) as session:
        await session.prompt("U3")
        assert (compactions(session), len(old.requests), len(new.requests)) == ([], 2, 1)


@pytest.mark.case("C10")
@pytest.mark.parametrize(
    "failures",
    [
        [fail(status=429, transient=False)],
        [fail(status=503, transient=False)],
        [fail(status=400)],
        [overflow(), overflow(), overflow()],
        [say("")],
    ],
)
async def test_where_the_old_model_fails_the_new_one_is_asked_once(house: House, failures: list[ScriptStep]) -> None:
    old, new = big(150_000, *failures), model_with(128_000, say("S1"), say("A3"), name=NEW)
    async with await switched(house, old, new) as session:
        await session.prompt("U3")
        assert [is_summary_request(request) for request in new.requests] == [True, False]
        assert shape(new.requests[-1].messages) == ["U1", "U2", "S1", "U3"]
        assert len(compactions(session)) == 1
        assert any("old/big could not condense the context" in notice for notice in house.notices())


@pytest.mark.case("C10", "C56")
async def test_where_both_fail_the_prompt_is_not_lost(house: House) -> None:
    old, new = big(150_000, fail(status=400)), model_with(128_000, fail(status=400), say("S1"), say("A3"), name=NEW)
    async with await switched(house, old, new) as session:
        with pytest.raises(CoppiceError):
            await session.prompt("U3")
        assert compactions(session) == []
        (waiting,) = session.pending_prompts()
        session.compactor.settings = compacting(**CODEX, auto=False).compaction
        await session.compact()
        await session.send_pending(waiting.id)
        assert (shape(new.requests[-1].messages), session.pending_prompts()) == (["U1", "U2", "S1", "U3"], [])


@pytest.mark.case("C10")
async def test_automatic_compaction_off_means_off_at_a_switch_too(house: House) -> None:
    old, new = big(150_000), model_with(128_000, say("A3"), name=NEW)
    async with await switched(house, old, new) as session:
        session.compactor.settings = compacting(auto=False).compaction
        await session.prompt("U3")
        assert compactions(session) == []


@pytest.mark.case("C11")
@pytest.mark.parametrize(
    ("before", "after", "made"),
    [("A", "B", 1), (None, "A", 0), ("A", None, 0), (None, None, 0), ("A", "A", 0)],
)
async def test_another_hash_compacts_with_the_model_before(
    house: House, before: str | None, after: str | None, made: int
) -> None:
    old = big(20_000, say("S1"), compaction_hash=before)
    new = model_with(272_000, say("A3"), say("A4"), name=NEW, compaction_hash=after)
    async with await switched(house, old, new) as session:
        await session.prompt("U3")
        await session.prompt("U4")
        assert (len(compactions(session)), len(new.requests)) == (made, 2)
        assert [event.reason for event in house.heard if isinstance(event, CompactionStart)] == ["hash"] * made


@pytest.mark.case("C11")
@pytest.mark.parametrize("how", ["resume", "fork"])
async def test_another_hash_counts_after_a_resume_and_in_a_fork_too(house: House, how: str) -> None:
    old = big(20_000, say("S1"), compaction_hash="A")
    new = model_with(272_000, say("A3"), say("A4"), name=NEW, compaction_hash="B")
    session = await switched(house, old, new)
    if how == "fork":
        session.clone()
    else:
        await session.close()
        session = house.enter(model=NEW, models=(old, new), open_path=path_file(session), settings=SETTINGS)
    async with session:
        await session.prompt("U3")
        assert (len(compactions(session)), shape(new.requests[-1].messages)) == (1, ["U1", "U2", "S1", "U3"])


@pytest.mark.case("C11")
async def test_a_compaction_that_stands_already_is_not_made_again_for_the_hash(house: House) -> None:
    old = big(20_000, say("S1"), compaction_hash="A")
    new = model_with(272_000, fail(status=400), say("A3"), name=NEW, compaction_hash="B")
    async with await switched(house, old, new) as session:
        await session.prompt("U3")
        await session.prompt("U4")
        assert (len(compactions(session)), shape(new.requests[-1].messages)) == (1, ["U1", "U2", "S1", "U3", "U4"])
