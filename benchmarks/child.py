"""One measurement in a process of its own: ``python -m benchmarks.child WHAT FILE``. Prints one JSON object.

What is measured in a child: opening, because its memory is the figure, and what is compared with Pi, which runs so too.
Pi's side of ``peer`` is pi_peer.mjs; both do the same steps in the same order.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
OUT = Path(__file__).parent / "out"
CHUNK_BYTES = 1 << 20
APPENDS = 2_000


def run_child(what: str, path: Path) -> dict[str, Any]:
    """Run a measurement of this file in a new process; what it measured, and ``process_s``, the whole process."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.child", what, str(path)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout) | {"process_s": time.perf_counter() - start}


def environment() -> dict[str, str]:
    """This environment with our source on the path and bytecode kept, as an installed program has it."""
    mine = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return mine | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}


def peak_mib() -> float:
    """Peak resident memory of this process in MiB.

    Linux counts in ``ru_maxrss`` also what the parent had when it started this process; ``VmHWM`` does not.
    """
    if sys.platform == "linux":
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1024 / 1024 if sys.platform == "darwin" else peak / 1024


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    value = work()
    return value, time.perf_counter() - start


def _lines(path: Path) -> dict[str, float]:
    """The floor of opening by a scan: every byte read and split into lines."""

    def scan() -> int:
        count, rest = 0, b""
        with path.open("rb", buffering=0) as file:
            while data := file.read(CHUNK_BYTES):
                lines = (rest + data).split(b"\n")
                rest = lines.pop()
                count += len(lines)
        return count

    count, taken = _timed(scan)
    return {"scan_s": taken, "lines": count, "peak_mib": peak_mib()}


def _open(path: Path) -> dict[str, float]:
    from coppice.session.manager import SessionManager
    from coppice.session.writer import Setup

    before = peak_mib()
    manager, opening = _timed(lambda: SessionManager.open(path, setup=Setup(OUT / "home")))
    peak = peak_mib()
    _, context = _timed(manager.build_session_context)
    manager.close()
    return {"open_s": opening, "context_s": context, "import_mib": before, "peak_mib": peak, "after_mib": peak_mib()}


def _peer(path: Path) -> dict[str, float]:
    """Open, context, tree, clone at the leaf, appends to the clone; not synced, as Pi doesn't sync."""
    from coppice.format.messages import TextBlock, UserMessage
    from coppice.session.manager import SessionManager
    from coppice.session.writer import Setup

    with tempfile.TemporaryDirectory(dir=OUT) as folder:
        setup = Setup(OUT / "home", Path(folder), sync=False)
        manager, opening = _timed(lambda: SessionManager.open(path, setup=setup))
        context, context_s = _timed(manager.build_session_context)
        peak = peak_mib()
        _, tree_s = _timed(manager.get_tree)
        copy, clone_s = _timed(manager.create_branched_session)
        prompt = UserMessage((TextBlock("x" * 3_000),), 1_767_312_000_000)
        _, append_s = _timed(lambda: [copy.append_message(prompt) for _ in range(APPENDS)])
        copy.close()
        manager.close()
    return {
        "open_s": opening,
        "context_s": context_s,
        "messages": len(context.messages),
        "peak_mib": peak,
        "tree_s": tree_s,
        "clone_s": clone_s,
        "append_s": append_s / APPENDS,
    }


def main(what: str, path: Path) -> None:
    """Measure and print."""
    match what:
        case "lines":
            found = _lines(path)
        case "open":
            found = _open(path)
        case "peer":
            found = _peer(path)
        case _:
            raise ValueError(what)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
