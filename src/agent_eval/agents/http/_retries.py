"""Asks a server again while it says that it has no capacity."""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agent_eval.agents.http.client import HttpClient, HttpFailure, Reply, Stream
from agent_eval.agents.http.failures import (
    RETRIED,
    ServerProcess,
    not_admitted,
    not_reached,
    overloaded,
    redirected,
)
from agent_eval.core.limiter import Limiter, Place

_START_SECONDS = 60.0
"""For the first answer: a deployment that scales to zero has to start."""
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


async def first_reply(client: HttpClient, path: str, *, server: ServerProcess | None, secrets_withheld: bool) -> Reply:
    """GETs what a run begins with, for at most a minute, and again while the server fails before the agent's code runs.

    Args:
        client: The agent's client.
        path: Below the agent's URL.
        server: The server's process, if the gate started it: it was ready, so that 500 is an answer.
        secrets_withheld: See `RemoteOptions`.

    Raises:
        AgentFailure: The server does not run, or is unavailable.
        AgentRefused: The URL or the credentials are wrong.
        TooLarge: The answer is larger than 64 MB.
    """
    clock = asyncio.get_running_loop().time
    begun, attempt = clock(), 0
    try:
        async with asyncio.timeout_at(begun + _START_SECONDS):
            while True:
                attempt += 1
                reply = await client.request("GET", client.url.join(path), headers={"Accept": "application/json"})
                if reply.status not in RETRIED and (reply.status < 500 or server is not None):
                    break
                pause = pause_before_retry(reply, attempt)
                if clock() - begun + pause >= _START_SECONDS:
                    raise overloaded(reply, clock() - begun, attempt)
                await asyncio.sleep(pause)
    except HttpFailure as error:
        raise not_reached(error, client.url.base, server) from error
    except TimeoutError:
        silent = HttpFailure(f"no answer within {_START_SECONDS:g} s", reason="refused")
        raise not_reached(silent, client.url.base, server) from None
    refused = not_admitted(reply, client.url.base, has_headers=client.has_headers, secrets_withheld=secrets_withheld)
    if refused := refused or redirected(reply, client.url.base):
        raise refused
    return reply


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
