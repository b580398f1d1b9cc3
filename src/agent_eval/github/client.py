"""GitHub's REST API, as carefully as its limits ask for.

One request at a time, at most one write a second. Reads are repeated after outages and rate limits; a write is sent
once, and whoever asked for it looks whether it has happened before it asks again (comments.py). Every wait and every
answer is counted against one budget of time. The token is sent to the API's own origin only, and is in no message.

`requests` reads proxies and certificate authorities from the environment (HTTPS_PROXY, REQUESTS_CA_BUNDLE), which is
what private networks and GHES need.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from agent_eval.core.masking import Masker
from agent_eval.github._origin import check_encrypted, checked_api_url, joined, same_origin
from agent_eval.github._transfer import Answer, BearerAuth, NoAuth, new_session, receive
from agent_eval.github.errors import OUTAGE_WAIT, GitHubError, refused

if TYPE_CHECKING:
    from requests import Session

    from agent_eval.github.errors import Kind

API_VERSION = "2022-11-28"
"""Sent as X-GitHub-Api-Version. GHES 3.9 and newer know it, older ones pay no heed."""
_JSON = "application/vnd.github+json"
_LARGEST_JSON = 30_000_000
"""Bytes of one answer. 100 comments of 65,536 characters may have 26 MB."""
_TIMEOUTS = (10.0, 30.0)
"""Seconds to connect, and between two bytes of an answer."""
_ATTEMPTS = 5
_REDIRECTS = 3
_BETWEEN_WRITES = 1.0
"""Seconds (docs.github.com, "Best practices for using the REST API")."""
_PER_PAGE = 100
"""The most that GitHub gives at once."""


class GitHub:
    """One repository on one GitHub, for the life of one job."""

    def __init__(
        self,
        *,
        api_url: str,
        repository: str,
        token: str,
        session: Callable[[], Session] = new_session,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,  # noqa: S311 - not for secrets
        budget: float = 300.0,
        user_agent: str = "agent-eval-action",
        log: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Nothing is sent yet.

        Args:
            api_url: `https://api.github.com`, or `https://HOST/api/v3` on GHES.
            repository: `owner/name`.
            token: May be "": then what is public is read, until the limit of 60 requests an hour.
            session: Makes the connection pool; called at the first request.
            sleep: Waits seconds.
            clock: Unix time in seconds.
            jitter: 0..1, so that jobs which failed together don't come back together.
            budget: Seconds that may go into requests and waits in all. What the job does in between doesn't count.
            user_agent: GitHub refuses requests without one.
            log: Told about waits that take longer than five seconds.

        Raises:
            GitHubError: `unauthorized` if the token can't be one, `rejected` if the address is none.
        """
        token = token.strip()
        if not (token.isascii() and all(char.isprintable() and char != " " for char in token)):
            hint = "Pass `${{ github.token }}` as the input github-token."
            raise GitHubError("unauthorized", "The GitHub token has characters that no token has.", hint=hint)
        self.api_url = checked_api_url(api_url)
        self.repository = repository
        self.has_token = bool(token)
        self._auth = BearerAuth(token) if token else NoAuth()
        self._masker = Masker([token])
        self._make_session = session
        self._session: Session | None = None
        self._sleep = sleep
        self._clock = clock
        self._jitter = jitter
        self._left = budget
        self._last_write: float | None = None
        self._user_agent = user_agent
        self._log = log

    def __repr__(self) -> str:
        return f"GitHub(api_url={self.api_url!r}, repository={self.repository!r})"

    def repo(self, *parts: str | int) -> str:
        """A path below `/repos/OWNER/NAME`, each part escaped: `repo("issues", 7, "comments")`."""
        owner, _, name = self.repository.partition("/")
        return "/".join(["", "repos", *(quote(str(part), safe="") for part in (owner, name, *parts))])

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> Any:
        """The JSON at a path of the API. Repeated after outages and rate limits.

        Raises:
            GitHubError: As its kind says.
        """
        return self._json(self._read(self._address(path), params), f"GET {path}")

    def paginate(
        self,
        path: str,
        params: Mapping[str, str | int] | None = None,
        *,
        key: str | None = None,
        limit: int | None = None,
    ) -> Iterator[Mapping[str, Any]]:
        """All items of a list, page by page as GitHub's Link headers say; pages are asked for as they are needed.

        Args:
            path: Of the API.
            params: Filters; `per_page` is added.
            key: Where the items are if a page is an object, e.g. `workflow_runs`.
            limit: The most items that are given.

        Raises:
            GitHubError: As its kind says; `malformed` if a page is no list of objects, or the pages lead elsewhere or
            back.
        """
        asked = f"GET {path}"
        address = self._address(path)
        per_page = min(_PER_PAGE, limit) if limit is not None else _PER_PAGE
        query: Mapping[str, str | int] | None = {"per_page": per_page, **(params or {})}
        given = 0
        seen: set[str] = set()
        while True:
            answer = self._read(address, query)
            page = self._json(answer, asked)
            items = page.get(key) if key is not None and isinstance(page, dict) else page
            if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
                raise GitHubError("malformed", f"{asked}: GitHub answered with something other than a list of objects.")
            for item in items:
                if limit is not None and given >= limit:
                    return
                given += 1
                yield item
            if answer.next_page is None or (limit is not None and given >= limit):
                return
            address, query = self._within(joined(answer.url, answer.next_page, asked), asked), None
            if address in seen:
                raise GitHubError("malformed", f"{asked}: the pages of GitHub's answer lead in a circle.")
            seen.add(address)

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Creates something. Sent once: see `pause` for when it may be sent again.

        Raises:
            GitHubError: As its kind says; `may_have_happened` when no answer came.
        """
        return self._write("POST", path, body)

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """Changes something. Sent once, as `post`.

        Raises:
            GitHubError: As its kind says.
        """
        return self._write("PATCH", path, body)

    def download(self, path: str, *, max_bytes: int) -> bytes:
        """The bytes at a path that redirects to a file store, as artifacts do. The token is not sent to the store.

        Raises:
            GitHubError: As its kind says; `too-large` above `max_bytes`.
        """
        return self._read(self._address(path), None, max_bytes=max_bytes, elsewhere=True).body

    def pause(self, error: GitHubError, attempt: int) -> None:
        """Waits until the request that failed may be tried again.

        Args:
            error: What it failed with.
            attempt: How often it has failed before; 0 for the first time.

        Raises:
            GitHubError: The same error, if waiting doesn't help, was done often enough, or takes longer than is left.
        """
        if error.wait is None or attempt + 1 >= _ATTEMPTS:
            raise error
        wait = error.wait * 2.0**attempt if error.doubles else error.wait
        wait *= 1.0 + self._jitter() / 4.0
        if wait >= self._left:
            if error.kind == "rate-limited":
                left = max(0.0, self._left)
                late = f"{error.message} It takes a wait of {wait:.0f} s, and there are {left:.0f} s left."
                raise GitHubError("rate-limited", late, hint=error.hint, status=error.status)
            raise error
        if wait > 5.0:
            self._log(f"{error.message} Waiting {wait:.0f} s.")
        self._left -= wait
        self._sleep(wait)

    def grant(self, seconds: float) -> None:
        """Lets at least so many seconds go into what follows, however much was spent before."""
        self._left = max(self._left, seconds)

    def _address(self, path: str) -> str:
        return self.api_url + path

    def _read(
        self,
        address: str,
        params: Mapping[str, str | int] | None,
        *,
        max_bytes: int = _LARGEST_JSON,
        elsewhere: bool = False,
    ) -> Answer:
        attempt = 0
        while True:
            try:
                return self._follow("GET", address, params, None, max_bytes=max_bytes, elsewhere=elsewhere)
            except GitHubError as error:
                failure = error
            # Outside of the handler, so that what is raised has no chain of older errors.
            self.pause(failure, attempt)
            attempt += 1

    def _write(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
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
        params: Mapping[str, str | int] | None,
        body: Mapping[str, Any] | None,
        *,
        max_bytes: int = _LARGEST_JSON,
        elsewhere: bool = False,
    ) -> Answer:
        """One request and its redirects, e.g. of a repository that was renamed."""
        asked = f"{method} {urlsplit(address).path.removeprefix(urlsplit(self.api_url).path)}"
        for _ in range(_REDIRECTS + 1):
            answer = self._send(method, address, params, body, asked=asked, max_bytes=max_bytes)
            if answer.status < 300:
                return answer
            if answer.location is None:
                raise self._refusal(answer, asked, write=method != "GET")
            if method != "GET" and answer.status not in (307, 308):
                raise GitHubError("rejected", f"{asked}: GitHub answered {answer.status}, a redirect of a write.")
            address = joined(answer.url, answer.location, asked)
            if elsewhere:
                check_encrypted(address, self.api_url, asked)
            else:
                address = self._within(address, asked)
            params = None
        raise GitHubError("malformed", f"{asked}: GitHub redirects in a circle.")

    def _send(
        self,
        method: str,
        address: str,
        params: Mapping[str, str | int] | None,
        body: Mapping[str, Any] | None,
        *,
        asked: str,
        max_bytes: int,
    ) -> Answer:
        if self._left <= 0:
            raise GitHubError("unavailable", f"{asked}: not sent, the time for talking to GitHub is over.")
        if self._session is None:
            self._session = self._make_session()
        ours = same_origin(address, self.api_url)
        headers = {"User-Agent": self._user_agent}
        if ours:
            headers |= {"Accept": _JSON, "X-GitHub-Api-Version": API_VERSION}
        data = json.dumps(body).encode() if body is not None else None
        if data is not None:
            headers["Content-Type"] = "application/json; charset=utf-8"
        begun, left = self._clock(), self._left
        outcome = receive(
            self._session,
            method,
            address,
            params=params,
            data=data,
            headers=headers,
            # A store gets no token; and with an `auth`, requests doesn't look into ~/.netrc for one of its own.
            auth=self._auth if ours else NoAuth(),
            timeouts=(min(_TIMEOUTS[0], left), min(_TIMEOUTS[1], left)),
            max_bytes=max_bytes,
            expired=lambda: self._clock() - begun >= left,
        )
        self._left -= self._clock() - begun
        if isinstance(outcome, Answer):
            return outcome
        where = asked if ours else f"{asked}, at the store that it redirects to"
        kind = cast("Kind", outcome.kind)
        wait = OUTAGE_WAIT if kind == "unavailable" else None
        message = self._masker.text(f"{where}: {outcome.message}.")
        unsure = kind == "unavailable" and method != "GET"
        raise GitHubError(kind, message, wait=wait, may_have_happened=unsure)

    def _refusal(self, answer: Answer, asked: str, *, write: bool) -> GitHubError:
        try:
            told = json.loads(self._masker.data(answer.body[:100_000]))
        except (ValueError, RecursionError):
            told = {}
        body = told if isinstance(told, dict) else {}
        if not same_origin(answer.url, self.api_url):
            asked += ", at the store that it redirects to"
        return refused(answer.status, answer.headers, body, asked=asked, write=write, now=self._clock())

    def _json(self, answer: Answer, asked: str, *, write: bool = False) -> Any:
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError):
            pass
        hint = "Is GITHUB_API_URL the address of the API? On GHES it ends in /api/v3."
        message = f"{asked}: GitHub answered {answer.status} with something other than JSON."
        raise GitHubError("malformed", message, hint=hint, status=answer.status, may_have_happened=write)

    def _within(self, address: str, asked: str) -> str:
        """The address, if the token may be sent there."""
        if same_origin(address, self.api_url):
            return address
        raise GitHubError(
            "malformed", f"{asked}: GitHub's answer leads to another server, which gets no token of ours."
        )
