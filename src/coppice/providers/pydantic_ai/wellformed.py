"""Text that encodes as UTF-8: surrogates that stand alone are replaced, pairs are joined.

Session files and tool output can hold half a character (a JSON escape such as ``\\ud83d`` without its other half).
Providers refuse the whole request for it, and a stream can cut a pair in two.
"""

from typing import cast

from coppice.format.messages import JsonObject, JsonValue


def well_formed(text: str) -> str:
    """``text`` with each lone surrogate as U+FFFD and each pair of surrogates as its one character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def well_formed_json(value: JsonValue) -> JsonValue:
    """`well_formed` for every text in a JSON value, keys included."""
    match value:
        case str():
            return well_formed(value)
        case dict():
            fields = cast(JsonObject, value)  # JSON objects have text keys
            return {well_formed(key): well_formed_json(item) for key, item in fields.items()}
        case list():
            items = cast(list[JsonValue], value)  # whatever a JSON array holds
            return [well_formed_json(item) for item in items]
        case _:
            return value


def whole_characters(text: str) -> tuple[str, str]:
    """``text`` cut before a high surrogate at its end, and that surrogate: its other half may be still to come."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        return well_formed(text[:-1]), text[-1]
    return well_formed(text), ""
