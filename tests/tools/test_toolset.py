"""The tools by name."""

import pytest

from coppice.errors import UsageError
from coppice.tools.toolset import ALL_TOOLS, DEFAULT_TOOLS, make_tools


def test_the_default_tools_are_the_four_everyone_expects() -> None:
    assert DEFAULT_TOOLS == ("read", "bash", "edit", "write")
    assert ALL_TOOLS == ("read", "bash", "edit", "write", "grep", "find", "ls")


def test_tools_are_made_in_the_order_given_each_once() -> None:
    tools = make_tools(["ls", "read", "ls"])
    assert [(name, tool.name) for name, tool in tools.items()] == [("ls", "ls"), ("read", "read")]


def test_an_unknown_tool_is_named_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        make_tools(["read", "cat", "sed"])
    assert str(caught.value) == "Unknown tool: cat, sed. Known tools: read, bash, edit, write, grep, find, ls"
