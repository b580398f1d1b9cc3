"""Faults between agent-eval and a model, on real sockets: retries, waits, counts and deadlines."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from typing import Any

import pytest
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from models_support import GOOD, MODEL, ask, failure_of, pool_at, quick

from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import Budget
from agent_eval.net.retry import Retry

DOWN = Fault(kind=503, message="overloaded")


def good(_: GenerateRequest) -> Answer:
    return Answer.text(GOOD)


async def votes(pool: Any, count: int) -> Counter[str]:
    """Sends `count` requests concurrently and counts the outcomes."""

    async def vote(sample: int) -> str:
        try:
            reply = await pool.generate(ask(sample=sample, case_id=f"case-{sample % 10}", purpose="p"))
        except ModelFailure as failure:
            return failure.kind
        assert isinstance(reply.value, dict)
        return str(reply.value["verdict"])

    return Counter(await asyncio.gather(*(vote(sample) for sample in range(count))))


@pytest.mark.parametrize("kind", [408, 429, 500, 502, 503, 504, "reset", "garbage"])
async def test_faults__are_retried(kind: Any) -> None:
    with FakeGemini(good, faults=[Fault(kind=kind)] * 2) as server:
        async with pool_at(server) as pool:
            reply = await pool.generate(ask())
    assert (reply.calls, server.stats.requests) == (3, 3)
    assert pool.meter.spent.calls == 3


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_faults__are_not_retried(status: int) -> None:
    with FakeGemini(good, faults=[Fault(kind=status, message="no")] * 9) as server:
        async with pool_at(server) as pool:
            failure = await failure_of(pool, ask())
            assert (failure.kind, server.stats.requests) == ("invalid-request", 1)
            assert f"{status}: no" in failure.message
            again = await failure_of(pool, ask(sample=1))
    # A wrong key fails all later calls; a rejected request doesn't.
    assert server.stats.requests == (2 if status == 400 else 1)
    assert "no" in again.message


@pytest.mark.parametrize(
    ("fault", "least"), [(Fault(kind=429, retry_after=1), 1.0), (Fault(kind=429, retry_info=0.6), 0.6)]
)
async def test_faults__the_delay_of_a_header_or_of_geminis_error_is_obeyed(fault: Fault, least: float) -> None:
    with FakeGemini(good, faults=[fault]) as server:
        async with pool_at(server) as pool:
            started = time.monotonic()
            await pool.generate(ask())
    assert least <= time.monotonic() - started < 20


async def test_faults__one_cause_is_one_message() -> None:
    """Reports group by message."""
    last = Fault(kind=503, retry_after=3600)
    with FakeGemini(good, faults=[last, Fault(kind=503), last]) as server:
        async with pool_at(server) as pool:
            failures = [await failure_of(pool, ask(sample=number)) for number in range(2)]
    assert [failure.calls for failure in failures] == [1, 2]
    assert len({failure.message for failure in failures}) == 1


async def test_faults__an_exhausted_quota_stops_all_calls() -> None:
    """After a long Retry-After no other call is sent; calls without enough time fail at once."""
    with FakeGemini(good, faults=[Fault(kind=429, retry_after=3600)] * 50) as server:
        async with pool_at(server) as pool:
            assert await votes(pool, 200) == {"unavailable": 200}
    assert server.stats.requests <= 16, "only those in flight when the first was throttled"


async def test_faults__a_server_that_is_not_there() -> None:
    with FakeGemini(good) as server:
        pass
    async with pool_at(server, quick(retry=Retry(attempts=2, first=0.01))) as pool:
        failure = await failure_of(pool, ask())
    assert (failure.kind, failure.calls) == ("unavailable", 2)
    assert f"` at {server.url}: no connection" in failure.message


async def test_faults__a_proxy_with_an_invalid_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:x/secret@127.0.0.1:1")
    with FakeGemini(good) as server:
        async with pool_at(server) as pool:
            failure = await failure_of(pool, ask())
    assert (failure.kind, failure.calls) == ("invalid-request", 0)
    assert "a proxy that the job's variables name is invalid" in failure.message and "secret" not in str(failure)


async def test_throttling__lowers_and_restores_concurrency() -> None:
    busy = itertools.count()

    def script(_: GenerateRequest) -> Answer | Fault:
        return Fault(kind=429, retry_after=0) if next(busy) < 16 else Answer.text(GOOD)

    with FakeGemini(script, latency=0.01) as server:
        async with pool_at(server) as pool:
            asking = asyncio.create_task(votes(pool, 400))
            async with asyncio.timeout(20):
                while (pool.concurrency(MODEL) or 99) > 9:
                    await asyncio.sleep(0.005)
            assert await asking == {"yes": 400}
            assert 1 <= (pool.concurrency(MODEL) or 0) <= 9, "half of those that were refused at once were too many"
    assert server.stats.peak_in_flight <= 16


async def test_deadline__of_a_call() -> None:
    with FakeGemini(lambda _: Fault(kind="hang")) as server:
        async with pool_at(server, quick(attempt_timeout=0.2, call_timeout=0.7)) as pool:
            started = time.monotonic()
            failure = await failure_of(pool, ask())
            took = time.monotonic() - started
    assert failure.kind == "deadline"
    assert 0.4 < took < 20
    assert server.stats.requests > 1, "an attempt that times out is repeated"


async def test_deadline__of_the_run_ends_waiting_calls() -> None:
    with FakeGemini(lambda _: Fault(kind="hang")) as server:
        settings = quick(attempt_timeout=30, call_timeout=60, concurrency=2)
        started = time.monotonic()
        async with pool_at(server, settings, until=started + 1.5) as pool:
            assert await votes(pool, 20) == {"deadline": 20}
            assert time.monotonic() - started < 20
    assert server.stats.requests == 2


async def test_outage__is_detected_once_and_ends_all_calls() -> None:
    with FakeGemini(lambda _: DOWN) as server:
        settings = quick(retry=Retry(attempts=3, first=0.01), outage=0.05, concurrency=4)
        async with pool_at(server, settings) as pool:
            assert await votes(pool, 300) == {"unavailable": 300}
            failures = {(await failure_of(pool, ask(sample=sample))).message for sample in range(5)}
    assert len(failures) == 1
    assert "is down" in failures.pop()
    assert server.stats.requests < 300, "fewer than one per request"


async def test_budget__calls_are_exact_with_retries_and_many_in_flight() -> None:
    numbers = itertools.count()

    def script(_: GenerateRequest) -> Answer | Fault:
        # The first ones are answered: when the budget is used up, most of what is known so far must not be failures.
        return DOWN if next(numbers) in {6, 9, 12, 15, 18} else Answer.text(GOOD)

    with FakeGemini(script, latency=0.01) as server:
        async with pool_at(server, quick(budget=Budget(max_calls=20))) as pool:
            counts = await votes(pool, 100)
            failure = await failure_of(pool, ask())
    assert server.stats.requests == 20
    assert counts["yes"] + counts["budget"] == 100
    assert 5 <= counts["yes"] <= 20
    assert failure.kind == "budget"
    assert f"` at {server.url}: the provider answered 503" in failure.message
    assert failure.message.endswith("The budget of 20 judge calls is used up. Failed calls count.")


@pytest.mark.parametrize("budget", [Budget(max_tokens=3000), Budget(max_cost=3000 * 2.5 / 1e6)])
async def test_budget__tokens_and_cost_hold_with_many_in_flight(budget: Budget) -> None:
    usage = {"promptTokenCount": 0, "candidatesTokenCount": 100, "totalTokenCount": 100}
    with FakeGemini(lambda _: Answer(parts=[{"text": GOOD}], usage=usage), latency=0.01) as server:
        async with pool_at(server, quick(budget=budget)) as pool:
            counts = await votes(pool, 100)
    assert 29 <= counts["yes"] <= 30
    assert counts["yes"] + counts["budget"] == 100
    assert pool.meter.spent.tokens <= 3000


async def test_budget__long_answers_do_not_overrun() -> None:
    """Thinking models: 4,000 tokens per answer, 500 estimated, 16 slots. The budget was overrun 3.7 times."""
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 20, "thoughtsTokenCount": 4000, "totalTokenCount": 4030}
    with FakeGemini(lambda _: Answer(parts=[{"text": GOOD}], usage=usage), latency=0.01) as server:
        async with pool_at(server, quick(budget=Budget(max_tokens=20_000))) as pool:
            counts = await votes(pool, 100)
    assert counts["yes"] == 4
    assert pool.meter.spent.tokens <= 20_000


async def test_cancelling__leaves_the_pool_usable() -> None:
    with FakeGemini(good, faults=[Fault(kind="hang")]) as server:
        async with pool_at(server, quick(budget=Budget(max_tokens=100_000))) as pool:
            asking = asyncio.create_task(votes(pool, 100))
            while server.stats.requests < 1:  # The first call runs alone, since its cost is unknown.
                await asyncio.sleep(0.005)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            assert await votes(pool, 50) == {"yes": 50}
