"""Requests to the server of a remote agent.

What the client guarantees (docs/security.md):

- The workflow's headers go to the origin of the agent's own URL and nowhere else.
- Redirects are not followed: a 3xx answer is an answer like any other.
- No connection is made to a link-local address or to a cloud's metadata service. The connection uses the address that
  was checked, so a second DNS answer can't differ.
- Certificates are verified; SSL_CERT_FILE and SSL_CERT_DIR name other authorities.
- HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY apply, except for loopback. Cookies and .netrc are not used.
- Everything that a server says is masked before anyone sees it.
"""

from __future__ import annotations

import contextlib
import json
import ssl
import urllib.parse
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, replace
from http.cookiejar import DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Literal

from agent_eval_agents.http._address import AddressRefused, NameNotResolved, RemoteUrl, is_loopback, origin_of, resolve
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.masking import FREE, Masker
from agent_eval_scoring.core.text import encodable
from agent_eval_scoring.net.retry import proxy_name, proxy_of

if TYPE_CHECKING:
    import httpx2

MAX_BODY = 64_000_000
"""Bytes of a body that is read as a whole, after decompression."""
MAX_EVENT = 64_000_000
"""Bytes of one event, from its first line on."""
_FREE = FREE | {"data"}
"""Data parts of A2A have keys of the agent's own, too."""
_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 2.0
"""Less than the 5 s after which uvicorn and Node.js close an idle connection, so that no request meets a closed one."""

Reason = Literal["refused", "dns", "tls", "address", "proxy", "proxy-down", "broken"]


class HttpFailure(AgentEvalError):
    """A request without a complete answer. The message is a clause without a full stop."""

    def __init__(self, message: str, *, reason: Reason) -> None:
        """Describes the failure.

        Args:
            message: What happened.
            reason: `refused`: no connection (nothing listens, no route, no answer within 10 s). `dns`: the host name
                has no address. `tls`: no secure connection. `address`: a metadata address. `proxy`: the proxy refused.
                `proxy-down`: no connection to the proxy, or it has none to the server. `broken`: the connection ended,
                or sent something that is not HTTP, before the answer was complete.
        """
        super().__init__(message)
        self.message = message
        self.reason: Reason = reason


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A complete answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    text: str
    """The body, masked."""
    json: Any = None
    """The body as JSON, with masked texts; None if it is something else."""


class TooLarge(AgentEvalError):
    """An event or a body exceeds its limit. The message is a sentence without a full stop."""


@dataclass(frozen=True, kw_only=True)
class ServerSentEvent:
    """One event."""

    data: str
    """The `data` lines, joined by line feeds."""
    event: str = "message"
    """The event's type."""
    json: Any = None
    """The data as JSON, with masked texts; None if it is something else."""


class Stream:
    """An answer that is still arriving."""

    def __init__(self, response: httpx2.Response, masker: Masker) -> None:
        """For HttpClient.stream."""
        self._response = response
        self._masker = masker
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers
        """Names in any case."""

    @property
    def is_event_stream(self) -> bool:
        """Whether the body is `text/event-stream`."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() == "text/event-stream"

    async def events(self) -> AsyncIterator[ServerSentEvent]:
        """The server-sent events that have data, masked, as they arrive.

        httpx2 parses them as the HTML standard says
        (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream). It doesn't tell a
        stream that ends within an event from one that ends after it: `_Body` makes it finish what it has then.

        Raises:
            HttpFailure: The stream broke, or ended within an event (reason `broken`).
            RecursionError: The JSON of an event is nested too deeply.
            TooLarge: An event is larger than 64 MB.
        """
        import httpx2

        body = _Body(self._response)
        with _failures():
            try:
                async for event in httpx2.EventSource(body, max_event_size=MAX_EVENT):  # type: ignore[arg-type]
                    body.within = body.within or body.ended
                    if event.data and not body.within:  # else only a type, an id or a time to retry
                        yield self._masked(ServerSentEvent(data=event.data, event=event.event))
            except httpx2.SSEError:
                raise TooLarge(f"an event is larger than {MAX_EVENT / 1_000_000:g} MB") from None
        if body.within:
            raise HttpFailure("the stream ended in the middle of an event", reason="broken")

    async def reply(self) -> Reply:
        """Reads the rest as a whole.

        Raises:
            HttpFailure: The connection broke.
            TooLarge: The body is larger than 64 MB.
        """
        body = bytearray()
        with _failures():
            async for chunk in self._response.aiter_bytes():
                body += chunk
                if len(body) > MAX_BODY:
                    raise TooLarge(f"the body is larger than {MAX_BODY / 1_000_000:g} MB")
        event = ServerSentEvent(data=body.decode("utf-8", "replace"))
        try:
            event = self._masked(event)
        except RecursionError:
            event = replace(event, data=self._masker.text(event.data))
        headers = {name.lower(): self._masker.text(value) for name, value in self.headers.items()}
        return Reply(status=self.status, headers=headers, text=event.data, json=event.json)

    def _masked(self, event: ServerSentEvent) -> ServerSentEvent:
        """JSON is masked after parsing: its texts are spelled in another way before, and its numbers have no masks."""
        try:
            value = self._masker.values(read_json(event.data), _FREE)
        except ValueError:
            value = None
        return replace(event, data=self._masker.text(event.data), json=value)


class _Body:
    """A response as httpx2's reader of events takes it. Its text ends with the end of an event."""

    def __init__(self, response: httpx2.Response) -> None:
        self.ended = False
        """Whether the server has sent all; what is read then is an event that it did not end."""
        self.within = False
        """Whether that was within an event or a line."""
        self.headers, self.request = response.headers, response.request
        self._response = response
        response.encoding = "utf-8-sig"  # whatever the headers say; without a byte order mark

    async def aiter_text(self) -> AsyncIterator[str]:
        last = ""
        async for chunk in self._response.aiter_text():
            yield (last := chunk)
        if last.endswith("\r"):  # The reader waits for a line feed after it.
            yield "\n"
        self.ended, self.within = True, bool(last) and last[-1] not in "\r\n"
        yield "\n\n"


class HttpClient:
    """A client for one remote agent; see the module. Safe for concurrent tasks of one event loop."""

    def __init__(
        self,
        url: RemoteUrl,
        *,
        headers: Mapping[str, str] | None = None,
        environ: Mapping[str, str] | None = None,
        masker: Masker | None = None,
    ) -> None:
        """Opens no connection yet.

        Args:
            url: The agent's address.
            headers: The workflow's headers; sent to the origin of `url` only.
            environ: Names proxies and certificate authorities.
            masker: Applied to everything that a server says.
        """
        self.url = url
        self._headers = dict(headers or {})
        self._environ = environ or {}
        self._masker = masker or Masker()
        self._clients: dict[tuple[str, bool], httpx2.AsyncClient] = {}

    @property
    def has_headers(self) -> bool:
        """Whether the workflow gives headers."""
        return bool(self._headers)

    async def request(
        self, method: str, url: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Sends a request and reads the whole answer, whatever its status. Set the time limit with `asyncio.timeout`.

        Args:
            method: `GET`, `POST`, ...
            url: An absolute URL.
            body: Sent as JSON; None for no body.
            headers: Headers of the protocol; they override the workflow's.

        Raises:
            HttpFailure: There is no complete answer.
            TooLarge: The body is larger than 64 MB.
        """
        async with self.stream(method, url, body=body, headers=headers) as stream:
            return await stream.reply()

    @contextlib.asynccontextmanager
    async def stream(
        self, method: str, url: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Stream]:
        """Sends a request; the connection is closed at the end of the block if the answer was not read to its end.

        A request on a kept connection that ends before an answer begins is sent once more, on a new one.

        Args:
            method: `GET`, `POST`, ...
            url: An absolute URL.
            body: Sent as JSON; None for no body.
            headers: Headers of the protocol; they override the workflow's.

        Raises:
            HttpFailure: There is no answer.
        """
        origin = origin_of(url)
        sent = {"Accept-Encoding": "gzip, deflate", "User-Agent": "agent-eval"}
        sent |= self._headers if origin == self.url.origin else {}
        content = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = json.dumps(body, allow_nan=False).encode()
        sent |= headers or {}
        import httpx2

        connected = False

        async def trace(event: str, _: Any) -> None:
            nonlocal connected
            connected = connected or event.startswith("connection.connect")

        lost = (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError)
        with _failures():
            for kept in (True, False):
                client = self._client(origin, kept=kept)
                extensions = {"trace": trace}
                request = client.build_request(method, url, headers=sent, content=content, extensions=extensions)
                try:
                    response = await client.send(request, stream=True)
                    break
                except lost as error:
                    # Of a connection that was kept, and that the server closed meanwhile: no byte of an answer came.
                    malformed = type(error) is lost[-1] and "disconnected" not in str(error)
                    if connected or malformed or not kept:
                        raise
        try:
            yield Stream(response, self._masker)
        finally:
            await response.aclose()

    async def close(self) -> None:
        """Closes all connections. Never raises."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            with contextlib.suppress(Exception):
                await client.aclose()

    def _client(self, origin: str, *, kept: bool) -> httpx2.AsyncClient:
        """The client of an origin. Each has its own: connections are pooled by address, certificates are for names.

        Args:
            origin: Scheme, host and port.
            kept: Whether it keeps connections.
        """
        import httpx2

        if (origin, kept) not in self._clients:
            client = httpx2.AsyncClient(
                transport=_transport(origin, self._environ, kept=kept),
                trust_env=False,
                follow_redirects=False,
                timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS),
            )
            client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
            self._clients[origin, kept] = client
        return self._clients[origin, kept]


def _transport(origin: str, environ: Mapping[str, str], *, kept: bool) -> httpx2.AsyncBaseTransport:
    import httpx2

    limits = httpx2.Limits(
        max_connections=None, max_keepalive_connections=None if kept else 0, keepalive_expiry=_KEEPALIVE_SECONDS
    )
    loopback = is_loopback(urllib.parse.urlsplit(origin).hostname or "")
    proxy, variable = ("", "") if loopback else proxy_of(origin, environ)
    certificates = _certificates(origin, environ)
    try:
        inner = httpx2.AsyncHTTPTransport(verify=certificates, trust_env=False, limits=limits, proxy=proxy or None)
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        # ImportError: of a SOCKS proxy. The others may quote a password.
        why = _text(error) if isinstance(error, ImportError) else "its address is invalid"
        raise HttpFailure(f"{proxy_name(proxy, variable)} can't be used: {why}", reason="proxy") from None

    class CheckedTransport(httpx2.AsyncBaseTransport):
        """Connects to addresses that were checked. Defined here because httpx2 takes long to import."""

        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            host, port = request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80)
            try:
                addresses = await resolve(host, port)
            except NameNotResolved:
                if not proxy:
                    raise
                addresses = []
            if proxy:  # It connects, and resolves the name itself.
                with _proxy_failures(proxy_name(proxy, variable)):
                    return await inner.handle_async_request(request)
            request.extensions = {**request.extensions, "sni_hostname": host}
            for address in addresses[:-1]:
                with contextlib.suppress(httpx2.ConnectError, httpx2.ConnectTimeout):
                    return await self._send(request, address)
            return await self._send(request, addresses[-1])

        async def _send(self, request: httpx2.Request, address: str) -> httpx2.Response:
            request.url = request.url.copy_with(host=address)
            return await inner.handle_async_request(request)

        async def aclose(self) -> None:
            await inner.aclose()

    return CheckedTransport()


def _certificates(origin: str, environ: Mapping[str, str]) -> ssl.SSLContext:
    if not origin.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # Unused. Loading the authorities takes time.
    file, directory = environ.get("SSL_CERT_FILE") or None, environ.get("SSL_CERT_DIR") or None
    if file or directory:
        return ssl.create_default_context(cafile=file, capath=directory)
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


@contextlib.contextmanager
def _proxy_failures(proxy: str) -> Iterator[None]:
    """Converts exceptions of a request through a proxy. Later ones, while the answer is read, are the connection's."""
    import httpx2

    try:
        yield
    except httpx2.ProxyError as error:
        # Of an answer to CONNECT, the text begins with the status.
        reason: Reason = "proxy-down" if str(error).startswith("5") else "proxy"
        raise HttpFailure(f"{proxy} answered {_text(error)}", reason=reason) from error
    except (httpx2.ConnectTimeout, httpx2.ConnectError) as error:
        if isinstance(_cause(error), ssl.SSLError):  # of the server, through the proxy
            raise
        late = f"no connection within {_CONNECT_SECONDS:g} s"
        what = late if isinstance(error, httpx2.ConnectTimeout) else _text(error)
        raise HttpFailure(f"{proxy} can't be reached: {what}", reason="proxy-down") from error


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Converts exceptions of httpx2 and of the address check."""
    import httpx2

    try:
        yield
    except AddressRefused as error:
        raise HttpFailure(str(error), reason="address") from error
    except NameNotResolved as error:
        raise HttpFailure(str(error), reason="dns") from error
    except httpx2.ConnectTimeout as error:
        raise HttpFailure(f"no connection within {_CONNECT_SECONDS:g} s", reason="refused") from error
    except httpx2.ConnectError as error:
        if isinstance(_cause(error), ssl.SSLError) or "certificate" in str(error).lower():
            raise HttpFailure(f"no secure connection: {_text(error)}", reason="tls") from error
        raise HttpFailure(f"no connection: {_text(error)}", reason="refused") from error
    except httpx2.HTTPError as error:
        raise HttpFailure(f"the connection broke: {_text(error)}", reason="broken") from error
    except OSError as error:  # SSL_CERT_FILE
        raise HttpFailure(f"the certificate authorities can't be read: {_text(error)}", reason="tls") from error


def _cause(error: BaseException) -> BaseException:
    """The first exception of a chain."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _text(error: Exception) -> str:
    first = _cause(error)
    text = (first.strerror if isinstance(first, OSError) else None) or str(error)
    return text.strip().rstrip(".") or type(error).__name__


def read_json(text: str) -> Any:
    """Parses JSON. Half surrogate pairs, which no file can hold, become question marks.

    Raises:
        ValueError: It is not JSON.
        RecursionError: It is nested too deeply.
    """
    value = json.loads(text)
    return encodable(value) if "\\ud" in text or "\\uD" in text else value
