"""Which requests left the process for a call, and what came back. Seen at HTTP clients and sockets, not at exceptions.

What a library keeps of a response in its exceptions depends on its version. Which call a request belongs to is a
context variable, which executors and threads of the call get, too.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import functools
import http.client
import json
import os
import re
import sys
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from agent_eval_host.evidence import reading

_SENT = frozenset({"socket.connect", "socket.getaddrinfo", "http.client.send"})
"""Audit events of Python with which a request begins."""
_ERROR_KEY = b'"error"'
_ID = re.compile(rb'"id"\s*:\s*("[^"]{,200}"|-?\d+)')
_WINDOW = 4_096
"""Bytes of an answer in which an error and the number of its request are near each other."""
_LONGEST_MESSAGE = 1_000_000
_CLIENTS = ("httpx", "httpx2", "aiohttp", "requests")
_wrapped: set[str] = set()


class Exchange:
    """A request, and what came back so far."""

    def __init__(self, client: Any, method: str, url: str, content: bytes = b"") -> None:
        self.address, self.host = address_of(url), urlsplit(url).hostname or ""
        self.method, self.began = method, time.monotonic()
        self.message: dict[str, Any] = {}  # of JSON-RPC
        if content[:1] == b"{" and len(content) <= _LONGEST_MESSAGE:
            with contextlib.suppress(ValueError):
                self.message = json.loads(content)
        self.status: int | None = None  # None without an answer
        self.error: BaseException | None = None
        self.refused: set[str] = vars(client).setdefault("_agent_eval_refused", set())

    @property
    def failed(self) -> bool:
        return self.error is not None or (self.status is not None and self.status >= 400)

    @property
    def is_refused(self) -> bool:
        """Whether an error in JSON-RPC came back, on whatever connection of the client."""
        return json.dumps(self.message.get("id")) in self.refused


def is_loopback(host: str) -> bool:
    """Whether what listens there runs on this machine, as a part of the job."""
    return host in ("", "localhost", "::1") or host.startswith("127.")


class Exchanges:
    """The requests of one call."""

    def __init__(self, session: deque[Exchange] | None = None) -> None:
        """Begins without any.

        Args:
            session: Gets the requests, too, if they are those of MCP: a client of it may send a request as a part of
                the call that opened the session.
        """
        self.left = False
        """Whether a request left the process, of whatever kind."""
        self.last: Exchange | None = None
        """The last one of an HTTP client."""
        self._session = session

    def begin(self, client: Any, method: str, url: str, content: bytes = b"") -> Exchange:
        exchange = Exchange(client, method, url, content)
        self.left = True
        if self._session is not None:
            self._session.append(exchange)
        # A client of MCP listens, too, where a server may refuse that, and says at the end that it leaves.
        if self._session is None or method == "POST" or self.last is None or self.last.method != "POST":
            self.last = exchange
        return exchange


log: contextvars.ContextVar[Exchanges | None] = contextvars.ContextVar("agent_eval_exchanges", default=None)
"""The requests of the running call; None where nobody asks."""


def address_of(url: str) -> str:
    """Where a request goes, for messages, without credentials: scheme, host, port, and the proxy of a variable."""
    split = urlsplit(url)
    address = f"{split.scheme}://{split.netloc.rpartition('@')[2]}"
    proxies = urllib.request.getproxies_environment()
    kind = split.scheme if split.scheme in proxies else "all"
    if kind not in proxies or urllib.request.proxy_bypass_environment(split.netloc, proxies):  # type: ignore[attr-defined]
        return address
    variable = next((name for name in (f"{kind}_proxy", f"{kind}_proxy".upper()) if os.environ.get(name)), "")
    scheme, _, place = proxies[kind].rpartition("://")
    return f"{address} through the proxy {scheme or 'http'}://{place.rpartition('@')[2]} ({variable})"


def watch() -> None:
    """Wraps the HTTP clients that are imported by now. Call it again when others may be."""
    if "" not in _wrapped:
        _wrapped.add("")
        sys.addaudithook(_hear)
        for cls in (http.client.HTTPConnection, http.client.HTTPSConnection):
            _wrap(cls, "connect", _of_connection)
        _wrap(http.client.HTTPConnection, "getresponse", _of_connection)
        _wrap(concurrent.futures.ThreadPoolExecutor, "submit", _submitting)
        _wrap(threading.Thread, "start", _starting)
    for name in [name for name in _CLIENTS if name in sys.modules and name not in _wrapped]:
        module = sys.modules[name]
        with contextlib.suppress(AttributeError):  # It is being imported, or is another package of that name.
            if name == "aiohttp":
                _wrap(module.ClientSession, "_request", lambda body: _asking(body, lambda *args: args[:2]))
            elif name == "requests":
                _wrap(module.Session, "send", _sending)
            else:
                _wrap(module.AsyncClient, "send", lambda body: _asking(body, _of_request))
                _wrap(module.Client, "send", _sending)
                _wrap(module.Response, "aiter_bytes", _reading)
            _wrapped.add(name)


def _wrap(cls: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    body = getattr(cls, name)
    setattr(cls, name, functools.wraps(body)(wrapper(body)))


def _hear(event: str, _: tuple[Any, ...]) -> None:
    if event in _SENT and (exchanges := log.get()) is not None:
        exchanges.left = True


def _of_request(request: Any, *_: Any) -> tuple[Any, ...]:
    content = getattr(request, "_content", b"")
    return request.method, request.url, content if isinstance(content, bytes) else b""


def _asking(body: Callable[..., Any], read: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    async def send(client: Any, *args: Any, **options: Any) -> Any:
        exchanges = log.get()
        if exchanges is None:
            return await body(client, *args, **options)
        method, url, *content = read(*args)
        exchange = exchanges.begin(client, str(method), str(url), *content)
        try:
            return _answered(exchange, await body(client, *args, **options))
        except Exception as error:
            exchange.error = error
            raise

    return send


def _sending(body: Callable[..., Any]) -> Callable[..., Any]:
    def send(client: Any, request: Any, **options: Any) -> Any:
        exchanges = log.get()
        if exchanges is None:
            return body(client, request, **options)
        exchange = exchanges.begin(client, str(request.method), str(request.url))
        try:  # A client may be based on http.client.
            return _answered(exchange, _within(None, body, client, request, **options))
        except Exception as error:
            exchange.error = error
            raise

    return send


def _answered(exchange: Exchange, response: Any) -> Any:
    exchange.status = getattr(response, "status_code", None) or getattr(response, "status", None)
    with contextlib.suppress(AttributeError):  # Only those of httpx say how they are read.
        response._agent_eval_exchange = exchange
    return response


def _reading(body: Callable[..., Any]) -> Callable[..., Any]:
    async def aiter_bytes(response: Any, *args: Any, **options: Any) -> Any:
        exchange, window = getattr(response, "_agent_eval_exchange", None), b""
        try:
            async with contextlib.aclosing(body(response, *args, **options)) as parts:
                async for part in parts:
                    if exchange is not None:
                        window = (window + part)[-_WINDOW - len(part) :]
                        if _ERROR_KEY in window:
                            exchange.refused.update(found.decode("utf-8", "replace") for found in _ID.findall(window))
                    yield part
        except Exception as error:
            if exchange is not None:
                exchange.error = error
            raise

    return aiter_bytes


def _of_connection(body: Callable[..., Any]) -> Callable[..., Any]:
    """Of urllib, and of other clients that are based on http.client."""

    def ask(connection: Any, *args: Any, **options: Any) -> Any:
        exchanges = log.get()
        if exchanges is None:
            return body(connection, *args, **options)
        scheme = "https" if isinstance(connection, http.client.HTTPSConnection) else "http"
        url = f"{scheme}://{connection.host}:{connection.port}"
        exchange = exchanges.begin(connection, str(connection._method), url)
        try:
            return _answered(exchange, body(connection, *args, **options))
        except Exception as error:
            exchange.error = error
            raise

    return ask


def _within(exchanges: Exchanges | None, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    token = log.set(exchanges)
    try:
        return function(*args, **options)
    finally:
        log.reset(token)


def _carried(exchanges: Exchanges | None, reads: Any, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    token = reading.set(reads)
    try:
        return _within(exchanges, function, *args, **options)
    finally:
        reading.reset(token)


def _submitting(body: Callable[..., Any]) -> Callable[..., Any]:
    def submit(executor: Any, function: Any, /, *args: Any, **options: Any) -> Any:
        # Also without a call: the thread may have been started in one.
        return body(executor, _carried, log.get(), reading.get(), function, *args, **options)

    return submit


def _starting(body: Callable[..., Any]) -> Callable[..., Any]:
    def start(thread: threading.Thread) -> None:
        if (exchanges := log.get()) is not None or reading.get() is not None:
            thread.run = functools.partial(_carried, exchanges, reading.get(), thread.run)  # type: ignore[method-assign]
        body(thread)

    return start
