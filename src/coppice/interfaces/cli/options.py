"""The words of `coppice`: what can be asked for on the command line, as one frozen value. Nothing is done here."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from coppice import __version__
from coppice.errors import UsageError
from coppice.format.messages import THINKING_LEVELS
from coppice.session.opening import Mode

How = Literal["new", "continue", "resume", "open", "fork", "memory"]
"""Which session: a new one, the one used last, one from a list, a named one, a copy of a named one, one without a file."""


@dataclass(frozen=True, slots=True)
class SessionWish:
    """Which session, and how it is opened. ``named`` is a path or the beginning of an id, for ``open`` and ``fork``."""

    how: How = "new"
    named: str = ""
    directory: Path | None = None
    access: Mode = "write"
    accept_bridge: bool = False
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ModelWish:
    """Which model, and what it is told and offered. ``tools`` None: nobody chose."""

    name: str | None = None
    base_url: str | None = None
    thinking: str | None = None
    tools: tuple[str, ...] | None = None
    system_prompt: str | None = None
    added_prompt: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """The command line. ``once``: answer and leave. ``words`` and ``files`` (without their ``@``) are the prompt."""

    once: bool
    as_json: bool
    words: tuple[str, ...]
    files: tuple[str, ...]
    session: SessionWish
    model: ModelWish


def parse(argv: Sequence[str]) -> Options:
    """What a command line asks for.

    Raises:
        UsageError: options that exclude each other, or a value that cannot be used.
        SystemExit: argparse has printed its help, the version, or what is wrong.
    """
    found = _parser().parse_intermixed_args(list(argv))
    words: list[str] = found.words
    return Options(
        once=found.print or found.mode == "json",
        as_json=found.mode == "json",
        words=tuple(word for word in words if not _is_file(word)),
        files=tuple(word[1:] for word in words if _is_file(word)),
        session=_session_wish(found),
        model=_model_wish(found),
    )


def _is_file(word: str) -> bool:
    return len(word) > 1 and word.startswith("@") and not any(character.isspace() for character in word[:2])


_NEW: tuple[How, str] = ("new", "")


def _session_wish(found: argparse.Namespace) -> SessionWish:
    ways: tuple[tuple[How, str | None], ...] = (
        ("continue", "" if found.continue_ else None),
        ("resume", "" if found.resume else None),
        ("open", found.session),
        ("fork", found.fork),
        ("memory", "" if found.no_session else None),
    )
    asked: list[tuple[How, str]] = [(how, named) for how, named in ways if named is not None]
    if len(asked) > 1:
        raise UsageError("take one of --continue, --resume, --session, --fork and --no-session")
    how, named = asked[0] if asked else _NEW
    if found.read_only and found.shared:
        raise UsageError("take --read-only or --shared, not both")
    if found.session_dir == "":
        raise UsageError("--session-dir needs a directory; it was empty")
    return SessionWish(
        how=how,
        named=named,
        directory=Path(found.session_dir).expanduser().absolute() if found.session_dir else None,
        access="read" if found.read_only else "shared" if found.shared else "write",
        accept_bridge=found.accept_bridge,
        name=found.name,
    )


def _model_wish(found: argparse.Namespace) -> ModelWish:
    if found.no_tools and found.tools is not None:
        raise UsageError("take --tools or --no-tools, not both")
    tools: tuple[str, ...] | None = () if found.no_tools else None
    if found.tools is not None:
        tools = tuple(name.strip() for name in found.tools.split(",") if name.strip())
    return ModelWish(
        name=found.model,
        base_url=found.base_url,
        thinking=found.thinking,
        tools=tools,
        system_prompt=found.system_prompt,
        added_prompt=tuple(found.append_system_prompt),
    )


# --- the parser ----------------------------------------------------------------------------------

_EPILOG = """\
other commands:
  coppice sessions ...   look at stored sessions
  coppice demo           a guided tour in a temporary project, without a key

Text that is piped in comes before the words. Without a terminal the answer is printed, as with -p.
"""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="coppice",
        description="A coding agent around durable, branching sessions.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("words", nargs="*", metavar="PROMPT|@FILE", help="what to say; @FILE puts a file into it")
    parser.add_argument("-V", "--version", action="version", version=f"coppice {__version__}")
    _add_output(parser.add_argument_group("output"))
    _add_session(parser.add_argument_group("session"))
    _add_model(parser.add_argument_group("model"))
    return parser


def _add_output(group: "argparse._ArgumentGroup") -> None:  # pyright: ignore[reportPrivateUsage]  (its only name)
    group.add_argument("-p", "--print", action="store_true", help="print the answer and leave")
    group.add_argument(
        "--mode", choices=["text", "json"], default="text", help="json: print events, one a line, and leave"
    )


def _add_session(group: "argparse._ArgumentGroup") -> None:  # pyright: ignore[reportPrivateUsage]  (its only name)
    group.add_argument(
        "-c", "--continue", dest="continue_", action="store_true", help="go on with the one used last here"
    )
    group.add_argument("-r", "--resume", action="store_true", help="pick one of this directory's sessions")
    group.add_argument("--session", metavar="FILE|ID", help="open this one; the beginning of an id will do")
    group.add_argument("--fork", metavar="FILE|ID", help="go on in a copy of this one, in this directory")
    group.add_argument("--no-session", action="store_true", help="keep nothing")
    group.add_argument("--session-dir", metavar="DIR", help="where session files lie")
    group.add_argument("--name", metavar="TEXT", help="name the session")
    group.add_argument("--read-only", action="store_true", help="read along while another program writes")
    group.add_argument("--shared", action="store_true", help="write beside another program")
    group.add_argument("--accept-bridge", action="store_true", help="go on over a gap whose parent was guessed")


def _add_model(group: "argparse._ArgumentGroup") -> None:  # pyright: ignore[reportPrivateUsage]  (its only name)
    group.add_argument("--model", metavar="PROVIDER/ID", help="anthropic/ID, openai/ID, demo, scripted/FILE")
    group.add_argument("--base-url", metavar="URL", help="another server for the model")
    group.add_argument("--thinking", choices=THINKING_LEVELS, help="how much it thinks")
    group.add_argument("--tools", metavar="A,B", help="the tools it is offered")
    group.add_argument("--no-tools", action="store_true", help="offer it no tools")
    group.add_argument("--system-prompt", metavar="TEXT", help="instead of the system prompt")
    group.add_argument(
        "--append-system-prompt", metavar="TEXT", action="append", default=[], help="added to it; may be repeated"
    )
