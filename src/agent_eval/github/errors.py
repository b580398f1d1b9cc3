"""What can go wrong between us and GitHub, by what the reader can do about it; and how long to wait before asking
again.
"""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "not-found",
    "forbidden",
    "unauthorized",
    "rate-limited",
    "unavailable",
    "rejected",
    "malformed",
    "too-large",
]
"""`not-found` includes what is gone (410) and what the token may not know of. `unavailable`: no answer, or 5xx; a write
may have been done. `rejected`: GitHub understood and declines (409, 422 and the like). `malformed`: an answer that is
not what GitHub documents. `too-large`: an answer above the limit that the caller has set."""

SECONDARY_WAIT = 60.0
"""Seconds to wait after a secondary limit that names no time, doubled each time (docs.github.com, "Rate limits for the
REST API": at least one minute, then exponentially longer)."""
OUTAGE_WAIT = 1.0
"""Seconds to wait after an outage, doubled each time."""
_LIMITED = re.compile(r"rate limit|abuse detection", re.IGNORECASE)
_NOT_ACCESSIBLE = re.compile(r"not accessible by", re.IGNORECASE)


class GitHubError(Exception):
    """A request to GitHub has failed. No token and no signed address is in it, nor in what it was raised from."""

    def __init__(
        self,
        kind: Kind,
        message: str,
        *,
        hint: str = "",
        status: int | None = None,
        wait: float | None = None,
        doubles: bool = True,
        may_have_happened: bool = False,
    ) -> None:
        """Makes the error.

        Args:
            kind: What can be done about it.
            message: What happened, with the method and the path of the request.
            hint: What to do next; "" when there is nothing that a user could do.
            status: Of HTTP; None without an answer.
            wait: Seconds after which the same request may succeed; None when waiting doesn't help.
            doubles: The wait is a guess, to be doubled each time; False if GitHub named it.
            may_have_happened: A write may have been done although no answer came.
        """
        super().__init__(f"{message} {hint}".strip())
        self.kind: Kind = kind
        self.message = message
        self.hint = hint
        self.status = status
        self.wait = wait
        self.doubles = doubles
        self.may_have_happened = may_have_happened


@dataclass(frozen=True, kw_only=True)
class Wait:
    """How long a rate limit asks us to stay away."""

    seconds: float
    named: bool
    """By GitHub; else it is the least that its documentation asks for."""


def rate_limit_wait(status: int, headers: Mapping[str, str], message: str, *, now: float) -> Wait | None:
    """What a rate limit asks for; None if this answer is not about a rate limit.

    Args:
        status: Of HTTP.
        headers: Of the answer; names in lower case.
        message: What GitHub wrote.
        now: Our own clock, Unix time in seconds; used when the answer has no `Date`.
    """
    if status not in (403, 429):
        return None
    after = headers.get("retry-after", "").strip()
    if after:
        return _retry_after(after, _date(headers, now))
    exhausted = headers.get("x-ratelimit-remaining") == "0"
    told = _LIMITED.search(message) is not None
    # The last request of an hour may be forbidden for another reason; to wait for the next hour would not help it.
    if status == 403 and not told and (not exhausted or _NOT_ACCESSIBLE.search(message)):
        return None
    reset = headers.get("x-ratelimit-reset", "")
    if exhausted and re.fullmatch(r"[0-9]{1,12}", reset):
        # The server's own clock: ours may be off by more than the wait. A second more, since `reset` is rounded.
        return Wait(seconds=max(1.0, float(reset) - _date(headers, now) + 1.0), named=True)
    return Wait(seconds=SECONDARY_WAIT, named=False)


def _retry_after(value: str, now: float) -> Wait:
    if re.fullmatch(r"[0-9]{1,9}", value):
        return Wait(seconds=max(1.0, float(value)), named=True)
    try:
        return Wait(seconds=max(1.0, email.utils.parsedate_to_datetime(value).timestamp() - now), named=True)
    except (ValueError, OverflowError):
        return Wait(seconds=SECONDARY_WAIT, named=False)


def _date(headers: Mapping[str, str], now: float) -> float:
    try:
        return email.utils.parsedate_to_datetime(headers.get("date", "")).timestamp()
    except (ValueError, OverflowError):
        return now


def refused(
    status: int,
    headers: Mapping[str, str],
    body: Mapping[str, object],
    *,
    asked: str,
    write: bool,
    now: float,
) -> GitHubError:
    """The error for an answer that is neither a success nor a redirect.

    Args:
        status: Of HTTP.
        headers: Names in lower case.
        body: The answer's JSON; empty if it has none.
        asked: The request for people, e.g. `GET /repos/octo/repo/pulls/7`.
        write: Whether the request changes something.
        now: Our clock, Unix time in seconds.
    """
    said = body.get("message")
    message = " ".join(said.split())[:500] if isinstance(said, str) else ""
    told = f"{asked}: GitHub answered {status}" + (f" ({message})." if message else ".")
    wait = rate_limit_wait(status, headers, message, now=now)
    if wait is not None:
        hint = "Start the job again later, or let fewer jobs run at once."
        return GitHubError("rate-limited", told, hint=hint, status=status, wait=wait.seconds, doubles=not wait.named)
    match status:
        case 401:
            hint = "The token is wrong or has expired: pass `${{ github.token }}` as the input github-token."
            return GitHubError("unauthorized", told, hint=hint, status=status)
        case 403:
            hint = _permission_hint(message, headers)
            return GitHubError("forbidden", told, hint=hint, status=status)
        case 404 | 410:
            hint = "" if status == 410 else "It does not exist, or the token may not know of it."
            return GitHubError("not-found", told, hint=hint, status=status)
        case _ if status >= 500 or status == 408:
            return GitHubError(
                "unavailable",
                told,
                hint="Start the job again; https://www.githubstatus.com tells of outages.",
                status=status,
                wait=OUTAGE_WAIT,
                may_have_happened=write,
            )
        case _:
            details = _details(body.get("errors"))
            return GitHubError("rejected", f"{told}{details}", status=status)


def _permission_hint(message: str, headers: Mapping[str, str]) -> str:
    if "locked" in message.casefold():
        return "The conversation is locked: only people who may write to the repository can comment."
    needed = headers.get("x-accepted-github-permissions", "")
    named = ""
    if re.fullmatch(r"[a-z_=;, ]{1,200}", needed):
        named = f" It takes {' or '.join(part.strip() for part in needed.split(';'))}."
    if _NOT_ACCESSIBLE.search(message) or named:
        return f"The token lacks a permission, as it does on pull requests from forks.{named}"
    return "The token may not do this."


def _details(errors: object) -> str:
    """What a 422 says of each field, at most three of them."""
    if not isinstance(errors, list):
        return ""
    texts = [error if isinstance(error, str) else _detail(error) for error in errors[:3]]
    joined = "; ".join(text for text in texts if text)
    return f" {joined[:500]}" if joined else ""


def _detail(error: object) -> str:
    if not isinstance(error, Mapping):
        return ""
    return " ".join(str(error[key]) for key in ("resource", "field", "code", "message") if error.get(key))
