"""One HTTP exchange: bytes out, an answer in, within a limit of bytes and of time. What failed comes back as a value,
since the exceptions of `requests` carry addresses that may be signed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from requests import PreparedRequest, Response, Session

_CHUNK = 1 << 16
_LARGEST_ERROR = 100_000
"""Bytes that are read of an answer which is no success."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back, whatever its status."""

    status: int
    url: str = field(repr=False)
    """Where it came from. May be signed: not for messages."""
    headers: Mapping[str, str] = field(repr=False)
    """Names in lower case."""
    body: bytes = field(repr=False)

    @property
    def location(self) -> str | None:
        """Where a redirect leads."""
        return self.headers.get("location") if self.status in (301, 302, 303, 307, 308) else None

    @property
    def next_page(self) -> str | None:
        """Of a list, from the Link header (RFC 8288)."""
        from requests.utils import parse_header_links

        for link in parse_header_links(self.headers.get("link", "")):
            if link.get("rel") == "next":
                return link.get("url")
        return None


@dataclass(frozen=True, kw_only=True)
class NoAnswer:
    """None came, or none that is taken."""

    kind: Literal["unavailable", "too-large", "rejected"]
    message: str
    """A clause without its end; names no address."""


class NoAuth:
    """Sends no credentials; and keeps `requests` from sending those of ~/.netrc."""

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
    """A pool of connections that takes no step toward a redirect: `requests` would read all of its body."""
    import requests

    class Unredirected(requests.Session):
        def get_redirect_target(self, resp: Response) -> None:
            return None

    return Unredirected()


def receive(
    session: Session,
    method: str,
    url: str,
    *,
    params: Mapping[str, str | int] | None,
    data: bytes | None,
    headers: Mapping[str, str],
    auth: NoAuth,
    timeouts: tuple[float, float],
    max_bytes: int,
    expired: Callable[[], bool],
) -> Answer | NoAnswer:
    """Sends a request and reads the answer. Redirects are not followed.

    Args:
        session: Keeps connections.
        method: Of HTTP.
        url: Where to.
        params: The query, added to the address.
        data: The body.
        headers: Besides those of `auth`.
        auth: Adds credentials.
        timeouts: Seconds to connect, and between two bytes.
        max_bytes: The most that is read, after decompression; more is `too-large`. Of errors and redirects 100 kB are
        read.
        expired: Asked between two chunks; the answer is dropped when it says so.
    """
    import requests
    from urllib3.exceptions import HTTPError

    try:
        with session.request(
            method,
            url,
            params=params,
            data=data,
            headers=headers,
            auth=auth,
            timeout=timeouts,
            allow_redirects=False,
            stream=True,
        ) as response:
            body = _body(response, max_bytes, expired)
            if isinstance(body, NoAnswer):
                return body
            found = {name.lower(): value for name, value in response.headers.items()}
            return Answer(status=response.status_code, url=response.url or url, headers=found, body=body)
    except requests.exceptions.SSLError:
        message = "the server's certificate is not trusted (REQUESTS_CA_BUNDLE names a file of further authorities)"
        return NoAnswer(kind="rejected", message=message)
    except (requests.exceptions.Timeout, TimeoutError):
        return NoAnswer(kind="unavailable", message="no answer in time")
    except (requests.exceptions.InvalidURL, requests.exceptions.InvalidSchema, ValueError):
        return NoAnswer(kind="rejected", message="the address is none")
    except (requests.exceptions.RequestException, HTTPError, OSError) as error:
        # The name of the exception only: its text repeats the address.
        return NoAnswer(kind="unavailable", message=f"the connection failed ({type(error).__name__})")


def _body(response: Response, max_bytes: int, expired: Callable[[], bool]) -> bytes | NoAnswer:
    if response.status_code >= 300:
        # Its status says what is to be known; GitHub's messages are short.
        return _read(response, _LARGEST_ERROR, expired)
    too_large = NoAnswer(kind="too-large", message=f"the answer is larger than {max_bytes:,} bytes")
    declared = response.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        return too_large
    body = _read(response, max_bytes + 1, expired)
    return too_large if isinstance(body, bytes) and len(body) > max_bytes else body


def _read(response: Response, most: int, expired: Callable[[], bool]) -> bytes | NoAnswer:
    """At most so many bytes of the body."""
    body = bytearray()
    # `read1` gives what has come; `read` would wait for a whole chunk, and a slow server could stretch that for hours.
    while len(body) < most and (chunk := response.raw.read1(_CHUNK, decode_content=True)):
        body += chunk
        if expired():
            return NoAnswer(kind="unavailable", message="no complete answer in time")
    return bytes(body[:most])
