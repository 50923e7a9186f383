"""Realistic version-3 session files, made from a seed: the same arguments give the same bytes.

A turn is four entries: a prompt, a reply that thinks and calls a tool, the tool's result of 1 to 8 KB, a closing reply.
Side branches of a few turns are left behind at even distances (every second one with a summary), and compactions stand
on the main path. Here: the generator and its cache in ``benchmarks/out``. Not here: anything that measures.
"""

import hashlib
import json
import os
import random
import shutil
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

OUT = Path(__file__).parent / "out"
"""Where workloads are cached and results go; ignored by git, deleted by ``make clean``."""

KEPT = 28
"""Entries a compaction keeps before itself: seven turns."""

SIDE_SHARE = 0.25
"""Share of all entries that stand on branches left behind, when there are branches."""

POOL = 1 << 19
"""Characters in each pool that texts are cut from."""

_EPOCH = datetime(2026, 1, 2, tzinfo=UTC)
_WORDS = (
    "agent answer append assert branch buffer cache call change check class commit compare context copy count cursor"
    " decode entry error file first fix follow header index input issue keep last leaf line list lock loop maybe merge"
    " model module move name node now older only open order output parent parse path place plan queue read result return"
    " root run same scan session should size small split start state stored test that then this token tool tree until"
    " update value wait where which while with without write yet"
).split()
_CODE = (
    "    def {0}_{1}(self, {2}: str) -> int:\n",
    '        raise KeyError(f"{0} {{{1}!r}} of {2}")\n',
    "        return [{0} for {0} in {1} if {0}.{2} > {n}]\n",
    'src/{0}/{1}.py:{n}:5: error: "{2}" is not defined  [name]\n',
    "tests/{0}/test_{1}.py::test_{2} PASSED  [ {n}%]\n",
    '\t"{0}": {{"{1}": "{2}", "count": {n}}},\n',
    "-rw-r--r--  1 dev dev  {n}4 {0}-{1}.txt\n",
    "# {0} → {1}: “{2}”\n",
    "\n",
)
_TOOLS = ("read", "grep", "bash", "edit", "write")
_MODEL = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-sonnet-4-5"}
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Shape:
    """What to make: entries without the header, side branches, compactions on the main path, and the seed."""

    entries: int
    branches: int = 0
    compactions: int = 0
    seed: int = 1
    cwd: str = "/home/dev/project"


LARGE = Shape(100_000, branches=500, compactions=100)
"""About 279 MB."""


def session_lines(shape: Shape) -> Iterator[bytes]:
    """The lines of a session, each with its newline: the header, then exactly as many entries as were asked for."""
    talk = _Talk(shape)
    yield talk.header()
    yield from islice(talk.entries(), shape.entries)


class _Pools(NamedTuple):
    prose: str
    code: str
    noise: str


@cache
def _pools() -> _Pools:
    """What all texts are cut from, the same for every session."""
    chance = random.Random(POOL)
    prose, code = (_pool(partial(piece, chance)) for piece in (_sentence, _code_line))
    return _Pools(prose, code, "".join(chance.choices(_BASE64, k=POOL)))


def _pool(piece: Callable[[], str]) -> str:
    pieces: list[str] = []
    size = 0
    while size < POOL:
        pieces.append(piece())
        size += len(pieces[-1])
    return "".join(pieces)


def _sentence(chance: random.Random) -> str:
    words = chance.choices(_WORDS, k=chance.randint(4, 20))
    return " ".join(words).capitalize() + chance.choice((". ", ".\n\n", ": ", "? ", " — `x.py`. "))


def _code_line(chance: random.Random) -> str:
    return chance.choice(_CODE).format(*chance.choices(_WORDS, k=3), n=chance.randrange(1000))


class _Talk:
    """One session being made up: its clock, its leaf and the chance that rules it."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.chance = random.Random(shape.seed)
        self.pools = _pools()
        self.ms = self.chance.randrange(10**9)
        self.leaf: str | None = None
        self.made = 0

    def _cut(self, pool: str, low: int, high: int) -> str:
        size = self.chance.randint(low, high)
        start = self.chance.randrange(len(pool) - size)
        return pool[start : start + size]

    # --- lines -------------------------------------------------------------------------------

    def _stamp(self) -> str:
        return (_EPOCH + timedelta(milliseconds=self.ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def _unix_ms(self) -> int:
        return int(_EPOCH.timestamp()) * 1000 + self.ms

    def header(self) -> bytes:
        session_id = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        head = {"type": "session", "version": 3, "id": session_id, "timestamp": self._stamp(), "cwd": self.shape.cwd}
        return _encode(head).encode() + b"\n"

    def _entry(self, kind: str, **fields: Any) -> bytes:
        """The next entry, after the leaf; it becomes the leaf. Ids: an odd factor makes 2^32 different ones."""
        self.made += 1
        self.ms += self.chance.randint(20, 9000)
        entry_id = f"{(self.made * 0x9E3779B1 + self.shape.seed * 0x51ED27) & 0xFFFFFFFF:08x}"
        entry = {"type": kind, "id": entry_id, "parentId": self.leaf, "timestamp": self._stamp()} | fields
        self.leaf = entry_id
        return _encode(entry).encode() + b"\n"

    def _message(self, role: str, content: list[JsonObject], **fields: Any) -> bytes:
        return self._entry(
            "message", message={"role": role, "content": content} | fields | {"timestamp": self._unix_ms()}
        )

    # --- a turn ------------------------------------------------------------------------------

    def _turn(self) -> Iterator[bytes]:
        call = {
            "type": "toolCall",
            "id": f"toolu_{self.made:024d}",
            "name": self.chance.choice(_TOOLS),
            "arguments": self._arguments(),
        }
        yield self._message("user", [self._text(30, 560)])
        yield self._reply([self._thinking(), self._text(40, 260), call], "toolUse")
        yield self._message(
            "toolResult",
            [{"type": "text", "text": self._cut(self.pools.code, 1000, 8000)}],
            toolCallId=call["id"],
            toolName=call["name"],
            isError=self.chance.random() < 0.05,
        )
        thinking = [self._thinking()] if self.chance.random() < 0.5 else []
        yield self._reply([*thinking, self._text(150, 2600)], "stop")

    def _arguments(self) -> JsonObject:
        path = f"src/{self.chance.choice(_WORDS)}/{self.chance.choice(_WORDS)}.py"
        if self.chance.random() < 0.5:
            return {"path": path, "limit": self.chance.randint(20, 400)}
        return {"path": path, "content": self._cut(self.pools.code, 100, 3300)}

    def _text(self, low: int, high: int) -> JsonObject:
        return {"type": "text", "text": self._cut(self.pools.prose, low, high)}

    def _thinking(self) -> JsonObject:
        thinking, signature = self._cut(self.pools.prose, 200, 1200), self._cut(self.pools.noise, 400, 900)
        return {"type": "thinking", "thinking": thinking, "thinkingSignature": signature}

    def _reply(self, content: list[JsonObject], stop_reason: str) -> bytes:
        tokens = [self.chance.randrange(limit) for limit in (4_000, 1_800, 150_000, 9_000)]
        names = ("input", "output", "cacheRead", "cacheWrite")
        costs = [round(count * price, 6) for count, price in zip(tokens, (3e-6, 15e-6, 3e-7, 3.75e-6), strict=True)]
        usage: JsonObject = dict(zip(names, tokens, strict=True)) | {"totalTokens": sum(tokens)}
        usage["cost"] = dict(zip(names, costs, strict=True)) | {"total": round(sum(costs), 6)}
        return self._message("assistant", content, **_MODEL, usage=usage, stopReason=stop_reason)

    # --- the session -------------------------------------------------------------------------

    def entries(self) -> Iterator[bytes]:
        """Entries without end; the distances come from the shape."""
        shape, recent = self.shape, deque[str | None](maxlen=KEPT)
        branch_every = shape.entries / (shape.branches + 1)
        compact_every = shape.entries / (shape.compactions + 0.5)
        branched = compacted = 0
        yield self._entry("model_change", provider=_MODEL["provider"], modelId=_MODEL["model"])
        yield self._entry("thinking_level_change", thinkingLevel="high")
        while True:
            if recent and compacted < shape.compactions and self.made >= compact_every * (compacted + 1):
                compacted += 1
                yield self._compaction(recent[0])
                recent.clear()
            elif branched < shape.branches and self.made >= branch_every * (branched + 1):
                branched += 1
                yield from self._side_branch(summarized=branched % 2 == 0)
            else:
                for line in self._turn():
                    recent.append(self.leaf)
                    yield line
                yield from self._bookkeeping()

    def _side_branch(self, *, summarized: bool) -> Iterator[bytes]:
        fork = self.leaf
        size = self.shape.entries * SIDE_SHARE / self.shape.branches * self.chance.uniform(0.5, 1.5)
        for _ in range(max(1, round(size / 4))):
            yield from self._turn()
        tip, self.leaf = self.leaf, fork
        if summarized:
            yield self._entry(
                "branch_summary", fromId=tip, summary=self._cut(self.pools.prose, 500, 2500), fromHook=False
            )

    def _compaction(self, first_kept: str | None) -> bytes:
        sections = {
            "preamble": self._cut(self.pools.prose, 2000, 4000),
            "guidelines": self._cut(self.pools.prose, 2000, 6000),
        }
        return self._entry(
            "compaction",
            summary=self._cut(self.pools.prose, 2500, 7000),
            firstKeptEntryId=first_kept,
            tokensBefore=self.chance.randint(120_000, 190_000),
            details={"readFiles": [f"src/{word}.py" for word in self.chance.sample(_WORDS, 9)], "modifiedFiles": []},
            fromHook=False,
            systemMessage={"role": "system", "content": "", "sections": sections, "timestamp": self._unix_ms()},
        )

    def _bookkeeping(self) -> Iterator[bytes]:
        luck = self.chance.random()
        if luck < 0.01:
            yield self._entry("label", targetId=self.leaf, label=f"checkpoint {self.made}")
        elif luck < 0.02:
            yield self._entry("custom", customType="todo-list", data={"items": [self._cut(self.pools.prose, 20, 90)]})


# --- files ---------------------------------------------------------------------------------------


def write_session(path: Path, shape: Shape) -> Path:
    """Write a session file of mode 0600; it is complete when it stands at `path`."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    fd = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(fd, "wb", buffering=1 << 20) as file:
        file.writelines(session_lines(shape))
    beside.replace(path)
    return path


def _made_by() -> str:
    """Names this generator, so that a changed one does not use what an older one cached."""
    return hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]


def cached_session(shape: Shape, out: Path = OUT) -> Path:
    """The session file of a shape, made if it is not there; files an older generator made of this shape are deleted."""
    stem = f"session-{shape.entries}-{shape.branches}-{shape.compactions}-{shape.seed}"
    path = out / f"{stem}-{_made_by()}.jsonl"
    if not path.exists():
        for old in out.glob(f"{stem}-*.jsonl"):
            old.unlink()
        write_session(path, shape)
    return path


def cached_directory(sessions: int, out: Path = OUT) -> Path:
    """A directory of small sessions of 6 to 30 entries, made or completed if need be; an older generator's is deleted."""
    directory = out / f"many-{sessions}-{_made_by()}"
    for old in out.glob(f"many-{sessions}-*"):
        if old != directory:
            shutil.rmtree(old)
    for number in range(sessions):
        path = directory / f"2026-01-02T00-00-00-{number:06d}Z_{number:08x}.jsonl"
        if not path.exists():
            write_session(path, Shape(6 + number % 25, seed=number + 1))
    return directory
