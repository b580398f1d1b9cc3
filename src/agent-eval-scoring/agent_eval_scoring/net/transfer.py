"""One HTTP exchange with limits on size and time.

Failures are returned as values, since exceptions of `requests` contain URLs that may be signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

_CHUNK = 1 << 16
LARGEST_ERROR = 100_000
"""Bytes that are read of an unsuccessful response."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A response of any status."""

    status: int
    url: str = field(repr=False)
    """The response's URL. It may be signed: don't print it."""
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    body: bytes = field(repr=False)

    @property
    def location(self) -> str | None:
        """The target of a redirect."""
        return self.headers.get("location") if self.status in (301, 302, 303, 307, 308) else None

    @property
    def next_page(self) -> str | None:
        """The next page of a list, from the Link header (RFC 8288)."""
        from requests.utils import parse_header_links

        for link in parse_header_links(self.headers.get("link", "")):
            if link.get("rel") == "next":
                return link.get("url")
        return None


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """No response, or a rejected one."""

    kind: Literal["unavailable", "too-large", "rejected"]
    message: str
    """A clause without a final period; contains no URL."""


class NoAuth:
    """Sends no credentials, and keeps `requests` from sending those of ~/.netrc."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        return request


class BearerAuth(NoAuth):
    """Sends the token."""

    def __init__(self, token: str) -> None:
        self._value = f"Bearer {token}"

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        request.headers["Authorization"] = self._value
        return request

    def __repr__(self) -> str:
        return "BearerAuth(***)"


def new_session() -> Session:
    """Creates a connection pool that ignores redirects: `requests` would read their complete body."""
    import requests

    class Unredirected(requests.Session):
        def get_redirect_target(self, resp: Response) -> None:
            return None

    return Unredirected()


@dataclass(frozen=True, kw_only=True)
class Request:
    """An HTTP request."""

    method: str
    url: str
    params: Mapping[str, str | int | list[str]] | None
    """The query, added to the URL."""
    data: bytes | None
    headers: Mapping[str, str]
    """Headers besides those of `auth`."""
    auth: NoAuth
    """Adds credentials."""


def receive(
    session: Session, request: Request, *, timeouts: tuple[float, float], max_bytes: int, expired: Callable[[], bool]
) -> Answer | NoAnswer:
    """Sends a request and reads the response. Does not follow redirects.

    Args:
        session: The connection pool.
        request: What to send.
        timeouts: Seconds to connect, and between two bytes.
        max_bytes: Maximum size after decompression; larger responses are `too-large`. At most 100 kB of errors and
            redirects are read.
        expired: Called between two chunks; true drops the response.
    """
    import requests
    from urllib3.exceptions import HTTPError

    try:
        with session.request(
            request.method,
            request.url,
            params=request.params,
            data=request.data,
            headers=request.headers,
            auth=request.auth,
            timeout=timeouts,
            allow_redirects=False,
            stream=True,
        ) as response:
            body = _body(response, max_bytes, expired)
            if isinstance(body, NoAnswer):
                return body
            received = {name.lower(): value for name, value in response.headers.items()}
            return Answer(status=response.status_code, url=response.url or request.url, headers=received, body=body)
    except requests.exceptions.SSLError:
        message = "the server's certificate is not trusted (REQUESTS_CA_BUNDLE names a file of further authorities)"
        return NoAnswer(kind="rejected", message=message)
    except (requests.exceptions.Timeout, TimeoutError):
        return NoAnswer(kind="unavailable", message="no response in time")
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, ValueError):
        return NoAnswer(kind="rejected", message="the URL is invalid")
    except (requests.exceptions.RequestException, HTTPError, OSError) as error:
        # Only the exception's name: its text contains the URL.
        return NoAnswer(kind="unavailable", message=f"the connection failed ({type(error).__name__})")


def _body(response: Response, max_bytes: int, expired: Callable[[], bool]) -> bytes | NoAnswer:
    if response.status_code >= 300:
        # The status is what matters; messages of APIs are short.
        return _read(response, LARGEST_ERROR, expired)
    too_large = NoAnswer(kind="too-large", message=f"the response is larger than {max_bytes:,} bytes")
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        return too_large
    body = _read(response, max_bytes + 1, expired)
    return too_large if isinstance(body, bytes) and len(body) > max_bytes else body


def _read(response: Response, limit: int, expired: Callable[[], bool]) -> bytes | NoAnswer:
    """Reads at most `limit` bytes of the body."""
    body = bytearray()
    # `read1` returns what has arrived; `read` would wait for a complete chunk, for hours with a slow server.
    while len(body) < limit and (chunk := response.raw.read1(_CHUNK, decode_content=True)):
        body += chunk
        if expired():
            return NoAnswer(kind="unavailable", message="no complete response in time")
    return bytes(body[:limit])
