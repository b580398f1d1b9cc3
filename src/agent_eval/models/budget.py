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


class Meter:
    """Counts, and says no.

    An attempt reserves what it will probably use; where what is reserved could exceed a limit, but what is used
    doesn't, it waits until others have ended. So a limit is exceeded by what estimates were short of at most, not by
    all that happens to be in flight. Once a limit has said no, it says no to all that follows.
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

    async def reserve(self, estimate: Callable[[], tuple[float, float]]) -> Reservation:
        """Asks for leave to send an attempt, and counts it.

        Args:
            estimate: Tells how many tokens it will probably use, and how many US dollars it will probably cost. It is
                asked anew after a wait: more is known by then.

        Raises:
            ModelFailure: `budget`.
        """
        while True:
            tokens, cost = estimate()
            if self._failure is None:
                self._failure = self._over(tokens, cost)
            if self._failure is not None:
                raise ModelFailure(self._failure.kind, self._failure.message, self._failure.hint)
            if not self._uncertain(tokens, cost):
                break
            self._changed.clear()
            await self._changed.wait()
        self.spent.calls += 1
        self._reserved.calls += 1
        self._reserved.tokens += tokens
        self._reserved.cost += cost
        return Reservation(meter=self, tokens=tokens, cost=cost)

    def settle(self, reservation: Reservation, tokens: float, cost: float) -> None:
        """Replaces an estimate by what was used."""
        self._reserved.calls -= 1
        self._reserved.tokens -= reservation.tokens
        self._reserved.cost -= reservation.cost
        self.spent.tokens += tokens
        self.spent.cost += cost
        self._changed.set()

    def _over(self, tokens: float, cost: float) -> ModelFailure | None:
        budget, spent = self._budget, self.spent
        if budget.max_calls is not None and spent.calls >= budget.max_calls:
            return _used_up(f"{budget.max_calls:,} judge calls", "max-judge-calls")
        if budget.max_tokens is not None and spent.tokens + tokens > budget.max_tokens:
            return _used_up(f"{budget.max_tokens:,} tokens", "max-tokens")
        if budget.max_cost is not None and spent.cost + cost > budget.max_cost:
            return _used_up(f"${budget.max_cost:g}", "max-cost")
        return None

    def _uncertain(self, tokens: float, cost: float) -> bool:
        budget, spent, reserved = self._budget, self.spent, self._reserved
        if not reserved.calls:
            return False
        too_many = budget.max_tokens is not None and spent.tokens + reserved.tokens + tokens > budget.max_tokens
        too_dear = budget.max_cost is not None and spent.cost + reserved.cost + cost > budget.max_cost
        return too_many or too_dear


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """Leave to send one attempt; settled exactly once."""

    meter: Meter
    tokens: float
    cost: float

    def settle(self, tokens: float | None, cost: float | None) -> None:
        """Tells what was used; None: unknown, so what was reserved counts."""
        self.meter.settle(self, self.tokens if tokens is None else tokens, self.cost if cost is None else cost)


def _used_up(what: str, option: str) -> ModelFailure:
    return ModelFailure("budget", f"The budget of {what} is used up.", f"Raise `{option}`, or judge less.")
