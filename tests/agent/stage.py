"""The stage of the agent's tests: a session with a file, a scripted model, tools, and ears that heard everything."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from coppice.agent.agent import Agent, Kit
from coppice.agent.run import Options
from coppice.format.entries import MessageEntry
from coppice.format.events import AgentEvent, MessageEnd, MessageStart, SessionEvent
from coppice.format.messages import (
    AssistantMessage,
    BashExecutionMessage,
    CustomMessage,
    EntryId,
    Message,
    TextBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    text_of,
)
from coppice.providers.base import Request
from coppice.providers.scripted import ScriptedModel, ScriptStep
from coppice.session.manager import SessionManager
from coppice.session.writer import Setup
from coppice.tools.base import Tool
from coppice.tools.function_tool import function_tool

QUICK = Options(max_retries=3, retry_base_ms=1, retry_cap_ms=50)
"""Retries that take milliseconds."""


@dataclass(slots=True)
class Stage:
    """An agent at work; ``heard`` are all events in order."""

    agent: Agent
    model: ScriptedModel
    heard: list[AgentEvent]

    @property
    def session(self) -> SessionManager:
        return self.agent.session

    @property
    def path(self) -> Path:
        assert self.session.session_file is not None
        return self.session.session_file

    def sent(self, number: int = -1) -> Request:
        """A recorded request, by default the last."""
        return self.model.requests[number]


def set_stage(
    tmp_path: Path,
    *replies: ScriptStep,
    tools: Iterable[Callable[..., object]] = (),
    options: Options = QUICK,
    session: SessionManager | None = None,
) -> Stage:
    """A stage whose home is `tmp_path`; `tools` are plain functions."""
    model = ScriptedModel(replies)
    made: dict[str, Tool] = {tool.name: tool for tool in map(function_tool, tools)}
    opened = session or SessionManager.create(tmp_path, setup=Setup(tmp_path))
    agent = Agent(opened, Kit(model=model, tools=made, output_dir=tmp_path / "output", options=options))
    heard: list[AgentEvent] = []
    agent.subscribe(heard.append)
    return Stage(agent, model, heard)


def reopened(path: Path, home: Path) -> SessionManager:
    """The session as another program reads it."""
    return SessionManager.open(path, mode="read", setup=Setup(home))


def told(events: Iterable[SessionEvent]) -> list[str]:
    """Events as their types, messages with their role; deltas of one block are one."""
    names: list[str] = []
    for event in events:
        name = _name(event)
        if not (name.endswith("_delta") and names[-1:] == [name]):
            names.append(name)
    return names


def _name(event: SessionEvent) -> str:
    kind = str(event.__struct_config__.tag)
    match event:
        case MessageStart(message=message) | MessageEnd(message=message):
            return f"{kind} {message.__struct_config__.tag}"
        case _:
            inner = getattr(event, "assistant_message_event", None)  # only message_update has one
            return kind if inner is None else str(inner.__struct_config__.tag)


def lines(messages: Iterable[Message]) -> list[str]:
    """Messages as one line each: role, and what was said."""
    return [_line(message) for message in messages]


def _line(message: Message) -> str:
    match message:
        case UserMessage(content=content) | CustomMessage(content=content):
            return f"user: {text_of(content)}"
        case AssistantMessage(content=content, stop_reason=reason):
            said = [block.text for block in content if isinstance(block, TextBlock)]
            asked = [f"{block.name}({block.id})" for block in content if isinstance(block, ToolCall)]
            return f"reply: {' '.join(said + asked)} [{reason}]"
        case ToolResultMessage(tool_call_id=call_id, content=content):
            return f"result {call_id}: {text_of(content)}"
        case BashExecutionMessage(command=command, output=output):
            return f"bash: {command} -> {output}"
        case _:
            return str(message.__struct_config__.tag)


def stored(session: SessionManager) -> list[str]:
    """The messages on the path, as lines."""
    return lines(entry.message for entry in session.get_branch() if isinstance(entry, MessageEntry))


def user_ids(session: SessionManager) -> list[EntryId]:
    """The ids of the user messages on the path."""
    path = session.get_branch()
    return [entry.id for entry in path if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage)]


async def started(work: Awaitable[object]) -> "asyncio.Task[object]":
    """The work as a task that has taken its first step."""

    async def doing() -> object:
        return await work

    task = asyncio.create_task(doing())
    await asyncio.sleep(0)
    return task
