"""The model of this room: one request, streamed, whatever the provider.

Each request has an HTTP client of its own, closed with the stream: nothing idles, nothing is bound to an event loop,
and there is nothing to close (a handshake a request is little beside a model's seconds). What differs between the
APIs stands in `Wire`.
"""

import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import httpx2
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models import StreamedResponse
from pydantic_ai.settings import ModelSettings

from coppice.errors import ProviderError
from coppice.format.events import StreamDone, StreamEvent, UsageReport
from coppice.format.messages import NO_USAGE, AssistantMessage, JsonObject, Usage
from coppice.providers.address import is_loopback
from coppice.providers.base import Compacted, ModelInfo, Request
from coppice.providers.pydantic_ai.compaction import Form, checked_form, compacted
from coppice.providers.pydantic_ai.errors import (
    REQUEST_FAILURES,
    RequestFailure,
    error_in_finish,
    incomplete_reply,
    provider_error,
    root_of,
    stopped_early,
)
from coppice.providers.pydantic_ai.exchange import Exchange, Listener, Rewrite
from coppice.providers.pydantic_ai.opaque import Replay, arranged, marked, put_back
from coppice.providers.pydantic_ai.prices import PriceTag, usage_of
from coppice.providers.pydantic_ai.reply import ReplyStream, block_parts, is_broken
from coppice.providers.pydantic_ai.request import messages_of, parameters_of

CONNECT_S = 15.0
"""Seconds until a connection must stand."""

SILENCE_S = 600.0
"""Seconds a server may send nothing; the SDKs' default. Models that think in private are silent for minutes."""


@dataclass(frozen=True, slots=True)
class Wire:
    """One API of one provider.

    ``connect`` makes pydantic-ai's model around a key and an HTTP client; ``settings`` are a request's own settings,
    given whether stale thinking is to be dropped (see `PydanticAIModel`). ``replay`` says how opaque items of a
    compaction go back, ``forms`` which compactions can be asked for.
    """

    connect: Callable[[str, httpx2.AsyncClient], PydanticModel]
    settings: Callable[[Request, bool], ModelSettings]
    is_stale_thinking: Callable[[ProviderError], bool]
    replay: Replay | None = None
    forms: Mapping[str, Form] = field(default_factory=dict[str, Form])


@dataclass(slots=True)
class PydanticAIModel:
    """A model behind pydantic-ai. Satisfies `coppice.providers.base.CompactingModel`.

    A provider may refuse thinking that was made for another beginning of the conversation (after a compaction, say).
    Such an error is transient here, and this model's later requests ask for that thinking to be ignored.
    """

    info: ModelInfo
    wire: Wire
    price: PriceTag
    key: str = field(repr=False)
    silence_s: float = SILENCE_S
    _drops_stale_thinking: bool = False

    async def stream(self, request: Request) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply to one HTTP request; see `coppice.providers.base.Model.stream`.

        A tool call whose arguments are broken at the end of the stream never looks like one to run: where the provider
        says it stopped for length, the call has no arguments and the reply's stop reason is ``length``; where it says
        nothing of the kind, the reply is an error that is worth another try.
        """
        started = time.time_ns() // 1_000_000
        request = arranged(request, self.info, self.wire.replay)
        items = marked(request)
        async with self._exchange(self._put_back(items)) as client, self._response(request, items, client) as response:
            async for event in self._events(request, response, started):
                yield event

    async def compact(self, request: Request, form: str, *, instructions: str | None = None) -> Compacted:
        """Compact with one HTTP request; see `coppice.providers.base.CompactingModel.compact`.

        Everything else in that request is what `stream` would send for the same conversation.
        """
        asked = checked_form(self.wire.forms, form, self.info.provider, instructions)
        request = arranged(request, self.info, self.wire.replay)
        items = marked(request)
        rewrites = [*self._put_back(items), partial(asked.ask, instructions)]
        async with self._exchange(rewrites, asked.listener) as client:
            async with self._response(request, items, client) as response:
                async for _ in response:
                    pass
            if client.answer is None:
                whole, provider = response.get(), self.info.provider
                raise error_in_finish(whole, provider) or stopped_early(whole, provider)
        return compacted(asked, client.answer, self.info.provider, self.price)

    @asynccontextmanager
    async def _response(
        self, request: Request, items: Mapping[str, JsonObject], client: httpx2.AsyncClient
    ) -> AsyncGenerator[StreamedResponse, None]:
        """The response to a request; every failure of it, also while it is read, is a `ProviderError`."""
        try:
            model = self.wire.connect(self.key, client)
            async with model_request_stream(
                model,
                messages_of(request, self.info, model.system, items),
                model_settings=self._settings(request),
                model_request_parameters=parameters_of(request),
            ) as response:
                yield response
        except REQUEST_FAILURES as failure:
            error = self._error(failure)
            hidden = error is root_of(failure) or (self.key and self.key in str(failure))
            raise error from (None if hidden else failure)

    async def _events(
        self, request: Request, response: StreamedResponse, started: int
    ) -> AsyncGenerator[StreamEvent, None]:
        reply = ReplyStream(self.info.api)
        usage = NO_USAGE
        async for event in response:
            for ours in reply.events(event):
                yield ours
            if (newer := usage_of(response.usage, self.price)) != usage:
                usage = newer
                yield UsageReport(usage)
        whole = response.get()
        stop_reason = self._stop_reason(whole)
        for ours in reply.rest(whole):
            yield ours
        if (newer := usage_of(whole.usage, self.price)) != usage:
            yield UsageReport(newer)
        yield StreamDone(self._message(request, whole, (reply, stop_reason, newer), started))

    def _stop_reason(self, response: ModelResponse) -> str:
        if (error := error_in_finish(response, self.info.provider)) is not None:
            raise error
        parts = block_parts(response)
        if response.finish_reason == "length":
            return "length"
        if any(is_broken(part) for part in parts):
            raise incomplete_reply(self.info.provider, "a tool call's arguments are not a JSON object")
        return "toolUse" if any(part.part_kind == "tool-call" for part in parts) else "stop"

    def _message(
        self, request: Request, response: ModelResponse, end: tuple[ReplyStream, str, Usage], started: int
    ) -> AssistantMessage:
        reply, stop_reason, usage = end
        return AssistantMessage(
            content=reply.content(response),
            api=self.info.api,
            provider=self.info.provider,
            model=self.info.id,
            usage=usage,
            stop_reason=stop_reason,
            response_id=response.provider_response_id,
            thinking_level=request.thinking_level,
            timestamp=started,
        )

    def _settings(self, request: Request) -> ModelSettings:
        settings = self.wire.settings(request, self._drops_stale_thinking)
        settings["max_retries"] = 0
        if request.max_output is not None:
            settings["max_tokens"] = request.max_output
        if request.extra:
            settings["extra_body"] = request.extra
        return settings

    def _error(self, failure: RequestFailure) -> ProviderError:
        error = provider_error(failure, self.info.provider, self.key)
        if self.wire.is_stale_thinking(error):
            self._drops_stale_thinking = True
            error.transient = True
        return error

    def _put_back(self, items: Mapping[str, JsonObject]) -> list[Rewrite]:
        replay = self.wire.replay
        return [partial(put_back, replay, items)] if items and replay is not None else []

    def _exchange(self, rewrites: Sequence[Rewrite], listener: Listener | None = None) -> Exchange:
        """A client for one request. Proxies of the environment are not asked for a server on this machine."""
        return Exchange(
            rewrites,
            listener,
            silence=httpx2.Timeout(self.silence_s, connect=min(CONNECT_S, self.silence_s)),
            env=not is_loopback(self.info.base_url),
        )
