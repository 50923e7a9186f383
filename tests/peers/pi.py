"""Pi and coppice asked the same question of the same file: what is the context here. For the peer tests only.

Pi is asked through the shared script that runs its own SessionManager on a copy; coppice through its command line.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SHARED = Path(os.environ.get("COPPICE_SHARED") or HERE.parents[2] / "shared")
SOURCE = HERE.parents[1] / "src"
LEAF_MARKER = "coppice.leaf"

KEYS = ["leaf", "name", "labels", "thinkingLevel", "model", "entries", "messages"]
"""The keys of an answer, in Pi's order."""

Answer = dict[str, Any]


def lines_of(output: bytes) -> list[str]:
    """The lines of an output in strict UTF-8; nothing but a newline ends one."""
    return output.decode("utf-8").removesuffix("\n").split("\n")


@dataclass(frozen=True, slots=True)
class Pi:
    """Pi, installed: the node program and the folder of its package."""

    node: str
    root: str

    def run(self, script: Path, *words: str) -> bytes:
        """Run a script with Pi's package at hand; its standard output."""
        environment = {**os.environ, "PI_ROOT": self.root}
        done = subprocess.run([self.node, str(script), *words], env=environment, capture_output=True)
        assert (done.returncode, done.stderr.decode()) == (0, "")
        return done.stdout

    def answers(self, file: Path, *words: str) -> list[Answer]:
        """What Pi makes of a file."""
        return [json.loads(line) for line in lines_of(self.run(SHARED / "bench/pi_context.mjs", str(file), *words))]

    def append(self, file: Path, *steps: object) -> list[Any]:
        """Have Pi open a file and call methods of its SessionManager, each step ``[method, *arguments]``; the results."""
        return json.loads(self.run(HERE / "call_pi.mjs", str(file), json.dumps(steps)))


def our_lines(file: Path, *words: str) -> list[str]:
    """What coppice's command line prints of a file; the file's bytes and time stay as they are."""
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    done = subprocess.run(
        [sys.executable, "-m", "coppice", "sessions", "context", str(file), *words, "--json"],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr.decode()
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    return lines_of(done.stdout)


def our_answers(file: Path, *words: str) -> list[Answer]:
    """What coppice makes of a file."""
    return [json.loads(line) for line in our_lines(file, *words)]


def markers_of(file: Path) -> dict[str, str | None]:
    """The ids of a file's leaf markers -> the entry each stands for."""
    found: dict[str, str | None] = {}
    for line in file.read_bytes().split(b"\n"):
        if b'"customType":"coppice.leaf"' in line:
            entry = json.loads(line)
            found[entry["id"]] = entry["parentId"]
    return found


def without_markers(answers: list[Answer], markers: dict[str, str | None]) -> Iterator[Answer]:
    """The answers with leaf markers taken out: as the leaf a marker is its target, as an entry it is not there."""
    for answer in answers:
        leaf = answer["leaf"]
        entries = [entry_id for entry_id in answer["entries"] if entry_id not in markers]
        yield answer | {"leaf": markers.get(leaf, leaf), "entries": entries}


def differences(theirs: list[Answer], ours: list[Answer], markers: dict[str, str | None]) -> list[str]:
    """Where two lists of answers differ, as text that names leaf and key."""
    if len(theirs) != len(ours):
        return [f"{len(theirs)} answers of Pi's, {len(ours)} of ours"]
    found: list[str] = []
    pairs = zip(without_markers(theirs, markers), without_markers(ours, markers), strict=True)
    for number, (their, our) in enumerate(pairs):
        found += [
            f"answer {number} at {their['leaf']}, {key}: Pi {json.dumps(their[key])[:300]}, we {json.dumps(our[key])[:300]}"
            for key in KEYS
            if their[key] != our[key]
        ]
    return found[:20]


def compare(pi: Pi, file: Path, *words: str) -> int:
    """Assert that Pi and coppice answer alike; how many contexts were compared."""
    theirs, ours = pi.answers(file, *words), our_answers(file, *words)
    assert differences(theirs, ours, markers_of(file)) == []
    return len(ours)
