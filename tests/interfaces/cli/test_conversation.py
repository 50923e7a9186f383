"""The conversation at a terminal, in tmux: what is typed, what is on the screen, what is in the file."""

import signal

import pytest
from tests.conftest import NeedsProgram
from tests.interfaces.cli.chatting import Chat, bash, said_in, session_id, text, wait_for
from tests.interfaces.cli.command import STARTED, Coppice
from tests.interfaces.cli.terminal import terminal

pytestmark = pytest.mark.slow


def test_prompt_tool_tree_move_and_a_second_branch(coppice: Coppice, needs_program: NeedsProgram) -> None:
    chat = Chat(coppice)
    model = chat.script({"text": "Looking.", **bash("echo found it")}, text("First."), text("Second."))
    with terminal(needs_program("tmux"), coppice, "--model", model, "start here") as shown:
        shown.wait("[scripted/scripted]>")
        shown.type("/tree", "Enter")
        tree = shown.wait("NUMBER goes there")
        assert "> start here\nLooking.\n→ bash echo found it\n  │ found it\nFirst.\n" in tree
        assert " user: start here\n" in tree
        assert "assistant: First. ← you are here" in tree
        shown.type("/tree 1", "Enter")
        shown.wait("← before the first entry")
        shown.wait("]> start here")
        shown.type(" again", "Enter")
        shown.wait("Second.")
        shown.type("/tree", "Enter")
        both = shown.wait("NUMBER goes there", 2)
        assert "├─  " in both
        assert "└─ ● " in both
        shown.type("/quit", "Enter")
        end = shown.wait("exit code 0")
    (file,) = chat.sessions()
    assert f"resume with: {STARTED} --session {session_id(file)}" in end
    assert [content for role, content in said_in(file) if role == "user"] == ["start here", "start here again"]
    assert [len(messages) for messages in chat.sent()] == [1, 3, 1]


def test_lines_typed_during_a_run_steer_it_and_follow_it(coppice: Coppice, needs_program: NeedsProgram) -> None:
    chat = Chat(coppice)
    waits = "touch started; while [ ! -e go ]; do sleep 0.05; done"
    model = chat.script(bash(waits), text("Steered."), text("Followed."))
    with terminal(needs_program("tmux"), coppice, "--model", model, "begin") as shown:
        wait_for(coppice.cwd / "started")
        shown.type("turn left", "Enter")
        shown.wait("(next: turn left)")
        shown.type("> then stop", "Enter")
        shown.wait("after the run: then stop)")
        shown.type("/tree 1", "Enter")
        shown.wait("cannot move in the tree while a run is active")
        shown.type("half a line")
        (coppice.cwd / "go").touch()
        shown.wait("Followed.")
        shown.wait("]> half a line")
        shown.type("", "C-u")
        shown.type("/quit", "Enter")
        shown.wait("exit code 0")
    roles = [content for role, content in said_in(chat.sessions()[0]) if role in ("user", "assistant")]
    assert roles[2:] == ["turn left", "Steered.", "then stop", "Followed."]


def test_ctrl_c_aborts_a_run_and_gives_back_what_waited(coppice: Coppice, needs_program: NeedsProgram) -> None:
    chat = Chat(coppice)
    model = chat.script(bash("touch started; sleep 60"), text("ok"))
    with terminal(needs_program("tmux"), coppice, "--model", model, "begin") as shown:
        wait_for(coppice.cwd / "started")
        shown.type("for later", "Enter")
        shown.wait("(next: for later)")
        shown.type("", "C-c")
        shown.wait("]> for later")
        shown.type("", "Enter")
        shown.wait("ok\n")
        shown.type("", "C-d")
        shown.wait("exit code 0")
    assert [role for role, _ in said_in(chat.sessions()[0])] == ["user", "assistant", "toolResult", "user", "assistant"]


def test_a_prompt_that_a_kill_left_waiting_is_offered(coppice: Coppice, needs_program: NeedsProgram) -> None:
    chat = Chat(coppice)
    with terminal(
        needs_program("tmux"), coppice, "--model", chat.script(bash("touch started; sleep 60")), "go"
    ) as shown:
        wait_for(coppice.cwd / "started")
        shown.type("and wash up", "Enter")
        shown.wait("(next: and wash up)")
        shown.signal(signal.SIGKILL)
        shown.wait("exit code 137")
    told = chat.say("-c", "-p", "--model", chat.script(text("ok")), "go on")
    assert "1 prompt of an earlier run never entered the conversation" in told.err
    assert "'and wash up'" in told.err
    with terminal(needs_program("tmux"), coppice, "-c", "--model", chat.script(text("Washed."))) as shown:
        shown.wait("[s/d/K]")
        shown.type("s", "Enter")
        shown.wait("Washed.")
        shown.type("/quit", "Enter")
        shown.wait("exit code 0")
    assert [content for role, content in said_in(chat.sessions()[0]) if role == "user"] == [
        "go",
        "go on",
        "and wash up",
    ]


def test_own_commands_names_labels_and_copies(coppice: Coppice, needs_program: NeedsProgram) -> None:
    chat = Chat(coppice)
    with terminal(needs_program("tmux"), coppice, "--model", chat.script(text("Hello."), text("Two lines."))) as shown:
        shown.wait("]>")
        shown.type("hi", "Enter")
        shown.wait("Hello.")
        shown.type("!echo $((6*7)); exit 3", "Enter")
        shown.wait("42\n(exit code 3)")
        shown.type("/name The work", "Enter")
        shown.wait("The work [scripted/scripted]>")
        shown.type("/label 1 the start", "Enter")
        shown.wait("[the start]")
        shown.type("/clone", "Enter")
        shown.wait("cloned into: ")
        shown.type("one \\", "Enter")
        shown.wait("... ")
        shown.type("two", "Enter")
        shown.wait("Two lines.")
        shown.type("/resume", "Enter")
        shown.wait("The work\n", 2)
        shown.type("/nonsense", "Enter")
        shown.wait("there is no command /nonsense")
        shown.type("", "C-c")
        shown.wait("(Ctrl-C again leaves)")
        shown.type("", "C-c")
        shown.wait("exit code 0")
    source, clone = chat.sessions()
    assert ("user", "one \ntwo") in said_in(clone)
    assert ("user", "one \ntwo") not in said_in(source)


@pytest.mark.case("P04")
def test_a_full_disk_is_told_at_each_failing_turn_and_at_the_end(coppice: Coppice, needs_program: NeedsProgram) -> None:
    chat = Chat(coppice)
    chat.say("-p", "--model", chat.script(text("first")), "one")
    (file,) = chat.sessions()
    before = file.read_bytes()
    model = chat.script(text("x" * 9000), text("y" * 9000), recorded=False)
    limit = f"ulimit -f {len(before) // 512 + 4};"  # sh counts blocks of 512 bytes, bash of 1024
    with terminal(needs_program("tmux"), coppice, "-c", "--model", model, before=limit) as shown:
        shown.wait("]>")
        shown.type("two", "Enter")
        shown.wait("not stored", 1)
        shown.wait("]>", 2)
        shown.type("three", "Enter")
        shown.wait("not stored", 2)
        shown.type("", "C-u")
        shown.type("/quit", "Enter")
        end = shown.wait("exit code 0")
    assert "not stored, and gone with this process: the " in end
    assert f"what was stored before: {STARTED} --session {session_id(file)}" in end
    assert file.read_bytes().startswith(before)


def test_sigterm_at_the_prompt_leaves_with_the_way_back(coppice: Coppice, needs_program: NeedsProgram) -> None:
    chat = Chat(coppice)
    chat.say("-p", "--model", chat.script(text("first")), "one")
    with terminal(needs_program("tmux"), coppice, "-c", "--model", chat.script(text("ok"))) as shown:
        shown.wait("]>")
        shown.signal(signal.SIGTERM)
        end = shown.wait("exit code 143")
    assert f"resume with: {STARTED} --session" in end
