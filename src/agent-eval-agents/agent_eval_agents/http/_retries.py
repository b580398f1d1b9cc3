"""Asks a server again while it says that it has no capacity."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from agent_eval_agents.http.client import HttpClient, HttpFailure, Reply, Stream
from agent_eval_agents.http.failures import ServerProcess, not_admitted, not_reached, overloaded, redirected
from agent_eval_scoring.core.limiter import Limiter, Place
from agent_eval_scoring.net.retry import THROTTLED, UNPROCESSED, Retry, seconds_asked

_START_SECONDS = 60.0
"""For the first answer: a deployment that scales to zero has to start."""
RETRY = Retry(longest=15.0, longest_asked=60.0, jitter=0.0)
"""The turn's time, not a number of attempts, ends the retries."""


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
                if reply.status not in UNPROCESSED and (reply.status < 500 or server is not None):
                    break
                pause = RETRY.pause(attempt, seconds_asked(reply.headers))
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
    limiter: Limiter,
    place: Place | None = None,
    method: str = "POST",
) -> AsyncIterator[Stream]:
    """Sends a turn or asks for a session, and again while the answer is 429, 502, 503 or 504 and time is left.

    Args:
        client: The agent's client.
        url: An absolute URL.
        body: Sent as JSON; None for no body.
        headers: Headers of the protocol.
        until: The end of the turn, by the event loop's clock. No pause begins that would not end before.
        limiter: Counts each attempt, and shrinks if it is answered with 429 or 503.
        place: The run's concurrency slot, which is lent to others during a pause.
        method: `GET` for what only reads.

    Raises:
        AgentFailure: The server is still unavailable (`server-unavailable`).
        HttpFailure: There is no answer.
    """
    clock = asyncio.get_running_loop().time
    begun = clock()
    attempt = 0
    while True:
        attempt += 1
        request = limiter.asked()
        try:
            async with client.stream(method, url, body=body, headers=headers) as stream:
                if stream.status not in UNPROCESSED:
                    yield stream
                    request.answered()
                    return
                reply = await stream.reply()
            if reply.status in THROTTLED:
                request.refused()
        finally:
            request.ended()
        pause = RETRY.pause(attempt, seconds_asked(reply.headers))
        if clock() + pause >= until:
            raise overloaded(reply, clock() - begun, attempt)
        if place is not None:
            place.lend()
        await asyncio.sleep(pause)
        if place is not None:
            await place.take_back()
