"""The demo model: what answers when there is no key and no local server. It is no real model, and says so.

It understands a handful of sentences, calls the tools it is offered for them, and reports facts from their results; the
same conversation always gets the same reply. `demo_reply` decides, purely; `DemoModel` streams what it decided. Tools
themselves are not known here: only their names and schemas, as the request offers them.
"""

import hashlib
import re
import shlex
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from coppice.format.codec import encode
from coppice.format.events import StreamEvent
from coppice.format.messages import (
    AssistantMessage,
    ImageBlock,
    JsonObject,
    OpaqueMessage,
    RequestMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from coppice.providers.base import ModelInfo, Request, ToolSchema
from coppice.providers.script import ScriptedReply, call, play, say

HOW_TO_GET_A_REAL_MODEL = "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --model openai/NAME --base-url URL"
"""What the demo model tells everyone who might take it for more than it is."""

DEMO = ModelInfo(
    provider="demo",
    id="demo",
    api="demo",
    context_window=128_000,
    accepts_images=False,
    label=f"demo, no real model (for one, {HOW_TO_GET_A_REAL_MODEL})",
)
"""What the demo model says it is. The window is in tokens; any size would do, this one is common."""

CHANGING_TOOLS = frozenset({"write", "edit", "bash"})
"""Tools the demo model calls only where changes are allowed, that is in the guided demo's own project."""

QUOTED = 80
"""Characters of a line that a reply quotes at most."""

NAMED = 8
"""Entries of a listing that a reply names at most."""

LONGEST = 2_000
"""Characters of the longest prompt that is understood, except for what is written to a file."""


# --- what the user wants -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListFiles:
    """``list``, ``ls src``, ``what is here``."""

    path: str


@dataclass(frozen=True, slots=True)
class ReadFile:
    """``read hello.py``, or any sentence that names a file."""

    path: str


@dataclass(frozen=True, slots=True)
class FindFiles:
    """``find *.py``."""

    pattern: str
    path: str


@dataclass(frozen=True, slots=True)
class Search:
    """``grep hello``, ``search for hello in src``."""

    word: str
    path: str


@dataclass(frozen=True, slots=True)
class WriteFile:
    """``write hello.py: print('hello')``."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class EditFile:
    """``edit hello.py: hello -> goodbye``."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class RunCommand:
    """``run: python3 hello.py``."""

    command: str


Errand: TypeAlias = ListFiles | ReadFile | FindFiles | Search | WriteFile | EditFile | RunCommand

_PLEASE = r"^\s*(?:please\s+)?"
_PATH = r"[\"'`]?@?(?P<path>[^\s\"'`]+?)[\"'`]?"
_AFTER_PLACE = r"(?P<path>[^\s?]+?)(?:\s++(?:directory|folder|project))?)?\s*+[.?!]?\s*+$"
_PLACE = r"(?:\s++(?:in|of|under)\s++" + _AFTER_PLACE
_INSIDE = r"(?:\s++(?:in|under)\s++" + _AFTER_PLACE
_FILE_NAME = re.compile(
    r"(?<![\w/.:~-])(?P<path>(?:~?/|\.{1,2}/)?[\w.-]+(?:/[\w.-]+)*\.[A-Za-z]\w{0,9}"
    r"|(?:README|LICENSE|CHANGELOG|Makefile|Dockerfile))(?![\w(/])"
)
_NO_FILE_NAMES = frozenset({"e.g", "i.e"})
_HERE = frozenset({"", "this", "the", "here", "it", "current"})


def _place(found: str | None) -> str:
    path = (found or "").strip("\"'`").rstrip(",;:!?") or ""
    return "." if path in _HERE else path


def _list(found: re.Match[str]) -> Errand:
    path = _place(found["path"])
    return ReadFile(path) if _FILE_NAME.fullmatch(path) else ListFiles(path)


def _search(found: re.Match[str]) -> Errand:
    return Search(found["quoted"] or found["word"], _place(found["path"]))


def _find(found: re.Match[str]) -> Errand:
    pattern = found["pattern"].strip("\"'`").rstrip(",;!?")
    is_name = any(character in pattern for character in "*?[.")
    return FindFiles(pattern if is_name else f"*{pattern}*", _place(found["path"]))


def _write(found: re.Match[str]) -> Errand:
    return WriteFile(found["path"], found["text"].rstrip("\n") + "\n")


def _sentence(pattern: str) -> re.Pattern[str]:
    # Runs of blanks are matched possessively (``\s++``): with several in a row backtracking would take seconds.
    return re.compile(_PLEASE + pattern, re.IGNORECASE | re.DOTALL)


_SENTENCES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Errand]], ...] = (
    (_sentence(r"(?:write|create)\s+(?:(?:a|the)\s+)?(?:file\s+)?" + _PATH + r"\s*:[ \t]*\n?(?P<text>.*)$"), _write),
    (
        _sentence(r"(?:edit|change)\s+" + _PATH + r"\s*+:\s*+(?P<old>\S.*?)\s*+(?:->|=>|→)\s*+(?P<new>.*?)\s*$"),
        lambda found: EditFile(found["path"], found["old"], found["new"]),
    ),
    (_sentence(r"(?:run|bash)\s*+:\s*+(?P<command>\S.*?)\s*$"), lambda found: RunCommand(found["command"])),
    (_sentence(r"run\s+`(?P<command>[^`]+)`\s*\.?\s*$"), lambda found: RunCommand(found["command"])),
    (_sentence(r"(?:grep|search)(?:\s+for)?\s+(?:[\"'`](?P<quoted>[^\"'`]+)[\"'`]|(?P<word>.+?))" + _INSIDE), _search),
    (
        _sentence(
            r"find\s+(?:(?:all|the)\s+)?(?:files?\s+)?(?:(?:named|called|matching)\s+)?(?P<pattern>\S+)" + _INSIDE
        ),
        _find,
    ),
    (_sentence(r"(?:ls|dir)(?:\s+(?P<path>[^\s-]\S*))?\s*$"), _list),
    (_sentence(r"list\b.*?" + _PLACE), _list),
    (
        _sentence(r"(?:what|which)(?:'s|\s+is|\s+files\b.*?)(?:\s++here)?" + _PLACE),
        _list,
    ),
    (
        _sentence(r"(?:read|cat)\s+(?:the\s+)?(?:file\s+)?" + _PATH + r"[.,;!?]*(?:\s.*)?$"),
        lambda found: ReadFile(found["path"]),
    ),
)


def errand_of(text: str) -> Errand | None:
    """What a prompt asks for, in the words the demo model knows; None when it knows none of them."""
    known = _SENTENCES if len(text) <= LONGEST else _SENTENCES[:1]
    for sentence, made_of in known:
        if (found := sentence.match(text)) is not None:
            return made_of(found)
    names = (found["path"] for found in _FILE_NAME.finditer(text[:LONGEST]) if found["path"] not in _NO_FILE_NAMES)
    first = next(names, None)
    return None if first is None else ReadFile(first)


# --- which tool does it ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Way:
    """One way to run an errand: a call of ``tool``, announced by ``intent``."""

    tool: str
    arguments: JsonObject
    intent: str


def _shell(*words: str, intent: str) -> Way:
    return Way("bash", {"command": shlex.join(words)}, intent)


def _search_ways(word: str, path: str) -> Iterator[Way]:
    intent = f"I search for `{word}`."
    yield Way("grep", {"pattern": word, "path": path, "literal": True}, intent)
    if _FILE_NAME.fullmatch(path):
        yield Way("read", {"path": path}, f"I read `{path}` and look for `{word}`.")
    yield _shell("grep", "-rnF", "-e", word, "--", path, intent=intent)


def _ways(errand: Errand) -> tuple[Way, ...]:
    """Ways to run the errand, the best first."""
    match errand:
        case ListFiles(path=path):
            intent = f"I list `{path}`."
            return Way("ls", {"path": path}, intent), _shell("ls", "-A", "--", path, intent=intent)
        case ReadFile(path=path):
            intent = f"I read `{path}`."
            return Way("read", {"path": path}, intent), _shell("cat", "--", path, intent=intent)
        case FindFiles(pattern=pattern, path=path):
            intent = f"I look for files like `{pattern}`."
            return (
                Way("find", {"pattern": pattern, "path": path}, intent),
                _shell("find", path, "-name", pattern, intent=intent),
            )
        case Search(word=word, path=path):
            return tuple(_search_ways(word, path))
        case WriteFile(path=path, content=content):
            return (Way("write", {"path": path, "content": content}, f"I write `{path}`."),)
        case EditFile(path=path, old=old, new=new):
            edits = [{"oldText": old, "newText": new}]
            return (Way("edit", {"path": path, "edits": edits}, f"I replace `{old}` by `{new}` in `{path}`."),)
        case RunCommand(command=command):
            return (Way("bash", {"command": command}, f"I run `{command}`."),)
        case _:
            assert_never(errand)


def _accepted(way: Way, tool: ToolSchema) -> JsonObject:
    properties: JsonObject = tool.parameters.get("properties", {})
    return {name: value for name, value in way.arguments.items() if name in properties}


def _start(errand: Errand, request: Request, *, allow_changes: bool) -> ScriptedReply:
    offered: Mapping[str, ToolSchema] = {tool.name: tool for tool in request.tools}
    ways = _ways(errand)
    for way in ways:
        if way.tool in offered and (allow_changes or way.tool not in CHANGING_TOOLS):
            arguments = _accepted(way, offered[way.tool])
            return say(way.intent).then(call(way.tool, arguments, id=_call_id(request)))
    wanted = ways[0].tool
    if wanted in CHANGING_TOOLS and not allow_changes:
        return say(f"The demo model changes nothing here, so it does not use {wanted}. For a real model, {_ADVICE}")
    names = ", ".join(offered) or "no tool"
    return say(f"That takes the {wanted} tool, and this session offers {names}, so I cannot do it here.")


def _call_id(request: Request) -> str:
    """A function of the request, so that the same conversation gets the same id and each of its calls another."""
    digest = hashlib.sha256(encode([len(request.messages), request.messages[-1]]))
    return f"demo_{digest.hexdigest()[:12]}"


# --- what came of it -------------------------------------------------------------------------------


def _quoted(line: str) -> str:
    shown = line.strip()
    return f"`{shown}`" if len(shown) <= QUOTED else f"`{shown[:QUOTED]}…`"


def _count(number: int, noun: str) -> str:
    return (
        f"{number} {noun}"
        if number == 1
        else f"{number} {noun.removesuffix('y')}{'ies' if noun.endswith('y') else 's'}"
    )


def _lines_of(result: ToolResultMessage) -> tuple[list[str], str]:
    """The lines a tool gave, and its own note about them: a last line in brackets after an empty one."""
    lines = text_of(result.content).rstrip("\n").split("\n")
    match lines:
        case [*_, "", note] if note.startswith("[") and note.endswith("]"):
            return lines[:-2], f" The tool adds: {note}"
        case [""]:
            return [], ""
        case [note] if note.startswith("[") and note.endswith(" is empty]"):
            return [], f" The tool adds: {note}"
        case _:
            return lines, ""


def _listing(lines: list[str]) -> str:
    names = ", ".join(_quoted(line) for line in lines[:NAMED])
    return names if len(lines) <= NAMED else f"{names} and {len(lines) - NAMED} more"


def _first_and_last(lines: list[str]) -> str:
    """How a tool failed: some say it first, bash last, after the command's output."""
    if not lines:
        return "it gives no reason."
    return " … ".join(_quoted(line) for line in dict.fromkeys((lines[0], lines[-1])))


def _matching(word: str, path: str, lines: list[str]) -> str:
    hits = [f"line {number}: {_quoted(line)}" for number, line in enumerate(lines, 1) if word in line]
    shown = "; ".join(hits[:NAMED])
    return f"`{word}` is on {_count(len(hits), 'line')} of `{path}`" + (f". {shown}." if hits else ".")


def _report(errand: Errand | None, called: ToolCall | None, result: ToolResultMessage) -> str:
    lines, note = _lines_of(result)
    path = "" if called is None else str(called.arguments.get("path", ""))
    if result.is_error:
        return f"The {result.tool_name} call failed: {_first_and_last(lines)}"
    if not lines:
        what = "an image" if any(isinstance(block, ImageBlock) for block in result.content) else "no text"
        return f"The {result.tool_name} call gave {what}.{note}"
    first = f"the first is {_quoted(lines[0])}"
    match result.tool_name, errand:
        case "read", Search(word=word):
            return _matching(word, path, lines) + note
        case "read", _:
            return f"`{path}` has {_count(len(lines), 'line')}; {first}.{note}"
        case (("ls" | "find"), _) if not lines[0].startswith(("No ", "(")):
            return f"{_count(len(lines), 'entry')}: {_listing(lines)}.{note}"
        case "grep", _ if not lines[0].startswith("No "):
            return f"{_count(len(lines), 'line')} found; {first}.{note}"
        case "bash", _ if lines[0] != "(no output)":
            return f"The command printed {_count(len(lines), 'line')}; {first}.{note}"
        case _:
            return f"{result.tool_name} answers: {_quoted(lines[0])}.{note}"


def _reports(request: Request, errand: Errand | None) -> str:
    """One line for each tool result since the last reply."""
    results: list[ToolResultMessage] = []
    called: dict[str, ToolCall] = {}
    for message in request.messages:
        match message:
            case AssistantMessage():
                results, called = [], {made.id: made for made in tool_calls_of(message)}
            case ToolResultMessage():
                results.append(message)
            case UserMessage() | OpaqueMessage():
                results = []
            case _:
                assert_never(message)
    return "\n".join(_report(errand, called.get(result.tool_call_id), result) for result in results)


# --- the reply -------------------------------------------------------------------------------------

_ADVICE = f"{HOW_TO_GET_A_REAL_MODEL}."

GREETING = (
    "I am the demo model: no real model, I know a few sentences and use real tools. Try one of these:\n"
    "- list\n- read README.md\n- find *.py\n- grep hello\n"
)
"""The answer to everything the demo model does not understand, before what it adds for changes and advice."""

GREETING_FOR_CHANGES = "- write hello.py: print('hello')\n- edit hello.py: hello -> goodbye\n- run: python3 hello.py\n"


def _is_summary_request(request: Request, prompt: str) -> bool:
    """A compaction or branch summary asks in its own words; what they have in common is that no tool is offered."""
    return not request.tools and "summar" in f"{request.system_prompt}\n{prompt}".lower()


def _summary(messages: tuple[RequestMessage, ...]) -> str:
    asked = [text_of(message.content) for message in messages[:-1] if isinstance(message, UserMessage)]
    size = sum(len(text_of(message.content)) for message in messages if not isinstance(message, OpaqueMessage))
    lines = [f"- {_quoted(text.split(chr(10), 1)[0])}" for text in asked[-NAMED:]]
    head = f"Summary by the demo model, which is no real model: {_count(size, 'character')} of conversation."
    return "\n".join([head, *(["The user's last prompts:"] if lines else []), *lines])


def demo_reply(request: Request, *, allow_changes: bool = False) -> ScriptedReply:
    """What the demo model says to a request: a tool call it was offered, a report of results, or what it can do.

    ``allow_changes`` lets it call `CHANGING_TOOLS`.
    """
    prompts = [text_of(message.content) for message in request.messages if isinstance(message, UserMessage)]
    prompt = prompts[-1] if prompts else ""
    if _is_summary_request(request, prompt):
        return say(_summary(request.messages))
    errand = errand_of(prompt)
    match request.messages[-1:]:
        case (ToolResultMessage(),):
            return say(_reports(request, errand))
        case (UserMessage(),) if errand is not None:
            return _start(errand, request, allow_changes=allow_changes)
        case _:
            more = GREETING_FOR_CHANGES if allow_changes else ""
            return say(f"{GREETING}{more}For a real model, {_ADVICE}")


class DemoModel:
    """A `Model` that plays `demo_reply`; ``chunk_delay_ms`` is the time between two deltas, in milliseconds."""

    def __init__(self, *, allow_changes: bool = False, chunk_delay_ms: float = 0) -> None:
        self._allow_changes = allow_changes
        self._chunk_delay_ms = chunk_delay_ms

    @property
    def info(self) -> ModelInfo:
        """Facts about the model; the label says that it is none."""
        return DEMO

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Stream the reply; it never fails."""
        reply = demo_reply(request, allow_changes=self._allow_changes).timed(chunk_delay_ms=self._chunk_delay_ms)
        async with aclosing(play(reply, request, DEMO)) as events:
            async for event in events:
                yield event
