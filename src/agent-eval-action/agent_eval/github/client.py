"""Client for GitHub's REST API: its limits, its errors, and its comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from agent_eval.forge.comments import Note
from agent_eval.forge.rest import RestClient, RestError, Wait
from agent_eval.github.events import text_at
from agent_eval_scoring.net.retry import seconds_asked, server_time

API_VERSION = "2022-11-28"
"""Sent as X-GitHub-Api-Version. GHES 3.9 and later support it; older versions ignore it."""
SECONDARY_WAIT = 60.0
"""Seconds to wait after a secondary rate limit without a given time, doubled each time (docs.github.com, "Rate limits
for the REST API": at least one minute, then exponentially longer)."""
ACTIONS_LOGIN = "github-actions[bot]"
"""Login of a workflow's GITHUB_TOKEN."""
_LIMITED = re.compile(r"rate limit|abuse detection", re.IGNORECASE)
_NOT_ACCESSIBLE = re.compile(r"not accessible by", re.IGNORECASE)


class GitHubClient(RestClient):
    """Client for one repository, for the duration of one job."""

    service = "GitHub"
    headers: ClassVar[Mapping[str, str]] = {
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": API_VERSION,
    }
    outages = "https://www.githubstatus.com"
    token_hint = "The token is wrong or has expired: pass `${{ github.token }}` as the input github-token."  # noqa: S105
    url_hint = "Check GITHUB_API_URL: it should be https://api.github.com, or https://HOST/api/v3 on GHES."
    longest: ClassVar[int] = 65_536
    to_comment: ClassVar[str] = "Add `pull-requests: write` to the job's `permissions`."
    """Maximum characters of a comment; GitHub answers 422 above ("Body is too long (maximum is 65536 characters)")."""
    reads_runs: ClassVar[str] = "Add `actions: read` to the job's `permissions`."
    queue_branches: ClassVar[str] = "gh-readonly-queue/"
    no_token = "Let this step have the token (`github-token`)."  # noqa: S105

    def repo(self, *parts: str | int) -> str:
        """Returns a path below `/repos/OWNER/NAME`, with each part escaped: `repo("issues", 7, "comments")`."""
        owner, _, name = self.repository.partition("/")
        return "/".join(["", "repos", *(quote(str(part), safe="") for part in (owner, name, *parts))])

    def notes(self, number: int) -> Iterator[Note]:
        """Yields the comments of a pull request."""
        for comment in self.paginate(self.repo("issues", number, "comments")):
            if (note := _note(comment)) is not None:
                yield note

    def create_note(self, number: int, body: str) -> Note | None:
        """Creates a comment; None if the response does not show it."""
        return _note(self.post(self.repo("issues", number, "comments"), {"body": body}))

    def rewrite_note(self, number: int, note: Note, body: str) -> str | None:
        """Replaces the text of a comment, and returns its URL."""
        path = self.repo("issues", "comments", note.id)
        return text_at(self.change("PATCH", path, {"body": body}), "html_url")

    def own_logins(self, known: str | None) -> set[str]:
        """The logins of the token in lower case; `known` saves a request."""
        login = known
        if login is None:
            try:
                login = text_at(self.get("/user"), "login")
            except RestError as error:
                # An installation's token has no user, and can't read its login.
                if error.kind not in ("forbidden", "not-found"):
                    raise
        return {ACTIONS_LOGIN, (login or ACTIONS_LOGIN).casefold()}

    def prepared(self, body: str) -> str:
        """A text as it can be posted."""
        return body

    def rate_limit(self, status: int, headers: Mapping[str, str], message: str, *, now: float) -> Wait | None:
        """See `rate_limit_wait`."""
        return rate_limit_wait(status, headers, message, now=now)

    def permission_hint(self, message: str, headers: Mapping[str, str]) -> str:
        """What a token lacks that is refused with 403."""
        if "locked" in message.casefold():
            return "The conversation is locked: only people who may write to the repository can comment."
        needed = headers.get("x-accepted-github-permissions", "")
        required = ""
        if re.fullmatch(r"[a-z_=;, ]{1,200}", needed):
            required = f" It requires {' or '.join(part.strip() for part in needed.split(';'))}."
        if _NOT_ACCESSIBLE.search(message) or required:
            return f"The token lacks a permission, as it does on pull requests from forks.{required}"
        return "The token does not allow this."

    def details_of(self, body: Mapping[str, object]) -> str:
        """Describes the invalid fields of a 422, at most three."""
        errors = body.get("errors")
        if not isinstance(errors, list):
            return ""
        texts = [error if isinstance(error, str) else _detail(error) for error in errors[:3]]
        details = "; ".join(text for text in texts if text)
        return details[:500]


def _note(comment: Mapping[str, Any]) -> Note | None:
    number, body, url = comment.get("id"), comment.get("body"), text_at(comment, "html_url")
    login = text_at(comment, "user", "login")
    if not isinstance(number, int) or not isinstance(body, str) or url is None:
        return None
    return Note(id=number, body=body, url=url, login=login, is_bot=text_at(comment, "user", "type") == "Bot")


def rate_limit_wait(status: int, headers: Mapping[str, str], message: str, *, now: float) -> Wait | None:
    """Returns the wait of a rate limit; None if the response is not about a rate limit.

    Args:
        status: HTTP status.
        headers: Response headers; names in lower case.
        message: GitHub's message.
        now: Local Unix time in seconds; used if the response has no `Date`.
    """
    if status not in (403, 429):
        return None
    if headers.get("retry-after", "").strip():
        asked = seconds_asked(headers, now=now)
        return Wait(seconds=SECONDARY_WAIT if asked is None else max(1.0, asked), is_exact=asked is not None)
    exhausted = headers.get("x-ratelimit-remaining") == "0"
    says_so = _LIMITED.search(message) is not None
    # The last request of an hour may be forbidden for another reason, in which case waiting doesn't help.
    if status == 403 and not says_so and (not exhausted or _NOT_ACCESSIBLE.search(message)):
        return None
    reset = headers.get("x-ratelimit-reset", "")
    if exhausted and re.fullmatch(r"[0-9]{1,12}", reset):
        # Measured by the server's clock, since ours may be off. One second more, since `reset` is rounded.
        return Wait(seconds=max(1.0, float(reset) - server_time(headers, now=now) + 1.0), is_exact=True)
    return Wait(seconds=SECONDARY_WAIT, is_exact=False)


def _detail(error: object) -> str:
    if not isinstance(error, Mapping):
        return ""
    return " ".join(str(error[key]) for key in ("resource", "field", "code", "message") if error.get(key))
