"""P17: after any history and any compactions, what is sent is whole, and the file has lost nothing."""

import asyncio
import tempfile
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coppice.app.agent_session import AgentSession, Wishes
from coppice.errors import CoppiceError
from coppice.format.entries import MessageEntry
from coppice.format.events import CompactionEnd, MessageEnd, SessionEvent
from coppice.format.messages import Content, EntryId, ImageBlock, JsonObject, TextBlock, UserMessage, text_of
from coppice.providers.base import Compacted, ModelInfo, Request
from coppice.providers.scripted import ScriptedModel, ScriptedReply, call, calls, fail, overflow, say, stall
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tools.function_tool import function_tool
from coppice.tree.pairing import Reader
from tests.compaction.checker import faults_in, read_path, tokens_of
from tests.compaction.stage import compacting, is_summary_request

WINDOW = 8_000
FORMS = ("openai-v2", "openai-v1", "anthropic")
INFO = ModelInfo("scripted", "scripted", "scripted", context_window=WINDOW, remote_compaction=FORMS)

READER = Reader(INFO.provider, INFO.api, INFO.id)

# --- histories ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Turn:
    """A prompt of a size, rounds of parallel calls with the sizes of their results, and how it ends."""

    size: int
    image: bool
    rounds: tuple[tuple[int, ...], ...]
    end: Literal["stop", "error", "aborted reply", "aborted tool", "compacted tool"]


@dataclass(frozen=True)
class Automatic:
    """How automatic compactions are made, and how many tokens of recent entries Pi's way keeps."""

    strategy: str = "summary"
    trigger: str = "pi"
    keep: int = 4_000


@dataclass(frozen=True)
class Compact:
    """A compaction that is asked for."""

    strategy: str
    form: str
    keep: int


@dataclass(frozen=True)
class Step:
    """Something else a user does; ``pick`` chooses an entry."""

    what: Literal["label", "hide", "reword", "fork", "move", "reopen", "undo"]
    pick: int


sizes = st.one_of(st.integers(10, 5_000), st.integers(2_000, 5_000))
turns = st.builds(
    Turn,
    st.integers(10, 3_000),
    st.booleans(),
    st.lists(st.lists(sizes, max_size=4).map(tuple), max_size=3).map(tuple),
    st.sampled_from(["stop", "stop", "stop", "error", "aborted reply", "aborted tool", "compacted tool"]),
)
compacts = st.builds(
    Compact,
    st.sampled_from(["summary", "codex-inline", "codex-remote", "anthropic-server"]),
    st.sampled_from(["openai-v2", "openai-v1"]),
    st.integers(50, 4_000),
)
steps = st.builds(
    Step, st.sampled_from(["label", "hide", "reword", "fork", "move", "reopen", "undo"]), st.integers(0, 10**6)
)
histories = st.lists(st.one_of(turns, turns, turns, compacts, steps), min_size=4, max_size=14)
automatic = st.builds(
    Automatic,
    st.sampled_from(["summary", "codex-inline", "codex-remote", "anthropic-server"]),
    st.sampled_from(["pi", "codex"]),
    st.integers(50, 8_000),
)
"""How automatic compactions of a history are made."""


# --- playing one -------------------------------------------------------------------------------


class Provider(ScriptedModel):
    """Counts as the checker does, refuses what is larger than its window, compacts by itself when asked."""

    def __init__(self, world: "World") -> None:
        super().__init__([world.answer] * 3_000, INFO)
        self._world = world

    async def compact(self, request: Request, form: str, *, instructions: str | None = None) -> Compacted:
        self._world.check(request, is_summary=True)
        item: JsonObject = {"type": "compaction", "id": "c", "content": "condensed", "encrypted_content": "QUJD" * 100}
        if form != "openai-v1":
            return Compacted((item,))
        users = [message for message in request.messages if isinstance(message, UserMessage)]
        said = [{"type": "message", "role": "user", "content": text_of(message.content)} for message in users]
        return Compacted((*said, item))


@dataclass
class World:
    """One history being played, and everything that was promised on the way."""

    home: Path
    automatic: Automatic = Automatic()
    number: int = 0
    script: deque[ScriptedReply] = field(default_factory=deque)
    waits: asyncio.Event = field(default_factory=asyncio.Event)
    announced: set[EntryId] = field(default_factory=set)
    files: dict[Path, bytes] = field(default_factory=dict)
    session: AgentSession = field(init=False)

    def text(self, who: str, size: int) -> str:
        self.number += 1
        return f"{who}{self.number}q " + ("lantern orchard é 日本 " * (size // 20 + 1))[:size]

    def enter(self, path: Path | None) -> None:
        setup = Setup(self.home, None, "write", False)
        cwd = self.home.parent / "project"
        cwd.mkdir(exist_ok=True)
        manager = SessionManager.create(cwd, setup=setup) if path is None else SessionManager.open(path, setup=setup)
        tools = tuple(map(function_tool, (self.work, self.hang)))
        model = Provider(self)
        way = self.automatic
        settings = compacting(strategy=way.strategy, trigger=way.trigger, keep_recent_tokens=way.keep)
        self.session = AgentSession(manager, Wishes(model, tools=tools, resolve=lambda _: model), settings=settings)
        self.session.subscribe(self.hear)

    async def work(self, size: int) -> str:
        """Work."""
        return self.text("r", size)

    async def hang(self) -> str:
        """Wait for ever."""
        self.waits.set()
        return await asyncio.get_running_loop().create_future()

    def hear(self, event: SessionEvent) -> None:
        match event:
            case MessageEnd(entry_id=entry_id) | CompactionEnd(entry_id=entry_id) if entry_id is not None:
                self.announced.add(entry_id)
            case _:
                pass

    def check(self, request: Request, *, is_summary: bool) -> None:
        path = read_path(self.session.session.get_branch())
        assert faults_in(request, path, is_summary=is_summary) == []

    def answer(self, request: Request) -> ScriptedReply:
        is_summary, size = is_summary_request(request), tokens_of(request)
        self.check(request, is_summary=is_summary)
        if size > WINDOW:
            useless = self.session.compactor._guard.useless_at  # pyright: ignore[reportPrivateUsage]  (nothing can be cut)
            assert useless is not None, f"{size} tokens are sent to a window of {WINDOW}"
            return overflow()
        if is_summary:
            reply = say(f"S{self.number} what was done")
        else:
            reply = self.script.popleft() if self.script else say(self.text("a", 50))
        if reply.fault is not None and reply == stall():
            self.waits.set()
        return reply.with_usage(input_tokens=size, output_tokens=len(str(reply.blocks)) // 4)

    # --- what a user does ---------------------------------------------------------------------

    async def play(self, action: Turn | Compact | Step) -> None:
        match action:
            case Turn():
                await self.turn(action)
            case Compact():
                await self.compact(action)
            case Step():
                await self.step(action)
        self.look_at_files()

    async def turn(self, turn: Turn) -> None:
        said = self.text("u", turn.size)
        content: Content = (TextBlock(said), ImageBlock("QUJD", "image/png")) if turn.image else said
        self.script = deque(
            calls(*(call("work", {"size": size}) for size in sizes), text=self.text("a", 40))
            for sizes in turn.rounds
            if sizes
        )
        match turn.end:
            case "error":
                self.script.append(fail(status=400))
            case "aborted reply":
                self.script.append(stall())
            case "aborted tool" | "compacted tool":
                self.script.append(calls(call("work", {"size": 100}), call("hang")))
            case "stop":
                pass
        self.waits.clear()
        run = asyncio.create_task(self.session.prompt(content))
        waits = asyncio.create_task(self.waits.wait())
        await asyncio.wait([run, waits], return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        if not run.done() and turn.end == "compacted tool":
            await self.compact(Compact(self.automatic.strategy, "openai-v2", self.automatic.keep))
        elif not run.done():
            await self.session.abort()
        try:
            await run
        except CoppiceError:
            for item in self.session.pending_prompts():
                self.session.drop_pending(item.id)

    async def compact(self, action: Compact) -> None:
        before = self.session.compactor.settings
        self.session.compactor.settings = replace_settings(action)
        with suppress(CoppiceError):
            await self.session.compact(strategy=action.strategy)
        self.session.compactor.settings = before

    async def step(self, step: Step) -> None:
        manager = self.session.session
        ids = manager.index.ids
        match step.what:
            case "reopen":
                await self.reopen()
            case "undo":
                self.session.undo_compaction()
            case "label" if ids:
                self.session.set_label(ids[step.pick % len(ids)], f"label {step.pick}")
            case "hide" | "reword":
                self.edit(step)
            case "move" if ids:
                await self.session.navigate_tree(ids[step.pick % len(ids)])
            case "fork" if ids:
                self.session.fork(ids[step.pick % len(ids)])
            case _:
                pass

    def edit(self, step: Step) -> None:
        manager = self.session.session
        entries = [manager.get_entry(entry_id) for entry_id, _ in manager.build_context().pairs]
        targets = [entry.id for entry in entries[1:] if isinstance(entry, MessageEntry)]  # a request begins with a user
        if targets:
            new = None if step.what == "hide" else self.text("u", 30)
            manager.append_context_edit(targets[step.pick % len(targets)], new)

    async def reopen(self) -> None:
        path = self.session.session.session_file
        sent = self.session.session.request_messages(READER)
        stored = self.session.session.is_stored
        await self.session.close()
        self.enter(path if stored else None)
        if stored:
            again = self.session.session.request_messages(READER)
            assert again == sent

    def look_at_files(self) -> None:
        """Every file has only grown, and what was announced is in one of them."""
        for path in self.home.glob("sessions/*/*.jsonl"):
            data = path.read_bytes()
            assert data.startswith(self.files.get(path, b""))
            self.files[path] = data
        everything = b"\n".join(self.files.values())
        assert [entry_id for entry_id in self.announced if b'"id":"%b"' % entry_id.encode() not in everything] == []


def replace_settings(action: Compact) -> object:
    return compacting(keep_recent_tokens=action.keep, remote=(action.form, "anthropic")).compaction


async def play(history: list[Turn | Compact | Step], way: Automatic) -> None:
    with tempfile.TemporaryDirectory() as directory:
        world = World(Path(directory) / "home", way)
        world.enter(None)
        for action in history:
            await world.play(action)
        await world.play(Turn(20, False, (), "stop"))
        await world.session.close()


@pytest.mark.case("P17")
@given(histories, automatic)
@settings(max_examples=50)
def test_after_any_history_what_is_sent_is_whole_and_nothing_stored_is_lost(
    history: list[Turn | Compact | Step], way: Automatic
) -> None:
    asyncio.run(play(history, way))


@pytest.mark.slow
@pytest.mark.case("P17")
@given(histories, automatic)
@settings(max_examples=250)
def test_after_very_many_histories_too(history: list[Turn | Compact | Step], way: Automatic) -> None:
    asyncio.run(play(history, way))
