"""A parser for the words of a command: what cannot be used is one line and `UsageError`, like every other refusal."""

import argparse
from typing import Any, NoReturn

from coppice.errors import UsageError


class Words(argparse.ArgumentParser):
    """argparse, with errors as errors and without guessing at shortened options."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Refuse the words.

        Raises:
            UsageError: always.
        """
        raise UsageError(f"{message} ({self.prog} --help)")
