"""A server on loopback that keeps every request, and answers as a function says."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """A request."""

    path: str
    headers: Mapping[str, str]
    """Names in lower case; values of one that was sent several times are joined by `, `."""
    body: bytes
    method: str = "POST"

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Reply:
    """An answer."""

    status: int = 200
    body: object = field(default_factory=dict)
    """JSON, or bytes to send as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)


Respond = Callable[[Received], Reply | None]
"""Answers a request; None closes the connection."""


def in_turn(*answers: Any) -> Callable[[Any], Any]:
    """A script: these answers, and the last one again and again."""
    rest = itertools.chain(answers, itertools.repeat(answers[-1]))
    return lambda _: next(rest)


@dataclass
class UploadServer:
    """The running server."""

    url: str
    received: list[Received]
    respond: Respond


@contextlib.contextmanager
def upload_server(respond: Respond = lambda request: Reply(), *, address: str = "127.0.0.1") -> Iterator[UploadServer]:
    """Serves on loopback, or another address of this machine, until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # Otherwise each body waits 40 ms for the client's delayed ACK of the head.

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): ", ".join(self.headers.get_all(name, ())) for name in self.headers}
            request = Received(self.path, headers, self.rfile.read(length), self.command)
            server.received.append(request)
            reply = server.respond(request)
            if reply is None:
                self.close_connection = True
                return
            data = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            with contextlib.suppress(OSError):  # The client gave up.
                self.wfile.write(data)

        do_GET = do_PUT = do_POST  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            """Prints nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

    http = Server((address, 0), Handler)
    server = UploadServer(f"http://{address}:{http.server_address[1]}", [], respond)
    thread = threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join(10)
