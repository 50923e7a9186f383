"""Starts a program of child.py, waits until it is where it should be, and kills it."""

import json
import subprocess
import sys
from pathlib import Path

from tests.source_tree import ROOT


def killed(name: str, home: Path, module: str = "tests.agent.child") -> dict[str, object]:
    """What the program printed; it has been killed with SIGKILL when this returns."""
    command = [sys.executable, "-m", module, name, str(home)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.kill()
        process.wait()
    found: dict[str, object] = json.loads(line)
    return found
