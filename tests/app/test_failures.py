"""A full disk, half characters, who can read the files: what a session survives and what is told of it."""

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from coppice.app.agent_session import AgentSession, Wishes
from coppice.errors import BridgeNeedsConsent, ReadOnlySession
from coppice.format.entries import Header
from coppice.format.events import SessionEvent
from coppice.providers.scripted import ScriptedModel, call, say
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tools.base import ToolResult, text_result
from coppice.tree.pairing import INTERRUPTED, Reader
from tests.agent.killed import killed
from tests.agent.stage import lines, reopened, stored, told
from tests.app.child import LONG
from tests.app.house import House, asked, path_file
from tests.strict import faults_of

pytestmark = pytest.mark.anyio


# --- P04 -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A home, and what a program saw whose disk filled up in it."""
    tmp_path = tmp_path_factory.mktemp("full")
    return tmp_path, killed("full", tmp_path, "tests.app.child")


@pytest.mark.case("P04")
def test_a_prompt_that_cannot_be_stored_is_refused_loudly_and_nothing_is_sent(
    filled: tuple[Path, dict[str, Any]],
) -> None:
    seen = filled[1]["prompt"]
    assert (filled[1]["path"] in seen["failed"], "not stored" in seen["failed"]) == (True, True)
    assert (seen["running"], seen["stored"]) == (False, ["user: first", "reply: one [stop]"])


@pytest.mark.case("P04")
def test_a_reply_that_cannot_be_stored_is_told_in_its_turn_and_the_agent_settles(
    filled: tuple[Path, dict[str, Any]],
) -> None:
    seen = filled[1]["reply"]
    fragment, notice = seen["notices"]  # the fragment of the prompt before is told of first
    assert (notice == seen["failed"], filled[1]["path"] in notice, "left out" in fragment) == (True, True, True)
    assert (seen["settled"], seen["running"], seen["stored"][2:]) == (["agent_settled"], False, ["user: second"])


@pytest.mark.case("P04")
def test_when_there_is_room_again_the_next_prompt_works(filled: tuple[Path, dict[str, Any]]) -> None:
    seen = filled[1]["after"]
    assert (seen["failed"], seen["stored"][2:]) == ("", ["user: second", "user: third", "reply: three [stop]"])
    assert filled[1]["in the end"]["failed"] == ""
    assert filled[1]["in the end"]["stored"][-2:] == ["user: fifth", "reply: five [stop]"]


@pytest.mark.case("P04")
def test_results_that_cannot_be_stored_end_the_run_and_are_sent_as_interrupted(
    filled: tuple[Path, dict[str, Any]],
) -> None:
    home, found = filled
    seen = found["results"]
    assert ("not stored" in seen["failed"], seen["settled"], seen["running"]) == (True, ["agent_settled"], False)
    again = reopened(Path(found["path"]), home / "home")
    sent = again.request_messages(Reader("scripted", "scripted", "scripted"))
    assert faults_of(sent) == []
    results = [line for line in lines(sent) if line.startswith("result ")]
    assert len(results) == 2
    assert all(line.endswith((INTERRUPTED, LONG)) for line in results)
    again.close()


@pytest.mark.case("P04")
def test_what_was_stored_before_and_after_loads_and_fragments_are_reported(
    filled: tuple[Path, dict[str, Any]],
) -> None:
    home, found = filled
    again = reopened(Path(found["path"]), home / "home")
    assert stored(again) == found["in the end"]["stored"]
    notices = again.take_notices()
    assert len(notices) in (3, 4)
    assert all(notice.startswith(found["path"]) for notice in notices)
    again.close()


# --- P25 -----------------------------------------------------------------------------------------

HALVES = ("before\ud83dafter", "before\ude00after", "before\ude00\ud83dafter")
WHOLE = "before\U0001f600after"


@pytest.mark.case("P25")
@pytest.mark.parametrize("text", [*HALVES, WHOLE, "pair\ud83d\ude00s"])
async def test_half_characters_from_a_tool_reach_neither_the_file_nor_the_provider(tmp_path: Path, text: str) -> None:
    def odd() -> ToolResult:
        """Give odd text."""
        return text_result(text, {"and": [text]})

    house = House.at(tmp_path)
    async with house.enter(call("odd"), say("fine"), tools=[odd]) as session:
        await session.prompt(text)
        sent = asked(session).messages
        assert faults_of(sent) == []
        body = msgspec.json.encode(sent)
        json.loads(body.decode("utf-8", "strict"))
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        assert lines(sent)[0] == f"user: {whole}"
        assert lines(sent)[2] == f"result call_1: {whole}"
    path_file(session).read_bytes().decode("utf-8", "strict")


@pytest.mark.case("P25")
async def test_half_characters_of_an_old_file_do_not_reach_the_provider(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    old = tmp_path / "old.jsonl"
    header = msgspec.json.encode(Header(3, "old", "2026-01-02T03:04:05.678Z", str(house.project))).decode()
    rows = [
        header,
        r'{"type":"message","id":"aaaaaaaa","parentId":null,"timestamp":"2026-01-02T03:04:05.678Z",'
        r'"message":{"role":"user","content":"one \ud83d two \ud83d\ude00 three \ude00"}}',
        r'{"type":"message","id":"bbbbbbbb","parentId":"aaaaaaaa","timestamp":"2026-01-02T03:04:05.678Z","message":'
        r'{"role":"assistant","content":[{"type":"text","text":"\udfff"}],"stopReason":"stop"}}',
    ]
    old.write_text("\n".join(rows) + "\n")
    before = old.read_bytes()
    async with house.enter(say("fine"), open_path=old) as session:
        await session.prompt("hello")
        assert faults_of(asked(session).messages) == []
        assert lines(asked(session).messages)[0] == "user: one \ufffd two \U0001f600 three \ufffd"
    assert old.read_bytes().startswith(before)


# --- P30 -----------------------------------------------------------------------------------------


@pytest.fixture
def wide_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def loose(home: Path) -> list[str]:
    """What others may read below a home, with its mode."""
    paths = [home, *home.rglob("*")]
    return [f"{path}: {mode:04o}" for path in paths if (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077]


@pytest.mark.case("P30")
@pytest.mark.usefixtures("wide_umask")
async def test_no_file_of_a_home_can_be_read_by_others_at_any_moment(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    session = house.enter(say("one"), say("two"), say("three"))
    kinds: set[str] = set()
    found: list[str] = []

    def look(event: SessionEvent) -> None:
        found.extend(loose(house.home))
        kinds.update(path.relative_to(house.home).parts[0] for path in house.home.rglob("*") if path.is_file())
        if told([event]) == ["text_start"]:
            session.follow_up("and then?") if len(session.messages) == 1 else None

    session.subscribe(look)
    await session.prompt("hello")
    await session.run_bash("seq 1 20000")
    session.clone()
    session.fork(session.session.get_branch()[-1].id)
    await session.prompt("more")
    await session.close()
    assert (found, kinds >= {"sessions", "locks", "pending", "output"}, len(house.sessions())) == ([], True, 3)
    assert loose(house.home) == []


# --- files that change under us ------------------------------------------------------------------


@pytest.mark.case("P02")
async def test_a_session_file_deleted_while_a_tool_runs_is_complete_after_the_run(tmp_path: Path) -> None:
    house = House.at(tmp_path)

    def unlink() -> str:
        """Delete the session."""
        path_file(session).unlink()
        return "gone"

    async with house.enter(say("one"), call("unlink"), say("fine"), tools=[unlink]) as session:
        await session.prompt("first")
        await session.prompt("second")
        said = stored(session.session)
        assert said[-1] == "reply: fine [stop]"
        (notice,) = house.notices()
        assert "it was written anew, complete" in notice
    again = reopened(path_file(session), house.home)
    assert (stored(again), again.take_notices()) == (said, [])
    again.close()


@pytest.mark.case("P05")
async def test_two_programs_in_one_session_keep_both_lines_of_work_and_both_are_told(tmp_path: Path) -> None:
    one, other = House.at(tmp_path), House.at(tmp_path)
    async with one.enter(say("a1"), say("a2"), say("a3")) as first:
        await first.prompt("begin")
        shared = SessionManager.open(path_file(first), mode="shared", setup=Setup(one.home))
        async with AgentSession(shared, Wishes(ScriptedModel([say("b1")]), tools=[])) as second:
            second.subscribe(other.heard.append)
            await asyncio.gather(first.prompt("from a"), second.prompt("from b"))
            await first.prompt("again from a")
            assert stored(first.session)[2:] == [
                *("user: from a", "reply: a2 [stop]"),
                *("user: again from a", "reply: a3 [stop]"),
            ]
            assert stored(second.session)[2:] == ["user: from b", "reply: b1 [stop]"]
            for house in (one, other):
                assert any("another program appended" in notice for notice in house.notices())
    again = reopened(path_file(first), one.home)
    assert stored(again) == stored(first.session)
    assert len(list(again.entries())) >= 8
    assert any("two programs" in notice for notice in again.take_notices())
    again.close()


def row(entry_id: str, parent: str | None, text: str) -> str:
    message = {"role": "user", "content": text}
    return json.dumps({"type": "message", "id": entry_id, "parentId": parent, "timestamp": WHEN, "message": message})


WHEN = "2026-01-02T03:04:05.678Z"


@pytest.mark.case("P06")
async def test_a_guessed_bridge_waits_for_the_users_yes_before_anything_is_stored_or_sent(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    broken = tmp_path / "broken.jsonl"
    header = json.dumps({"type": "session", "version": 3, "id": "b", "timestamp": WHEN, "cwd": str(house.project)})
    rows = [row("a1", None, "one"), row("a2", "a1", "two"), row("a3", "a1", "three"), row("a5", "a4", "five")]
    broken.write_text("\n".join([header, *rows]) + "\n")
    before = broken.read_bytes()
    async with house.enter(say("fine"), open_path=broken) as session:
        for work in (session.prompt("hello"), session.continue_()):
            with pytest.raises(BridgeNeedsConsent):
                await work
        assert broken.read_bytes() == before
        session.session.accept_bridges()
        await session.prompt("hello")
        assert lines(asked(session).messages)[-2:] == ["user: five", "user: hello"]


@pytest.mark.case("P24")
async def test_messages_that_wait_in_an_old_session_lie_with_the_new_file_it_goes_on_in(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    old = tmp_path / "old.jsonl"
    rows = [
        {"type": "session", "id": "old-session", "timestamp": WHEN, "cwd": str(house.project)},
        {"type": "message", "timestamp": WHEN, "message": {"role": "user", "content": "long ago"}},
    ]
    old.write_text("".join(json.dumps(fields) + "\n" for fields in rows))
    before = old.read_bytes()
    async with house.enter(say("one"), say("two"), open_path=old) as session:
        waiting: list[list[str]] = []

        def queue(event: SessionEvent) -> None:
            if told([event]) == ["text_start"] and not waiting:
                session.follow_up("and then?")
                waiting.append([path.name for path in (house.home / "pending").iterdir()])

        session.subscribe(queue)
        await session.prompt("hello")
        assert session.session.session_id != "old-session"
        assert waiting == [[f"{session.session.session_id}.jsonl"]]
        assert stored(session.session) == [
            *("user: long ago", "user: hello", "reply: one [stop]"),
            *("user: and then?", "reply: two [stop]"),
        ]
    assert old.read_bytes() == before
    assert any("the session goes on in" in notice for notice in house.notices())


async def test_a_session_that_is_read_along_is_looked_at_and_not_written(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    async with house.enter(say("one")) as session:
        await session.prompt("hello")
        before = path_file(session).read_bytes()
        reader = SessionManager.open(path_file(session), mode="read", setup=Setup(house.home))
        async with AgentSession(reader, Wishes(ScriptedModel([say("two")]), tools=[])) as along:
            with pytest.raises(ReadOnlySession):
                await along.prompt("me too")
            with pytest.raises(ReadOnlySession):
                along.set_session_name("mine")
            assert await along.navigate_tree(along.session.get_branch()[1].id) == "hello"
            assert along.is_running is False
        assert path_file(session).read_bytes() == before
