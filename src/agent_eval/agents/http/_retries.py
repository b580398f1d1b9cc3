"""Sends a turn again while the server says that it has no capacity."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agent_eval.agents.http.client import HttpClient, Reply, Stream
from agent_eval.agents.http.failures import RETRIED, overloaded
from agent_eval.core.limiter import Limiter, Place

_LONGEST_PAUSE = 60.0
_FIRST_PAUSE = 1.0
_BACKOFF_LIMIT = 15.0
_SECOND_PAUSE = 0.25
"""Shortest pause before the second retry; it doubles with each further one."""


def pause_before_retry(reply: Reply, attempt: int, *, now: float | None = None) -> float:
    """Seconds to wait before the next attempt: what `Retry-After` says (RFC 9110, section 10.2.3), at most a minute.

    From the second retry on, it is at least 0.25 s, 0.5 s ... 15 s, so that a server that always says 0 is not flooded.
    Without that header: 1, 2, 4, 8, 15, 15 ...

    Args:
        reply: The answer.
        attempt: The number of the attempt that it answers, from 1.
        now: Unix time; None for the clock.
    """
    value = reply.headers.get("retry-after", "").strip()
    shortest = 0.0 if attempt < 2 else min(_SECOND_PAUSE * 2 ** min(attempt - 2, 10), _BACKOFF_LIMIT)
    if value.isascii() and value.isdecimal():
        return max(min(float(value[:9]), _LONGEST_PAUSE), shortest)
    with contextlib.suppress(ValueError, TypeError, OverflowError):
        date = email.utils.parsedate_to_datetime(value).timestamp()
        return min(max(date - (time.time() if now is None else now), shortest), _LONGEST_PAUSE)
    return float(min(_FIRST_PAUSE * 2 ** min(attempt - 1, 10), _BACKOFF_LIMIT))


@contextlib.asynccontextmanager
async def stream_with_retries(
    client: HttpClient,
    url: str,
    *,
    body: Any,
    headers: Mapping[str, str],
    until: float,
    place: Place | None = None,
    limiter: Limiter | None = None,
) -> AsyncIterator[Stream]:
    """POSTs a turn, and again while the answer is 429, 502, 503 or 504 and time is left.

    Args:
        client: The agent's client.
        url: An absolute URL.
        body: Sent as JSON.
        headers: Headers of the protocol.
        until: The end of the turn, by the event loop's clock. No pause begins that would not end before.
        place: The run's concurrency slot, which is lent to others during a pause.
        limiter: Counts each attempt, and shrinks if it is answered with 429 or 503.

    Raises:
        AgentFailure: The server is still unavailable (`server-unavailable`).
        HttpFailure: There is no answer.
    """
    clock = asyncio.get_running_loop().time
    begun = clock()
    attempt = 0
    while True:
        attempt += 1
        request = None if limiter is None else limiter.asked()
        try:
            async with client.stream("POST", url, body=body, headers=headers) as stream:
                if stream.status not in RETRIED:
                    yield stream
                    if request is not None:
                        request.answered()
                    return
                reply = await stream.reply()
            if request is not None and reply.status in {429, 503}:
                request.refused()
        finally:
            if request is not None:
                request.ended()
        pause = pause_before_retry(reply, attempt)
        if clock() + pause >= until:
            raise overloaded(reply, clock() - begun, attempt)
        if place is not None:
            place.lend()
        await asyncio.sleep(pause)
        if place is not None:
            await place.take_back()
