"""`coppice` itself: which session, which model, which prompt; then a conversation at the terminal, or one answer."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack

from coppice.app.agent_session import AgentSession, Wishes
from coppice.app.settings import load_settings
from coppice.app.system_prompt import PromptParts
from coppice.errors import UsageError
from coppice.format.messages import Content
from coppice.interfaces.cli import json_mode, print_mode, repl
from coppice.interfaces.cli.leaving import last_words
from coppice.interfaces.cli.options import ModelWish, Options, parse
from coppice.interfaces.cli.prompt_input import piped_text, prompt_content
from coppice.interfaces.cli.session_choice import choose_session, setup_of
from coppice.interfaces.cli.starting import pending_notices, start_notices
from coppice.interfaces.cli.status_line import StatusLine
from coppice.storage.directory import coppice_home


def run(argv: Sequence[str]) -> int:
    """Do what a command line asks for; the value is the exit code.

    Raises:
        CoppiceError: it cannot be done.
    """
    try:
        options = parse(argv)
    except SystemExit as left:  # argparse has printed its help or what is wrong
        return left.code if isinstance(left.code, int) else 2
    at_terminal = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()  # pyright: ignore[reportUnnecessaryComparison]  (None where it was closed)
    interactive = at_terminal and not options.once
    content = prompt_content("" if interactive else piped_text(), options.files, options.words)
    if content is None and not interactive:
        raise UsageError("there is no prompt: give one in words, pipe it in, or start coppice at a terminal")
    settings = load_settings(coppice_home())
    with ExitStack() as stack:
        setup = setup_of(options.session, settings)
        chosen = choose_session(options.session, setup)
        stack.callback(chosen.close)
        session = AgentSession(chosen, _wishes(options.model), settings=settings)
        stack.callback(lambda: session.session.close())  # noqa: PLW0108  (the session it is in by then)
        if options.session.accept_bridge:
            chosen.accept_bridges()
        if options.session.name is not None:
            session.set_session_name(options.session.name)
        if interactive:
            return repl.run(session, options, content)
        return _once(session, options, content or "")


def _wishes(wish: ModelWish) -> Wishes:
    return Wishes(
        model=wish.name,
        base_url=wish.base_url,
        thinking_level=wish.thinking,
        tools=wish.tools,
        prompt=PromptParts(wish.system_prompt, wish.added_prompt),
    )


def _once(session: AgentSession, options: Options, content: Content) -> int:
    status = StatusLine()

    def opening() -> list[str]:
        return [*start_notices(session, options.model), *pending_notices(session)]

    missing: list[str] = []
    try:
        code: int | None = None
        if isinstance(content, str) and not options.as_json:
            code = print_mode.run_command(session, content, status)
        if code is None:
            mode = json_mode if options.as_json else print_mode
            done = mode.run(session, content, opening, status)
            code, missing = done.code, [done.missing] if done.missing else []
    finally:
        session.session.close()
    for line in last_words(session.session, options.session.directory, missing):
        status.refuse(line)
    return code
