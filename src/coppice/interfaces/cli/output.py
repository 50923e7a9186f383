"""How a command speaks: JSON lines in UTF-8 and text on standard output, notices on standard error."""

import io
import json
import os
import re
import shutil
import sys
from collections.abc import Iterable
from typing import cast

import msgspec

from coppice.errors import CoppiceError
from coppice.format.messages import JsonValue
from coppice.interfaces.cli.printable import printable

COLUMNS = 120
"""Width of a line where there is no terminal to ask and COLUMNS is not set (our choice)."""

_encoder = msgspec.json.Encoder()


def json_bytes(value: JsonValue) -> bytes:
    """One line of JSON with its newline: valid UTF-8, half characters as escapes, numbers that are none as null.

    Raises:
        CoppiceError: the value is nested too deeply (about 1,000 levels, the same as reading takes).
    """
    try:
        return _encoder.encode(value) + b"\n"
    except UnicodeEncodeError:
        return _with_escapes(value)
    except RecursionError as error:
        raise CoppiceError("a value is nested too deeply to be printed") from error


_STRINGS_AND_NO_NUMBERS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|(-?Infinity|NaN)')


def _with_escapes(value: JsonValue) -> bytes:
    try:
        text = json.dumps(value, separators=(",", ":"))
    except RecursionError as error:
        raise CoppiceError("a value is nested too deeply to be printed") from error
    if "Infinity" in text or "NaN" in text:
        text = _STRINGS_AND_NO_NUMBERS.sub(lambda found: "null" if found[1] else found[0], text)
    return text.encode("ascii") + b"\n"


def write_json(value: JsonValue) -> None:
    """Print one line of JSON."""
    sys.stdout.buffer.write(json_bytes(value))


def write_line(text: str) -> None:
    """Print a line of text that is printable already."""
    sys.stdout.write(f"{text}\n")


def write_notices(notices: Iterable[str]) -> None:
    """Tell the user something beside the output, a line each."""
    for notice in notices:
        print(f"coppice: {printable(notice)}", file=sys.stderr)


def line_width() -> int:
    """Columns of a line of output: the terminal's, or what COLUMNS says."""
    return max(20, shutil.get_terminal_size((COLUMNS, 24)).columns)


def replace_what_cannot_be_encoded() -> None:
    """Print a question mark for what the locale has no character for, instead of failing."""
    cast("io.TextIOWrapper", sys.stdout).reconfigure(errors="replace")  # a TextIO to typeshed, but this is what it is


def forget_standard_output() -> None:
    """Nobody reads any more: what is still buffered goes nowhere, silently."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)
