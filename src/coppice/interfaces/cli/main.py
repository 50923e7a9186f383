"""The door of the command line: the first word chooses the command, and errors become one line and an exit code.

Each command is a module with ``run(words) -> exit code``, loaded when it is asked for. Nothing is decided here.
Exit codes: 0 done, 1 refused or failed, 2 words that cannot be used, 130 interrupted, 141 nobody reads the output.
"""

import sys

from coppice.errors import CoppiceError, UsageError
from coppice.interfaces.cli.output import forget_standard_output, replace_what_cannot_be_encoded, write_notices

FAILED, MISUSED, INTERRUPTED, UNREAD = 1, 2, 130, 141
"""The last two are the shell's numbers for SIGINT and SIGPIPE."""


def main(argv: list[str]) -> int:
    """Run the command line; the value is the exit code."""
    replace_what_cannot_be_encoded()
    try:
        code = _run(argv)
        sys.stdout.flush()
    except BrokenPipeError:
        forget_standard_output()
        return UNREAD
    except UsageError as error:
        return _refused(str(error), MISUSED)
    except CoppiceError as error:
        return _refused(str(error), FAILED)
    except OSError as error:
        what = error.strerror or str(error)
        return _refused(f"{error.filename}: {what}" if error.filename else what, FAILED)
    except KeyboardInterrupt:
        forget_standard_output()  # the reader may be what is waited for
        return _refused("interrupted", INTERRUPTED)
    return code


def _refused(what: str, code: int) -> int:
    try:
        sys.stdout.flush()
    except OSError:  # the disk is full, or nobody reads: said below, or said by their leaving
        forget_standard_output()
    write_notices([what])
    return code


def _run(argv: list[str]) -> int:
    match argv:
        case ["sessions", *words]:
            from coppice.interfaces.cli import sessions

            return sessions.run(words)
        case ["demo", *words]:
            from coppice.interfaces.cli import demo

            return demo.run(words)
        case _:
            from coppice.interfaces.cli import chat

            return chat.run(argv)
