"""`coppice --mode json`: the session's header, then every event, one JSON object a line, as they happen."""

import asyncio
import sys
from collections.abc import Callable, Sequence

from coppice.app.agent_session import AgentSession
from coppice.format.codec import encode
from coppice.format.entries import Header
from coppice.format.events import Notice, SessionEvent
from coppice.format.messages import Content
from coppice.interfaces.cli.one_run import Done, exit_code, run_prompt
from coppice.interfaces.cli.output import forget_standard_output
from coppice.interfaces.cli.status_line import StatusLine


class JsonLines:
    """Writes events to standard output, each at once. When nobody reads any more it asks the run to stop."""

    def __init__(self, stop: Callable[[], object]) -> None:
        self._stop = stop
        self.unread = False

    def write(self, value: Header | SessionEvent) -> None:
        """Write one line."""
        if self.unread:
            return
        try:
            sys.stdout.buffer.write(encode(value) + b"\n")
            sys.stdout.buffer.flush()
        except BrokenPipeError:
            self.unread = True
            forget_standard_output()
            self._stop()


def run(session: AgentSession, content: Content, opening: Callable[[], Sequence[str]], status: StatusLine) -> Done:
    """Answer one prompt. `opening` tells what has to be said first.

    Raises:
        BrokenPipeError: nobody reads; the run was aborted and has settled.
    """
    return asyncio.run(_answer(session, content, opening, status))


async def _answer(
    session: AgentSession, content: Content, opening: Callable[[], Sequence[str]], status: StatusLine
) -> Done:
    lines = JsonLines(session.agent.abort_nowait)
    lines.write(session.session.get_header())
    stop = session.subscribe(lines.write)
    try:
        for notice in opening():
            lines.write(Notice("info", notice))
        session.report_notices()
        if lines.unread:
            raise BrokenPipeError
        ended = await run_prompt(session, content)
    finally:
        stop()
    if lines.unread:
        raise BrokenPipeError
    return Done(exit_code(session, ended, status.refuse), ended.missing)
