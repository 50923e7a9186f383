"""Ours beside Pi 1.6's: open and context, tree, clone, append, in processes that run in turns. Neither side syncs."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks.child import APPENDS, ROOT, run_child
from benchmarks.figure import Figure, Reference, Scale, Spread
from benchmarks.opening import large_session
from benchmarks.workload import OUT

NODE_MAJOR = 22
PEERS = ROOT / ".peers" / "node_modules"
"""Where ``make test-peers`` installs both."""

Runs = list[dict[str, Any]]


class Pi(NamedTuple):
    """The node program and the folder of Pi's package."""

    node: str
    root: Path


def find_pi() -> Pi | str:
    """Pi, from ``PI_ROOT`` and ``PATH`` or where ``make test-peers`` put it; else why it cannot run."""
    root = Path(os.environ.get("PI_ROOT") or PEERS / "@earendil-works" / "pi-coding-agent")
    if not (root / "dist").is_dir():
        return "Pi is not installed (make test-peers installs it; PI_ROOT names another place)"
    node = shutil.which("node", path=os.pathsep.join((str(PEERS / ".bin"), os.environ.get("PATH", ""))))
    if node is None:
        return "node is not installed"
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    major = re.match(r"v(\d+)", version)
    if major is None or int(major[1]) < NODE_MAJOR:
        return f"node {version or '?'} is older than {NODE_MAJOR}"
    return Pi(node, root)


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure beside Pi's."""
    match find_pi():
        case str(reason):
            yield Figure("beside Pi 1.6", note=reason)
        case Pi() as pi:
            path, size = large_session(scale)
            ours, theirs = _runs(pi, path, 3 if scale.quick else 5)
            yield from _compared(size, ours, theirs)


def _runs(pi: Pi, path: Path, rounds: int) -> tuple[Runs, Runs]:
    ours: Runs = []
    theirs: Runs = []
    for _ in range(rounds):
        ours.append(run_child("peer", path))
        theirs.append(_run_pi(pi, path))
    return ours, theirs


def _run_pi(pi: Pi, path: Path) -> dict[str, Any]:
    with TemporaryDirectory(dir=OUT) as folder:
        script = str(Path(__file__).with_name("pi_peer.mjs"))
        done = subprocess.run(
            [pi.node, script, str(path), folder, str(APPENDS)],
            env=os.environ | {"PI_ROOT": str(pi.root), "PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
            capture_output=True,
            text=True,
            check=True,
        )
        return json.loads(done.stdout)


def _compared(size: str, ours: Runs, theirs: Runs) -> Iterator[Figure]:
    messages = f"{ours[0]['messages']} messages, Pi {theirs[0]['messages']}"
    for run in (*ours, *theirs):
        run["open_context_s"] = run["open_s"] + run["context_s"]
    rows = (
        (f"open and context of {size}", "ms", "open_context_s", 1e3, messages),
        ("peak memory so far", "MiB", "peak_mib", 1, ""),
        ("the whole tree", "ms", "tree_s", 1e3, ""),
        ("clone at the leaf", "ms", "clone_s", 1e3, "ours is fdatasynced, Pi's is not"),
        ("append of 3 kB to the clone, not synced", "µs", "append_s", 1e6, ""),
    )
    for name, unit, key, factor, note in rows:
        mine, other = (Spread.of([run[key] for run in runs], factor) for runs in (ours, theirs))
        yield Figure(name, unit, mine, Reference("Pi", other), note=note)
