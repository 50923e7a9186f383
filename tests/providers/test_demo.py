"""The demo model: what it understands, which tools it calls, and what it reports."""

import shlex
import sys
import time
from pathlib import Path

import pytest

from coppice.format.events import StreamDone, TextDelta
from coppice.format.messages import (
    AssistantMessage,
    ImageBlock,
    RequestMessage,
    TextBlock,
    ToolCall,
    ToolCallId,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from coppice.providers.base import Request, ToolSchema
from coppice.providers.demo import (
    GREETING,
    LONGEST,
    DemoModel,
    EditFile,
    Errand,
    FindFiles,
    ListFiles,
    ReadFile,
    RunCommand,
    Search,
    WriteFile,
    demo_reply,
    errand_of,
)
from coppice.providers.script import ScriptedReply
from coppice.tools import bash, edit, read, write
from coppice.tools.base import Tool, ToolContext


def schema(name: str, *properties: str) -> ToolSchema:
    return ToolSchema(name, f"{name}.", {"type": "object", "properties": {name: {} for name in properties}})


READ = schema("read", "path", "offset", "limit")
WRITE = schema("write", "path", "content")
EDIT = schema("edit", "path", "edits")
BASH = schema("bash", "command", "timeout")
GREP = schema("grep", "pattern", "path", "literal")
FIND = schema("find", "pattern", "path")
LS = schema("ls", "path")
DEFAULT = (READ, BASH, EDIT, WRITE)
READING = (READ, GREP, FIND, LS)
ALL = (*DEFAULT, GREP, FIND, LS)


def request(prompt: str, tools: tuple[ToolSchema, ...] = ALL, *after: RequestMessage) -> Request:
    return Request("Be helpful.", (UserMessage(prompt), *after), tools)


def called(reply: ScriptedReply) -> tuple[str, dict[str, object]] | None:
    """Name and arguments of the call a reply makes, None without one."""
    match reply.blocks:
        case (TextBlock(), ToolCall(name=name, arguments=arguments)):
            return name, arguments
        case _:
            return None


def words_of(reply: ScriptedReply) -> str:
    match reply.blocks:
        case (TextBlock(text=text), *_):
            return text
        case _:
            return ""


@pytest.mark.parametrize(
    ("prompt", "errand"),
    [
        ("list", ListFiles(".")),
        ("ls", ListFiles(".")),
        ("ls src/app", ListFiles("src/app")),
        ("List the files in src.", ListFiles("src")),
        ("list the files in this directory", ListFiles(".")),
        ("What is here?", ListFiles(".")),
        ("what's in src", ListFiles("src")),
        ("which files are here?", ListFiles(".")),
        ("what is in hello.py?", ReadFile("hello.py")),
        ("read hello.py", ReadFile("hello.py")),
        ("Please read the file `a/b.txt`, then stop.", ReadFile("a/b.txt")),
        ("read Makefile", ReadFile("Makefile")),
        ("cat @notes", ReadFile("notes")),
        ("tell me what ./docs/design.md says", ReadFile("./docs/design.md")),
        ("what does the README say?", ReadFile("README")),
        ("find *.py", FindFiles("*.py", ".")),
        ("find hello", FindFiles("*hello*", ".")),
        ("find files named hello.py in src", FindFiles("hello.py", "src")),
        ("grep hello", Search("hello", ".")),
        ("search for two words", Search("two words", ".")),
        ('grep "in a" in src', Search("in a", "src")),
        ("search list of items in hello.py", Search("list of items", "hello.py")),
        ("write hello.py: print('hello')", WriteFile("hello.py", "print('hello')\n")),
        ("write a.txt:\n  one\ntwo\n", WriteFile("a.txt", "  one\ntwo\n")),
        ("create the file a.txt: " + "x" * LONGEST, WriteFile("a.txt", "x" * LONGEST + "\n")),
        ("edit hello.py: hello -> goodbye", EditFile("hello.py", "hello", "goodbye")),
        ("edit a.txt: gone ->", EditFile("a.txt", "gone", "")),
        ("run: python3 hello.py", RunCommand("python3 hello.py")),
        ("run `ls -l`", RunCommand("ls -l")),
        ("hello", None),
        ("", None),
        ("see https://example.com/page.html, e.g. now", None),
        ("what is recursion", None),
        ("y" * LONGEST + " hello.py", None),
    ],
)
def test_a_prompt_is_an_errand_or_nothing(prompt: str, errand: Errand | None) -> None:
    assert errand_of(prompt) == errand


@pytest.mark.parametrize("start", ["list", "what files", "edit a:", "edit a: b", "run:", "grep x", "find x", "read a"])
def test_a_prompt_of_mostly_blanks_is_understood_in_no_time(start: str) -> None:
    began = time.perf_counter()
    errand_of(start + " " * (LONGEST - 50) + "\nx? y")
    assert time.perf_counter() - began < 1


@pytest.mark.parametrize(
    ("prompt", "tools", "allow_changes", "call"),
    [
        ("list", READING, False, ("ls", {"path": "."})),
        ("read a.py", DEFAULT, False, ("read", {"path": "a.py"})),
        ("find *.py", READING, False, ("find", {"pattern": "*.py", "path": "."})),
        ("grep f(x", READING, False, ("grep", {"pattern": "f(x", "path": ".", "literal": True})),
        ("grep x", (schema("grep", "pattern", "path"),), False, ("grep", {"pattern": "x", "path": "."})),
        ("grep x in a.py", DEFAULT, False, ("read", {"path": "a.py"})),
        ("write a.py: x", ALL, True, ("write", {"path": "a.py", "content": "x\n"})),
        ("edit a.py: x -> y", ALL, True, ("edit", {"path": "a.py", "edits": [{"oldText": "x", "newText": "y"}]})),
        ("run: echo hi", ALL, True, ("bash", {"command": "echo hi"})),
        ("ls my-dir", DEFAULT, True, ("bash", {"command": "ls -A -- my-dir"})),
        ("find *.py", DEFAULT, True, ("bash", {"command": "find . -name '*.py'"})),
        ("grep it's", DEFAULT, True, ("bash", {"command": "grep -rnF -e 'it'\"'\"'s' -- ."})),
        ("write a.py: x", ALL, False, None),
        ("edit a.py: x -> y", ALL, False, None),
        ("run: echo hi", ALL, False, None),
        ("list", DEFAULT, False, None),
        ("grep x", DEFAULT, False, None),
        ("read a.py", (), False, None),
        ("run: echo hi", READING, True, None),
    ],
)
def test_an_errand_calls_the_best_tool_that_is_offered_and_allowed(
    prompt: str, tools: tuple[ToolSchema, ...], allow_changes: bool, call: tuple[str, dict[str, object]] | None
) -> None:
    assert called(demo_reply(request(prompt, tools), allow_changes=allow_changes)) == call


@pytest.mark.parametrize(
    ("prompt", "tools", "text"),
    [
        (
            "run: echo hi",
            ALL,
            "The demo model changes nothing here, so it does not use bash. For a real model, set ANTHROPIC_API_KEY or "
            "OPENAI_API_KEY, or use --model openai/NAME --base-url URL.",
        ),
        (
            "list",
            DEFAULT,
            "That takes the ls tool, and this session offers read, bash, edit, write, so I cannot do it here.",
        ),
        ("list", (), "That takes the ls tool, and this session offers no tool, so I cannot do it here."),
    ],
)
def test_it_says_why_it_does_not_run_an_errand(prompt: str, tools: tuple[ToolSchema, ...], text: str) -> None:
    assert words_of(demo_reply(request(prompt, tools))) == text


def answered(prompt: str, tool: str, text: str, path: str = "a.py", *, is_error: bool = False) -> Request:
    """The request after one tool call for ``prompt`` was answered by ``text``."""
    reply = AssistantMessage((ToolCall(ToolCallId("c1"), tool, {"path": path}),))
    result = ToolResultMessage(ToolCallId("c1"), tool, (TextBlock(text),), is_error=is_error)
    return request(prompt, ALL, reply, result)


@pytest.mark.parametrize(
    ("sent", "report"),
    [
        (answered("read a.py", "read", "one\ntwo\n"), "`a.py` has 2 lines; the first is `one`."),
        (
            answered("read a.py", "read", "one\n\n[Lines 1-1 of 9 in a.py. Use offset=2 to go on]"),
            "`a.py` has 1 line; the first is `one`. The tool adds: [Lines 1-1 of 9 in a.py. Use offset=2 to go on]",
        ),
        (
            answered("read a.py", "read", "[a.py is empty]"),
            "The read call gave no text. The tool adds: [a.py is empty]",
        ),
        (
            answered("read a.py", "read", "a.py does not exist", is_error=True),
            "The read call failed: `a.py does not exist`",
        ),
        (
            answered("grep two in a.py", "read", "one\ntwo\nthree\n two"),
            "`two` is on 2 lines of `a.py`. line 2: `two`; line 4: `two`.",
        ),
        (answered("grep six in a.py", "read", "one"), "`six` is on 0 lines of `a.py`."),
        (answered("list", "ls", "a\nb/"), "2 entries: `a`, `b/`."),
        (
            answered("find *", "find", "\n".join("abcdefghij")),
            "10 entries: `a`, `b`, `c`, `d`, `e`, `f`, `g`, `h` and 2 more.",
        ),
        (answered("find z*", "find", "No files match z*"), "find answers: `No files match z*`."),
        (answered("grep one", "grep", "a.py:1: one"), "1 line found; the first is `a.py:1: one`."),
        (answered("grep z", "grep", "No matches"), "grep answers: `No matches`."),
        (answered("run: x", "bash", "hello\n"), "The command printed 1 line; the first is `hello`."),
        (answered("run: x", "bash", "(no output)"), "bash answers: `(no output)`."),
        (
            answered("run: x", "bash", "Traceback:\n\nCommand exited with code 1", is_error=True),
            "The bash call failed: `Traceback:` … `Command exited with code 1`",
        ),
        (answered("run: x", "bash", "", is_error=True), "The bash call failed: it gives no reason."),
        (answered("run: x", "bash", ""), "The bash call gave no text."),
        (
            answered("write a: x", "write", "Created a (2 bytes written)"),
            "write answers: `Created a (2 bytes written)`.",
        ),
        (answered("read a.py", "read", "x" * 81), f"`a.py` has 1 line; the first is `{'x' * 80}…`."),
    ],
)
def test_a_report_states_facts_of_the_result(sent: Request, report: str) -> None:
    assert demo_reply(sent).blocks == (TextBlock(report),)


def test_results_of_another_models_calls_are_reported_one_a_line() -> None:
    reply = AssistantMessage((ToolCall(ToolCallId("c1"), "read", {"path": "a"}), ToolCall(ToolCallId("c2"), "x", {})))
    image = ToolResultMessage(ToolCallId("c1"), "read", (ImageBlock("aGk=", "image/png"),))
    other = ToolResultMessage(ToolCallId("c2"), "x", (TextBlock("done"),))
    sent = request("hello", ALL, reply, image, other)
    assert words_of(demo_reply(sent)) == "The read call gave an image.\nx answers: `done`."


def test_a_prompt_that_came_after_the_results_is_answered_itself() -> None:
    before = answered("read a.py", "read", "one")
    sent = Request("", (*before.messages, UserMessage("list")), ALL)
    assert called(demo_reply(sent)) == ("ls", {"path": "."})


def test_anything_else_gets_told_what_the_demo_model_can_do() -> None:
    text = words_of(demo_reply(request("hello")))
    assert text.startswith(GREETING)
    assert "write hello.py" not in text
    assert "ANTHROPIC_API_KEY or OPENAI_API_KEY" in text
    assert "write hello.py" in words_of(demo_reply(request("hello"), allow_changes=True))


def test_a_summary_request_gets_a_summary_that_says_who_made_it() -> None:
    sent = Request("", (UserMessage("read a.py\nnow"), AssistantMessage((TextBlock("ok"),)), UserMessage("Summarize.")))
    assert words_of(demo_reply(sent)) == (
        "Summary by the demo model, which is no real model: 25 characters of conversation.\n"
        "The user's last prompts:\n- `read a.py`"
    )


def test_the_same_conversation_gets_the_same_call_id_and_a_later_one_another() -> None:
    first = demo_reply(request("list"))
    later = Request("", (UserMessage("list"), AssistantMessage((TextBlock("x"),)), UserMessage("list")), ALL)
    assert first == demo_reply(request("list"))
    assert first.blocks[1] != demo_reply(later).blocks[1]


def test_the_label_says_that_it_is_no_real_model_and_how_to_get_one() -> None:
    assert DemoModel().info.label == (
        "demo, no real model (for one, set ANTHROPIC_API_KEY or OPENAI_API_KEY, or use --model openai/NAME --base-url "
        "URL)"
    )


@pytest.mark.anyio
async def test_the_model_streams_small_deltas_that_make_up_the_reply() -> None:
    events = [event async for event in DemoModel(allow_changes=True).stream(request("write a.py: x"))]
    done = events[-1]
    assert isinstance(done, StreamDone)
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == "I write `a.py`."
    assert max(len(event.delta) for event in events if isinstance(event, TextDelta)) <= 16
    assert (done.message.provider, done.message.model, done.message.stop_reason) == ("demo", "demo", "toolUse")


REAL_TOOLS: dict[str, Tool] = {tool.name: tool for tool in (read.READ, write.WRITE, edit.EDIT, bash.BASH)}


async def converse(prompts: list[str], directory: Path) -> list[str]:
    """What the model says, reply by reply, while its calls are answered by the real tools."""
    schemas = tuple(ToolSchema(tool.name, tool.description, tool.parameters) for tool in REAL_TOOLS.values())
    context = ToolContext(directory, directory)
    model = DemoModel(allow_changes=True)
    messages: list[RequestMessage] = []
    said: list[str] = []
    for prompt in prompts:
        messages.append(UserMessage(prompt))
        while not isinstance(messages[-1], AssistantMessage):
            events = [event async for event in model.stream(Request("", tuple(messages), schemas))]
            done = events[-1]
            assert isinstance(done, StreamDone)
            messages.append(done.message)
            said.append(text_of(done.message.content))
            for call in tool_calls_of(done.message):
                result = await REAL_TOOLS[call.name].run(call.arguments, context)
                messages.append(ToolResultMessage(call.id, call.name, result.content))
    return said


@pytest.mark.anyio
async def test_the_guided_prompts_work_with_the_real_tools(tmp_path: Path) -> None:
    prompts = [
        "write hello.py: print('hello')",
        "read hello.py",
        f"run: {shlex.quote(sys.executable)} hello.py",
        "grep hello",
        "edit hello.py: hello -> goodbye",
        "what does hello.py say now?",
    ]
    assert await converse(prompts, tmp_path) == [
        "I write `hello.py`.",
        "write answers: `Created hello.py (15 bytes written)`.",
        "I read `hello.py`.",
        "`hello.py` has 1 line; the first is `print('hello')`.",
        f"I run `{shlex.quote(sys.executable)} hello.py`.",
        "The command printed 1 line; the first is `hello`.",
        "I search for `hello`.",
        "The command printed 1 line; the first is `./hello.py:1:print('hello')`.",
        "I replace `hello` by `goodbye` in `hello.py`.",
        "edit answers: `Edited hello.py: 1 replacement, first changed line 1`.",
        "I read `hello.py`.",
        "`hello.py` has 1 line; the first is `print('goodbye')`.",
    ]
    assert (tmp_path / "hello.py").read_text(encoding="utf-8") == "print('goodbye')\n"
