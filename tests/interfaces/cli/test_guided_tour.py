"""`coppice demo`: it plays to its end without a key, and what it says to do next works."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from tests.interfaces.cli.chatting import Chat
from tests.interfaces.cli.command import STARTED, Coppice


def comparable(text: str) -> str:
    """The text without what differs from run to run: ids and the temporary directory."""
    without_sessions = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "SESSION", text)
    return re.sub(r"\b[0-9a-f]{8}\b", "ENTRY", re.sub(r"\S*coppice-demo-\w+", "PROJECT", without_sessions))


def test_the_tour_is_the_same_each_time_and_its_commands_work(coppice: Coppice) -> None:
    chat = Chat(coppice)
    done, again = chat.say("demo"), chat.say("demo")
    projects = re.findall(r"The project is in (\S+);", done.out + again.out)
    try:
        assert (done.code, done.err, again.code) == (0, "", 0)
        assert comparable(done.out) == comparable(again.out)
        assert done.out.count("← you are here") == 1
        assert "[before the edit]" in done.out
        begun = f"  {STARTED} "
        commands = [shlex.split(line.removeprefix(begun)) for line in done.out.splitlines() if line.startswith(begun)]
        assert [command[0] for command in commands] == ["sessions", "sessions", "--session"]
        assert [chat.say(*command).code for command in commands[:2]] == [0, 0]
        assert chat.say(*commands[2], "-p", "/tree").out.count("●") == 20
        assert len(chat.sessions()) == 4
    finally:
        for project in projects:
            shutil.rmtree(project)
    assert [Path(project).exists() for project in projects] == [False, False]


@pytest.mark.parametrize(("words", "code"), [(["--help"], 0), (["now"], 2)])
def test_the_tour_takes_no_words(coppice: Coppice, words: list[str], code: int) -> None:
    assert Chat(coppice).say("demo", *words).code == code
