"""Running `coppice` as a user does: a new process, its own home, no terminal. Nothing here asserts."""

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import coppice

SOURCE = Path(coppice.__file__).parents[1]


STARTED = shlex.join([sys.executable, "-m", "coppice"])
"""How the tests start the command; commands that it prints begin so."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: exit code, standard output and standard error."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Coppice:
    """The command, with a home and a directory to run in."""

    home: Path
    cwd: Path
    columns: int = 100

    def __call__(self, *words: str) -> Ended:
        """Run it; what it prints has to be strict UTF-8."""
        done = subprocess.run(
            [sys.executable, "-m", "coppice", *words], env=self.environment(), cwd=self.cwd, capture_output=True
        )
        return Ended(done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"))

    def environment(self) -> dict[str, str]:
        """What the command's process is given."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "COPPICE_HOME": str(self.home),
            "COLUMNS": str(self.columns),
            "PYTHONPATH": str(SOURCE),
            "PYTHONUTF8": "1",
            "TZ": "UTC",
        }
