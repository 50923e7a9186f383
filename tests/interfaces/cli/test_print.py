"""`coppice -p`: what is on standard output, what on standard error, and the exit code."""

import base64
import json
from pathlib import Path

from tests.interfaces.cli.chatting import Chat, bash, entries_of, said_in, session_id, text
from tests.interfaces.cli.command import STARTED, Coppice

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg=="
)


def resume_line(path: Path) -> str:
    return f"coppice: resume with: {STARTED} --session {session_id(path)}\n"


def test_the_final_reply_is_on_standard_output_and_tools_and_the_way_back_on_standard_error(coppice: Coppice) -> None:
    chat = Chat(coppice)
    model = chat.script({"text": "Looking.", **bash("echo hi", "exit 3")}, text("Done.\n"))
    done = chat.say("-p", "--model", model, "look")
    (file,) = chat.sessions()
    assert (done.code, done.out) == (0, "Done.\n")
    assert sorted(done.err.splitlines(keepends=True)) == sorted(
        ["→ bash echo hi\n", "→ bash exit 3\n", "✗ bash: Command exited with code 3\n", resume_line(file)]
    )


def test_without_a_terminal_words_alone_are_answered_as_with_p(coppice: Coppice) -> None:
    chat = Chat(coppice)
    assert chat.say("--model", chat.script(text("yes")), "is it?").out == "yes\n"


def test_piped_text_comes_first_then_files_then_the_words(coppice: Coppice) -> None:
    chat = Chat(coppice)
    (coppice.cwd / "a.txt").write_text("one\ntwo\n")
    chat.say("-p", "--model", chat.script(text("ok")), "@a.txt", "what", "is it?", stdin=b"piped\n")
    expected = "piped\n\nFile a.txt:\none\ntwo\nEnd of file a.txt.\n\nwhat is it?"
    assert [message["content"] for message in chat.sent()[0]] == [expected]


def test_an_image_is_known_by_its_content_and_attached(coppice: Coppice) -> None:
    chat = Chat(coppice)
    (coppice.cwd / "shot.txt").write_bytes(PNG)
    assert chat.say("-p", "--model", chat.script(text("a dot")), "@shot.txt", "what?").code == 0
    assert chat.sent()[0][0]["content"] == [
        {"type": "text", "text": "Image shot.txt is attached.\n\nwhat?"},
        {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"},
    ]


def test_a_prompt_that_cannot_be_made_is_refused_in_one_line(coppice: Coppice) -> None:
    chat = Chat(coppice)
    (coppice.cwd / "binary").write_bytes(b"a\0b")
    refusals = [
        chat.say("-p", *words) for words in (["@nowhere"], ["@binary"], [], ["-c", "-r", "x"], ["--tools", "x", "hi"])
    ]
    assert [(done.code, done.err.count("\n"), done.out) for done in refusals] == [(2, 1, "")] * 5
    assert refusals[0].err == "coppice: @nowhere: No such file or directory\n"
    assert not (coppice.home / "sessions").exists()


def test_a_provider_failure_is_told_and_the_exit_code_is_1(coppice: Coppice) -> None:
    chat = Chat(coppice)
    done = chat.say("-p", "--model", chat.script({"fail": {"message": "no credit left", "status": 402}}), "hi")
    assert (done.code, done.out) == (1, "")
    assert done.err == "coppice: no credit left\n" + resume_line(chat.sessions()[0])


def test_an_unknown_model_is_one_line_and_nothing_is_stored(coppice: Coppice) -> None:
    done = Chat(coppice).say("-p", "--model", "nope/x", "hi")
    assert (done.code, done.out, done.err.count("\n")) == (1, "", 1)
    assert not (coppice.home / "sessions").exists()


def test_no_session_keeps_nothing_and_prints_no_way_back(coppice: Coppice) -> None:
    chat = Chat(coppice)
    done = chat.say("-p", "--no-session", "--model", chat.script(text("gone")), "hi")
    assert (done.code, done.out, done.err) == (0, "gone\n", "")
    assert not (coppice.home / "sessions").exists()


def test_where_no_model_is_configured_the_demo_model_says_what_it_is_and_only_reads(coppice: Coppice) -> None:
    chat = Chat(coppice)
    (coppice.cwd / "README.md").write_text("hello\n")
    done = chat.say("-p", "read README.md")
    assert done.code == 0
    assert "`README.md` has 1 line; the first is `hello`." in done.out
    assert done.err.startswith(
        "coppice: notice: no model is configured, so the demo model answers; for a real one, set "
    )
    assert "on: read, grep, find, ls" not in chat.say("-c", "-p", "/tools").out  # a command asks no model


def test_the_wishes_of_the_command_line_reach_the_model_and_the_session(coppice: Coppice) -> None:
    chat = Chat(coppice)
    words = ("--tools", "read,ls", "--thinking", "high", "--name", "Mine", "--system-prompt", "Be brief.")
    chat.say("-p", "--model", chat.script(text("ok")), *words, "--append-system-prompt", "Be kind.", "hi")
    request = json.loads(chat.record.read_text())
    assert ([tool["name"] for tool in request["tools"]], request["thinkingLevel"]) == (["read", "ls"], "high")
    assert request["systemPrompt"].startswith("Be brief.\n\nBe kind.\n\n")
    names = [entry["name"] for entry in entries_of(chat.sessions()[0]) if entry["type"] == "session_info"]
    assert names == ["Mine"]


def test_commands_answer_on_standard_output_and_move_the_leaf_for_the_next_prompt(coppice: Coppice) -> None:
    chat = Chat(coppice)
    model = chat.script(text("first reply"), text("second reply"))
    chat.say("-p", "--model", model, "one")
    (file,) = chat.sessions()
    first, reply = (str(entry["id"]) for entry in entries_of(file) if entry["type"] == "message")
    chat.say("-c", "-p", "--model", model, "two")
    assert chat.say("-c", "-p", "/tree 2").out == f"← at {reply} assistant: first reply\n"
    assert chat.say("-c", "-p", f"/label {first} begin").out == f"{first} [begin]\n"
    chat.say("-c", "-p", "--model", model, "three")
    tree = chat.say("-c", "-p", "/tree").out.splitlines()
    assert [line.split(maxsplit=1)[1].replace(first, "ID1").replace(reply, "ID2")[:36] for line in tree[:2]] == [
        "● ID1 user: one [begin]",
        "● ID2 assistant: first reply",
    ]
    assert [line[2:6] for line in tree[2:]] == ["├─  ", "│   ", "└─ ●", "   ●", "ree "]
    assert [role for role, _ in said_in(file)] == ["user", "assistant"] * 3


def test_terminal_escapes_of_a_model_do_not_reach_standard_error(coppice: Coppice) -> None:
    chat = Chat(coppice)
    done = chat.say(
        "-p", "--model", chat.script(bash("printf '\\033[31mred'; exit 1 # \x1b]0;title\x07"), text("ok")), "hi"
    )
    assert done.code == 0
    assert "\x1b" not in done.err
