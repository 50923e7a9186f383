"""Codex's own scenarios, as kinds of items: what the summariser is asked, what is stored, what is sent next.

A row's words: U a user message, A a reply, S a summary, C a provider's item, ctx what an extension declares as context
(our system prompt stands outside the messages; the extension says its context anew after each compaction between
turns), prompt and trigger what asks for the summary. Where the words differ from Codex's, ``differs`` says why.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from coppice.app.agent_session import AgentSession
from coppice.app.extensions.hooks import AfterCompact
from coppice.format.messages import EntryId, JsonObject
from coppice.providers.base import Compacted, ModelInfo, Request
from coppice.providers.scripted import ScriptedModel, ScriptStep, call, say
from coppice.session.manager import SessionManager
from tests.agent.stage import user_ids
from tests.app.house import House, path_file
from tests.compaction.stage import (
    compacting,
    compactions,
    model_with,
    replaced_by,
    reply,
    shape,
    summary_requests,
    text,
)

pytestmark = pytest.mark.anyio

WINDOW = 272_000
FULL = 250_000


class CompactingScript(ScriptedModel):
    """A scripted model whose provider compacts: each answer is one opaque item."""

    def __init__(self, replies: Sequence[ScriptStep], info: ModelInfo) -> None:
        super().__init__(replies, info)
        self.triggers: list[Request] = []

    async def compact(self, request: Request, form: str, *, instructions: str | None = None) -> Compacted:
        self.triggers.append(request)
        item: JsonObject = {"type": "compaction", "id": f"C{len(self.triggers)}", "encrypted_content": "QUJD" * 200}
        return Compacted((item,))


@dataclass(slots=True)
class Scene:
    """A scenario being played: the house, the model, the session as it is now."""

    house: House
    model: ScriptedModel
    session: AgentSession

    async def say(self, *prompts: str) -> None:
        for prompt in prompts:
            await self.session.prompt(prompt)

    async def reopen(self) -> None:
        await self.session.close()
        path, settings = path_file(self.session), self.session.settings
        self.session = self.house.enter(model=self.model, tools=[work], open_path=path, settings=settings)


async def work() -> str:
    """Work."""
    return text("out", 10_000)


def say_context(session: SessionManager) -> EntryId:
    return session.append_custom_message_entry("env", "ctx", display=False, details={"context": True})


Play = Callable[[Scene], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Vector:
    """One row: what the model answers (used tokens, or calls and summaries as words), what happens, and what is seen."""

    name: str
    replies: tuple[str, ...]
    play: Play
    asked: str
    stored: str
    sent: str
    strategy: str = "codex-inline"
    differs: str = ""


async def _manual(scene: Scene) -> None:
    await scene.say("U1")
    await scene.session.compact()
    await scene.say("U2")


async def _manual_again(scene: Scene) -> None:
    await _manual(scene)
    await scene.session.compact()
    await scene.say("U3")


async def _one(scene: Scene) -> None:
    await scene.say("U1")


async def _two(scene: Scene) -> None:
    await scene.say("U1", "U2")


async def _three(scene: Scene) -> None:
    await scene.say("U1", "U2", "U3")


async def _rolled_back_past_the_compaction(scene: Scene) -> None:
    await _manual(scene)
    await scene.session.navigate_tree(user_ids(scene.session.session)[0])
    say_context(scene.session.session)
    await scene.say("U9")


async def _rolled_back_to_the_compaction(scene: Scene) -> None:
    await _manual(scene)
    await scene.session.navigate_tree(user_ids(scene.session.session)[1])
    await scene.say("U9")


async def _resumed(scene: Scene) -> None:
    await scene.say("U1")
    await scene.reopen()
    await scene.say("U2")


VECTORS = [
    Vector("inline manual", ("A1", "S1", "A2"), _manual, "ctx U1 A1 prompt", "U1 S1", "U1 S1 ctx U2"),
    Vector(
        "inline manual, previous summary",
        ("A1", "S1", "A2", "S2", "A3"),
        _manual_again,
        "U1 S1 ctx U2 A2 prompt",
        "U1 U2 S2",
        "U1 U2 S2 ctx U3",
    ),
    Vector("inline mid-turn", ("call", "S1", "A1"), _one, "ctx U1 call out prompt", "ctx U1 S1", "ctx U1 S1"),
    Vector(
        "pre-turn with incoming U3",
        ("A1", "A2 full", "S1", "A3"),
        _three,
        "ctx U1 A1 U2 A2 prompt",
        "U1 U2 S1",
        "U1 U2 S1 ctx U3",
    ),
    Vector(
        "remote v2 manual",
        ("A1", "A2"),
        _manual,
        "ctx U1 A1 trigger",
        "U1 C",
        "U1 C ctx U2",
        strategy="codex-remote",
    ),
    Vector(
        "remote mid-turn",
        ("call", "A1"),
        _one,
        "ctx U1 call out trigger",
        "ctx U1 C",
        "ctx U1 C",
        strategy="codex-remote",
    ),
    Vector(
        "remote after earlier remote compaction, next turn over the limit",
        ("A1 full", "A2 full", "A3"),
        _three,
        "U1 C ctx U2 A2 trigger",
        "U1 U2 C",
        "U1 U2 C ctx U3",
        strategy="codex-remote",
        differs="Codex's row stops before its second user message; ours shows the whole turn between",
    ),
    Vector(
        "rollback past the compaction",
        ("A1", "S1", "A2", "A9"),
        _rolled_back_past_the_compaction,
        "ctx U1 A1 prompt",
        "U1 S1",
        "ctx ctx U9",
        differs="the context of an extension is two entries here; the system prompt, Codex's ctx, is sent once",
    ),
    Vector(
        "rollback of one turn after a manual compaction",
        ("A1", "S1", "A2", "A9"),
        _rolled_back_to_the_compaction,
        "ctx U1 A1 prompt",
        "U1 S1",
        "U1 S1 ctx U9",
        differs="Codex sends ctx twice",
    ),
    Vector(
        "inline mid-turn, then cold resume",
        ("call", "S1", "A1", "A2"),
        _resumed,
        "ctx U1 call out prompt",
        "ctx U1 S1",
        "ctx U1 S1 A1 U2",
    ),
]


def _answers(words: tuple[str, ...]) -> list[ScriptStep]:
    made: list[ScriptStep] = []
    for word in words:
        if word == "call":
            made.append(call("work").with_usage(input_tokens=239_900, output_tokens=100))
        elif word.startswith("S"):
            made.append(say(word))
        else:
            made.append(reply(word.split()[0], 3_000, used=FULL if word.endswith("full") else 4_000))
    return made


def _asked(model: ScriptedModel) -> str:
    """The newest request for a summary."""
    if isinstance(model, CompactingScript):
        return " ".join([*shape(model.triggers[-1].messages), "trigger"])
    return " ".join(shape(summary_requests(model)[-1].messages))


@pytest.mark.case("C22", "C23", "C58")
@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.name)
async def test_codexs_scenarios_give_the_same_kinds_of_items(vector: Vector, tmp_path: Path) -> None:
    """Ours: ctx is never in a request twice because of a rollback; where a row differs it says so."""
    house = House.at(tmp_path)
    model = model_with(WINDOW, *_answers(vector.replies))
    if vector.strategy == "codex-remote":
        info = replace(model.info, remote_compaction=("openai-v2",))
        model = CompactingScript(_answers(vector.replies), info)
    settings = compacting(trigger="codex", strategy=vector.strategy)
    scene = Scene(house, model, house.enter(model=model, tools=[work], settings=settings))

    async def say_it_anew(event: AfterCompact) -> None:
        entry = scene.session.session.get_entry(event.entry_id)
        if entry is not None and entry.details["phase"] != "mid_turn":
            say_context(scene.session.session)

    scene.session.hooks.after_compact.append(say_it_anew)
    say_context(scene.session.session)
    await vector.play(scene)
    newest = compactions(scene.session)[-1]
    seen = (
        _asked(model),
        " ".join(replaced_by(scene.session, newest.id)),
        " ".join(shape(model.requests[-1].messages)),
    )
    assert seen == (vector.asked, vector.stored, vector.sent)
    await scene.session.close()


@pytest.mark.case("C10", "C22")
async def test_codexs_scenario_of_a_switch_gives_the_same_kinds_of_items(tmp_path: Path) -> None:
    """The notice of the switch, which Codex says as a message, is a model_change entry here and no message."""
    house = House.at(tmp_path)
    old = model_with(WINDOW, *_answers(("A1", "S1")), name="old/big")
    new = model_with(3_000, say("A2"), name="new/small")
    async with house.enter(
        model=old, models=(old, new), settings=compacting(trigger="codex", strategy="codex-inline")
    ) as session:

        async def say_it_anew(event: AfterCompact) -> None:
            say_context(session.session)

        session.hooks.after_compact.append(say_it_anew)
        say_context(session.session)
        await session.prompt("U1")
        session.set_model("new/small")
        await session.prompt("U2")
        (newest,) = compactions(session)
        assert (
            shape(old.requests[-1].messages),
            replaced_by(session, newest.id),
            shape(new.requests[-1].messages),
        ) == (["ctx", "U1", "A1", "prompt"], ["U1", "S1"], ["U1", "S1", "ctx", "U2"])


@pytest.mark.case("C23")
async def test_codexs_scenario_without_a_users_message_keeps_context_and_item(tmp_path: Path) -> None:
    house = House.at(tmp_path)
    info = replace(model_with(WINDOW).info, remote_compaction=("openai-v2",))
    model = CompactingScript(_answers(("call", "A1")), info)
    settings = compacting(trigger="codex", strategy="codex-remote")
    async with house.enter(model=model, tools=[work], settings=settings) as session:
        say_context(session.session)
        await session.continue_()
        (newest,) = compactions(session)
        assert (replaced_by(session, newest.id), shape(model.requests[-1].messages)) == (["ctx", "C"], ["ctx", "C"])
