"""When a request is sent again, and what HTTP statuses mean, from any service: GitHub, a judge, an agent's model, an
agent's server, an upload; and its proxy, as the variables of the environment name it.

Whose failure a status is depends on who asked: see `agents.host.blame` (an agent's model), `agents.http.failures` (an
agent's server), `models` (a judge) and `forge.rest`.
"""

from __future__ import annotations

import email.utils
import math
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, kw_only=True)
class Retry:
    """Exponential backoff, unless the service asks for a certain pause."""

    attempts: int = 6
    """Of one request, the first one included."""
    first: float = 1.0
    """Seconds before the second attempt."""
    factor: float = 2.0
    longest: float = math.inf
    """Seconds, of a pause that the service did not ask for."""
    longest_asked: float = math.inf
    """Seconds, of a pause that the service asks for."""
    jitter: float = 0.25
    """How much longer a pause may become, as a share, so that clients that failed together don't return together. A
    pause that the service asks for becomes at most a tenth longer."""

    def pause(
        self,
        attempt: int,
        asked: float | None = None,
        *,
        chance: Callable[[], float] = random.random,  # noqa: S311 - not for secrets
    ) -> float:
        """Seconds until the next attempt.

        Args:
            attempt: The number of the attempt that failed, from 1.
            asked: What the service asks for, see `seconds_asked`. From the second retry on, the pause is at least a
                quarter of the own one, so that a service that always asks for 0 is not flooded.
            chance: Returns 0..1.
        """
        own = min(self.first * self.factor ** min(attempt - 1, 100), self.longest)
        if asked is None:
            return own * (1 + self.jitter * chance())
        shortest = own / 4 if attempt > 1 else 0.0
        return max(min(asked, self.longest_asked), shortest) * (1 + min(self.jitter, 0.1) * chance())


def seconds_asked(headers: Mapping[str, str], *, now: float | None = None) -> float | None:
    """Seconds that a response asks to wait; None if it doesn't.

    Reads `retry-after-ms`, else `Retry-After` as seconds or as a date (RFC 9110, section 10.2.3), which is compared
    with the server's own clock if the response has its time.

    Args:
        headers: Of the response, with names in lower case unless the mapping ignores case.
        now: Unix time in seconds; None for the current time.
    """
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    if (seconds := _number(value)) is not None:
        return seconds
    date = _unix_time(value)
    return None if date is None else max(0.0, date - server_time(headers, now=now))


def server_time(headers: Mapping[str, str], *, now: float | None = None) -> float:
    """Unix time by the clock of the server that sent a response; by ours if it doesn't say."""
    date = _unix_time(headers.get("date"))
    return date if date is not None else time.time() if now is None else now


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and 0 <= number < math.inf else None


def _unix_time(value: str | None) -> float | None:
    try:
        return None if value is None else email.utils.parsedate_to_datetime(value).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


NO_ACCESS = frozenset({401, 403})
"""The credentials are missing or refused."""
THROTTLED = frozenset({429, 503})
"""The service asks for fewer requests at once."""
TOO_MANY = frozenset({429, 529})
"""A quota is used up; some gateways answer 529 when overloaded."""
UNPROCESSED = frozenset({429, 502, 503, 504})
"""Says nothing about the request, which can be sent again even if it is not idempotent (OpenTelemetry's list for OTLP,
https://opentelemetry.io/docs/specs/otlp/#failures-1)."""
TEMPORARY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
"""Another attempt of a request without effects may succeed. ADK retries 408, 429, 500, 502, 503 and 504."""
OF_A_PROXY = frozenset({408, 425, *range(520, 531)})
"""From a proxy in front of a server, e.g. Cloudflare's 520 to 530. The server may have got the request."""


def proxy_of(address: str, environ: Mapping[str, str]) -> tuple[str, str]:
    """The proxy for an address, and the variable that names it; "" for none.

    Lower-case names have precedence, as in curl.
    """
    from urllib.request import proxy_bypass_environment  # type: ignore[attr-defined]

    parts = urlsplit(address)
    proxies: dict[str, str] = {}
    variables: dict[str, str] = {}
    for name, value in sorted(environ.items()):  # Upper case sorts first.
        if name.lower().endswith("_proxy"):
            proxies[name.lower().removesuffix("_proxy")] = value.strip()
            variables[name.lower().removesuffix("_proxy")] = name
    if proxy_bypass_environment(parts.netloc, proxies):
        return "", ""
    kind = parts.scheme if proxies.get(parts.scheme) else "all"
    proxy = proxies.get(kind) or ""
    return proxy if not proxy or "://" in proxy else f"http://{proxy}", variables.get(kind, "")


def proxy_name(proxy: str, variable: str) -> str:
    """Names a proxy in a message, without its credentials: `the proxy http://proxy.example:3128 (HTTPS_PROXY)`."""
    scheme, _, rest = proxy.partition("://")
    # Not urlsplit: of a password with a slash, it takes the beginning for the host.
    return f"the proxy {scheme}://{rest.rpartition('@')[2].partition('/')[0]} ({variable})"
