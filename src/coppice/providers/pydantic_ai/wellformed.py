"""Text that encodes as UTF-8: surrogates that stand alone are replaced, pairs are joined.

Session files and tool output can hold half a character (a JSON escape such as ``\\ud83d`` without its other half).
Providers refuse the whole request for it, and a stream can cut a pair in two.
"""

from coppice.format.messages import JsonValue


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
            return {well_formed(key): well_formed_json(item) for key, item in value.items()}
        case list():
            return [well_formed_json(item) for item in value]
        case _:
            return value


def whole_characters(text: str) -> tuple[str, str]:
    """``text`` cut before a high surrogate at its end, and that surrogate: its other half may be still to come."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        return well_formed(text[:-1]), text[-1]
    return well_formed(text), ""
