"""The model of this room: one request, streamed, whatever the provider.

Each request has an HTTP client of its own, closed with the stream: nothing idles, nothing is bound to an event loop,
and there is nothing to close (a handshake a request is little beside a model's seconds). What differs between the
APIs stands in `Wire`.
"""

import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

import httpx2
from pydantic_ai.direct import model_request_stream
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model as PydanticModel
from pydantic_ai.models import StreamedResponse
from pydantic_ai.settings import ModelSettings

from coppice.errors import ProviderError
from coppice.format.events import StreamDone, StreamEvent, UsageReport
from coppice.format.messages import NO_USAGE, AssistantMessage, Usage
from coppice.providers.address import is_loopback
from coppice.providers.base import ModelInfo, Request
from coppice.providers.pydantic_ai.errors import (
    REQUEST_FAILURES,
    RequestFailure,
    error_in_finish,
    incomplete_reply,
    provider_error,
)
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
    given whether stale thinking is to be dropped (see `PydanticAIModel`).
    """

    connect: Callable[[str, httpx2.AsyncClient], PydanticModel]
    settings: Callable[[Request, bool], ModelSettings]
    is_stale_thinking: Callable[[ProviderError], bool]


@dataclass(slots=True)
class PydanticAIModel:
    """A model behind pydantic-ai. Satisfies `coppice.providers.base.Model`.

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
        async with self._client() as client:
            try:
                model = self.wire.connect(self.key, client)
                async with model_request_stream(
                    model,
                    messages_of(request, self.info, model.system),
                    model_settings=self._settings(request),
                    model_request_parameters=parameters_of(request),
                ) as response:
                    async for event in self._events(request, response, started):
                        yield event
            except REQUEST_FAILURES as failure:
                raise self._error(failure) from (None if self.key and self.key in str(failure) else failure)

    async def _events(self, request: Request, response: StreamedResponse, started: int) -> AsyncGenerator[StreamEvent, None]:
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

    def _client(self) -> httpx2.AsyncClient:
        """A client for one request. Proxies of the environment are not asked for a server on this machine."""
        return httpx2.AsyncClient(
            timeout=httpx2.Timeout(self.silence_s, connect=min(CONNECT_S, self.silence_s)),
            trust_env=not is_loopback(self.info.base_url),
        )
