"""The system prompt: built fresh for each run from the defaults, the context files, the date and the directory. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from coppice.app.resources import ContextFile

DEFAULT = """You are a coding agent. You work in the user's project through the tools you are given, in a terminal \
session that is kept and can be branched.

- Look before you change: read the files that matter, follow the conventions you find.
- Make the change that was asked for, completely and no more; then check that it works.
- Say what you did in a few plain sentences, with paths. Say so when something failed or is uncertain.
- A tool call that is reported as interrupted was not finished and is not run again by itself: look at the state first."""

_TOOL_RULES = {
    "edit": "Change existing files with edit; its oldText must match the file exactly.",
    "write": "Use write for new files or complete rewrites only.",
    "bash": "Use bash for commands; mind that each call starts in the session's directory.",
    "read": "Use read to look into files, not cat or sed.",
}


@dataclass(frozen=True, slots=True)
class PromptParts:
    """What the user gave: a prompt instead of the default one (None: the default), and text to add to it."""

    instead: str | None = None
    added: tuple[str, ...] = ()


def build_system_prompt(
    parts: PromptParts, files: Sequence[ContextFile], *, tools: Collection[str], cwd: Path, date: str
) -> str:
    """The system prompt. `date` is ISO 8601, `tools` the names of the tools that are on."""
    sections = [DEFAULT if parts.instead is None else parts.instead]
    rules = [rule for name, rule in _TOOL_RULES.items() if name in tools]
    if rules and parts.instead is None:
        sections.append("\n".join(f"- {rule}" for rule in rules))
    sections += parts.added
    sections += [f"Instructions from {file.path}:\n\n{file.text.strip()}" for file in files if file.text.strip()]
    sections.append(f"Today is {date}. The session's directory is {cwd}.")
    return "\n\n".join(section for section in sections if section)
