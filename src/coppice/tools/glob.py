"""Glob patterns as regular expressions over ``/``-separated relative paths. Pure.

``*`` and ``?`` stay within one name, ``**`` spans directories, ``[...]`` is a class, ``{a,b}`` are alternatives,
a backslash takes the next character literally.
"""

import re

from coppice.errors import ToolError


def path_matcher(glob: str) -> re.Pattern[str]:
    """What a glob of a tool call matches: without ``/`` a name at any depth, else a path from the search directory.

    Raises:
        ToolError: the pattern is not a glob.
    """
    pattern = glob.removeprefix("./").removeprefix("/")
    anywhere = "" if "/" in pattern else "(?:.*/)?"
    try:
        return re.compile(anywhere + translated(pattern), re.DOTALL)
    except re.error as error:
        raise ToolError(f"Not a usable glob pattern: {glob} ({error})") from error


_TOKEN = re.compile(r"\*\*/|/\*\*$|\*+|\?|\[[!^]?\]?[^\]]*\]|\\.|[{},]|.", re.DOTALL)


def translated(glob: str) -> str:
    """The regular expression of a glob, to be matched against the whole path."""
    out: list[str] = []
    depth = 0
    for token in _TOKEN.findall(glob):
        if token == "{":
            depth += 1
        out.append(_part(token, within_braces=depth > 0))
        if token == "}" and depth:
            depth -= 1
    return "".join(out) + ")" * depth


def _part(token: str, *, within_braces: bool) -> str:
    match token:
        case "**/":
            return "(?:.*/)?"
        case "/**":
            return "/.*"
        case "**":
            return ".*"
        case "?":
            return "[^/]"
        case "{":
            return "(?:"
        case "}" if within_braces:
            return ")"
        case "," if within_braces:
            return "|"
        case _ if set(token) == {"*"}:
            return "[^/]*"
        case _ if token.startswith("[") and len(token) > 1:
            return _class(token)
        case _:
            return re.escape(token[1:] if token.startswith("\\") and len(token) > 1 else token)


def _class(token: str) -> str:
    inner = token[1:-1]
    negated = inner[:1] in ("!", "^")
    members = inner[negated:].replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("^", "\\^")
    return f"(?!/)[{'^' if negated else ''}{members}]"
