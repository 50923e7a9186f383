"""Which model a prompt goes to, and what another model is sent of a conversation it did not have."""

from pathlib import Path

import msgspec
import pytest

from coppice.app.settings import Settings
from coppice.errors import UnknownModel
from coppice.format.messages import AssistantMessage, ThinkingBlock
from coppice.providers.scripted import ScriptedModel, call, calls, say, think
from tests.agent.stage import lines, started, stored, told, user_ids
from tests.app.house import House, asked, leaf, model_named, path_file
from tests.strict import faults_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House.at(tmp_path)


def kinds(house_path: Path) -> list[str]:
    return [msgspec.json.decode(line)["type"] for line in house_path.read_bytes().splitlines()]


@pytest.mark.case("P11")
async def test_a_wish_at_start_up_writes_nothing_until_the_prompt(house: House) -> None:
    async with house.enter(say("one")) as session:
        await session.prompt("hello")
    path = path_file(session)
    before = path.read_bytes()
    other = model_named("b", "b1", say("two"))
    async with house.enter(open_path=path, model=other, level="high") as again:
        assert (again.model.info.name, again.thinking_level) == ("b/b1", "high")
        assert path.read_bytes() == before
    assert path.read_bytes() == before
    other = model_named("b", "b1", say("two"))
    async with house.enter(open_path=path, model=other, level="high") as again:
        await again.prompt("hello, b")
        assert (asked(again).thinking_level, again.session.model()) == ("high", ("b", "b1"))
    assert kinds(path)[4:] == ["model_change", "thinking_level_change", "message", "message"]


@pytest.mark.case("P11")
async def test_opening_and_closing_a_session_leaves_its_bytes(house: House) -> None:
    async with house.enter(say("one")) as session:
        await session.prompt("hello")
    before = path_file(session).read_bytes()
    async with house.enter(say("two"), open_path=path_file(session)) as again:
        assert (again.model.info.name, again.thinking_level, lines(again.messages)) == (
            "scripted/scripted",
            "off",
            ["user: hello", "reply: one [stop]"],
        )
        again.report_notices()
        assert again.get_session_stats().branch.messages == 2
    assert (path_file(session).read_bytes(), house.notices()) == (before, [])


async def test_the_same_model_again_is_not_recorded_again(house: House) -> None:
    async with house.enter(say("one"), say("two")) as session:
        await session.prompt("hello")
        await session.prompt("again")
    assert kinds(path_file(session)) == ["session", "model_change", *["message"] * 4]


async def test_a_new_session_without_a_message_leaves_no_file(house: House) -> None:
    async with house.enter(say("one")) as session:
        session.set_model(model_named("b", "b1"))
        session.set_thinking_level("high")
    assert house.sessions() == []


@pytest.mark.case("P10")
async def test_the_model_and_the_level_follow_the_path(house: House) -> None:
    a = model_named("a", "a1", say("from a"), say("from a again"))
    b = model_named("b", "b1", say("from b"))
    async with house.enter(models=[a, b], settings=Settings(tools=(), model="a/a1")) as session:
        await session.prompt("first")
        on_a = leaf(session)
        session.set_model("b/b1")
        session.set_thinking_level("high")
        await session.prompt("second")
        on_b = leaf(session)
        assert on_a is not None
        assert on_b is not None
        await session.navigate_tree(on_a)
        assert (session.model.info.name, session.thinking_level) == ("a/a1", "off")
        await session.prompt("third")
        assert stored(session.session)[-1] == "reply: from a again [stop]"
        await session.navigate_tree(on_b)
        assert (session.model.info.name, session.thinking_level) == ("b/b1", "high")
    async with house.enter(models=[a, b], open_path=path_file(session)) as again:
        assert (again.model.info.name, again.thinking_level) == ("b/b1", "high")
        await again.navigate_tree(on_a)
        assert (again.model.info.name, again.thinking_level) == ("a/a1", "off")


async def test_going_before_the_first_message_the_settings_level_counts_again(house: House) -> None:
    async with house.enter(say("one"), say("two"), settings=Settings(tools=(), thinking_level="high")) as session:
        await session.prompt("first")
        await session.navigate_tree(user_ids(session.session)[0])
        assert session.thinking_level == "high"
        await session.navigate_tree(session.session.get_branch()[0].id)
        assert session.thinking_level == "high"


async def test_a_session_of_someone_else_keeps_the_level_of_its_path(house: House) -> None:
    async with house.enter(say("one")) as session:
        await session.prompt("first")
    settings = Settings(tools=(), thinking_level="high")
    async with house.enter(say("two"), open_path=path_file(session), settings=settings) as again:
        assert again.thinking_level == "off"


async def test_a_model_that_cannot_be_used_is_refused_and_the_old_one_stays(house: House) -> None:
    a = model_named("a", "a1", say("from a"))
    async with house.enter(models=[a], model="a/a1") as session:
        with pytest.raises(UnknownModel):
            session.set_model("c/c1")
        await session.prompt("hello")
        assert session.session.model() == ("a", "a1")


@pytest.mark.parametrize("current", ["the default", "the last one used"])
async def test_a_branch_whose_model_cannot_be_used_goes_on_with_another_and_says_so_once(
    house: House, current: str
) -> None:
    a = model_named("a", "a1", say("from a"), say("from a again"))
    b = model_named("b", "b1", say("from b"))
    async with house.enter(models=[b], model="b/b1") as session:
        await session.prompt("first")
    settings = Settings(tools=(), model="a/a1")
    if current == "the default":
        session = house.enter(models=[a], open_path=path_file(session), settings=settings)
    else:
        gone = leaf(session)
        assert gone is not None
        session = house.enter(models=[a], open_path=path_file(session), settings=settings, model="a/a1")
        await session.prompt("on a")
        await session.navigate_tree(gone)
    house.heard.clear()
    assert session.model.info.name == session.model.info.name == "a/a1"
    await session.prompt("second")
    assert house.notices() == [
        "this branch was made with b/b1, which cannot be used now (no key for b/b1); going on with a/a1"
    ]
    assert session.session.model() == ("a", "a1")
    await session.close()


async def test_a_wished_model_goes_before_the_paths_even_if_that_one_cannot_be_used(house: House) -> None:
    b = model_named("b", "b1", say("from b"))
    async with house.enter(models=[b], model="b/b1") as session:
        await session.prompt("first")
    a = model_named("a", "a1", say("from a"))
    async with house.enter(open_path=path_file(session), model=a) as again:
        await again.prompt("second")
        assert (stored(again.session)[-1], house.notices()) == ("reply: from a [stop]", [])


async def test_without_any_key_the_demo_model_answers(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    async with house.enter(models=[model_named("demo", "demo", say("only a demo"))]) as session:
        await session.prompt("hello")
        assert session.session.model() == ("demo", "demo")


# --- P29 -----------------------------------------------------------------------------------------


@pytest.mark.case("P29")
async def test_signatures_stay_with_the_model_that_made_them(house: House) -> None:
    cut = think("never to be finished").timed(chunk_delay_ms=1, chunk=2)
    signed = think("deep thoughts", signature="sig-A", then="thought about it")
    with_call = calls(think("about a call", signature="sig-call"), call("look", {"at": "a"}), text="let me see")
    a = model_named("a", "a1", signed, with_call, say("seen"), cut, say(""), say("back again"))
    b = model_named("b", "b1", say("b here"))

    def look(at: str) -> str:
        """Look."""
        return f"saw {at}"

    async with house.enter(models=[a, b], model="a/a1", tools=[look]) as session:
        await session.prompt("think")
        await session.prompt("look")
        stop = session.subscribe(
            lambda event: session.agent.abort_nowait() and None if told([event]) == ["thinking_delta"] else None
        )
        run = await started(session.prompt("think too long"))
        await run
        stop()
        await session.prompt("say nothing")
        by_a = [message for message in session.messages if isinstance(message, AssistantMessage)]
        assert [(reply.stop_reason, len(reply.content)) for reply in by_a] == [
            ("stop", 2),
            ("toolUse", 3),
            ("stop", 1),
            ("aborted", 1),
            ("stop", 0),
        ]
        kept = [reply.content for reply in by_a[:3]]

        session.set_model("b/b1")
        await session.prompt("and you?")
        to_b = msgspec.json.encode(b.requests[-1].messages)
        assert (b"sig-" in to_b, b"never to be" in to_b, b"deep thoughts" in to_b) == (False, False, True)
        assert faults_of(b.requests[-1].messages) == []

        session.set_model("a/a1")
        await session.prompt("back")
        sent = a.requests[-1].messages
        replies = [message for message in sent if isinstance(message, AssistantMessage)]
        assert [reply.content for reply in replies[:3]] == kept
        assert isinstance(replies[0].content[0], ThinkingBlock)
        assert [block for reply in replies for block in reply.content if isinstance(block, ThinkingBlock)] == [
            ThinkingBlock("deep thoughts", "sig-A"),
            ThinkingBlock("about a call", "sig-call"),
        ]
        assert (faults_of(sent), len(replies)) == ([], 4)
    text = path_file(session).read_text()
    assert all(part in text for part in ("sig-A", "sig-call", '"stopReason":"aborted"', '"content":[]'))
    assert isinstance(a, ScriptedModel)
