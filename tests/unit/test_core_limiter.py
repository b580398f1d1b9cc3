"""Places in flight: fewer after a refusal, one more after a quiet round, never lost."""

from __future__ import annotations

import asyncio
import random

import pytest

from agent_eval.core.limiter import Limiter


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


async def quiet_round(limiter: Limiter, clock: Clock) -> None:
    """As many requests as fit, without a refusal."""
    for _ in range(limiter.size):
        clock.now += 0.01
        async with limiter.slot():
            pass


async def test_it_halves_and_grows_back_by_one_a_round() -> None:
    clock = Clock()
    limiter = Limiter(8, clock=clock)
    limiter.throttled()
    assert limiter.size == 4
    sizes = []
    for _ in range(6):
        await quiet_round(limiter, clock)
        sizes.append(limiter.size)
    assert sizes == sorted(sizes)
    assert sizes[0] in {4, 5}
    assert limiter.size == 8


async def test_refusals_of_requests_that_were_sent_together_count_once() -> None:
    clock = Clock()
    limiter = Limiter(8, clock=clock)
    for _ in range(5):
        limiter.throttled()
        clock.now += 0.1
    assert limiter.size == 4
    clock.now += 1
    limiter.throttled()
    assert limiter.size == 2


async def test_one_place_always_stays() -> None:
    clock = Clock()
    limiter = Limiter(3, clock=clock)
    for _ in range(10):
        limiter.throttled()
        clock.now += 2
    assert limiter.size == 1
    async with asyncio.timeout(1), limiter.slot():
        pass


async def test_a_request_that_was_under_way_when_it_shrank_does_not_grow_it() -> None:
    clock = Clock()
    limiter = Limiter(4, clock=clock)
    async with limiter.slot():
        clock.now += 5
        limiter.throttled()
    assert limiter.size == 2


async def test_no_more_at_once_than_its_size_and_first_come_first_served() -> None:
    limiter = Limiter(3)
    order: list[int] = []
    now = most = 0

    async def work(number: int) -> None:
        nonlocal now, most
        async with limiter.slot():
            order.append(number)
            now += 1
            most = max(most, now)
            for _ in range(1 + number % 3):
                await asyncio.sleep(0)
            now -= 1

    await asyncio.gather(*(work(number) for number in range(30)))
    assert most == 3
    assert order == list(range(30))


async def test_nobody_overtakes_one_who_waits() -> None:
    limiter = Limiter(1)
    order = []

    async def work(name: str) -> None:
        async with limiter.slot():
            order.append(name)
            await asyncio.sleep(0)

    first = asyncio.create_task(work("first"))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(work("waiting"))
    await asyncio.sleep(0)
    await first
    # The place was handed over, but whoever waited for it has not yet run again.
    async with asyncio.timeout(1):
        await work("newcomer")
        await waiting
    assert order == ["first", "waiting", "newcomer"]


async def test_a_cancelled_task_takes_no_place_with_it() -> None:
    generator = random.Random(7)
    limiter = Limiter(4)
    now = most = 0

    async def work() -> None:
        nonlocal now, most
        async with limiter.slot():
            now += 1
            most = max(most, now)
            try:
                await asyncio.sleep(0.0005)
            finally:
                now -= 1

    tasks = [asyncio.create_task(work()) for _ in range(300)]
    while not all(task.done() for task in tasks):
        generator.choice(tasks).cancel()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks, return_exceptions=True)
    assert most <= 4
    assert now == 0
    # All four places are there again.
    async with asyncio.timeout(1), limiter.slot(), limiter.slot(), limiter.slot(), limiter.slot():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01), limiter.slot():
                pass


async def test_one_cancelled_in_the_moment_of_its_turn_hands_it_on() -> None:
    limiter = Limiter(1)
    got = asyncio.Event()

    async def hold(event: asyncio.Event) -> None:
        async with limiter.slot():
            event.set()

    async with limiter.slot():
        unlucky = asyncio.create_task(hold(asyncio.Event()))
        heir = asyncio.create_task(hold(got))
        await asyncio.sleep(0)
    unlucky.cancel()
    async with asyncio.timeout(1):
        await asyncio.gather(unlucky, return_exceptions=True)
        await heir
    assert unlucky.cancelled()
    assert got.is_set()


async def test_a_shrunk_limiter_lets_those_inside_finish_first() -> None:
    clock = Clock()
    limiter = Limiter(4, clock=clock)
    leave = asyncio.Event()
    inside = 0

    async def work() -> None:
        nonlocal inside
        async with limiter.slot():
            inside += 1
            await leave.wait()
            inside -= 1

    tasks = [asyncio.create_task(work()) for _ in range(4)]
    await asyncio.sleep(0)
    limiter.throttled()
    late = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    assert inside == 4
    leave.set()
    async with asyncio.timeout(1):
        await asyncio.gather(*tasks, late)
