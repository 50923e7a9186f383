"""Killed around a compaction, and files that end inside one: the context is the old one or the new one, never half."""

from pathlib import Path

import pytest

from coppice.format.messages import UserMessage
from coppice.providers.scripted import say
from coppice.session.manager import CompactionDraft, SessionManager
from coppice.session.writer import Setup
from tests.agent.killed import killed
from tests.agent.stage import reopened, stored
from tests.app.compaction.child import PROMPT, SMALL
from tests.app.house import House
from tests.compaction.stage import compactions, model_with, shape

pytestmark = pytest.mark.anyio

CHILD = "tests.app.compaction.child"


@pytest.mark.case("C43", "C56")
async def test_a_prompt_whose_summary_was_asked_for_when_it_was_killed_is_pending_once(tmp_path: Path) -> None:
    found = killed("summarising", tmp_path, CHILD)
    path = Path(str(found["path"]))
    assert path.stat().st_size == found["size"]
    model = model_with(100_000, say("S1"), say("A3"))
    house = House.at(tmp_path)
    async with house.enter(model=model, settings=SMALL, open_path=path) as session:
        assert (stored(session.session)[-1][:8], compactions(session)) == ("reply: A", [])
        (pending,) = session.pending_prompts()
        assert isinstance(pending.message, UserMessage)
        assert (pending.kind, pending.message.content) == ("prompt", PROMPT)
        await session.send_pending(pending.id)
        assert session.pending_prompts() == []
        assert [shape(request.messages) for request in model.requests][1:] == [["S1", "U2", "A2", "U3"]]
        found_again = [entry for entry in session.session.get_branch() if entry.id == pending.id]
        assert len(found_again) == 1


@pytest.mark.case("C43")
async def test_killed_between_a_summary_and_its_append_the_context_is_the_old_one(tmp_path: Path) -> None:
    found = killed("appending", tmp_path, CHILD)
    path = Path(str(found["path"]))
    assert path.stat().st_size == found["size"]
    model = model_with(100_000, say("A3"))
    async with House.at(tmp_path).enter(model=model, settings=SMALL, open_path=path) as session:
        assert compactions(session) == []
        await session.prompt("U3")
        assert shape(model.requests[0].messages) == ["U1", "A1", "U2", "A2", "U3"]


@pytest.mark.case("C43")
def test_a_file_that_ends_inside_a_compaction_has_the_context_before_it(tmp_path: Path) -> None:
    session = SessionManager.create(tmp_path, setup=Setup(tmp_path))
    first = session.append_message(UserMessage("U1"))
    path = session.session_file
    assert path is not None
    start, before = path.stat().st_size, session.build_context().pairs
    details = {"replacement": [{"entry": first}, {"summary": True}], "earliestRef": first}
    session.append_compaction(CompactionDraft("S1", None, 10, details), expect=first)
    session.close()
    whole = path.read_bytes()
    for end in range(start + 1, len(whole) - 1, 7):
        path.write_bytes(whole[:end])
        again = reopened(path, tmp_path)
        assert again.build_context().pairs == before
        again.close()
