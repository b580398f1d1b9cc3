"""What can go wrong on the way, to be queued on the stand-in."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Literal


@dataclass(kw_only=True)
class Fault:
    """Happens to the requests that match, `times` times; faults are tried in the order in which they were added."""

    method: str = "*"
    path: str = ""
    """A regular expression that is searched in the path; artifacts at the store have paths like `/store/1001`."""
    times: int = 1
    status: int | None = None
    """Answer this, and do nothing."""
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    drop: Literal["before", "after", "middle"] | None = None
    """Close the connection without an answer: `before` or `after` the request was done; or in the `middle` of the
    answer."""
    delay: float = 0.0
    """Seconds before the answer."""
    trickle: float = 0.0
    """Seconds between two bytes of the answer."""

    def matches(self, method: str, path: str) -> bool:
        return self.times > 0 and self.method in ("*", method) and re.search(self.path, path) is not None


def _error(message: str, page: str) -> bytes:
    return json.dumps({"message": message, "documentation_url": f"https://docs.github.com/{page}"}).encode()


def primary_limit(
    *, reset: float, now: float | None = None, method: str = "*", times: int = 1, status: int = 403
) -> Fault:
    """The hourly limit; `reset` is Unix time in seconds, `now` the server's own clock for its Date header."""
    headers = {
        "X-RateLimit-Limit": "1000",
        "X-RateLimit-Remaining": "0",
        "X-RateLimit-Reset": str(int(reset)),
        "X-RateLimit-Resource": "core",
        **({"Date": formatdate(now, usegmt=True)} if now is not None else {}),
    }
    body = _error("API rate limit exceeded for installation ID 1.", "rest/rate-limit")
    return Fault(method=method, status=status, headers=headers, body=body, times=times)


def secondary_limit(
    *, retry_after: int | None = None, method: str = "*", path: str = "", times: int = 1, status: int = 403
) -> Fault:
    """The limit against bursts, with or without a Retry-After."""
    headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    return Fault(
        method=method, path=path, status=status, headers=headers, body=_error(message, "secondary"), times=times
    )


def forbidden(message: str = "Resource not accessible by integration", *, method: str = "*", path: str = "") -> Fault:
    """What a token without a permission gets."""
    return Fault(method=method, path=path, status=403, body=_error(message, "rest"), times=10**6)
