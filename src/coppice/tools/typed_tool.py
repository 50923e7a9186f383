"""A tool from an argument struct and an async function: the schema for the model, the conversion of what it sent.

`TypedTool` is what every tool of this package is made of. It is also the one place where results are made well-formed
text. What a tool does is in the file of its name.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, assert_never, cast

import msgspec

from coppice.errors import InvalidArguments
from coppice.format.messages import ImageBlock, JsonObject, JsonValue, TextBlock, UnknownBlock, UserBlock
from coppice.tools.base import ToolContext, ToolResult
from coppice.tools.truncate import well_formed

A = TypeVar("A")

_DROPPED = ("title", "$ref", "$defs")


def _as_sent(arguments: JsonObject) -> JsonObject:
    return arguments


@dataclass(frozen=True, slots=True)
class TypedTool(Generic[A]):
    """A tool whose arguments are the struct ``arguments``; ``call`` does the work.

    ``prepare`` puts right what models are known to send instead of the schema, before the conversion.
    """

    name: str
    description: str
    arguments: type[A]
    call: Callable[[A, ToolContext], Awaitable[ToolResult]]
    prepare: Callable[[JsonObject], JsonObject] = _as_sent

    @property
    def parameters(self) -> JsonObject:
        """JSON Schema (type object) of the arguments."""
        return schema_of(self.arguments)

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolResult:
        """Convert the arguments and do it.

        Raises:
            InvalidArguments: the arguments do not fit.
            ToolError: it failed in a way the model should hear of.
        """
        parsed = converted(self.name, self.arguments, self.prepare(arguments))

        def update(partial: ToolResult) -> None:
            context.update(_well_formed_result(partial))

        return _well_formed_result(await self.call(parsed, replace(context, update=update)))


def schema_of(struct: type[Any]) -> JsonObject:
    """The JSON Schema of a struct as one plain object schema: no ``$ref``, no titles, no null for optional fields."""
    schema = msgspec.json.schema(struct)
    definitions: JsonObject = schema.get("$defs", {})
    plain = _inlined(schema, definitions, ())
    plain.pop("description", None)  # the struct's docstring is for readers of the code
    plain.setdefault("properties", {})
    return plain


def _inlined(node: JsonValue, definitions: JsonObject, within: tuple[str, ...]) -> JsonValue:
    match node:
        case list():
            items = cast("list[JsonValue]", node)  # a JSON array
            return [_inlined(item, definitions, within) for item in items]
        case dict():
            return _inlined_object(cast("JsonObject", node), definitions, within)  # a JSON object
        case _:
            return node


def _inlined_object(node: JsonObject, definitions: JsonObject, within: tuple[str, ...]) -> JsonObject:
    merged: JsonObject = {}
    if "$ref" in node:
        name = str(node["$ref"]).rsplit("/", 1)[-1]
        if name in within:  # a type that contains itself has no finite schema without references
            return {"type": "object"}
        merged.update(_inlined(definitions[name], definitions, (*within, name)))
    for key, value in node.items():
        if key == "properties":
            merged[key] = {name: _inlined(field, definitions, within) for name, field in value.items()}
        elif key not in _DROPPED and not (key == "default" and value is None):
            merged[key] = _inlined(value, definitions, within)
    return _without_null(merged)


def _without_null(node: JsonObject) -> JsonObject:
    options = [option for option in node.get("anyOf", ()) if option != {"type": "null"}]
    if len(options) != 1:
        return node
    rest = {key: value for key, value in node.items() if key != "anyOf"}
    return {**options[0], **rest}


def converted(tool: str, struct: type[A], arguments: JsonObject) -> A:
    """The struct made of a call's arguments; numbers and booleans may come as strings, unknown names are ignored.

    Raises:
        InvalidArguments: they do not fit; the text tells the model what is wrong and what is expected.
    """
    try:
        return msgspec.convert(arguments, struct, strict=False)
    except (msgspec.ValidationError, ValueError, OverflowError) as error:
        reason = str(error).replace(" - at `$.", " at `")
        raise InvalidArguments(
            f"Invalid arguments for {tool}: {reason}. Expected: {_summary(schema_of(struct))}"
        ) from error


def _summary(schema: JsonObject) -> str:
    required = schema.get("required", [])
    fields: Mapping[str, JsonObject] = schema["properties"]
    words = [f"{name} ({_kind(field)}{', required' if name in required else ''})" for name, field in fields.items()]
    return ", ".join(words) or "no arguments"


def _kind(field: JsonObject) -> str:
    kind = str(field.get("type", "any"))
    if kind != "array":
        return kind
    item: JsonObject = field.get("items", {})
    inner: JsonObject = item.get("properties", {})
    return f"array of {{{', '.join(inner)}}}" if inner else f"array of {item.get('type', 'any')}"


def _well_formed_result(result: ToolResult) -> ToolResult:
    return replace(
        result,
        content=tuple(_well_formed_block(block) for block in result.content),
        details=_well_formed_value(result.details),
    )


def _well_formed_block(block: UserBlock) -> UserBlock:
    match block:
        case TextBlock(text=text):
            return msgspec.structs.replace(block, text=well_formed(text))
        case ImageBlock() | UnknownBlock():
            return block
        case _:
            assert_never(block)


def _well_formed_value(value: JsonValue) -> JsonValue:
    match value:
        case str():
            return well_formed(value)
        case dict():
            fields = cast("JsonObject", value)  # a JSON object
            return {well_formed(str(key)): _well_formed_value(field) for key, field in fields.items()}
        case list() | tuple():
            items = cast("Sequence[JsonValue]", value)  # a JSON array
            return [_well_formed_value(item) for item in items]
        case _:
            return value
