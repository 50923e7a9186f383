"""Bytes of a line to a value and back. Reading forgives whatever JSON can hold; writing is strict version 3.

The strict, fast decoder comes first; a line it refuses (null content, a missing field, an unknown kind, half a
character) goes through `coppice.format.lenient`. Facts about bytes stand in docs/format.md.
"""

import json
from typing import Any, NamedTuple, NoReturn

import msgspec

from coppice.format import lenient
from coppice.format.entries import DamagedEntry, Entry, Header, KnownEntry
from coppice.format.messages import EntryId, JsonObject, is_object

_strict_entry = msgspec.json.Decoder(KnownEntry)


_encoder = msgspec.json.Encoder()


class Decoded(NamedTuple):
    """An entry and whether invalid UTF-8 in its line had to be replaced by U+FFFD."""

    entry: Entry
    replaced: bool


def joined_surrogates(text: str) -> str:
    """The text with surrogate pairs joined to characters and lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def scrubbed(value: Any) -> Any:
    """A JSON value whose every string, keys included, can be encoded as UTF-8. Iterative: no depth is too much."""
    top: list[Any] = [value]
    waiting: list[Any] = [top]
    while waiting:
        copy = waiting.pop()
        pairs: Any = copy.items() if is_object(copy) else enumerate(copy)
        for key, item in pairs:
            if isinstance(item, str):
                copy[key] = _whole(item)
            elif is_object(item):
                copy[key] = {_whole(name): below for name, below in item.items()}
                waiting.append(copy[key])
            elif isinstance(item, list | tuple):
                copy[key] = [*item]  # pyright: ignore[reportUnknownVariableType]  (JSON edge)
                waiting.append(copy[key])
    return top[0]


def _whole(value: Any) -> Any:
    return joined_surrogates(value) if isinstance(value, str) and not value.isascii() else value


def encode(value: Any) -> bytes:
    """JSON of a struct or a JSON value as valid UTF-8, without a newline. Half characters become U+FFFD."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        plain = msgspec.to_builtins(value)
        return _encoder.encode(scrubbed(plain))


def encode_line(value: Header | KnownEntry) -> bytes:
    """One line of a session file, with its newline."""
    return encode(value) + b"\n"


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def decode_json(line: bytes) -> tuple[Any, bool]:
    """Any JSON value, and whether invalid UTF-8 was replaced. Lone surrogate escapes are kept as they are.

    Raises:
        ValueError: the line is not JSON (also when nested too deeply to read).
    """
    try:
        return msgspec.json.decode(line), False
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        text, replaced = line.decode("utf-8"), False
    except UnicodeDecodeError:
        text, replaced = line.decode("utf-8", "replace"), True
    try:
        return json.loads(text, parse_constant=_no_constant), replaced
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def decode_object(line: bytes) -> tuple[JsonObject, bool]:
    """A JSON object, as `decode_json`.

    Raises:
        ValueError: not JSON, or not an object.
    """
    value, replaced = decode_json(line)
    if not is_object(value):
        raise ValueError("not a JSON object")
    return value, replaced  # pyright: ignore[reportUnknownVariableType]  (JSON edge)


def decode_entry(line: bytes, entry_id: EntryId, parent_id: EntryId | None) -> Decoded:
    """The entry in a line, under the id and parent that the tree gives it (migrated and bridged ones differ).

    A line that is no JSON object becomes a `DamagedEntry`. Strings of the result never hold half characters.
    """
    try:
        entry = _strict_entry.decode(line)
    except (msgspec.DecodeError, RecursionError):  # ValidationError is a DecodeError
        return _forgiving(line, entry_id, parent_id)
    if entry.id != entry_id or entry.parent_id != parent_id:
        entry = msgspec.structs.replace(entry, id=entry_id, parent_id=parent_id)
    return Decoded(entry, False)


def _forgiving(line: bytes, entry_id: EntryId, parent_id: EntryId | None) -> Decoded:
    try:
        fields, replaced = decode_object(line)
    except ValueError:
        return Decoded(DamagedEntry(entry_id, parent_id), False)
    try:
        return Decoded(lenient.entry_from(scrubbed(fields), entry_id, parent_id), replaced)
    except RecursionError:  # nested almost too deeply to be read at all
        return Decoded(DamagedEntry(entry_id, parent_id), False)
