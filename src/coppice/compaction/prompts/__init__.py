"""The texts that summarisers are given, one file each."""

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    """The text of a prompt by its file's name without ending."""
    return files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()
