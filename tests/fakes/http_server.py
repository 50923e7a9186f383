"""The HTTP/1.1 under the fake providers: records requests, plays replies, has faults. It knows no provider's format.

    async with FakeServer([Answer(...), ...]) as server:
        ... server.base_url, server.requests, await server.wait_disconnected()

One `Answer` a request, in order; a request too many is answered with status 418. From another process: `serve_script`.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

DEADLINE = 10.0
"""Seconds any wait of a test on a fake server may take."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request gets.

    ``chunks`` are the pieces of the body, written one by one. ``cut`` closes the connection in the middle of the body,
    after all chunks. ``stall`` keeps it open after them until the client goes. ``step`` splits the body's bytes into
    pieces of so many, whatever they hold.
    """

    chunks: Sequence[bytes]
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False
    stall: bool = False
    step: int | None = None

    def pieces(self) -> list[bytes]:
        if self.step is None:
            return [chunk for chunk in self.chunks if chunk]
        whole = b"".join(self.chunks)
        return [whole[at : at + self.step] for at in range(0, len(whole), self.step)]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: Any


class FakeServer:
    """Plays answers to requests. Use as an async context manager."""

    path_prefix = ""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.requests: list[Recorded] = []
        self.connections = 0
        self._answers = list(answers)
        self._disconnected = asyncio.Event()
        self._request_seen = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Wait for the clients to go: a connection that is left open fails the test."""
        assert self._server is not None
        self._server.close()
        if self._serving:
            _, idle = await asyncio.wait(self._serving, timeout=DEADLINE)
            assert not idle, f"{len(idle)} connections were left open"
        await self._server.wait_closed()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}{self.path_prefix}"

    @property
    def bodies(self) -> list[Any]:
        return [request.body for request in self.requests]

    def refusal(self, request: Recorded) -> Answer | None:
        """What a request gets instead of its answer, because the real server would refuse it."""
        return None

    async def wait_disconnected(self) -> None:
        """Until a stalled request's client has gone."""
        await asyncio.wait_for(self._disconnected.wait(), DEADLINE)

    async def wait_request(self) -> None:
        """Until a request has come in."""
        await asyncio.wait_for(self._request_seen.wait(), DEADLINE)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        if task := asyncio.current_task():
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            while (request := await read_request(reader)) is not None:
                self.requests.append(request)
                self._request_seen.set()
                answer = self._answers.pop(0) if self._answers else Answer([b'{"error": "no answer left"}'], 418)
                answer = self.refusal(request) or answer
                if not await self._play(answer, reader, writer):
                    return
        except ConnectionError:
            self._disconnected.set()
        finally:
            writer.close()

    async def _play(self, answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Send one answer; whether the connection goes on."""
        headers = {"content-type": "text/event-stream" if answer.status == 200 else "application/json"} | answer.headers
        lines = [f"HTTP/1.1 {answer.status} X", *(f"{name}: {value}" for name, value in headers.items())]
        writer.write("\r\n".join([*lines, "transfer-encoding: chunked", "", ""]).encode())
        for piece in answer.pieces():
            writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            await writer.drain()
            await asyncio.sleep(0)
        if answer.stall:
            await reader.read()  # ends when the client closes
            self._disconnected.set()
        if answer.cut or answer.stall:
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


async def read_request(reader: asyncio.StreamReader) -> Recorded | None:
    """The next request of a connection, None when the client has closed it."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Recorded(first.split(" ")[1], headers, json.loads(body.decode("utf-8")) if body else None)


def sse(event: str | None, data: Any) -> bytes:
    """One server-sent event; ``data`` is JSON or, as a str, taken as it is. Half characters go out as escapes."""
    text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text):
        text = json.dumps(data)
    return (f"event: {event}\n" if event else "").encode() + f"data: {text}\n\n".encode()


def serve_script(load: Callable[[bytes], FakeServer]) -> None:
    """Serve until stdin ends: ``--script FILE`` is a JSON list of replies, ``--requests FILE`` takes what came in.

    The first line of stdout is the base URL. Requests are written as JSON lines as they come.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--requests", type=Path)
    options = parser.parse_args()
    asyncio.run(_serve_until_stdin_ends(load(options.script.read_bytes()), options.requests))


async def _serve_until_stdin_ends(server: FakeServer, requests: Path | None) -> None:
    async with server:
        print(server.base_url, flush=True)
        if requests is not None:
            server.requests = _Journal(requests)
        await asyncio.to_thread(sys.stdin.read)


class _Journal(list[Recorded]):
    """Requests that are also written to a file, each before it is answered."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def append(self, request: Recorded) -> None:
        super().append(request)
        line = json.dumps({"path": request.path, "headers": request.headers, "body": request.body})
        os.write(self._file, line.encode() + b"\n")
