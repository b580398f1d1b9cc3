"""How much is in flight: never more than allowed, half after a refusal, back again after quiet."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from agent_eval.core.limiter import AUTO_MAXIMUM, AUTO_START, Limiter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_limiter__holds_the_maximum() -> None:
    limiter = Limiter(3)
    running = peak = 0

    async def work() -> None:
        nonlocal running, peak
        async with limiter.slot():
            running += 1
            peak = max(peak, running)
            await asyncio.sleep(0)
            running -= 1

    await asyncio.gather(*(work() for _ in range(20)))
    assert (peak, running) == (3, 0)


async def test_limiter__halves_once_for_what_was_sent_together_and_never_below_a_quarter() -> None:
    clock = Clock()
    limiter = Limiter(8, clock=clock)
    sizes = []
    for now in (0.0, 1.0, 4.9, 5.0, 9.9, 10.0, 15.0):
        clock.now = now
        limiter.throttled()
        sizes.append(limiter.size)
    assert sizes == [4, 4, 4, 2, 2, 2, 2]


async def test_limiter__a_steady_share_of_refusals_does_not_pin_it_to_the_minimum() -> None:
    clock = Clock()
    limiter = Limiter(8, clock=clock)
    sizes = []
    async with limiter.slot():  # a run during which every third attempt is refused, as long as it lasts
        for second in range(1, 61):
            clock.now = second
            limiter.throttled()
            limiter.answered()
            limiter.answered()
            sizes.append(limiter.size)
    assert min(sizes) >= 2
    assert sum(sizes) / len(sizes) >= 3


async def test_place__is_lent_while_its_holder_waits_and_taken_back_first() -> None:
    limiter = Limiter(1)
    order: list[str] = []

    async def patient() -> None:
        async with limiter.slot() as place:
            place.lend()
            await other_in.wait()
            await place.take_back()
            order.append("patient")

    async def other(name: str) -> None:
        async with limiter.slot():
            other_in.set()
            await asyncio.sleep(0.05)
            order.append(name)

    other_in = asyncio.Event()
    async with asyncio.timeout(10):
        await asyncio.gather(patient(), other("first"), other("second"))
    assert order == ["first", "patient", "second"]


async def test_place__that_is_taken_back_after_the_end_is_free_for_others() -> None:
    limiter = Limiter(1)
    async with asyncio.timeout(10):
        async with limiter.slot() as place:
            place.lend()
            async with limiter.slot():
                late = asyncio.create_task(place.take_back())
                await asyncio.sleep(0)
                place.close()
        await late
        async with limiter.slot():
            pass


async def test_limiter__grows_back_by_one_a_round() -> None:
    clock = Clock()
    limiter = Limiter(4, clock=clock)
    async with limiter.slot():
        limiter.throttled()
        clock.now = 1.0
    assert limiter.size == 2, "what began before the refusal proves nothing"
    sizes = []
    for _ in range(8):
        clock.now += 1
        async with limiter.slot():
            pass
        sizes.append(limiter.size)
    assert sizes[1:3] == [2, 3] and sizes[-1] == 4


async def test_limiter__a_cancelled_wait_passes_its_turn_on() -> None:
    limiter = Limiter(1)
    order: list[str] = []

    async def work(name: str) -> None:
        async with limiter.slot():
            order.append(name)
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(work(name)) for name in "abc"]
    await asyncio.sleep(0)
    tasks[1].cancel()
    await asyncio.wait_for(asyncio.gather(tasks[0], tasks[2]), timeout=5)
    with pytest.raises(asyncio.CancelledError):
        await tasks[1]
    assert order == ["a", "c"]


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next timer, so that simulations take no time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now = max(self.now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


@dataclass
class Provider:
    """Answers after `seconds`; refuses what exceeds `allowed` requests in flight."""

    allowed: int
    seconds: float = 0.2
    slower: float = 0.0
    """Seconds that each request in flight adds to each answer: a server that queues."""
    in_flight: int = 0
    calls: int = 0
    refused: int = 0

    async def ask(self, limiter: Limiter) -> None:
        while True:
            self.calls += 1
            if self.in_flight >= self.allowed:
                self.refused += 1
                limiter.throttled()
                await asyncio.sleep(1.0)
                continue
            self.in_flight += 1
            seconds = self.seconds + self.slower * self.in_flight
            await asyncio.sleep(seconds)
            self.in_flight -= 1
            limiter.answered(seconds)
            return


def simulate(provider: Provider, *, runs: int, turns: int = 2, setting: int | None = None) -> tuple[Limiter, float]:
    loop = VirtualTime()

    async def suite() -> Limiter:
        limiter = Limiter(AUTO_MAXIMUM, start=AUTO_START, clock=loop.time) if setting is None else Limiter(setting)

        async def run() -> None:
            async with limiter.slot():
                for _ in range(turns):
                    await provider.ask(limiter)

        await asyncio.gather(*(run() for _ in range(runs)))
        return limiter

    try:
        return loop.run_until_complete(suite()), loop.now
    finally:
        loop.close()


def test_adaptive__grows_to_the_maximum_if_nothing_is_refused() -> None:
    limiter, seconds = simulate(Provider(allowed=1_000), runs=400)
    _, fixed = simulate(Provider(allowed=1_000), runs=400, setting=8)
    assert limiter.peak == AUTO_MAXIMUM
    assert fixed / seconds > 5


@pytest.mark.parametrize("runs", [50, 200, 1_000])
def test_adaptive__few_requests_are_refused_by_a_provider_that_allows_ten(runs: int) -> None:
    provider = Provider(allowed=10)
    limiter, seconds = simulate(provider, runs=runs)
    fixed = Provider(allowed=10)
    _, fixed_seconds = simulate(fixed, runs=runs, setting=8)
    assert fixed.refused == 0
    assert 0 < provider.refused <= 0.05 * provider.calls
    assert seconds < 1.3 * fixed_seconds
    assert limiter.summary == f"{limiter.peak} at once at most, {provider.refused} requests refused"


def test_adaptive__stops_growing_when_answers_become_slower() -> None:
    limiter, _ = simulate(Provider(allowed=1_000, seconds=0.05, slower=0.02), runs=400)
    assert AUTO_START < limiter.peak < AUTO_MAXIMUM / 2


def test_adaptive__does_not_grow_without_demand() -> None:
    limiter, _ = simulate(Provider(allowed=1_000), runs=AUTO_START)
    assert (limiter.peak, limiter.size) == (AUTO_START, AUTO_START)


def test_adaptive__never_below_a_quarter_of_its_start() -> None:
    provider = Provider(allowed=1)
    limiter, _ = simulate(provider, runs=60)
    assert limiter.size >= AUTO_START // 4
