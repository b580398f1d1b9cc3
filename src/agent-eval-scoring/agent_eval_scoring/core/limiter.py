"""How many requests or runs are in flight: as many as allowed, fewer while a model provider says "too many"."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TypeVar

from agent_eval_scoring.core.text import plural

_PAUSE = 5.0
"""Seconds after a halving in which further refusals change nothing.

Most of them answer calls that were in flight already and say nothing about the lower size. Halving for each of them
would pin the size to its minimum as long as a provider refuses some share of all calls.
"""
_FLOOR = 4
"""The size never falls below the first one divided by this: one refusal in three is no reason to queue up."""
AUTO_START, AUTO_MAXIMUM = 8, 64
"""First and largest size of an adaptive limiter: `concurrency: auto`."""
AUTO_START_REMOTE = 4
"""First size if an agent answers through a server. `adk api_server` keeps sessions in SQLite, which has one writer at a
time: it held 4 and 8 runs at once, and neither 24 nor 62."""
_SEARCH_STEP = 0.5
"""Growth for each answer until the first refusal: the size grows by half while all places are answered once. It then
exceeds what the provider allows by at most half; doubling, as TCP does, would refuse up to every second request."""
_OUTCOMES = 64
"""How many of the latest requests tell what a provider allows."""
_FORGOTTEN = 20.0
"""Seconds since so many were last not allowed after which the size may exceed that. To try costs two refusals; and a
provider that refused everything for a moment seems to allow one request at a time until then."""
_SLOWER = 2.0
"""Beyond its first size, an adaptive limiter does not grow while answers take this many times as long as at first."""
_SMOOTHING = 0.1
_TOLERANCE = 0.05
"""Seconds by which answers may always be slower: two answers of a few milliseconds say nothing about load."""
_T = TypeVar("_T")


async def together(*work: Coroutine[object, object, _T]) -> list[_T]:
    """Like `asyncio.gather`, but the first exception ends the others, which would otherwise go on unobserved."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


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


class Request:
    """A request in flight. Only the first of the three methods that is called does anything."""

    def __init__(self, limiter: Limiter) -> None:
        """For Limiter.asked."""
        limiter.unanswered += 1
        self._limiter = limiter
        self._rank = limiter.unanswered
        self._asked_at = limiter._clock()
        self._has_ended = False

    def answered(self) -> None:
        """The provider did the work. An adaptive limiter stops growing while that takes much longer than at first."""
        if self._end():
            self._limiter._latency.add(self._limiter._clock() - self._asked_at)
            self._limiter._outcomes.append((self._rank, False))

    def refused(self) -> None:
        """The provider said that it has no capacity: the size may shrink."""
        if self._end():
            # Requests overtake each other on their way: it had all those that it has not refused.
            rank = max(self._rank, self._limiter.unanswered + 1)
            self._limiter._outcomes.append((rank, True))
            self._limiter._refused(rank)

    def ended(self) -> None:
        """It ended in another way, or nobody waits for it any more."""
        self._end()

    def _end(self) -> bool:
        if self._has_ended:
            return False
        self._has_ended = True
        self._limiter.unanswered -= 1
        return True


class _Latency:
    """Whether answers take longer than the first ones, when no other request was waiting."""

    def __init__(self, *, until: int) -> None:
        """`until`: how many answers make up the reference."""
        self._first: list[float] = []
        self._until = max(until, 1)
        self._recent = 0.0

    def add(self, seconds: float) -> None:
        if len(self._first) < self._until:
            self._first.append(seconds)
            self._recent = sum(self._first) / len(self._first)
        else:
            self._recent += _SMOOTHING * (seconds - self._recent)

    @property
    def has_grown(self) -> bool:
        if len(self._first) < self._until:
            return False
        reference = sum(self._first) / len(self._first)
        return self._recent > _SLOWER * reference + _TOLERANCE


class Limiter:
    """A semaphore whose size halves on throttling and grows back by one per `size` answers.

    Additive increase, multiplicative decrease, as TCP does (Chiu and Jain, 1989). An adaptive limiter begins below its
    maximum and grows faster, by half an answer each, until the provider refuses a request or answers more slowly (TCP's
    slow start). It never grows unless somebody waits for a place.

    An adaptive limiter also finds out how many requests the provider allows at once. The rank of a request is the
    number of requests in flight when it arrived. If at least half of those of a rank and above were refused lately,
    so many are not allowed, and the size goes just below. Other refusals halve it: they depend on something else.
    """

    def __init__(self, maximum: int, *, start: int | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        """Begins at `start`.

        Args:
            maximum: The largest size, at least 1.
            start: The first size of an adaptive limiter, 1 to `maximum`; None begins at the maximum.
            clock: Only goes forward.
        """
        self._maximum = self._ceiling = float(maximum)
        self._size = self._first = float(maximum if start is None else start)
        self._minimum = max(1.0, self._size / _FLOOR)
        self._is_adaptive = start is not None
        self._is_searching = self._is_adaptive
        self._latency = _Latency(until=int(self._size))
        self._clock = clock
        self._shrunk_at = self._limited_at = float("-inf")
        self._in_flight = 0
        self._outcomes: deque[tuple[int, bool]] = deque(maxlen=_OUTCOMES)
        """The rank of each of the latest requests, and whether it was refused."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.peak = 0
        """The most that was ever in flight."""
        self.unanswered = 0
        """Requests in flight."""
        self.refusals = 0
        """How many requests the provider refused."""

    @classmethod
    def of(cls, setting: int | None, *, remote: bool = False) -> Limiter:
        """The limiter for the setting `concurrency`: a fixed number, or None for `auto`.

        Args:
            setting: The setting.
            remote: Whether an agent answers through a server.
        """
        if setting is not None:
            return cls(setting)
        return cls(AUTO_MAXIMUM, start=AUTO_START_REMOTE if remote else AUTO_START)

    @property
    def size(self) -> int:
        """How much may be in flight now."""
        return int(self._size)

    @property
    def most(self) -> int:
        """How much may ever be in flight."""
        return int(self._maximum)

    @property
    def summary(self) -> str:
        """What was reached, e.g. `32 at once at most, 3 requests refused`."""
        refused = f", {plural(self.refusals, 'request')} refused" if self.refusals else ""
        return f"{self.peak} at once at most{refused}"

    def asked(self) -> Request:
        """A request was sent to the provider."""
        return Request(self)

    def answered(self) -> None:
        """Raises the size a little: the provider does what it is asked for."""
        if self._is_adaptive:
            self._grow()
        else:
            self._size = min(self._maximum, self._size + 1 / self._size)
        self._wake()

    def _refused(self, rank: int) -> None:
        now = self._clock()
        self.refusals += 1
        if self._is_adaptive:
            self._is_searching = False
            above = [refused for other, refused in self._outcomes if other >= rank]
            if len(above) == 1:
                return  # Nobody knows yet whether it is bad luck. If not, the next one is refused as well.
            if 2 * sum(above) >= len(above):
                # A run that computes has a place, but no request in the provider's hands.
                places = self._in_flight / (self.unanswered + 1)
                self._ceiling = max(1.0, min(self._ceiling, (rank - 1) * places))
                self._size = min(self._size, self._ceiling)
                self._shrunk_at = self._limited_at = now
        if now - self._shrunk_at >= _PAUSE:
            self._size = min(self._size, max(self._minimum, self._size / 2))
            self._shrunk_at = now

    def _grow(self) -> None:
        # The first answers set the reference at the first size: below it, others are not slow because of the load.
        if not self._waiting or (self._size >= self._first and self._latency.has_grown):
            return
        if self._clock() - self._limited_at >= _FORGOTTEN:
            self._ceiling = min(self._maximum, self._ceiling + 1 / self._size)
        step = _SEARCH_STEP if self._is_searching else 1 / self._size
        self._size = max(self._size, min(self._ceiling, self._size + step))

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Place]:
        """Waits for a place and holds it. First come, first served."""
        await self._enter()
        begun = self._clock()
        place = Place(self)
        try:
            yield place
            # An answer to what began before the shrinking says nothing about the new size.
            if self._shrunk_at < begun:
                self.answered()
        finally:
            place.close()

    def _leave(self) -> None:
        self._in_flight -= 1
        self._wake()

    async def _enter(self, *, first: bool = False) -> None:
        if self._in_flight < self.size:
            self._take()
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
        """Hands free places over; a request that comes in between can't take them away."""
        while self._in_flight < self.size and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                self._take()
                turn.set_result(None)

    def _take(self) -> None:
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)
