"""How much is in flight: never more than allowed, half after a refusal, back again after quiet."""

from __future__ import annotations

import asyncio
import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent_eval_scoring.core.limiter import AUTO_MAXIMUM, AUTO_START, Limiter, Place
from agent_eval_scoring.core.text import plural


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_limiter__halves_once_for_what_was_sent_together_and_never_below_a_quarter() -> None:
    clock = Clock()
    limiter = Limiter(8, clock=clock)
    for now, size in ((0.0, 4), (1.0, 4), (4.9, 4), (5.0, 2), (9.9, 2), (10.0, 2), (15.0, 2)):
        clock.now = now
        limiter.asked().refused()
        assert limiter.size == size


async def test_limiter__a_steady_share_of_refusals_does_not_pin_it_to_the_minimum() -> None:
    clock = Clock()
    limiter = Limiter(8, clock=clock)
    sizes = []
    async with limiter.slot():  # a run during which every third attempt is refused, as long as it lasts
        for second in range(1, 61):
            clock.now = second
            limiter.asked().refused()
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
        limiter.asked().refused()
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
    """Answers after about `seconds`; refuses what exceeds `allowed` requests in flight."""

    allowed: int = 1_000
    seconds: float = 0.2
    down: tuple[float, float] = (0.0, 0.0)
    """From when until when it refuses everything."""
    chance: float = 0.0
    """Probability of a refusal, whatever is in flight."""
    slower: float = 0.0
    """Seconds that each request in flight adds to each answer: a server that queues."""
    way: float = 0.0
    """Seconds that a request or an answer travels, about."""
    first: int = 0
    """How many of the first answers take `seconds`, if others take `then`."""
    then: float = 0.0
    """Seconds of all answers after the first ones; 0 for no difference."""
    in_flight: int = 0
    calls: int = 0
    refused: int = 0
    chances: random.Random = field(default_factory=lambda: random.Random(1))

    async def ask(self) -> bool:
        """Whether it answered."""
        await self._travel()
        self.calls += 1
        is_up = not self.down[0] <= asyncio.get_running_loop().time() < self.down[1]
        answers = is_up and self.in_flight < self.allowed and self.chances.random() >= self.chance
        if answers:
            self.in_flight += 1
            seconds = self.then if self.then and self.calls > self.first else self.seconds
            seconds += self.slower * self.in_flight
            await asyncio.sleep(seconds if not self.way else seconds * self.chances.uniform(0.8, 1.2))
            self.in_flight -= 1
        else:
            self.refused += 1
        await self._travel()
        return answers

    async def _travel(self) -> None:
        if self.way:
            await asyncio.sleep(self.way * self.chances.uniform(0.5, 1.5))

    @property
    def share(self) -> float:
        """Refused calls, 0 to 1."""
        return self.refused / self.calls


def simulate(
    provider: Provider, *, runs: int = 200, computes: float = 0.0, setting: int | None = None
) -> tuple[Limiter, float]:
    """Runs of two turns, each a model call: all sessions are in one process, so one of them computes at a time.

    A run whose call was refused leaves its place to others during the pause, as in the gate.
    """
    loop = VirtualTime()
    chances = random.Random(2)

    async def suite() -> Limiter:
        limiter = Limiter(setting or AUTO_MAXIMUM, start=AUTO_START if setting is None else None, clock=loop.time)
        core = asyncio.Lock()
        waiting = iter(range(runs))

        async def attempt() -> bool:
            request = limiter.asked()
            answered = await provider.ask()
            if not answered:
                request.refused()
                return False
            async with core:
                request.answered()
                limiter.answered()
                await asyncio.sleep(computes / 2)
            return True

        async def turn(place: Place) -> None:
            async with core:
                await asyncio.sleep(computes / 2)
            pause = 1.0
            while not await attempt():
                place.lend()
                await asyncio.sleep(pause * chances.uniform(0.5, 1.0))
                pause = min(2 * pause, 15.0)
                await place.take_back()

        async def worker() -> None:
            for _ in waiting:
                async with limiter.slot() as place:
                    await turn(place)
                    await turn(place)

        await asyncio.gather(*(worker() for _ in range(min(runs, 5 * limiter.most))))
        return limiter

    try:
        return loop.run_until_complete(suite()), loop.now
    finally:
        loop.close()


def test_adaptive__grows_to_the_maximum_if_nothing_is_refused() -> None:
    limiter, seconds = simulate(Provider(), runs=400)
    _, fixed = simulate(Provider(), runs=400, setting=8)
    assert limiter.peak == AUTO_MAXIMUM
    assert fixed / seconds > 5


QUICK = {(2.0, 0.0, 0.02)}
"""The others take 15 s of CPU together."""


@pytest.mark.parametrize(
    ("seconds", "computes", "way"),
    [
        pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow)
        for each in itertools.product((0.05, 0.2, 0.5, 2.0), (0.0, 0.012, 0.1), (0.0, 0.02))
    ],
)
def test_adaptive__finds_what_the_provider_allows(seconds: float, computes: float, way: float) -> None:
    """At every limit of the provider; `way` is a share of its `seconds`."""
    runs = max(200, int(20 / seconds))  # The pause after a refusal would be most of a suite of half a second.
    for allowed in (1, 2, 3, 4, 5, 6, 8, 10, 12, 13, 16, 24, 32):
        provider = Provider(allowed, seconds, way=way * seconds)
        limiter, needed = simulate(provider, runs=runs, computes=computes)
        _, best = simulate(Provider(allowed, seconds, way=way * seconds), runs=runs, computes=computes, setting=allowed)
        assert provider.share <= (0.05 if allowed >= 8 else 0.12 if allowed >= 4 else 0.34), f"{allowed} allowed"
        assert needed <= best / 0.8, f"{allowed} allowed"
        if provider.refused:
            refused = plural(provider.refused, "request")
            assert limiter.summary == f"{limiter.peak} at once at most, {refused} refused"


def test_adaptive__shrinks_below_the_fewest_that_are_refused_and_never_grows_by_a_refusal() -> None:
    clock = Clock()
    limiter = Limiter(64, start=8, clock=clock)
    for request in [limiter.asked(), limiter.asked()]:
        request.refused()
    assert limiter.size == 1
    for _ in range(10):
        limiter.asked().answered()
    clock.now = 10.0
    limiter.asked().refused()  # one in eleven of those that were alone: it is for another reason
    assert limiter.size == 1


@pytest.mark.slow
def test_adaptive__looks_for_more_again_and_again_with_few_refusals() -> None:
    provider = Provider(allowed=8)
    _, seconds = simulate(provider, runs=4_000)
    _, best = simulate(Provider(allowed=8), runs=4_000, setting=8)
    assert provider.refused > 20
    assert provider.share <= 0.01
    assert seconds < 1.05 * best


@pytest.mark.slow
@pytest.mark.parametrize(
    ("provider", "most"),
    [
        ({"down": (3.0, 8.0)}, 1.0),
        ({"down": (3.0, 8.0), "seconds": 2.0}, 1.0),
        # The first answers took 0.2 s, all others take longer: whatever is in flight.
        *(
            ({"down": (down, down + 5), "first": 8, "then": then}, 1.5)
            for down, then in itertools.product((3.0, 60.0), (0.6, 2.0))
        ),
        # Random refusals halve the size, but say nothing of how many are allowed.
        *(({"down": (3.0, 8.0), "chance": chance}, 1.75) for chance in (0.02, 0.05, 0.1)),
    ],
)
def test_adaptive__a_moment_of_refusals_does_not_keep_it_small(provider: dict[str, Any], most: float) -> None:
    """It needs at most so many times as long as if eight were allowed from the beginning."""
    adaptive, fixed = Provider(way=0.005, **provider), Provider(way=0.005, **provider)
    _, needed = simulate(adaptive, runs=1_000)
    _, eight = simulate(fixed, runs=1_000, setting=8)
    assert adaptive.refused
    assert needed < most * eight


@pytest.mark.parametrize(("chance", "mean"), [(0.01, 35), (0.05, 5), (0.2, 5)])
def test_adaptive__random_refusals_do_not_pin_it(chance: float, mean: float) -> None:
    """By Little's law, the mean of what the provider has in its hands."""
    provider = Provider(chance=chance, way=0.005)
    _, needed = simulate(provider, runs=1_000)
    assert provider.seconds * 2 * 1_000 / needed >= mean


def test_adaptive__stops_growing_when_answers_become_slower() -> None:
    limiter, _ = simulate(Provider(seconds=0.05, slower=0.02), runs=400)
    assert AUTO_START < limiter.peak < AUTO_MAXIMUM / 2


def test_adaptive__does_not_grow_without_demand() -> None:
    limiter, _ = simulate(Provider(), runs=AUTO_START)
    assert (limiter.peak, limiter.size) == (AUTO_START, AUTO_START)
