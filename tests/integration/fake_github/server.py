"""The servers of the stand-in: the API, and the store that artifacts lie in."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from fake_github.answers import Answer, Answers, error
from fake_github.contract import request_violations, response_violations, template_of
from fake_github.faults import Fault
from fake_github.state import State


@dataclass(kw_only=True)
class Request:
    """A request as it came."""

    method: str
    path: str
    """Without the base path and the query."""
    query: str
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    body: bytes = field(repr=False)
    status: int | None = None
    """What was answered; None if the connection was dropped."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is what some tests are about."""


class FakeGitHub:
    """See the package."""

    def __init__(
        self, *, repository: str = "octo/shop", base_path: str = "", address: str = "127.0.0.1", name: str = "127.0.0.1"
    ) -> None:
        self.state = State(repository=repository)
        self.token = "ghs_installationTokenOfTheStandIn01"
        self.tokens: dict[str, str | None] = {self.token: None}
        """Login by token; None for an installation's."""
        self.read_only = False
        self.faults: list[Fault] = []
        self.requests: list[Request] = []
        """Those to the API, in the order in which they came."""
        self.stored: list[Request] = []
        """Those to the store."""
        self.violations: list[str] = []
        self._base_path = base_path
        self._name = name
        self._lock = threading.Lock()
        self._api = _Server((address, 0), _handler(self, store=False))
        self._store = _Server((address, 0), _handler(self, store=True))
        self._threads = [
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            for server in (self._api, self._store)
        ]

    @property
    def server_url(self) -> str:
        """Of the pages, as GITHUB_SERVER_URL."""
        return f"http://{self._name}:{self._api.server_address[1]}"

    @property
    def api_url(self) -> str:
        """As GITHUB_API_URL."""
        return self.server_url + self._base_path

    @property
    def store_url(self) -> str:
        return f"http://{self._name}:{self._store.server_address[1]}"

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in (self._api, self._store):
            server.shutdown()
            server.server_close()
        for thread in self._threads:
            thread.join(timeout=10)
        if failure is None:
            assert not self.violations, "\n".join(self.violations)

    def writes(self) -> list[Request]:
        """Requests that were to change something."""
        return [request for request in self.requests if request.method not in ("GET", "HEAD")]

    def answer(self, request: Request, *, store: bool) -> tuple[Answer | None, Fault]:
        """What comes back, None for nothing; and how."""
        with self._lock:
            (self.stored if store else self.requests).append(request)
            fault = next((item for item in self.faults if item.matches(request.method, request.path)), Fault())
            fault.times -= 1
            try:
                answer = self._answer(request, fault, store=store)
            except Exception:
                self.violations.append(f"the stand-in broke: {traceback.format_exc()}")
                answer = error(500, "The stand-in broke")
            request.status = answer.status if answer else None
            return answer, fault

    def _answer(self, request: Request, fault: Fault, *, store: bool) -> Answer | None:
        if store:
            return self._stored(request, fault)
        sent = (request.method, request.path, request.query, request.headers, request.body)
        self.violations += request_violations(*sent)
        if fault.drop == "before":
            return None
        if fault.status is not None:
            return Answer(status=fault.status, body=fault.body, headers=dict(fault.headers))
        if template_of(request.path) is None:
            return error(404, "Not Found")
        answers = Answers(self.state, self.api_url, self.server_url, self.store_url)
        refusal, login = self._who(request)
        answer = refusal or answers.answer(request.method, request.path, request.query, request.body, login)
        self.violations += response_violations(*sent, status=answer.status, data=answer.body)
        answer.headers.update(fault.headers)
        return None if fault.drop == "after" else answer

    def _who(self, request: Request) -> tuple[Answer | None, str | None]:
        """Why nothing is answered, and whose token this is; None for an installation's."""
        sent = request.headers.get("authorization", "").rpartition(" ")[2]  # `Bearer` or, of gh, `token`.
        if sent and sent not in self.tokens:
            return error(401, "Bad credentials"), None
        write = request.method not in ("GET", "HEAD")
        if (not sent and (write or request.path == "/user")) or (not sent and request.path.endswith("/zip")):
            return error(401, "Requires authentication"), None
        if (write and self.read_only) or (request.path == "/user" and self.tokens.get(sent) is None):
            return error(403, "Resource not accessible by integration"), None
        return None, self.tokens.get(sent)

    def _stored(self, request: Request, fault: Fault) -> Answer | None:
        if "authorization" in request.headers:
            self.violations.append("the token was sent to the store of artifacts")
        if fault.drop in ("before", "after"):
            return None
        if fault.status is not None:
            return Answer(status=fault.status, body=fault.body, headers=dict(fault.headers))
        result = self.state.artifacts.get(int(request.path.rpartition("/")[2]))
        if result is None or "sig=" not in request.query:
            return error(403, "Server failed to authenticate the request")
        return Answer(status=200, body=result.data, headers={"Content-Type": "application/zip", **fault.headers})


def _handler(fake: FakeGitHub, *, store: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1

        def _do(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            request = Request(
                method=self.command,
                path=parts.path.removeprefix("" if store else fake._base_path),
                query=parts.query,
                headers={name.lower(): value for name, value in self.headers.items()},
                body=body,
            )
            answer, fault = fake.answer(request, store=store)
            if fault.delay:
                time.sleep(fault.delay)
            if answer is None:
                self.close_connection = True
                return
            self._send(answer, fault)

        def _send(self, answer: Answer, fault: Fault) -> None:
            self.send_response_only(answer.status)
            headers = {
                "Content-Type": "application/json; charset=utf-8",
                "Content-Length": str(len(answer.body)),
                "Date": self.date_time_string(),
                **answer.headers,
            }
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            if fault.drop == "middle":
                self.wfile.write(answer.body[: len(answer.body) // 2])
                self.close_connection = True
                return
            if not fault.trickle:
                self.wfile.write(answer.body)
                return
            for byte in answer.body:
                self.wfile.write(bytes([byte]))
                self.wfile.flush()
                time.sleep(fault.trickle)

        do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = do_HEAD = _do  # noqa: N815 - the names that http.server looks for

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
