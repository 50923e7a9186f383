"""`coppice demo`: a guided tour. A session in a temporary project: prompts, tools, a move back, a second branch, a copy.

The demo model plays it, which is no real model; the tools, the files and the session are real. It needs no key.
"""

import asyncio
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path

from coppice.app.agent_session import AgentSession, Wishes
from coppice.app.commands import COMMANDS, Ask
from coppice.errors import UsageError
from coppice.interfaces.cli.leaving import own_command, resume_command
from coppice.interfaces.cli.outcome_lines import outcome_lines
from coppice.interfaces.cli.output import line_width, write_line
from coppice.interfaces.cli.status_line import StatusLine
from coppice.interfaces.cli.transcript import Transcript
from coppice.providers.demo import DEMO, DemoModel
from coppice.tools.toolset import ALL_TOOLS

FIRST = ("list", "write greet.sh: echo hello", "run: sh greet.sh")
THIS_WAY = ("edit greet.sh: hello -> goodbye", "run: sh greet.sh")
THAT_WAY = ("find *.sh", "grep echo")
"""What is asked: before the place we come back to, then on one branch, then on the other."""

README = "# A project for the coppice demo\n\nNothing in here is needed. Delete it when you are done.\n"


def run(words: Sequence[str]) -> int:
    """Play the tour; the value is the exit code.

    Raises:
        UsageError: there are words; the tour takes none.
    """
    if words and words[0] in ("-h", "--help"):
        write_line("usage: coppice demo\n\nPlay a guided tour in a temporary project; no key is needed.")
        return 0
    if words:
        raise UsageError(f"coppice demo takes no words, and was given {shlex.join(words)}")
    return asyncio.run(_play(Path(tempfile.mkdtemp(prefix="coppice-demo-"))))


async def _play(project: Path) -> int:
    (project / "README.md").write_text(README, encoding="utf-8")
    wishes = Wishes(model=DemoModel(allow_changes=True), tools=ALL_TOOLS)
    transcript = Transcript(StatusLine())
    async with AgentSession.create(project, wishes) as session:
        session.subscribe(transcript.hear)
        _tell(f"A new session in {project}, with the model {DEMO.name}: {DEMO.label}.")
        session.set_session_name("A guided tour")
        await _ask(session, FIRST)
        await _ask_twice(session)
        return await _show(session, project)


async def _ask_twice(session: AgentSession) -> None:
    """From one place on, one way and then another; the first one is kept as a branch, and as a session of its own."""
    fork = session.session.get_leaf_id()
    if fork is None:
        return
    await _ask(session, THIS_WAY)
    session.set_label(fork, "before the edit")
    original = session.session.session_file
    session.clone()
    _tell(f"Cloned: the way to here is also the session {session.session.session_id}. Back in the first one.")
    if original is not None:
        session.switch_session(original)
    _tell(f"Back to {fork}, labelled 'before the edit', and another way from there. Files stay as they are:")
    await session.navigate_tree(fork)
    await _ask(session, THAT_WAY)


async def _ask(session: AgentSession, prompts: Sequence[str]) -> None:
    for prompt in prompts:
        write_line("")
        await session.prompt(prompt)


async def _show(session: AgentSession, project: Path) -> int:
    _tell("The tree. ● is the way from the start to where we are; the other branch is still there.")
    *rows, _ = outcome_lines(
        session, await COMMANDS["tree"].run(Ask(session)), line_width()
    )  # the last one is for the REPL
    for line in rows:
        write_line(line)
    identity = session.session.session_id
    _tell("Look at it, and go on with it:")
    for line in (
        shlex.join([*own_command(), "sessions", "tree", identity]),
        shlex.join([*own_command(), "sessions", "show", identity]),
        resume_command(session.session, None) or "",
    ):
        write_line(f"  {line}")
    _tell(f"The project is in {project}; delete it when you are done.")
    return 0


def _tell(text: str) -> None:
    write_line(f"\n== {text}")
