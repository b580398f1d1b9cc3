"""A server with OpenAI's chat completions on loopback, for the tests of models."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Call:
    """A received request."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: Json


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The server's answer."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] | None = None
    drop: bool = False
    """Close the connection instead."""


def completion(text: str | None, *, finish: str = "stop", usage: Json | None = None, **message: Any) -> Reply:
    """A chat completion of one choice."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text, **message}}
    body = {"id": "c-1", "object": "chat.completion", "created": 1, "model": "served-model-1", "choices": [choice]}
    return Reply(body=body if usage is None else {**body, "usage": usage})


def _wire(body: Any) -> bytes:
    """Encodes bytes as they are, text as a page, everything else as JSON."""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores clients that hang up, which some tests do."""


class FakeOpenAI:
    """The server; a context manager. The script runs in the server's threads."""

    def __init__(self, script: Callable[[Call], Reply]) -> None:
        self.calls: list[Call] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                call = Call(path=self.path, headers=headers, body=body)
                server.calls.append(call)
                reply = script(call)
                if reply.drop:
                    self.close_connection = True
                    return
                data = _wire(reply.body)
                self.send_response(reply.status)
                kind = "text/html" if isinstance(reply.body, str) else "application/json"
                sent = {"Content-Type": kind, "Content-Length": str(len(data)), **(reply.headers or {})}
                for name, value in sent.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    @property
    def root(self) -> str:
        """The base URL without a path."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=10)
