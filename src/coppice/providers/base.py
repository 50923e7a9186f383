"""What a model is to the rest of coppice: a `Model` that streams one reply to one `Request`.

Adapters live beside this file; their libraries' types never leave them and never reach a session file.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Protocol

from coppice.format.events import StreamEvent
from coppice.format.messages import NO_USAGE, JsonObject, RequestMessage, Usage


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """Facts about a model.

    ``provider``, ``id`` and ``api`` are what a reply's fields of these names hold, e.g. ``anthropic``,
    ``claude-sonnet-4-5``, ``anthropic-messages``. ``context_window`` and ``max_output`` are tokens, None when unknown.
    ``label`` is a line for people (the demo model says here that it is none). ``account`` is a fingerprint of the key
    in use, never the key. ``remote_compaction`` names the forms of compaction its provider offers (see
    `CompactingModel`), the preferred one first. ``compaction_hash`` names the way it expects a condensed context; with
    another one the context is condensed before the switch (None: it does not matter).
    """

    provider: str
    id: str
    api: str
    context_window: int | None = None
    max_output: int | None = None
    accepts_images: bool = True
    base_url: str | None = None
    label: str = ""
    account: str | None = None
    remote_compaction: tuple[str, ...] = ()
    compaction_hash: str | None = None

    @property
    def name(self) -> str:
        """``provider/id``, as ``--model`` takes it."""
        return f"{self.provider}/{self.id}"


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as the model is told of it; ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True, slots=True)
class Request:
    """One request: everything the model is told.

    ``messages`` comes from `coppice.tree.pairing.request_messages`, the only function whose result a provider sees.
    ``thinking_level`` is one of THINKING_LEVELS or an unknown value from a file. ``cache_key`` is the session's id.
    ``max_output`` is tokens, None for the model's own default.
    """

    system_prompt: str
    messages: tuple[RequestMessage, ...]
    tools: tuple[ToolSchema, ...] = ()
    thinking_level: str = "off"
    max_output: int | None = None
    cache_key: str | None = None
    extra: JsonObject = field(default_factory=dict[str, object])


class Model(Protocol):
    """One model of one provider."""

    @property
    def info(self) -> ModelInfo:
        """Facts about the model."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; the last event is `StreamDone`.

        One request is sent, never a second: retries belong to the agent loop. Cancelling the task that iterates, or
        closing the iterator, ends the request at the provider too.

        Raises:
            ContextOverflow: the provider says that the request is larger than its window.
            ProviderError: anything else that went wrong, before or inside the stream.
        """
        ...


@dataclass(frozen=True, slots=True)
class Compacted:
    """What a provider's compaction gave: its output items as they came, and the usage it reported."""

    items: tuple[JsonObject, ...]
    usage: Usage = NO_USAGE


class CompactingModel(Model, Protocol):
    """A model whose provider compacts a conversation itself.

    Forms: ``openai-v1`` (``POST /responses/compact``, one JSON answer), ``openai-v2`` (an ordinary streamed request that
    ends with a trigger item), ``anthropic`` (on-demand compaction of the Messages API).
    """

    async def compact(self, request: Request, form: str, *, instructions: str | None = None) -> Compacted:
        """Have the provider compact `request`'s conversation. One request is sent, never a second.

        Raises:
            ContextOverflow: the conversation is too large even for this.
            ProviderError: anything else; ``status`` 404 or 400 with an unknown-endpoint text means "not offered here".
        """
        ...
