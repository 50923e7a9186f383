"""A real terminal for `coppice`: tmux on a socket of its own. It types, and waits for what is on the screen."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interfaces.cli.command import Coppice

PATIENCE_S = 20


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal of 100 columns and 50 lines."""

    tmux: str
    socket: Path

    def _do(self, *words: str) -> str:
        return subprocess.run(
            [self.tmux, "-S", str(self.socket), "-f", "/dev/null", *words], capture_output=True, text=True, check=True
        ).stdout

    def type(self, text: str, *keys: str) -> None:
        """Type some text, then keys such as ``Enter`` and ``C-c``."""
        if text:
            self._do("send-keys", "-l", text)
        if keys:
            self._do("send-keys", *keys)

    def screen(self) -> str:
        """What is on the screen, with what has scrolled away."""
        return self._do("capture-pane", "-p", "-J", "-S", "-500").rstrip("\n")

    def signal(self, number: int) -> None:
        """Send a signal to the command that was started here, and to nothing else."""
        os.kill(int(self.socket.with_name("pid").read_text()), number)

    def wait(self, text: str, count: int = 1) -> str:
        """The screen, once some text is on it that often."""
        deadline = time.monotonic() + PATIENCE_S
        while (shown := self.screen()).count(text) < count:
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} is not {count} times on the screen:\n{shown}")
            time.sleep(0.05)
        return shown


@contextmanager
def terminal(tmux: str, coppice: Coppice, *words: str, before: str = "") -> Iterator[Terminal]:
    """A terminal in which the command was started; ``exit code N`` is shown at its end. `before` is shell code."""
    socket = coppice.home.parent / "tmux"
    variables = " ".join(
        f"{name}={shlex.quote(value)}" for name, value in coppice.environment().items() if name != "COLUMNS"
    )
    command = shlex.join([sys.executable, "-m", "coppice", *words])
    pid = shlex.quote(str(socket.with_name("pid")))
    started = shlex.quote(f"echo $$ > {pid}; exec env {variables} {command}")
    shell = f"{before} sh -c {started}; echo exit code $?; exec sleep 600"
    screen = Terminal(tmux, socket)
    screen._do("new-session", "-d", "-x", "100", "-y", "50", "-c", str(coppice.cwd), shell)
    try:
        yield screen
    finally:
        screen._do("kill-server")
