"""Schemas, lenient conversion, and well-formed results."""

from typing import Annotated

import msgspec
import pytest

from coppice.errors import InvalidArguments
from coppice.format.messages import TextBlock
from coppice.tools.base import ToolContext, ToolResult, text_result
from coppice.tools.toolset import ALL_TOOLS, make_tools
from coppice.tools.typed_tool import TypedTool, converted, schema_of
from tests.tools.bench import Bench


class Part(msgspec.Struct, rename="camel"):
    old_text: Annotated[str, msgspec.Meta(description="What stands there")]


class Arguments(msgspec.Struct):
    path: Annotated[str, msgspec.Meta(description="A path")]
    title: str = "none"
    count: Annotated[int | None, msgspec.Meta(description="How many")] = None
    ratio: float | None = None
    deep: bool = False
    parts: list[Part] = []


class Node(msgspec.Struct):
    children: list["Node"] = []


def test_a_schema_is_one_plain_object_without_references_titles_or_null() -> None:
    assert schema_of(Arguments) == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A path"},
            "title": {"type": "string", "default": "none"},
            "count": {"type": "integer", "description": "How many"},
            "ratio": {"type": "number"},
            "deep": {"type": "boolean", "default": False},
            "parts": {
                "type": "array",
                "default": [],
                "items": {
                    "type": "object",
                    "properties": {"oldText": {"type": "string", "description": "What stands there"}},
                    "required": ["oldText"],
                },
            },
        },
        "required": ["path"],
    }


def test_a_type_that_contains_itself_ends_as_any_object() -> None:
    assert schema_of(Node)["properties"]["children"]["items"] == {"type": "object"}


@pytest.mark.parametrize("name", ALL_TOOLS)
def test_every_tool_describes_itself_and_each_argument(name: str) -> None:
    tool = make_tools([name])[name]
    assert tool.name == name
    assert len(tool.description) > 40
    assert tool.parameters["type"] == "object"
    assert "$ref" not in msgspec.json.encode(tool.parameters).decode()
    assert all(field["description"] for field in tool.parameters["properties"].values())


def test_numbers_and_booleans_may_come_as_strings() -> None:
    sent = {"path": "a", "count": "3", "ratio": "0.5", "deep": "true", "parts": [{"oldText": "x"}], "unknown": 1}
    assert converted("t", Arguments, sent) == Arguments("a", count=3, ratio=0.5, deep=True, parts=[Part("x")])


def test_a_whole_float_counts_as_an_integer_and_null_as_left_out() -> None:
    assert converted("t", Arguments, {"path": "a", "count": 3.0, "ratio": None}) == Arguments("a", count=3)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ({}, "Object missing required field `path`"),
        ({"path": 5}, "Expected `str`, got `int` at `path`"),
        ({"path": "a", "count": "many"}, "Expected `int | null`, got `str` at `count`"),
        ({"path": "a", "parts": [{}]}, "Object missing required field `oldText` at `parts[0]`"),
    ],
)
def test_what_does_not_fit_is_told_with_what_is_expected(sent: dict[str, object], reason: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        converted("t", Arguments, sent)
    expected = "path (string, required), title (string), count (integer), ratio (number), deep (boolean)"
    assert str(caught.value) == (
        f"Invalid arguments for t: {reason}. Expected: {expected}, parts (array of {{oldText}})"
    )


@pytest.mark.case("P25")
@pytest.mark.anyio
async def test_results_and_partial_results_hold_no_lone_surrogates(bench: Bench) -> None:
    async def call(_: Arguments, context: ToolContext) -> ToolResult:
        context.update(text_result("\ud800 partial"))
        return ToolResult((TextBlock("a\ud83d\ude00\udc00"),), {"\ud800": ["\udfff", {"n": 1}], "pair": "\ud83d\ude00"})

    tool = TypedTool(name="t", description="", arguments=Arguments, call=call)
    assert await tool.run({"path": "a"}, bench.context) == ToolResult(
        (TextBlock("a😀\ufffd"),), {"\ufffd": ["\ufffd", {"n": 1}], "pair": "😀"}
    )
    assert bench.shown == ["\ufffd partial"]
