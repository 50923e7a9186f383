"""A tool from a plain typed Python function."""

import asyncio
import copy
import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from coppice.format.messages import JsonValue
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.truncate import keep_head
from coppice.tools.typed_tool import TypedTool, schema_of

_PLAIN = (str, int, float, bool, type(None))


def function_tool(
    function: Callable[..., Any],  # any function: what it takes is read from its annotations
    *,
    name: str | None = None,
    description: str | None = None,
) -> Tool:
    """A tool that calls ``function``, sync or async.

    The function's name and docstring are the tool's name and description; each parameter is an argument with the type
    it is annotated with (``Annotated[int, "what it is"]`` describes it). A parameter annotated `ToolContext` is given
    the call's context and is no argument. A `ToolResult` comes back as it is, a string as text, anything else as JSON.
    A text beyond the limits of truncate.py is cut. A sync function runs in a thread; cancellation does not wait for it
    and cannot stop it.

    Raises:
        TypeError: a parameter has no annotation, cannot be given by name, or has a type JSON cannot carry.
    """
    takes_context, arguments = _arguments(function)

    async def call(parsed: msgspec.Struct, context: ToolContext) -> ToolResult:
        given: dict[str, Any] = {field: getattr(parsed, field) for field in parsed.__struct_fields__}
        given |= dict.fromkeys(takes_context, context)
        return _result(await _called(function, given))

    return TypedTool(
        name=name or function.__name__,
        description=description or inspect.getdoc(function) or "",
        arguments=arguments,
        call=call,
    )


def _arguments(function: Callable[..., Any]) -> tuple[list[str], type[msgspec.Struct]]:
    hints = get_type_hints(function, include_extras=True)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    takes_context: list[str] = []
    for parameter in inspect.signature(function).parameters.values():
        _refuse_unnamed(function, parameter, hints)
        annotation = hints[parameter.name]
        if annotation is ToolContext:
            takes_context.append(parameter.name)
        elif parameter.default is parameter.empty:
            fields.append((parameter.name, _described(annotation)))
        else:
            fields.append((parameter.name, _described(annotation), _default(parameter.default)))
    arguments = msgspec.defstruct(f"{function.__name__}_arguments", fields, frozen=True, kw_only=True)
    schema_of(arguments)  # a type JSON cannot carry is told now, not at the first call
    return takes_context, arguments


def _refuse_unnamed(function: Callable[..., Any], parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise TypeError(f"{function.__name__}: parameter {parameter.name} cannot be given by name")
    if parameter.name not in hints:
        raise TypeError(f"{function.__name__}: parameter {parameter.name} has no type annotation")


def _described(annotation: Any) -> Any:
    """`Annotated[T, "text"]` as msgspec wants it; every other annotation as it is."""
    if get_origin(annotation) is not Annotated:
        return annotation
    inner, *marks = get_args(annotation)
    described = [msgspec.Meta(description=mark) if isinstance(mark, str) else mark for mark in marks]
    for mark in described:
        inner = Annotated[inner, mark]
    return inner


def _default(value: Any) -> Any:
    return value if isinstance(value, _PLAIN) else msgspec.field(default_factory=lambda: copy.deepcopy(value))


async def _called(function: Callable[..., Any], given: dict[str, Any]) -> Any:
    if inspect.iscoroutinefunction(function):
        return await function(**given)
    value: object = await asyncio.to_thread(function, **given)
    if inspect.isawaitable(value):  # a plain function may hand back what it wants awaited
        return await value
    return value


def _result(value: JsonValue) -> ToolResult:
    match value:
        case ToolResult():
            return value
        case str():
            return _cut(value)
        case None:
            return text_result("(no result)")
        case _:
            return _cut(msgspec.json.format(msgspec.json.encode(value), indent=2).decode("utf-8"))


def _cut(text: str) -> ToolResult:
    kept = keep_head(text)
    if not kept.truncation.truncated:
        return text_result(text)
    cut = kept.truncation
    note = f"[Cut: {cut.output_lines} of {cut.total_lines} lines, {cut.output_bytes} of {cut.total_bytes} bytes shown]"
    return text_result(f"{kept.text}\n\n{note}", {"truncation": cut.as_details()})
