"""How many requests or runs are in flight: as many as allowed, fewer while a model provider says "too many"."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_PAUSE = 5.0
"""Seconds after a halving in which further refusals change nothing.

Most of them answer calls that were in flight already and say nothing about the lower size. Halving for each of them
would pin the size to its minimum as long as a provider refuses some share of all calls.
"""
_FLOOR = 4
"""The size never falls below the maximum divided by this: one refusal in three is no reason to queue up."""


class Place:
    """A place in a limiter. Its holder may leave it to others while it only waits."""

    def __init__(self, limiter: Limiter) -> None:
        """For Limiter.slot."""
        self._limiter = limiter
        self._held = True
        self._closed = False
        self._lock = asyncio.Lock()

    def lend(self) -> None:
        """Leaves the place to others until `take_back`."""
        if self._held:
            self._held = False
            self._limiter._leave()

    async def take_back(self) -> None:
        """Waits for a place, ahead of those who never had one. Does nothing if the place was not lent."""
        async with self._lock:
            if not self._held and not self._closed:
                await self._limiter._enter(first=True)
                self._held = True
                if self._closed:  # the run ended meanwhile
                    self.lend()

    def close(self) -> None:
        """Gives the place up for good."""
        self._closed = True
        self.lend()


class Limiter:
    """A semaphore whose size halves on throttling and grows back by one per `size` successes.

    Additive increase, multiplicative decrease, as TCP does (Chiu and Jain, 1989).
    """

    def __init__(self, maximum: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins at the maximum, which is at least 1."""
        self._maximum = maximum
        self._minimum = max(1.0, maximum / _FLOOR)
        self._size = float(maximum)
        self._clock = clock
        self._shrunk_at = float("-inf")
        self.halvings = 0
        """How often `throttled` reduced the size."""
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def size(self) -> int:
        """How much may be in flight now."""
        return int(self._size)

    def throttled(self) -> None:
        """Halves the size, unless it was halved in the last five seconds; the provider refused a request."""
        now = self._clock()
        if now - self._shrunk_at >= _PAUSE:
            self._shrunk_at = now
            self.halvings += 1
            self._size = max(self._minimum, self._size / 2)

    def answered(self) -> None:
        """Raises the size a little; the provider answered a request."""
        self._size = min(float(self._maximum), self._size + 1 / self._size)
        self._wake()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Place]:
        """Waits for a place and holds it. First come, first served."""
        await self._enter()
        begun = self._clock()
        place = Place(self)
        try:
            yield place
        finally:
            if self._shrunk_at < begun:
                self.answered()
            place.close()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._wake()

    async def _enter(self, *, first: bool = False) -> None:
        if self._in_flight < self.size:
            self._in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # It got the place in the moment in which it was cancelled.
                self._in_flight -= 1
                self._wake()
            raise

    def _wake(self) -> None:
        """Hands free places over; whoever comes in between can't take them away."""
        while self._in_flight < self.size and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)
