"""Limits hold, also with many attempts in flight, and once reached they stay."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.models._limits import Estimate, Meter
from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import Budget


def estimate(tokens: float, *, most: float | None = None) -> Estimate:
    """The maximum defaults to the expected usage."""
    most = tokens if most is None else most
    return Estimate(tokens=tokens, cost=tokens / 1000, most_tokens=most, most_cost=most / 1000)


async def attempt(meter: Meter, *, expected: float, used: float) -> None:
    reservation = await meter.reserve(lambda: estimate(expected))
    await asyncio.sleep(0)
    reservation.settle(used, used / 1000)


async def refused(meter: Meter, *, expected: float = 1.0) -> str:
    with pytest.raises(ModelFailure) as failure:
        await meter.reserve(lambda: estimate(expected))
    assert failure.value.kind == "budget"
    return f"{failure.value.message} {failure.value.hint}"


async def test_meter__calls_are_exact() -> None:
    meter = Meter(Budget(max_calls=20))
    results = await asyncio.gather(*(attempt(meter, expected=10, used=10) for _ in range(100)), return_exceptions=True)
    assert sum(result is None for result in results) == 20
    assert meter.spent.calls == 20
    message = await refused(meter)
    assert "20 judge calls" in message and "max-judge-calls" in message


async def test_meter__waits_for_attempts_in_flight_before_it_refuses() -> None:
    """Eight in flight are expected to use 800 of 1000, and use 80: the budget suffices for all others."""
    meter = Meter(Budget(max_tokens=1000))
    await asyncio.gather(*(attempt(meter, expected=100, used=10) for _ in range(50)))
    assert meter.spent.tokens == 500


async def test_meter__a_refusal_is_final() -> None:
    meter = Meter(Budget(max_tokens=100))
    assert "100 tokens" in await refused(meter, expected=101)
    await refused(meter, expected=1)
    assert meter.failure is not None and meter.spent.calls == 0


async def test_meter__unknown_usage_counts_as_estimated() -> None:
    meter = Meter(Budget(max_tokens=100))
    (await meter.reserve(lambda: estimate(60))).settle(None, None)
    assert meter.spent.tokens == 60
    await refused(meter, expected=41)


async def test_meter__calls_the_estimate_again_after_a_wait() -> None:
    """The first estimate is too high; waiting attempts must not be refused because of it."""
    meter = Meter(Budget(max_tokens=100))
    guess = 60.0
    first = await meter.reserve(lambda: estimate(guess))
    waiting = asyncio.create_task(meter.reserve(lambda: estimate(guess)))
    await asyncio.sleep(0)
    guess = 50.0
    first.settle(50.0, 0.0)
    assert (await waiting).estimate.tokens == 50.0


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 50)), max_size=40), st.integers(0, 300))
async def test_meter__overrun_is_bounded_by_estimate_errors(attempts: list[tuple[int, int]], limit: int) -> None:
    """For any estimates, usage and order of completion."""
    meter = Meter(Budget(max_tokens=limit))
    await asyncio.gather(
        *(attempt(meter, expected=expected, used=used) for expected, used in attempts), return_exceptions=True
    )
    in_flight_errors = sum(max(0, used - expected) for expected, used in attempts)
    assert meter.spent.tokens <= limit + in_flight_errors
    if all(used <= expected for expected, used in attempts):
        assert meter.spent.tokens <= limit


async def test_meter__near_the_limit_runs_one_at_a_time() -> None:
    """Two expected usages fit, two maximum usages don't."""
    meter = Meter(Budget(max_tokens=1000))
    first = await meter.reserve(lambda: estimate(300, most=800))
    waiting = asyncio.create_task(meter.reserve(lambda: estimate(300, most=800)))
    await asyncio.sleep(0)
    assert not waiting.done()
    first.settle(800, 0.8)
    with pytest.raises(ModelFailure, match="800 tokens are spent, and the next call does not fit"):
        await waiting


@pytest.mark.parametrize(
    ("calls", "failing", "kind", "hint"),
    [
        (8, 8, "unavailable", "Start the job again when the provider is back. Then raise `max-judge-calls`"),
        (8, 2, "budget", "Raise `max-judge-calls`."),
    ],
)
async def test_meter__names_the_calls_that_failed_before_the_budget(
    calls: int, failing: int, kind: str, hint: str
) -> None:
    meter = Meter(Budget(max_calls=calls))
    for number in range(calls):
        reservation = await meter.reserve(lambda: estimate(1))
        if number < failing:
            meter.failed(ModelFailure("unavailable", "`m` at http://localhost: no answer within 30 s"))
        reservation.settle(1, 0.0)
    with pytest.raises(ModelFailure) as failure:
        await meter.reserve(lambda: estimate(1))
    assert failure.value.kind == kind
    assert failure.value.message == (
        "Model calls failed (`m` at http://localhost: no answer within 30 s). "
        "The budget of 8 judge calls is used up. Failed calls count."
    )
    assert (failure.value.hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("budget", "limit"),
    [
        (Budget(max_tokens=1), "The budget of 1 token is used up: 0 tokens are spent"),
        (Budget(max_cost=1e-7), "The budget of $0.0000001 is used up: $0 is spent"),
        (Budget(max_cost=2.5), "The budget of $2.5 is used up"),
    ],
)
async def test_meter__limits_are_written_out(budget: Budget, limit: str) -> None:
    assert limit in await refused(Meter(budget), expected=10_000)
