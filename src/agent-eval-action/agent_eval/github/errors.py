"""Errors of GitHub's API by kind, with the wait before a retry."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from agent_eval.forge import ErrorKind, ForgeError
from agent_eval_scoring.net.retry import seconds_asked, server_time

SECONDARY_WAIT = 60.0
"""Seconds to wait after a secondary rate limit without a given time, doubled each time (docs.github.com, "Rate limits
for the REST API": at least one minute, then exponentially longer)."""
OUTAGE_WAIT = 1.0
"""Seconds to wait after an outage, doubled each time."""
_LIMITED = re.compile(r"rate limit|abuse detection", re.IGNORECASE)
_NOT_ACCESSIBLE = re.compile(r"not accessible by", re.IGNORECASE)


class GitHubError(ForgeError):
    """A failed request to GitHub."""

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
            doubles: The wait is a guess, to be doubled each time; False if GitHub specified it.
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
    """GitHub specified it; otherwise it is the documented minimum."""


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


def response_error(
    status: int,
    headers: Mapping[str, str],
    body: Mapping[str, object],
    *,
    operation: str,
    write: bool,
    now: float,
) -> GitHubError:
    """Returns the error for a response that is neither a success nor a redirect.

    Args:
        status: HTTP status.
        headers: Response headers; names in lower case.
        body: The response's JSON; empty if there is none.
        operation: Method and path of the request, e.g. `GET /repos/octo/repo/pulls/7`.
        write: Whether the request is a write.
        now: Local Unix time in seconds.
    """
    raw = body.get("message")
    message = " ".join(raw.split())[:500] if isinstance(raw, str) else ""
    text = f"{operation}: GitHub answered {status}" + (f" ({message})." if message else ".")
    wait = rate_limit_wait(status, headers, message, now=now)
    if wait is not None:
        hint = "Re-run the job later, or run fewer jobs at the same time."
        return GitHubError("rate-limited", text, hint=hint, status=status, wait=wait.seconds, doubles=not wait.is_exact)
    match status:
        case 401:
            hint = "The token is wrong or has expired: pass `${{ github.token }}` as the input github-token."
            return GitHubError("unauthorized", text, hint=hint, status=status)
        case 403:
            hint = _permission_hint(message, headers)
            return GitHubError("forbidden", text, hint=hint, status=status)
        case 404 | 410:
            hint = "" if status == 410 else "It does not exist, or the token has no access to it."
            return GitHubError("not-found", text, hint=hint, status=status)
        case _ if status >= 500 or status == 408:
            return GitHubError(
                "unavailable",
                text,
                hint="Re-run the job; https://www.githubstatus.com lists outages.",
                status=status,
                wait=OUTAGE_WAIT,
                may_have_happened=write,
            )
        case _:
            details = _details(body.get("errors"))
            return GitHubError("rejected", f"{text}{details}", status=status)


def _permission_hint(message: str, headers: Mapping[str, str]) -> str:
    if "locked" in message.casefold():
        return "The conversation is locked: only people who may write to the repository can comment."
    needed = headers.get("x-accepted-github-permissions", "")
    required = ""
    if re.fullmatch(r"[a-z_=;, ]{1,200}", needed):
        required = f" It requires {' or '.join(part.strip() for part in needed.split(';'))}."
    if _NOT_ACCESSIBLE.search(message) or required:
        return f"The token lacks a permission, as it does on pull requests from forks.{required}"
    return "The token does not allow this."


def _details(errors: object) -> str:
    """Describes the invalid fields of a 422, at most three."""
    if not isinstance(errors, list):
        return ""
    texts = [error if isinstance(error, str) else _detail(error) for error in errors[:3]]
    details = "; ".join(text for text in texts if text)
    return f" {details[:500]}" if details else ""


def _detail(error: object) -> str:
    if not isinstance(error, Mapping):
        return ""
    return " ".join(str(error[key]) for key in ("resource", "field", "code", "message") if error.get(key))
