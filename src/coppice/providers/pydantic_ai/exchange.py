"""The HTTP under one request, for what pydantic-ai cannot say or would not give back whole.

pydantic-ai writes every request, so that each is what an ordinary turn of the same conversation would be. `Exchange`,
the HTTP client it is given, changes the JSON body on its way out where that is asked for, and can keep a reply for
itself. It knows no provider.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2

from coppice.format.messages import JsonObject


@dataclass(frozen=True, slots=True)
class Draft:
    """A request before it is sent: its JSON body, the headers it gets besides, and what is added to its path."""

    body: JsonObject
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    path_end: str = ""


Rewrite = Callable[[Draft], Draft]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was kept of a whole reply: its items as they came, its usage, and why it stopped."""

    items: tuple[JsonObject, ...] = ()
    usage: JsonObject = field(default_factory=dict[str, object])
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class Listener:
    """Keeps a reply: ``read`` makes of a body what is wanted, or None when it is no whole reply.

    A whole reply goes no further; pydantic-ai is given ``ending``, the shortest stream of this API. It would warn of
    unknown items and drop fields. What is not whole goes on to it unchanged: it names the errors inside streams.
    """

    read: Callable[[bytes], Answer | None]
    ending: bytes


class Exchange(httpx2.AsyncClient):
    """An HTTP client that sends drafts after ``rewrites``; ``answer`` is what a listener kept.

    A client and not a transport: only a client without a transport of its own asks the environment for proxies.
    """

    def __init__(
        self, rewrites: Sequence[Rewrite], listener: Listener | None, *, silence: httpx2.Timeout, env: bool
    ) -> None:
        super().__init__(timeout=silence, trust_env=env)
        self._rewrites = rewrites
        self._listener = listener
        self.answer: Answer | None = None

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send one request; see `httpx2.AsyncClient.send`."""
        if self._rewrites:
            request = rewritten(request, self._rewrites)
        response = await super().send(request, **options)
        if self._listener is None or response.status_code != 200:
            return response
        try:
            body = await response.aread()
        finally:
            await response.aclose()
        self.answer = self._listener.read(body)
        rest = body if self.answer is None else self._listener.ending
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=rest, request=request)


def rewritten(request: httpx2.Request, rewrites: Sequence[Rewrite]) -> httpx2.Request:
    """The request that is sent instead. A header that is there already is a list, and gets one name more."""
    draft = Draft(json.loads(request.content))
    for rewrite in rewrites:
        draft = rewrite(draft)
    headers = request.headers.copy()
    del headers["content-length"]
    for name, value in draft.headers.items():
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    url = request.url.copy_with(path=request.url.path + draft.path_end)
    return httpx2.Request(
        request.method, url, headers=headers, content=encoded(draft.body), extensions=request.extensions
    )


def encoded(body: JsonObject) -> bytes:
    """JSON as the SDKs write it. Half characters, which an item may hold, have no UTF-8 and stay escapes."""
    try:
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()
