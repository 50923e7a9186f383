"""Standard error while a run is active: lines that stay, and at a terminal one line that shows what happens now."""

import sys
from contextlib import suppress

from coppice.interfaces.cli.output import line_width
from coppice.interfaces.cli.printable import cut, printable

CLEAR = "\r\x1b[K"
"""Back to the first column, and erase the line."""


class StatusLine:
    """Writes to standard error. That nobody reads it must not end a run, so failing to write is ignored."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()
        self._shown = False

    def say(self, line: str) -> None:
        """A line that stays; it must be printable."""
        self.clear()
        self._write(f"{line}\n")

    def notice(self, text: str) -> None:
        """Something the user has to be told."""
        self.say(f"coppice: notice: {printable(text)}")

    def refuse(self, text: str) -> None:
        """Why something was not done."""
        self.say(f"coppice: {printable(text)}")

    def show(self, text: str) -> None:
        """What happens now, in place of what was shown before; nothing where there is no terminal."""
        if self._live:
            self._write(f"{CLEAR}{cut(printable(text), line_width() - 1)}")
            self._shown = True

    def clear(self) -> None:
        """Take away what is shown now."""
        if self._shown:
            self._write(CLEAR)
            self._shown = False

    @staticmethod
    def _write(text: str) -> None:
        with suppress(OSError):
            sys.stderr.write(text)
            sys.stderr.flush()
