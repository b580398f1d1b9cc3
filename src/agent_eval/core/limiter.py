"""How many requests or runs are in flight: as many as allowed, fewer while a model provider says "too many"."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_PAUSE = 1.0
"""Seconds in which several refusals count as one: they answer requests that were sent together."""


class Limiter:
    """A semaphore whose size halves when it is told of throttling and grows back by one per `size` quiet ends.

    Additive increase, multiplicative decrease, as TCP does (Chiu and Jain, 1989).
    """

    def __init__(self, maximum: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins at the maximum, which is at least 1."""
        self._maximum = maximum
        self._size = float(maximum)
        self._clock = clock
        self._shrunk_at = float("-inf")
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def size(self) -> int:
        """How much may be in flight now."""
        return int(self._size)

    def throttled(self) -> None:
        """Lowers the size; the provider refused a request."""
        now = self._clock()
        if now - self._shrunk_at >= _PAUSE:
            self._shrunk_at = now
            self._size = max(1.0, self._size / 2)

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Waits for a place and holds it. First come, first served."""
        await self._enter()
        begun = self._clock()
        try:
            yield
        finally:
            self._in_flight -= 1
            if self._shrunk_at < begun:
                self._size = min(float(self._maximum), self._size + 1 / self._size)
            self._wake()

    async def _enter(self) -> None:
        if self._in_flight < self.size:
            self._in_flight += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
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
