"""A session of 2,000 turns with a window of 32,768 tokens, under each strategy and both triggers (pi, codex).

Here: that it runs to its end, how often it is compacted, what is sent, and that neither a compaction nor a turn costs
more because the session is old. Not here: what summaries are worth; the model plays a part and reads nothing.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.figure import Bar, Figure, Reference, Scale, Spread
from benchmarks.workload import OUT
from coppice.app.agent_session import AgentSession, Wishes
from coppice.app.settings import Settings
from coppice.compaction.settings import CompactionSettings, StrategyName, TriggerName
from coppice.errors import ContextOverflow
from coppice.format.events import CompactionEnd, CompactionStart, SessionEvent, StreamDone, StreamEvent
from coppice.format.messages import AssistantMessage, TextBlock, Usage
from coppice.providers.base import Compacted, ModelInfo, Request
from coppice.providers.script import usage_by_length
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup

WINDOW: Final = 32_768
TURNS: Final = 2_000

PROMPT: Final = "Please look at the next part of the work and tell me what you find in it, as exactly as you can. " * 8
REPLY: Final = "It holds three functions, and each of them does what its name says; one could be shorter. " * 18
SUMMARY: Final = "## Goal\nRead every part of the work. What was found: nothing that needs a change so far. " * 12
"""About 180, 330 and 260 tokens."""

STRATEGIES: Final[tuple[StrategyName, ...]] = ("summary", "codex-inline", "codex-remote")
TRIGGERS: Final[tuple[TriggerName, ...]] = ("pi", "codex")

TOOL_TOKENS: Final = 200
"""What a tool's name, description and schema take."""

GROWTH: Final = 1.5
"""The most the last tenth may cost beside the first. Without growth it is 1; a shared machine is not that even."""

MILLI: Final = 1e3


class PartModel:
    """Answers every request at once and counts what it was sent; its provider compacts too.

    It refuses what is larger than its window, as a provider does.
    """

    def __init__(self, window: int) -> None:
        self.sent: list[int] = []
        self._window = window

    @property
    def info(self) -> ModelInfo:
        """Facts about the model."""
        return ModelInfo("part", "part", "part", self._window, 8_192, account="a", remote_compaction=("openai-v2",))

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """A summary where one is asked for (no tools are offered then), else a reply."""
        asked = self._count(request)
        text = REPLY if request.tools else SUMMARY
        await asyncio.sleep(0)
        yield StreamDone(
            AssistantMessage(
                (TextBlock(text),),
                api="part",
                provider="part",
                model="part",
                usage=Usage(asked, len(text) // 4, 0, 0, asked + len(text) // 4),
                stop_reason="stop",
                timestamp=1_767_312_000_000,
            )
        )

    async def compact(self, request: Request, form: str, *, instructions: str | None = None) -> Compacted:
        """One opaque item of 2 kB."""
        asked = self._count(request)
        await asyncio.sleep(0)
        return Compacted(
            ({"type": "compaction", "encrypted_content": "A" * 2_048},), Usage(asked, 400, 0, 0, asked + 400)
        )

    def _count(self, request: Request) -> int:
        """The input tokens of a request: 4 characters each, and what the tools take."""
        asked = usage_by_length(request, ()).input + TOOL_TOKENS * len(request.tools)
        if asked > self._window:
            raise ContextOverflow(f"prompt is too long: {asked} tokens > {self._window} maximum", status=400)
        self.sent.append(asked)
        return asked


@dataclass(slots=True)
class Watch:
    """What a session did: seconds of each turn and each compaction, the tokens sent by each turn."""

    turns: list[float] = field(default_factory=list[float])
    tokens: list[int] = field(default_factory=list[int])
    compactions: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])
    _began: float = 0

    def hear(self, event: SessionEvent) -> None:
        """Time a compaction."""
        match event:
            case CompactionStart():
                self._began = time.perf_counter()
            case CompactionEnd(error_message=str(error)):
                self.failures.append(error)
            case CompactionEnd():
                self.compactions.append(time.perf_counter() - self._began)
            case _:
                pass


def figures(scale: Scale) -> Iterator[Figure]:
    """Four figures for each strategy under each trigger."""
    turns = scale.count(TURNS)
    for strategy in STRATEGIES:
        for trigger in TRIGGERS:
            model, watch = asyncio.run(run_session(strategy, trigger, turns))
            yield from _figures_of(f"{strategy}, {trigger}", model.sent, watch, scale)


async def run_session(
    strategy: StrategyName, trigger: TriggerName, turns: int, *, window: int = WINDOW
) -> tuple[PartModel, Watch]:
    """Run a session of so many turns to its end; it raises what ends it early."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        directory = Path(folder)
        setup = Setup(directory / "home", directory / "s", sync=False)
        settings = Settings(tools=("read",), compaction=CompactionSettings(strategy=strategy, trigger=trigger))
        model, watch = PartModel(window), Watch()
        manager = SessionManager.create(directory, setup=setup)
        async with AgentSession(manager, Wishes(model=model), settings=settings) as session:
            session.subscribe(watch.hear)
            for number in range(turns):
                start, before = time.perf_counter(), len(model.sent)
                await session.prompt(f"{number:06d} {PROMPT}")
                watch.turns.append(time.perf_counter() - start)
                watch.tokens.append(sum(model.sent[before:]))
    return model, watch


def _figures_of(name: str, sent: list[int], watch: Watch, scale: Scale) -> Iterator[Figure]:
    turns, compactions, tokens = len(watch.turns), len(watch.compactions), sum(sent) / 1e6
    note = f"{turns:,} turns, {compactions} compactions, {tokens:.1f} M tokens sent in {len(sent):,} requests"
    largest = Spread.of([float(max(sent))])
    yield Figure(f"{name}: largest request", "tokens", largest, None, Bar(WINDOW), note)
    bar = scale.bar(GROWTH, "ratio")
    yield _ends(f"{name}: a compaction", "ms", watch.compactions, bar, MILLI)
    yield _ends(f"{name}: a turn", "ms", watch.turns, bar, MILLI)
    yield _ends(f"{name}: sent in a turn", "tokens", [float(tokens) for tokens in watch.tokens], bar)


def _ends(name: str, unit: str, values: list[float], bar: Bar | None, factor: float = 1) -> Figure:
    """The last tenth of some values beside the first."""
    tenth = max(len(values) // 10, 1)
    first, last = Spread.of(values[:tenth], factor), Spread.of(values[-tenth:], factor)
    return Figure(f"{name}, last tenth", unit, last, Reference("first tenth", first), bar)
