"""What the crash tests run and kill: a process that appends, forks or fills the disk, and says what it has done."""

import resource
import signal
import sys
from pathlib import Path

from coppice.errors import CoppiceError
from coppice.format.messages import AssistantMessage, TextBlock, ToolCall, ToolCallId, UserMessage
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup


def say(text: str) -> None:
    print(text, flush=True)


def append(path: Path, home: Path) -> None:
    """Append until killed; an id is said only after its append returned."""
    session = SessionManager.open(path, setup=Setup(home=home))
    number = 0
    while True:
        number += 1
        text = f"{number} ä€😀 " * (number % 50)
        if number % 2:
            say(session.append_message(UserMessage(text)))
        else:
            call = ToolCall(ToolCallId(f"c{number}"), "read", {"path": text})
            say(session.append_message(AssistantMessage((TextBlock(text), call), "a", "p", "m")))
        if number % 7 == 0:
            say(session.append_label_change(session.get_branch()[0].id, text))
        if number % 11 == 0:
            session.branch(session.get_branch()[-3].id)
            say(f"leaf {session.get_leaf_id()}")


def born(home: Path, cwd: Path) -> None:
    """Begin sessions until killed."""
    while True:
        session = SessionManager.create(cwd, setup=Setup(home=home))
        session.append_message(UserMessage("hello " * 1000))
        say(str(session.session_file))
        session.close()


def fork(path: Path, home: Path) -> None:
    """Fork until killed; a path is said only after its fork returned."""
    session = SessionManager.open(path, mode="read", setup=Setup(home=home))
    while True:
        child = session.create_branched_session()
        say(str(child.session_file))
        child.close()


def fill(path: Path, home: Path) -> None:
    """Go on for four turns on a full disk, then with room again."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    session = SessionManager.open(path, setup=Setup(home=home))
    room = path.stat().st_size + 500
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))
    for number in range(5):
        leaf = session.get_leaf_id()
        try:
            say(f"stored {session.append_message(UserMessage(f'{number}' * 150))}")
        except CoppiceError as error:
            assert session.get_leaf_id() == leaf
            say(f"failed {type(error).__name__} {error}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (700, resource.RLIM_INFINITY))
    try:
        session.create_branched_session()
    except CoppiceError as error:
        say(f"no fork {type(error).__name__}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    say(f"stored {session.append_message(UserMessage('room again'))}")
    for notice in session.take_notices():
        say(f"notice {notice}")


def main() -> None:
    task, *paths = sys.argv[1:]
    {"append": append, "born": born, "fork": fork, "fill": fill}[task](*map(Path, paths))


main()
