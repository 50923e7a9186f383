"""Start-up: whole processes run in turns, bytecode compiled; and what an import takes and loads."""

import compileall
import subprocess
import sys
import time
from collections.abc import Iterator

from benchmarks.child import ROOT, environment
from benchmarks.figure import Bar, Figure, Reference, Scale, Spread, interleaved

MILLI = 1e3


def figures(scale: Scale) -> Iterator[Figure]:
    """Every figure of starting."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    rounds = 10 if scale.quick else 40
    version, argparse, bare = interleaved(
        rounds,
        lambda: _process("-m", "coppice", "--version"),
        lambda: _process("-c", "import argparse"),
        lambda: _process("-c", "pass"),
    )
    with_argparse = Reference("python -c 'import argparse'", Spread.of(argparse, MILLI))
    interpreter = f"python -c pass: {Spread.of(bare, MILLI).median:.1f} ms"
    ours = Spread.of(version, MILLI)
    yield Figure("coppice --version, whole process", "ms", ours, with_argparse, Bar(2, "ratio"), interpreter)
    for statement in ("import coppice", "from coppice import SessionManager", "from coppice import AgentSession"):
        taken = Spread.of([_import_seconds(statement) for _ in range(rounds // 2)], MILLI)
        yield Figure(statement, "ms", taken, note=_told(_loaded(statement) - _loaded("pass")))


def _process(*words: str) -> float:
    """Seconds from starting a Python to its end."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], env=environment(), check=True, capture_output=True)
    return time.perf_counter() - start


def _import_seconds(statement: str) -> float:
    program = f"import time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), check=True, capture_output=True, text=True
    )
    return float(done.stdout)


def _loaded(statement: str) -> frozenset[str]:
    """The modules that are loaded after a statement."""
    program = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), check=True, capture_output=True, text=True
    )
    return frozenset(done.stdout.split())


def _told(modules: frozenset[str]) -> str:
    """How many modules, and the libraries among them that are neither ours nor Python's."""
    tops = {name.partition(".")[0] for name in modules}
    others = sorted(tops - sys.stdlib_module_names - {"coppice"})
    return f"loads {len(modules)} modules" + (f", of others {', '.join(others)}" if others else "")
