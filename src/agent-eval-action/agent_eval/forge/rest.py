"""Client for a forge's REST API that respects its rate limits.

It sends one request at a time and at most one write per second. Reads are retried after outages and rate limits. A
write is sent once; the caller checks whether it succeeded before it retries (comments.py). All waits and requests share
one time budget. The token is sent to the API's own origin only, and never appears in a message.

`requests` reads proxies and certificate authorities from the environment (HTTPS_PROXY, REQUESTS_CA_BUNDLE), as
private networks and servers of one's own need.
"""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, cast
from urllib.parse import urljoin, urlsplit

from pydantic import ValidationError

from agent_eval.forge.models import ApiModel
from agent_eval.forge.protocol import ErrorKind, ForgeError
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.net.retry import Retry
from agent_eval_scoring.net.transfer import Answer, BearerAuth, NoAuth, Request, new_session, receive

if TYPE_CHECKING:
    from requests import Session


_Model = TypeVar("_Model", bound=ApiModel)
Params = Mapping[str, str | int | list[str]]
"""Of a query; a list is sent as several parameters of one name."""
OUTAGE_WAIT = 1.0
"""Seconds to wait after an outage, doubled each time."""
_LARGEST_JSON = 30_000_000
"""Bytes of one response. 100 comments of 65,536 characters can take 26 MB."""
_TIMEOUTS = (10.0, 30.0)
"""Seconds to connect, and between two bytes of a response."""
_ATTEMPTS = 5
_REDIRECTS = 3
_BETWEEN_WRITES = 1.0
"""Seconds (docs.github.com, "Best practices for using the REST API")."""
_PER_PAGE = 100
"""The maximum page size of GitHub and GitLab."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """How the client measures and passes time."""

    sleep: Callable[[float], None] = time.sleep
    """Sleeps for a number of seconds."""
    clock: Callable[[], float] = time.time
    """Returns Unix time in seconds."""
    jitter: Callable[[], float] = random.random  # noqa: S311 - not for secrets
    """Returns 0..1, so that jobs that failed together don't retry together."""


class RestError(ForgeError):
    """A failed request."""

    def __init__(
        self,
        kind: ErrorKind,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        wait: float | None = None,
        doubles: bool = True,
        may_have_happened: bool = False,
    ) -> None:
        """Creates the error.

        Args:
            kind: The kind of error.
            message: What happened, with method and path of the request.
            hint: What to do next; "" if the user can do nothing.
            status: HTTP status; None without a response.
            wait: Seconds after which the same request may succeed; None if waiting doesn't help.
            doubles: The wait is a guess, to be doubled each time; False if the forge specified it.
            may_have_happened: A write may have succeeded although no response arrived.
        """
        super().__init__(kind, message, hint=hint)
        self.status = status
        self.wait = wait
        self.doubles = doubles
        self.may_have_happened = may_have_happened


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The wait that a rate limit requires."""

    seconds: float
    is_exact: bool
    """The forge specified it; otherwise it is the documented minimum."""


class RestClient:
    """Client for one repository, for the duration of one job. A forge derives its own."""

    service: ClassVar[str]
    """The forge's name in messages."""
    headers: ClassVar[Mapping[str, str]]
    """Of each request to the API."""
    outages: ClassVar[str]
    """The page that lists outages."""
    token_hint: ClassVar[str]
    """What to do about an impossible or refused token."""
    url_hint: ClassVar[str]
    """Where the API's URL comes from, and what it looks like."""

    def rate_limit(self, status: int, headers: Mapping[str, str], message: str, *, now: float) -> Wait | None:
        """The wait of a rate limit; None if the response is not about a rate limit.

        Args:
            status: HTTP status.
            headers: Response headers; names in lower case.
            message: The forge's message.
            now: Local Unix time in seconds; used if the response has no `Date`.
        """
        raise NotImplementedError

    def permission_hint(self, message: str, headers: Mapping[str, str]) -> str:
        """What a token lacks that is refused with 403."""
        raise NotImplementedError

    def __init__(
        self,
        *,
        api_url: str,
        repository: str,
        token: str,
        session: Callable[[], Session] = new_session,
        waiting: Waiting = Waiting(),
        budget: float = 300.0,
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Creates the client. Nothing is sent.

        Args:
            api_url: E.g. `https://api.github.com` or `https://gitlab.com/api/v4`.
            repository: Full name, e.g. `owner/name`.
            token: "" reads public data only.
            session: Creates the connection pool; called at the first request.
            waiting: Measures and passes time.
            budget: Seconds for all requests and waits together.
            log: Receives a line for each wait longer than five seconds.

        Raises:
            RestError: `unauthorized` for an impossible token, `rejected` for an invalid URL.
        """
        token = token.strip()
        if not (token.isascii() and all(char.isprintable() and char != " " for char in token)):
            message = f"The {self.service} token contains invalid characters."
            raise RestError("unauthorized", message, hint=self.token_hint)
        if (address := checked_api_url(api_url)) is None:
            # The URL is not shown: it may contain a password.
            raise RestError("rejected", f"The URL of {self.service}'s API is invalid.", hint=self.url_hint)
        self.api_url = address
        self.repository = repository
        self.has_token = bool(token)
        self._auth = BearerAuth(token) if token else NoAuth()
        # A server may repeat the request, and with it the token, in its error.
        self._masker = Masker([token])
        self._make_session = session
        self._session: Session | None = None
        self._sleep, self._clock, self._jitter = waiting.sleep, waiting.clock, waiting.jitter
        self._left = budget
        self._last_write: float | None = None
        self._log = log

    def __repr__(self) -> str:
        return f"{type(self).__name__}(api_url={self.api_url!r}, repository={self.repository!r})"

    def limited(self, seconds: float) -> Self:
        """The same client with connections and a budget of time of its own, at most what is left of this one's."""
        other = copy.copy(self)
        other._session, other._left = None, min(self._left, seconds)
        return other

    def get(self, path: str, params: Params | None = None) -> Any:
        """Returns the JSON at a path of the API. Retried after outages and rate limits.

        Raises:
            RestError: See its kind.
        """
        return self._json(self._read(self._address(path), params), f"GET {path}")

    def paginate(
        self, path: str, params: Params | None = None, *, key: str | None = None, limit: int | None = None
    ) -> Iterator[Mapping[str, Any]]:
        """Yields the items of a list. Follows Link headers and requests pages lazily.

        Args:
            path: The API path.
            params: Filters; `per_page` is added.
            key: The key of the items if a page is an object, e.g. `workflow_runs`.
            limit: Maximum number of items.

        Raises:
            RestError: See its kind; `malformed` if a page is not a list of objects, or a link leads to another
                server or back.
        """
        operation = f"GET {path}"
        address = self._address(path)
        per_page = min(_PER_PAGE, limit) if limit is not None else _PER_PAGE
        query: Params | None = {"per_page": per_page, **(params or {})}
        count = 0
        seen: set[str] = set()
        # Not a number of pages: how many there are, only the server knows, and `limit` bounds the items.
        while True:
            answer = self._read(address, query)
            page = self._json(answer, operation)
            items = page.get(key) if key is not None and isinstance(page, dict) else page
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                message = f"{operation}: {self.service} answered with something other than a list of objects."
                raise RestError("malformed", message)
            for item in items:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield item
            if answer.next_page is None or (limit is not None and count >= limit):
                return
            address, query = self._within(resolve_link(answer.url, answer.next_page, operation), operation), None
            if address in seen:
                message = f"{operation}: the page links of {self.service}'s response form a loop."
                raise RestError("malformed", message)
            seen.add(address)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Sends a POST request once; see `pause` for retries.

        Raises:
            RestError: See its kind; `may_have_happened` if no response arrived.
        """
        return self._write("POST", path, body)

    def change(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Sends a PATCH or PUT request once, like `post`.

        Raises:
            RestError: See its kind.
        """
        return self._write(method, path, body)

    def download(self, path: str, *, max_bytes: int) -> bytes:
        """Downloads a file that redirects to a file store, as artifacts do. The store gets no token.

        Raises:
            RestError: See its kind; `too-large` above `max_bytes`.
        """
        return self._read(self._address(path), None, max_bytes=max_bytes, elsewhere=True).body

    def pause(self, error: RestError, attempt: int) -> None:
        """Waits before a retry of a failed request.

        Args:
            error: The error of the request.
            attempt: Number of earlier failures; 0 for the first failure.

        Raises:
            RestError: The same error, if waiting doesn't help, all retries are used, or the wait exceeds the time
                budget.
        """
        if error.wait is None or attempt + 1 >= _ATTEMPTS:
            raise error
        # A wait that the server names is kept exactly; one that we guess grows with each attempt.
        asked = None if error.doubles else error.wait
        wait = Retry(first=error.wait).pause(attempt + 1, asked, chance=self._jitter)
        # A wait that uses up the budget would only end in the same error, later.
        if wait >= self._left:
            if error.kind == "rate-limited":
                left = max(0.0, self._left)
                late = f"{error.message} It requires a wait of {wait:.0f} s, but only {left:.0f} s are left."
                raise RestError("rate-limited", late, hint=error.hint, status=error.status)
            raise error
        if wait > 5.0:
            self._log(f"{error.message} Waiting {wait:.0f} s.")
        self._left -= wait
        self._sleep(wait)

    def allow(self, seconds: float) -> None:
        """Sets the remaining time budget."""
        self._left = seconds

    def _address(self, path: str) -> str:
        return self.api_url + path

    def _read(
        self, address: str, params: Params | None, *, max_bytes: int = _LARGEST_JSON, elsewhere: bool = False
    ) -> Answer:
        attempt = 0
        while True:
            try:
                return self._follow("GET", address, params, None, max_bytes=max_bytes, elsewhere=elsewhere)
            except RestError as error:
                failure = error
            # Outside the handler, so that the raised error has no chain of earlier errors.
            self.pause(failure, attempt)
            attempt += 1

    def _write(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        # GitHub asks for a second between writes, and answers faster ones with its secondary rate limit.
        if self._last_write is not None:
            wait = self._last_write + _BETWEEN_WRITES - self._clock()
            if wait > 0:
                self._sleep(min(wait, _BETWEEN_WRITES))
        try:
            answer = self._follow(method, self._address(path), None, body)
        finally:
            self._last_write = self._clock()
        return self._json(answer, f"{method} {path}", write=True)

    def _follow(
        self,
        method: str,
        address: str,
        params: Params | None,
        body: Mapping[str, Any] | None,
        *,
        max_bytes: int = _LARGEST_JSON,
        elsewhere: bool = False,
    ) -> Answer:
        """Sends a request and follows redirects, e.g. of a renamed repository."""
        operation = f"{method} {urlsplit(address).path.removeprefix(urlsplit(self.api_url).path)}"
        for _ in range(_REDIRECTS + 1):
            answer = self._send(method, address, params, body, operation=operation, max_bytes=max_bytes)
            if answer.status < 300:
                return answer
            if answer.location is None:
                raise self._refusal(answer, operation, write=method != "GET")
            # After the others a client goes on with a GET, so nothing would be written.
            if method != "GET" and answer.status not in (307, 308):
                message = f"{operation}: {self.service} answered {answer.status}, a redirect of a write."
                raise RestError("rejected", message)
            address = resolve_link(answer.url, answer.location, operation)
            if elsewhere:
                check_encrypted(address, self.api_url, operation)
            else:
                address = self._within(address, operation)
            params = None  # The new address has its own.
        raise RestError("malformed", f"{operation}: {self.service} redirects in a loop.")

    def _send(
        self,
        method: str,
        address: str,
        params: Params | None,
        body: Mapping[str, Any] | None,
        *,
        operation: str,
        max_bytes: int,
    ) -> Answer:
        if self._left <= 0:
            message = f"{operation}: not sent, since the time budget for {self.service} is used up."
            raise RestError("unavailable", message)
        if self._session is None:
            self._session = self._make_session()
        ours = same_origin(address, self.api_url)
        headers = {"User-Agent": "agent-eval-action"}  # GitHub rejects requests without one
        if ours:
            headers |= self.headers
        data = json.dumps(body).encode() if body is not None else None
        if data is not None:
            headers["Content-Type"] = "application/json; charset=utf-8"
        started, left = self._clock(), self._left
        outcome = receive(
            self._session,
            Request(
                method=method,
                url=address,
                params=params,
                data=data,
                headers=headers,
                # A store gets no token. Any `auth` keeps requests from reading ~/.netrc.
                auth=self._auth if ours else NoAuth(),
            ),
            timeouts=(min(_TIMEOUTS[0], left), min(_TIMEOUTS[1], left)),
            max_bytes=max_bytes,
            expired=lambda: self._clock() - started >= left,
        )
        self._left -= self._clock() - started
        if isinstance(outcome, Answer):
            return outcome
        where = operation if ours else f"{operation}, at the file store"
        kind = cast("ErrorKind", outcome.kind)
        wait = OUTAGE_WAIT if kind == "unavailable" else None
        message = self._masker.text(f"{where}: {outcome.message}.")
        # Without a response nobody knows whether a write took place: it is never simply repeated.
        unsure = kind == "unavailable" and method != "GET"
        raise RestError(kind, message, wait=wait, may_have_happened=unsure)

    def _refusal(self, answer: Answer, operation: str, *, write: bool) -> RestError:
        try:
            value = json.loads(self._masker.data(answer.body))
        except (ValueError, RecursionError):
            value = {}
        body = value if isinstance(value, dict) else {}
        if not same_origin(answer.url, self.api_url):
            operation += ", at the file store"
        return self.refusal(answer.status, answer.headers, body, operation=operation, write=write)

    def refusal(
        self, status: int, headers: Mapping[str, str], body: Mapping[str, object], *, operation: str, write: bool
    ) -> RestError:
        """Returns the error for a response that is neither a success nor a redirect.

        Args:
            status: HTTP status.
            headers: Response headers; names in lower case.
            body: The response's JSON; empty if there is none.
            operation: Method and path of the request, e.g. `GET /repos/octo/repo/pulls/7`.
            write: Whether the request is a write.
        """
        message = self.message_of(body)
        text = f"{operation}: {self.service} answered {status}" + (f" ({message})." if message else ".")

        def of_kind(kind: ErrorKind, hint: str, **more: Any) -> RestError:
            return RestError(kind, text, hint=hint, status=status, **more)

        # Before the status: a rate limit may come as a 403, like a missing permission.
        wait = self.rate_limit(status, headers, message, now=self._clock())
        if wait is not None:
            hint = "Re-run the job later, or run fewer jobs at the same time."
            return of_kind("rate-limited", hint, wait=wait.seconds, doubles=not wait.is_exact)
        match status:
            case 401:
                return of_kind("unauthorized", self.token_hint)
            case 403:
                return of_kind("forbidden", self.permission_hint(message, headers))
            case 404:
                return of_kind("not-found", "It does not exist, or the token has no access to it.")
            case 410:
                return of_kind("not-found", "")
            case _ if status >= 500 or status == 408:
                hint = f"Re-run the job; {self.outages} lists outages."
                return of_kind("unavailable", hint, wait=OUTAGE_WAIT, may_have_happened=write)
            case _:
                return of_kind("rejected", self.details_of(body))

    def message_of(self, body: Mapping[str, object]) -> str:
        """The message in the JSON of an error, on one line; "" for none."""
        raw = body.get("message")
        return " ".join(raw.split())[:500] if isinstance(raw, str) else ""

    def details_of(self, body: Mapping[str, object]) -> str:
        """What else the JSON of a declined request says; "" for nothing."""
        return ""

    def parsed(self, model: type[_Model], value: object, path: str) -> _Model:
        """Validates a part of a response.

        Raises:
            RestError: `malformed` if a documented field is missing or invalid.
        """
        try:
            return model.model_validate(value)
        except ValidationError as error:
            fields = ", ".join(
                sorted({".".join(str(key) for key in item["loc"]) or "all fields" for item in error.errors()})[:5]
            )
        message = f"GET {path}: {self.service}'s response has missing or invalid fields: {fields}."
        raise RestError("malformed", message)

    def _json(self, answer: Answer, operation: str, *, write: bool = False) -> Any:
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            pass
        message = f"{operation}: {self.service} answered {answer.status} with something other than JSON."
        raise RestError("malformed", message, hint=self.url_hint, status=answer.status, may_have_happened=write)

    def _within(self, address: str, operation: str) -> str:
        """Returns the URL, if the token may be sent there."""
        if same_origin(address, self.api_url):
            return address
        message = f"{operation}: {self.service}'s response links to another server, which must not get the token."
        raise RestError("malformed", message)


def checked_api_url(api_url: str) -> str | None:
    """Returns the API's URL without a trailing slash; None if it is invalid or contains a password."""
    try:
        parts = urlsplit(api_url)
    except ValueError:
        return None
    plain = parts.hostname and not (parts.username or parts.query or parts.fragment)
    return api_url.rstrip("/") if parts.scheme in ("http", "https") and plain else None


def same_origin(left: str, right: str) -> bool:
    """Whether two URLs have the same origin."""
    a, b = urlsplit(left), urlsplit(right)
    return (a.scheme, a.netloc.casefold()) == (b.scheme, b.netloc.casefold())


def resolve_link(address: str, link: str, operation: str) -> str:
    """Resolves a link in a response.

    Args:
        address: The URL of the response.
        link: Absolute or relative.
        operation: Method and path of the request, for the error.

    Raises:
        RestError: `malformed` if the link is invalid.
    """
    try:
        target = urljoin(address, link)
        urlsplit(target)
    except ValueError:
        target = ""
    if not target:
        raise RestError("malformed", f"{operation}: the response has an invalid link.")
    return target


def check_encrypted(address: str, api_url: str, operation: str) -> None:
    """Checks that a redirect to a file store keeps the encryption.

    Raises:
        RestError: `malformed` if the URL is not https and its scheme differs from the API's.
    """
    scheme = urlsplit(address).scheme
    if scheme != "https" and scheme != urlsplit(api_url).scheme:
        raise RestError("malformed", f"{operation}: the response redirects to a URL without encryption.")
