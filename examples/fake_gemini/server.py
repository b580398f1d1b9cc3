"""The server: one event loop, HTTP/1.1 with keep-alive, counters."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, urlsplit

from fake_gemini.messages import Answer, BadRequest, Fault, GenerateRequest, Json, Script, check_body, response_chunks
from fake_gemini.questions import WrongQuestion, is_question, recognised

_METHOD = re.compile(
    r"^/v1(?:beta1?|alpha)?/"
    r"(?:(?:projects/(?P<project>[\w.-]+)/locations/(?P<location>[\w-]+)/)?(?:publishers/google/models|endpoints)|models)"
    r"/(?P<model>[\w.-]+):(?P<method>generateContent|streamGenerateContent)$"
)
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


@dataclass(kw_only=True)
class Stats:
    """What the server has seen."""

    requests: int = 0
    """Calls of the two generate methods, well formed or not."""
    statuses: Counter[int] = field(default_factory=Counter)
    """Answers by HTTP status; faults without an answer are not in it."""
    in_flight: int = 0
    peak_in_flight: int = 0
    refused: list[str] = field(default_factory=list)
    """Why bodies were not well formed."""
    connections: int = 0

    def as_json(self) -> Json:
        """For `GET /stats`."""
        statuses = {str(status): count for status, count in self.statuses.items()}
        return {**self.__dict__, "statuses": statuses}


class _Connection(asyncio.Protocol):
    """One client's connection: requests one after another, kept alive."""

    def __init__(self, server: FakeGemini) -> None:
        self._server = server
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.open_connections.add(transport)
        self._server.stats.connections += 1

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._server.open_connections.discard(self._transport)
        self._end_wait()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._serve_next()

    def _serve_next(self) -> None:
        if self._timer is not None or (end := self._buffer.find(b"\r\n\r\n")) < 0:
            return
        line, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (header.partition(":") for header in lines)}
        size = int(headers.get("content-length", 0))
        if len(self._buffer) < end + 4 + size:
            return
        body = bytes(self._buffer[end + 4 : end + 4 + size])
        del self._buffer[: end + 4 + size]
        method, target, _ = line.split(" ", 2)
        self._handle(method, target, headers, body)

    def _handle(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> None:
        url, stats = urlsplit(target), self._server.stats
        if (method, url.path) == ("GET", "/stats"):
            return self._send_json(200, stats.as_json())
        if (method, url.path) == ("POST", "/reset"):
            self._server.stats = Stats(in_flight=stats.in_flight, peak_in_flight=stats.in_flight)
            return self._send_json(200, {})
        if (method, url.path) == ("POST", "/token"):
            return self._send_json(200, {"access_token": "fake-token", "expires_in": 3600, "token_type": "Bearer"})
        stats.requests += 1
        try:
            request = self._server.read(method, url.path, headers, body, parse_qs(url.query))
        except BadRequest as error:
            stats.refused.append(str(error))
            return self._send_error(error.status, str(error))
        answer = self._server.answer(request)
        latency = answer.latency
        stats.in_flight += 1
        stats.peak_in_flight = max(stats.peak_in_flight, stats.in_flight)
        loop = asyncio.get_running_loop()
        if isinstance(answer, Fault) and answer.kind in ("hang", "hang-body", "hang-rest"):
            if answer.kind != "hang":
                self._send_beginning(request.stream, answer.kind == "hang-rest")
            self._timer = loop.call_later(86_400, self._end_wait)
        else:
            as_events = "sse" in parse_qs(url.query).get("alt", [])
            wait = self._server.latency if latency is None else latency
            self._timer = loop.call_later(wait, self._respond, request, answer, len(body), as_events)
        return None

    def _end_wait(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._server.stats.in_flight -= 1

    def _respond(self, request: GenerateRequest, answer: Answer | Fault, size: int, as_events: bool) -> None:
        self._end_wait()
        assert self._transport is not None
        if isinstance(answer, Answer):
            chunks = response_chunks(request, answer, self._server.stats.requests, size)
            self._send_stream(chunks, as_events) if request.stream else self._send_json(200, chunks[0])
        elif answer.kind == "reset":
            return self._transport.abort()
        elif answer.kind == "gone":
            return self._server.go()
        elif answer.kind == "garbage":
            self._send(200, b"<html>not what you asked for</html>", "application/json")
        elif answer.kind == "cut":
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
            self._transport.write(head + b'{"candidates": [')
            return self._transport.close()
        elif answer.kind == "cut-json":
            self._send(200, b'{"candidates": [{"content": {"parts": [{"te', "application/json")
        elif answer.kind in ("empty", "null", "blank"):
            self._send(200, {"empty": b"{}", "null": b"null", "blank": b""}[answer.kind], "application/json")
        elif isinstance(answer.kind, int):
            self._send_error(answer.kind, answer.message, answer.retry_after, answer.retry_info)
        return self._serve_next()

    def _send_error(
        self, status: int, message: str, retry_after: int | None = None, retry_info: float | None = None
    ) -> None:
        error: Json = {"code": status, "message": message, "status": _STATUS_NAMES.get(status, "UNKNOWN")}
        if retry_info is not None:
            error["details"] = [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{retry_info}s"}]
        extra = f"Retry-After: {retry_after}\r\n" if retry_after is not None else ""
        self._server.stats.statuses[status] += 1
        self._send(status, json.dumps({"error": error}).encode(), "application/json; charset=UTF-8", extra)

    def _send_json(self, status: int, body: Json) -> None:
        if "candidates" in body:
            self._server.stats.statuses[status] += 1
        self._send(status, json.dumps(body).encode(), "application/json; charset=UTF-8")

    def _send_stream(self, chunks: list[Json], as_events: bool) -> None:
        self._server.stats.statuses[200] += 1
        if not as_events:
            return self._send(200, json.dumps(chunks).encode(), "application/json; charset=UTF-8")
        assert self._transport is not None
        out = [b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"]
        for chunk in chunks:
            event = f"data: {json.dumps(chunk)}\r\n\r\n".encode()
            out.append(b"%x\r\n%b\r\n" % (len(event), event))
        self._transport.write(b"".join([*out, b"0\r\n\r\n"]))
        return None

    def _send_beginning(self, stream: bool, some_body: bool) -> None:
        """The headers of an answer that never ends, and perhaps the first part of its body."""
        assert self._transport is not None
        self._transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        part: Json = {"candidates": [{"content": {"role": "model", "parts": [{"text": "to"}]}}]}
        begun = f"data: {json.dumps(part)}\r\n\r\n" if stream else '{"candidates": ['
        if some_body:
            self._transport.write(f"{len(begun):x}\r\n{begun}\r\n".encode())

    def _send(self, status: int, body: bytes, content_type: str, extra: str = "") -> None:
        assert self._transport is not None
        reason = HTTPStatus(status).phrase
        head = (
            f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\n{extra}Content-Length: {len(body)}\r\n\r\n"
        )
        self._transport.write(head.encode("latin-1") + body)


class FakeGemini:
    """The server. Used as a context manager it runs in a thread of its own."""

    def __init__(
        self,
        script: Script,
        *,
        latency: float = 0.0,
        faults: Iterable[Fault] = (),
        address: str = "127.0.0.1",
        port: int = 0,
        keep: int = 100,
        any_question: bool = False,
    ) -> None:
        """Prepares the server.

        Args:
            script: Decides the answer to a request. It runs in the server's thread and should be quick.
            latency: Seconds before an answer.
            faults: Handed out to the first requests, one each, before the script is asked.
            address: Where it listens.
            port: 0 lets the system choose.
            keep: How many of the latest requests `received` holds.
            any_question: Don't refuse a judge's question whose parts don't belong together.
        """
        self.latency = latency
        self.stats = Stats()
        self.received: deque[GenerateRequest] = deque(maxlen=keep)
        self.open_connections: set[asyncio.Transport] = set()
        self.address = address
        self.port = port
        self.wrong_questions: list[WrongQuestion] = []
        """What was asked of a judge or a simulated user and refused: the first one is raised when the context ends."""
        self._any_question = any_question
        self._script = script
        self.faults = deque(faults)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None
        self._listening: asyncio.Server | None = None
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None

    @property
    def url(self) -> str:
        """What `GOOGLE_GEMINI_BASE_URL` should be."""
        return f"http://{self.address}:{self.port}"

    def read(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, query: Mapping[str, list[str]]
    ) -> GenerateRequest:
        """Takes a request apart and checks it.

        Raises:
            BadRequest: Gemini would refuse it.
        """
        match = _METHOD.match(path)
        if method != "POST" or match is None:
            raise BadRequest(f"{method} {path} is not found", 404)
        if match["project"] and headers.get("authorization") != "Bearer fake-token":
            raise BadRequest("Request is missing required authentication credential.", 401)
        if not match["project"] and not headers.get("x-goog-api-key") and "key" not in query:
            raise BadRequest("Method doesn't allow unregistered callers. Please use an API key.", 403)
        try:
            decoded = json.loads(body)
        except ValueError as error:
            raise BadRequest(f"Invalid JSON payload received. {error}") from error
        request = GenerateRequest(
            model=match["model"],
            stream=match["method"].startswith("stream"),
            body=check_body(decoded),
            headers=headers,
            project=match["project"],
            location=match["location"],
        )
        self._check_question(request)
        self.received.append(request)
        return request

    def _check_question(self, request: GenerateRequest) -> None:
        """Notes a question whose parts don't belong together, and refuses it."""
        prompt = "".join(request.user_texts[:1])
        generation = request.body.get("generationConfig", {})
        if self._any_question or request.tool_names or not is_question(prompt):
            return
        try:
            recognised(prompt, generation.get("responseJsonSchema") or generation.get("responseSchema"))
        except WrongQuestion as error:
            self.wrong_questions.append(error)
            raise BadRequest(f"Wrong question: {error}") from error

    def fail(self, *faults: Fault) -> None:
        """Hands these out to the next requests."""
        self.faults.extend(faults)

    def answer(self, request: GenerateRequest) -> Answer | Fault:
        """What the request gets: the next fault, or what the script says."""
        return self.faults.popleft() if self.faults else self._script(request)

    def serve_forever(self, ready: Callable[[], None] = lambda: None) -> None:
        """Serves until interrupted; `ready` is called once `port` is known."""
        asyncio.run(self._serve(ready))

    async def _serve(self, ready: Callable[[], None]) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        self._listening = await self._loop.create_server(
            lambda: _Connection(self), self.address, self.port, backlog=512
        )
        self.port = self._listening.sockets[0].getsockname()[1]
        ready()
        try:
            await self._stopped.wait()
        finally:
            self.go()
            await asyncio.sleep(0)

    def go(self) -> None:
        """Stops listening, and drops all connections. To be called in the server's loop."""
        assert self._listening is not None
        self._listening.close()
        for transport in tuple(self.open_connections):
            transport.abort()

    def __enter__(self) -> Self:
        started = threading.Event()

        def run() -> None:
            try:
                self.serve_forever(started.set)
            except OSError as error:
                self._failure = error
                started.set()

        self._thread = threading.Thread(target=run, name="fake-gemini", daemon=True)
        self._thread.start()
        started.wait()
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._loop is not None and self._stopped is not None and self._thread is not None
        self._loop.call_soon_threadsafe(self._stopped.set)
        self._thread.join(timeout=10)
        if self.wrong_questions and error is None:
            raise self.wrong_questions[0]
