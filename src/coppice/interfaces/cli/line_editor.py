"""Reading what is typed: at the prompt with the system's line editing, and while a run is active as plain lines."""

import asyncio
import os
import sys
from collections.abc import Callable
from types import TracebackType

try:
    import readline as _readline
except ImportError:  # a Python without it: lines are still read, text that comes back is shown instead
    _readline = None  # pyright: ignore[reportAssignmentType]  (a module or nothing)


class LineEditor:
    """Reads lines at the prompt; ``draft`` is what the next one begins with."""

    def __init__(self) -> None:
        self.draft = ""
        if _readline is not None:
            _readline.parse_and_bind("tab: self-insert")  # else names of files are completed

    def read(self, prompt: str) -> str:
        """One line; a backslash at its end takes in the next one too.

        Raises:
            EOFError, KeyboardInterrupt: the user typed Ctrl-D on an empty line, or Ctrl-C.
        """
        lines = [self._line(prompt, self._taken_draft())]
        while lines[-1].endswith("\\"):
            lines[-1] = lines[-1][:-1]
            lines.append(self._line("... ", ""))
        return "\n".join(lines)

    def _taken_draft(self) -> str:
        draft, self.draft = self.draft, ""
        if draft and _readline is None:
            print(draft)
            return ""
        return draft

    @staticmethod
    def _line(prompt: str, draft: str) -> str:
        if _readline is not None:
            insert = _readline.insert_text
            _readline.set_startup_hook((lambda: insert(draft)) if draft else None)
        return input(prompt)

    @staticmethod
    def has_text() -> bool:
        """Whether something stood on the line that Ctrl-C ended."""
        return _readline is not None and bool(_readline.get_line_buffer())


class TypedLines:
    """While it is entered, hands over lines as they are typed. ``ended``: Ctrl-D was typed; ``rest``: no whole line."""

    def __init__(self, take: Callable[[str], None]) -> None:
        self._take = take
        self._data = b""
        self.ended = False

    @property
    def rest(self) -> str:
        """What was typed after the last whole line."""
        return self._data.decode("utf-8", "replace")

    def __enter__(self) -> "TypedLines":
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._read)
        return self

    def _read(self) -> None:
        data = os.read(sys.stdin.fileno(), 65536)
        if not data:
            self.ended = True
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        *lines, self._data = (self._data + data).split(b"\n")
        for line in lines:
            self._take(line.decode("utf-8", "replace"))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
