"""Which tools there are, by name."""

from collections.abc import Iterable

from coppice.errors import UsageError
from coppice.tools.base import Tool
from coppice.tools.bash import BASH
from coppice.tools.edit import EDIT
from coppice.tools.find import FIND
from coppice.tools.grep import GREP
from coppice.tools.ls import LS
from coppice.tools.read import READ
from coppice.tools.write import WRITE

_TOOLS: tuple[Tool, ...] = (READ, BASH, EDIT, WRITE, GREP, FIND, LS)

DEFAULT_TOOLS = ("read", "bash", "edit", "write")
"""Names of the tools a model gets when nobody says otherwise."""

ALL_TOOLS = tuple(tool.name for tool in _TOOLS)
"""Names of all tools of this package."""


def make_tools(names: Iterable[str]) -> dict[str, Tool]:
    """The tools of these names, in the order given.

    Raises:
        UsageError: there is no tool of one of the names.
    """
    known = {tool.name: tool for tool in _TOOLS}
    wanted = list(dict.fromkeys(names))
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise UsageError(f"Unknown tool: {', '.join(unknown)}. Known tools: {', '.join(ALL_TOOLS)}")
    return {name: known[name] for name in wanted}
