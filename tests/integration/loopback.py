"""An HTTP/1.1 server on loopback, in the test's own event loop, that answers with any bytes: also wrong ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    target: str
    """As sent: the path, or a whole URL if the client takes us for a proxy."""
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Answer:
    """Writes one answer."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def raw(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int = 200, **headers: str) -> None:
        """Status line and headers; the body ends with the connection."""
        lines = [f"HTTP/1.1 {status} X", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.raw("\r\n".join(lines).encode() + b"\r\n\r\n")

    async def send(self, status: int, body: bytes, **headers: str) -> None:
        await self.head(status, content_length=str(len(body)), **headers)
        await self.raw(body)

    async def json(self, value: Any, status: int = 200, **headers: str) -> None:
        await self.send(status, json.dumps(value).encode(), content_type="application/json", **headers)

    async def events(self, *events: Any) -> None:
        """A stream of server-sent events: strings as they are, other values as `data: JSON`."""
        await self.head(content_type="text/event-stream")
        for event in events:
            text = event if isinstance(event, str) else f"data: {json.dumps(event)}\n\n"
            await self.raw(text.encode())

    async def closed(self) -> None:
        """Returns when the client has closed the connection."""
        with contextlib.suppress(ConnectionError):
            await self._reader.read()

    def reset(self) -> None:
        """Ends the connection with RST."""
        connection = self._writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()


Handler = Callable[[Request, Answer], Awaitable[None]]


@dataclass(kw_only=True)
class Loopback:
    """A running server."""

    port: int
    requests: list[Request] = field(default_factory=list)
    stop: Callable[[], None] = lambda: None
    """Stops listening, before the end of the block."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextlib.asynccontextmanager
async def loopback(handler: Handler, port: int = 0) -> AsyncIterator[Loopback]:
    """Serves one request on each connection until the end of the block."""
    server_facts = Loopback(port=port)
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, target, _ = head[0].split(" ", 2)
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            request = Request(method=method, target=target, headers=headers, body=body)
            server_facts.requests.append(request)
            await handler(request, Answer(reader, writer))
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            writer.close()
        tasks.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    server_facts.port, server_facts.stop = server.sockets[0].getsockname()[1], server.close
    try:
        yield server_facts
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
