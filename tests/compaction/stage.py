"""The stage of compaction's tests: models with a window, texts of a size, and what was sent and stored as short words."""

import re
from collections.abc import Iterable, Sequence

from coppice.app.agent_session import AgentSession
from coppice.app.settings import RetrySettings, Settings
from coppice.compaction.estimate import estimate_text
from coppice.compaction.prompts import prompt
from coppice.compaction.settings import CompactionSettings
from coppice.format.entries import CompactionEntry, Entry, MessageEntry
from coppice.format.messages import (
    AssistantMessage,
    EntryId,
    OpaqueMessage,
    RequestMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
    text_of,
    tool_calls_of,
)
from coppice.providers.base import ModelInfo, Request
from coppice.providers.scripted import ScriptedModel, ScriptedReply, ScriptStep, say
from coppice.tree.pairing import COMPACTION_OPENING
from tests.app.house import path_file


def model_with(
    window: int | None, *replies: ScriptStep, name: str = "scripted/scripted", **facts: object
) -> ScriptedModel:
    """A scripted model with a window in tokens."""
    provider, _, model_id = name.partition("/")
    return ScriptedModel(replies, ModelInfo(provider, model_id, provider, context_window=window, **facts))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  (a test's facts)


def compacting(**settings: object) -> Settings:
    """Settings without tools, with quick retries, and these for compaction."""
    return Settings(
        tools=(),
        retry=RetrySettings(max_retries=2, base_delay_ms=1, max_delay_ms=2),
        compaction=CompactionSettings(**settings),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  (a test's settings)
    )


CODEX = {"trigger": "codex", "strategy": "codex-inline"}


def text(tag: str, tokens: int) -> str:
    """A text that begins with a tag and is about so many tokens by our own estimate."""
    unit = " lantern orchard"
    each = estimate_text(unit * 100) / 100
    return tag + unit * max(round((tokens - estimate_text(tag)) / each), 0)


def reply(tag: str, tokens: int, *, used: int | None = None) -> ScriptedReply:
    """A reply of a size; `used` is the context that its usage reports, in tokens."""
    said = say(text(tag, tokens))
    return said if used is None else said.with_usage(input_tokens=used - tokens, output_tokens=tokens)


def is_summary_request(request: Request) -> bool:
    """Whether a request asks for a summary, by whichever strategy."""
    if request.system_prompt == prompt("system"):
        return True
    newest = request.messages[-1]
    return isinstance(newest, UserMessage) and text_of(newest.content).startswith(prompt("inline"))


def summary_requests(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if is_summary_request(request)]


def shape(messages: Sequence[RequestMessage]) -> list[str]:
    """Each message as one word: its tag; S and the summary's number; prompt; call, out; C for a provider's item."""
    return [_word(message) for message in messages]


def _word(message: RequestMessage) -> str:
    match message:
        case UserMessage(content=content):
            said = text_of(content)
            if said.startswith(COMPACTION_OPENING):
                found = re.search(r"\bS\d+\b", said)
                return found[0] if found else "S"
            return "prompt" if said.startswith(prompt("inline")) else said.split()[0]
        case AssistantMessage():
            if tool_calls_of(message):
                return "call"
            return " ".join(block.text.split()[0] for block in message.content if isinstance(block, TextBlock))
        case ToolResultMessage():
            return "out"
        case OpaqueMessage():
            return "C"


def all_text(requests: Iterable[Request]) -> str:
    """Everything that requests hold, as text."""
    return "\n".join(f"{request.system_prompt}\n{request.messages!r}" for request in requests)


def compactions(session: AgentSession) -> list[CompactionEntry]:
    return [entry for entry in session.session.entries() if isinstance(entry, CompactionEntry)]


def replaced_by(session: AgentSession, entry_id: EntryId) -> list[str]:
    """What stands in the context's place right after a compaction."""
    reader = session.agent._parts().reader  # pyright: ignore[reportPrivateUsage]  (the reader of its model)
    return shape(session.session.request_messages(reader, entry_id))


def kinds(session: AgentSession) -> list[str]:
    """The path's entries that say something: roles, and compaction."""
    return [kind for entry in session.session.get_branch() if (kind := _kind(entry))]


def _kind(entry: Entry) -> str:
    match entry:
        case MessageEntry(message=message):
            return str(message.__struct_config__.tag)
        case CompactionEntry():
            return "compaction"
        case _:
            return ""


def file_bytes(session: AgentSession) -> bytes:
    return path_file(session).read_bytes()
