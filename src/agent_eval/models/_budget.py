"""Limits on calls, tokens and cost: checked before an attempt is sent, so that they hold with many in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from agent_eval.models.protocol import ModelFailure
from agent_eval.models.settings import Budget


@dataclass(kw_only=True)
class Spent:
    """What has been used."""

    calls: int = 0
    tokens: float = 0
    cost: float = 0.0
    """US dollars."""


UNKNOWN = 1e9
"""Tokens or dollars: more than any budget allows. Finite, so that it can be added and subtracted."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What an attempt will use."""

    tokens: float
    """Probably."""
    cost: float
    """Probably, in US dollars."""
    most_tokens: float
    """At most, as far as is known; UNKNOWN before any answer was seen."""
    most_cost: float
    """At most, in US dollars."""


class Meter:
    """Counts calls, tokens and cost, and refuses what would exceed a limit.

    An attempt is refused if what was spent and what it probably uses exceed a limit. While others are in flight it
    waits, if all of them together could exceed the limit at their most. So the first attempt goes alone, more follow
    as answers show what one uses, and near the limit they go one by one: a limit is exceeded by what the attempts in
    flight use beyond their most. Once a limit has refused an attempt, it refuses all that follow.
    """

    def __init__(self, budget: Budget) -> None:
        """Begins with nothing spent."""
        self._budget = budget
        self._reserved = Spent()
        self._failure: ModelFailure | None = None
        self._changed = asyncio.Event()
        self.spent = Spent()

    @property
    def failure(self) -> ModelFailure | None:
        """Why nothing more is sent."""
        return self._failure

    async def reserve(self, estimate: Callable[[], Estimate]) -> Reservation:
        """Asks for leave to send an attempt, and counts it.

        Args:
            estimate: What the attempt will use. Called again after a wait: more is known by then.

        Raises:
            ModelFailure: `budget`.
        """
        while True:
            expected = estimate()
            if self._failure is None:
                self._failure = self._over(expected)
            if self._failure is not None:
                raise ModelFailure(self._failure.kind, self._failure.message, self._failure.hint)
            if not self._uncertain(expected):
                break
            self._changed.clear()
            await self._changed.wait()
        self.spent.calls += 1
        self._reserved.calls += 1
        self._reserved.tokens += expected.most_tokens
        self._reserved.cost += expected.most_cost
        return Reservation(meter=self, estimate=expected)

    def settle(self, reservation: Reservation, tokens: float, cost: float) -> None:
        """Replaces an estimate by what was used."""
        self._reserved.calls -= 1
        self._reserved.tokens -= reservation.estimate.most_tokens
        self._reserved.cost -= reservation.estimate.most_cost
        self.spent.tokens += tokens
        self.spent.cost += cost
        self._changed.set()

    def _over(self, expected: Estimate) -> ModelFailure | None:
        budget, spent = self._budget, self.spent
        if budget.max_calls is not None and spent.calls >= budget.max_calls:
            return _used_up(f"{budget.max_calls:,} judge calls", "", "max-judge-calls")
        if budget.max_tokens is not None and spent.tokens + expected.tokens > budget.max_tokens:
            return _used_up(f"{budget.max_tokens:,} tokens", f"{spent.tokens:,.0f} tokens are spent", "max-tokens")
        if budget.max_cost is not None and spent.cost + expected.cost > budget.max_cost:
            return _used_up(f"${budget.max_cost:g}", f"${spent.cost:.3g} is spent", "max-cost")
        return None

    def _uncertain(self, expected: Estimate) -> bool:
        budget, spent, reserved = self._budget, self.spent, self._reserved
        if not reserved.calls:
            return False
        tokens = spent.tokens + reserved.tokens + expected.most_tokens
        cost = spent.cost + reserved.cost + expected.most_cost
        too_many = budget.max_tokens is not None and tokens > budget.max_tokens
        return too_many or (budget.max_cost is not None and cost > budget.max_cost)


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Leave to send one attempt; settled exactly once."""

    meter: Meter
    estimate: Estimate

    def settle(self, tokens: float | None, cost: float | None) -> None:
        """Books what was used; None: unknown, so what was expected counts."""
        expected = self.estimate
        self.meter.settle(self, expected.tokens if tokens is None else tokens, expected.cost if cost is None else cost)


def _used_up(what: str, spent: str, option: str) -> ModelFailure:
    detail = f": {spent}, and the next call does not fit" if spent else ""
    return ModelFailure("budget", f"The budget of {what} is used up{detail}.", f"Raise `{option}`, or judge less.")
