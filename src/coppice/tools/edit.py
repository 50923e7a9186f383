"""The edit tool: exact replacements in one file, all of them or none. How they are found is in replacement.py."""

import threading
from pathlib import Path
from typing import Annotated, cast

import msgspec

from coppice.errors import ToolError
from coppice.format.messages import JsonObject, JsonValue
from coppice.tools.background import in_thread
from coppice.tools.base import Tool, ToolContext, ToolResult, text_result
from coppice.tools.diff import diff_of
from coppice.tools.files import exclusive, real_target, replace_file
from coppice.tools.paths import resolved_existing, told_to_the_model
from coppice.tools.replacement import Edit, Edited, edited
from coppice.tools.truncate import keep_head, well_formed
from coppice.tools.typed_tool import TypedTool


class EditArgument(msgspec.Struct, frozen=True, rename="camel"):
    """One replacement."""

    old_text: Annotated[
        str, msgspec.Meta(description="Text to replace, exactly as it stands in the file; it must occur there once")
    ]
    new_text: Annotated[str, msgspec.Meta(description="Text to put in its place")]


class EditArguments(msgspec.Struct, frozen=True):
    """What edit takes."""

    path: Annotated[str, msgspec.Meta(description="File to edit, relative or absolute")]
    edits: Annotated[
        list[EditArgument],
        msgspec.Meta(
            description="Replacements, each matched against the file as it is now. They must not overlap: "
            "merge changes that touch the same lines into one"
        ),
    ]


async def edit(arguments: EditArguments, context: ToolContext) -> ToolResult:
    """Make the replacements and tell what changed.

    Raises:
        ToolError: one of the edits cannot be made, or the file cannot be written; it is as it was.
    """
    path = resolved_existing(arguments.path, context.cwd)
    edits = [Edit(well_formed(edit.old_text), well_formed(edit.new_text)) for edit in arguments.edits]

    def work(stop: threading.Event) -> ToolResult:
        with told_to_the_model("edit", arguments.path):
            return _edit_file(path, edits, arguments.path, stop)

    return await in_thread(work)


def _edit_file(path: Path, edits: list[Edit], named: str, stop: threading.Event) -> ToolResult:
    target = real_target(path, named)
    if not target.exists():
        raise ToolError(f"{named} does not exist; use write to create it")
    with exclusive(target):
        # Bytes that are no UTF-8 pass through as lone surrogates and are written back as they were.
        before = target.read_bytes().decode("utf-8", "surrogateescape")
        result = edited(before, edits, named)
        if stop.is_set():
            raise ToolError("Cancelled; nothing was written")
        replace_file(target, result.text.encode("utf-8", "surrogateescape"))
    return _told(result, len(edits), named)


def _told(result: Edited, count: int, named: str) -> ToolResult:
    diff = diff_of(result.before_lf, result.after_lf)
    shown = keep_head(diff.text)
    places = "1 replacement" if count == 1 else f"{count} replacements"
    text = f"Edited {named}: {places}, first changed line {diff.first_changed_line}"
    return text_result(text, {"diff": shown.text, "firstChangedLine": diff.first_changed_line})


def _prepared(arguments: JsonObject) -> JsonObject:
    """Accept what models send instead of a list: a JSON string, a single edit, or the two texts beside path."""
    edits = _as_list(arguments.get("edits", []))
    rest = {key: value for key, value in arguments.items() if key not in ("oldText", "newText")}
    if "oldText" in arguments and isinstance(edits, list):
        given = cast("list[JsonValue]", edits)  # any list: what is in it is converted later
        edits = [*given, {key: value for key, value in arguments.items() if key in ("oldText", "newText")}]
    return {**rest, "edits": edits} if edits != [] else rest


def _as_list(edits: JsonValue) -> JsonValue:
    match edits:
        case str():
            try:
                return _as_list(msgspec.json.decode(edits))
            except (msgspec.DecodeError, UnicodeEncodeError):
                return edits  # the conversion says what is wrong with it
        case dict():
            return [cast("JsonObject", edits)]  # any object: it is converted later
        case None:
            return []
        case _:
            return edits


EDIT: Tool = TypedTool(
    name="edit",
    description=(
        "Change parts of a file by exact text replacement. Every oldText must occur exactly once in the file as it is "
        "before the call; either all edits are made or none. Keep oldText short but unique."
    ),
    arguments=EditArguments,
    call=edit,
    prepare=_prepared,
)
