"""The stage of remote compaction's tests: a session whose model is a fake server on loopback, behind the real adapter."""

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from coppice.app.agent_session import AgentSession
from coppice.app.settings import Settings
from coppice.compaction.settings import ModelLimits
from coppice.format.messages import JsonObject, is_object
from coppice.providers.base import Model
from coppice.providers.catalogue import resolve_model
from coppice.tree.pairing import COMPACTION_OPENING
from tests.app.house import House, path_file
from tests.compaction.stage import compacting, compactions, text
from tests.fakes.openai_server import Call, Compaction, FakeOpenAI, Message, Raw, Response

SOL = "openai/gpt-6.1-sol"
KEY = "sk-test-0123456789abcdef"

BLOB: JsonObject = {
    "type": "compaction",
    "encrypted_content": "gAAAAABcompact+/==",
    "id": "cmp_1",
    "future": {"b": [1.5, None, {"z": "日本語 😀", "a": 1}], "a": ""},
}
"""A compaction item, with a field nobody knows and keys in no order."""

Reply = Response | Compaction


@dataclass(slots=True)
class Talk:
    """A session that talks to a fake server."""

    session: AgentSession
    server: FakeOpenAI

    def sent(self, number: int = -1) -> list[str]:
        """The input of a request, by default the last, as words."""
        return words(self.server.bodies[number]["input"])

    @property
    def details(self) -> JsonObject:
        """The details of the newest compaction."""
        found = compactions(self.session)[-1].details
        assert is_object(found)
        return found

    @property
    def replacement(self) -> list[JsonObject]:
        return list(self.details["replacement"])


def openai_at(url: str, *forms: str, key: str = KEY, name: str = SOL) -> Model:
    return resolve_model(name, base_url=url, environ={"OPENAI_API_KEY": key}, remote_compaction=forms)


def remote(window: int | None = None, **settings: object) -> Settings:
    """Settings for codex-remote, with a window in tokens for the model."""
    models = {SOL: ModelLimits(context_window=window)} if window else {}
    return compacting(**({"strategy": "codex-remote", "models": models} | settings))


@asynccontextmanager
async def talking(
    house: House,
    *replies: Reply,
    forms: Sequence[str] = ("openai-v2",),
    settings: Settings | None = None,
    tools: Iterable[Callable[..., object]] = (),
    key: str = KEY,
) -> AsyncGenerator[Talk, None]:
    async with FakeOpenAI(replies) as server:
        model = openai_at(server.base_url, *forms, key=key)
        async with house.enter(model=model, settings=settings or remote(), tools=tools) as session:
            yield Talk(session, server)


@asynccontextmanager
async def going_on(house: House, talk: Talk, **more: Any) -> AsyncGenerator[Talk, None]:
    """The session of a talk, closed and opened again, with the same server; `more` may be another ``key``."""
    path = path_file(talk.session)
    await talk.session.close()
    model = openai_at(talk.server.base_url, "openai-v2", **more)
    async with house.enter(model=model, settings=remote(), open_path=path) as session:
        yield Talk(session, talk.server)


def said(tag: str, tokens: int = 2_000) -> Response:
    """A reply of a size."""
    return Response(content=(Message((text(tag, tokens),)),))


def calling(call_id: str, name: str) -> Response:
    return Response(content=(Call(call_id, name, ("{}",)),))


def blob(item: JsonObject = BLOB, **more: Any) -> Response:
    """The second form's answer."""
    return Response(content=(Raw(item),), **more)


def returned(*items: JsonObject) -> Compaction:
    """The first form's answer: these items and a compaction."""
    return Compaction(output=(*items, BLOB))


def user_item(said: str) -> JsonObject:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": said}]}


def words(items: Sequence[JsonObject]) -> list[str]:
    return [word(item) for item in items]


def word(item: JsonObject) -> str:
    """An input item as one word: a message's first word (S for a summary), call, out, C, trigger."""
    match item.get("type"):
        case "function_call":
            return "call"
        case "function_call_output":
            return "out"
        case "compaction" | "context_compaction":
            return "C"
        case "compaction_trigger":
            return "trigger"
        case "message" | None:
            content = item["content"]
            found = content if isinstance(content, str) else next((part.get("text", "image") for part in content), "")
            return "S" if found.startswith(COMPACTION_OPENING) else found.split()[0]
        case other:
            return str(other)


def kinds_of(replacement: Sequence[JsonObject]) -> list[str]:
    return ["/".join(sorted(item)) for item in replacement]
