"""Tools from plain functions."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest

from coppice.errors import InvalidArguments
from coppice.format.messages import TextBlock
from coppice.tools.base import ToolContext, ToolResult, text_result
from coppice.tools.function_tool import function_tool
from tests.tools.bench import Bench


@dataclass
class Place:
    city: str
    zip: int = 0


def weather(
    place: Place,
    unit: Literal["C", "F"] = "C",
    *,
    days: Annotated[int, "How many days ahead"] = 1,
    tags: list[str] = ["x"],  # noqa: B006 - a mutable default is what is tested
    note: str | None = None,
) -> str:
    """Tell the weather.

    It is always fine.
    """
    tags.append("seen")
    return f"{place.city} {place.zip} {unit} {days} {tags} {note}"


def test_name_description_and_schema_come_from_the_function() -> None:
    tool = function_tool(weather)
    assert tool.name == "weather"
    assert tool.description == "Tell the weather.\n\nIt is always fine."
    assert tool.parameters == {
        "type": "object",
        "properties": {
            "place": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zip": {"type": "integer", "default": 0}},
                "required": ["city"],
            },
            "unit": {"enum": ["C", "F"], "default": "C"},
            "days": {"type": "integer", "description": "How many days ahead", "default": 1},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"type": "string"},
        },
        "required": ["place"],
    }


def test_name_and_description_can_be_given() -> None:
    tool = function_tool(weather, name="w", description="d")
    assert (tool.name, tool.description) == ("w", "d")


@pytest.mark.anyio
async def test_a_sync_function_is_called_with_converted_arguments(bench: Bench) -> None:
    tool = function_tool(weather)
    sent = {"place": {"city": "Bonn"}, "days": "3"}
    for _ in range(2):
        assert await bench.result(tool, sent) == ToolResult((TextBlock("Bonn 0 C 3 ['x', 'seen'] None"),))
    with pytest.raises(InvalidArguments, match=r"^Invalid arguments for weather: .*`place.city`"):
        await bench.result(tool, {"place": {"city": 1}})


@pytest.mark.anyio
async def test_an_async_function_gets_the_context_it_asks_for(bench: Bench) -> None:
    async def where(context: ToolContext, n: int) -> ToolResult:
        """Say where."""
        await asyncio.sleep(0)
        context.update(text_result("soon"))
        return text_result(f"{context.cwd.name} {n}", {"n": n})

    tool = function_tool(where)
    assert list(tool.parameters["properties"]) == ["n"]
    assert await bench.result(tool, {"n": 1}) == ToolResult((TextBlock("work 1"),), {"n": 1})
    assert bench.shown == ["soon"]


@pytest.mark.anyio
async def test_other_values_come_back_as_json_and_long_texts_are_cut(bench: Bench) -> None:
    def value() -> dict[str, object]:
        return {"a": [1, True, None], "b": "ü"}

    def nothing() -> None:
        return None

    def many() -> str:
        return "line\n" * 3000

    assert await bench.text(function_tool(value), {}) == '{\n  "a": [\n    1,\n    true,\n    null\n  ],\n  "b": "ü"\n}'
    assert await bench.text(function_tool(nothing), {}) == "(no result)"
    assert (await bench.text(function_tool(many), {})).endswith(
        "line\n\n[Cut: 2000 of 3000 lines, 9999 of 15000 bytes shown]"
    )


@pytest.mark.anyio
async def test_cancelling_reaches_an_async_function(bench: Bench) -> None:
    seen: list[str] = []

    async def wait() -> None:
        try:
            seen.append("begun")
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    call = asyncio.ensure_future(bench.result(function_tool(wait), {}))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert seen == ["begun", "ended"]


def test_a_function_that_cannot_be_a_tool_is_refused_at_once() -> None:
    def untyped(a) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - what is tested
        del a

    def starred(*values: int) -> None:
        del values

    def foreign(value: asyncio.Event) -> None:
        del value

    functions: list[tuple[Callable[..., None], str]] = [
        (untyped, "untyped: parameter a has no type annotation"),
        (starred, "starred: parameter values cannot be given by name"),
        (foreign, "asyncio.locks.Event"),
    ]
    for function, reason in functions:
        with pytest.raises(TypeError, match=reason):
            function_tool(function)
