"""What refuses a model's calls. Health: an outage is detected once, and all later calls fail at once. Meter: limits on
calls, tokens and cost, checked before each attempt so that they hold with many in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from agent_eval_scoring.core.text import plural
from agent_eval_scoring.models.protocol import FailureKind, ModelFailure
from agent_eval_scoring.models.settings import Budget

_JUDGED_HINT = "Run again when the provider is back; finished verdicts are reused if a judge cache is set."
_SILENT_CALLS = 3


class Health:
    """Tracks the attempts at one model."""

    def __init__(
        self, model: str, *, outage: float, enough: int, now: float, where: str = "", hint: str = _JUDGED_HINT
    ) -> None:
        """Starts healthy.

        Args:
            model: The model's name, for the message.
            outage: Seconds without an answer after which the model can count as down.
            enough: Consecutive failed attempts that are required as well.
            now: Time in seconds of a monotonic clock.
            where: Text after the name in the message, e.g. ` at http://...`.
            hint: What to do during an outage.
        """
        self.name = f"`{model}`{where}"
        """For messages."""
        self._hint = hint
        self._outage = outage
        self._enough = enough
        self._well_at = now
        self._failed = 0
        self._silent: set[Hashable] = set()
        self._failure: ModelFailure | None = None

    @property
    def failure(self) -> ModelFailure | None:
        """Why the model is unusable; None while it is usable."""
        return self._failure

    def check(self) -> None:
        """Checks that the model is usable.

        Raises:
            ModelFailure: It is unusable; the message is always the same.
        """
        if self._failure is not None:
            raise ModelFailure(self._failure.kind, self._failure.message, self._failure.hint)

    def answered(self, now: float) -> None:
        """Records an answered attempt."""
        self._well_at = now
        self._failed = 0
        self._silent.clear()

    def silent(self, call: Hashable, seconds: float) -> None:
        """Records a call that received no data for so long that several such calls mean an outage."""
        self._silent.add(call)
        # Distinct calls: one long prompt that is asked again and again is no outage.
        if self._failure is None and len(self._silent) >= _SILENT_CALLS:
            calls, duration = plural(len(self._silent), "call"), plural(round(seconds), "second")
            self._failure = ModelFailure(
                "unavailable",
                f"{self.name} is down, so no more calls were made: it sent no data to {calls} in {duration}",
                f"{self._hint} If the model needs that long, raise `--turn-timeout`.",
            )

    def failed(self, now: float, cause: str) -> None:
        """Records an attempt that failed with a retryable error."""
        if self._failed == 0:
            # The outage starts now: without calls since the last answer its true start is unknown.
            self._well_at = now
        self._failed += 1
        # Both: many failures within a second are a burst, one failure in a minute is a slow model.
        if self._failure is None and self._failed >= self._enough and now - self._well_at >= self._outage:
            seconds = plural(round(now - self._well_at), "second")
            self._failure = ModelFailure(
                "unavailable",
                f"{self.name} is down, so no more calls were made after {seconds} without an answer: {cause}",
                self._hint,
            )

    def disable(self, kind: FailureKind, cause: str, hint: str | None) -> None:
        """Marks the model as unusable: no call can succeed."""
        if self._failure is None:
            self._failure = ModelFailure(kind, f"{self.name} can't be used: {cause}", hint)


@dataclass(kw_only=True)
class Spent:
    """Usage so far."""

    calls: int = 0
    tokens: float = 0
    cost: float = 0.0
    """US dollars."""


UNKNOWN = 1e9
"""Tokens or dollars: more than any budget allows. Finite, so that it can be added and subtracted."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Expected usage of an attempt."""

    tokens: float
    """Expected tokens."""
    cost: float
    """Expected cost in US dollars."""
    most_tokens: float
    """Estimated maximum; UNKNOWN before the first reply."""
    most_cost: float
    """Estimated maximum in US dollars."""


class Meter:
    """Counts calls, tokens and cost, and refuses attempts that would exceed a limit.

    An attempt is refused if the usage so far plus its expected usage exceeds a limit. It waits for attempts in flight
    if the maximum usage of all of them together could exceed the limit. So the first attempt runs alone, more follow
    once replies show the usual usage, and near the limit they run one at a time. The limit is exceeded only by usage
    beyond the estimated maximum of the attempts in flight. After the first refusal all later attempts are refused.
    """

    def __init__(self, budget: Budget) -> None:
        """Starts with no usage. Both can be replaced before the first call: usage of other jobs counts, too."""
        self.budget = budget
        self._reserved = Spent()
        self._failed = 0
        self._last_failure: ModelFailure | None = None
        self._failure: ModelFailure | None = None
        self._names_failure = False
        self._changed = asyncio.Event()
        self.spent = Spent()

    @property
    def failure(self) -> ModelFailure | None:
        """Why attempts are refused; None while they are not."""
        return self._failure

    async def reserve(self, estimate: Callable[[], Estimate]) -> Reservation:
        """Reserves budget for an attempt, and counts the attempt.

        Args:
            estimate: Returns the expected usage. Called again after a wait, when estimates are better.

        Raises:
            ModelFailure: `budget`.
        """
        while True:
            expected = estimate()
            if self._failure is None or (self._last_failure is not None and not self._names_failure):
                # A refusal may come before the attempts in flight fail: the failure is named as soon as it is known.
                self._failure = self._over(expected) or self._failure
                self._names_failure = self._last_failure is not None
            if self._failure is not None:
                raise ModelFailure(self._failure.kind, self._failure.message, self._failure.hint)
            if not self._uncertain(expected):
                break
            self._changed.clear()
            await self._changed.wait()
        # Counted when it starts: a call that fails may be billed, too.
        self.spent.calls += 1
        self._reserved.calls += 1
        self._reserved.tokens += expected.most_tokens
        self._reserved.cost += expected.most_cost
        return Reservation(meter=self, estimate=expected)

    def settle(self, reservation: Reservation, tokens: float, cost: float) -> None:
        """Replaces an estimate by the actual usage."""
        self._reserved.calls -= 1
        self._reserved.tokens -= reservation.estimate.most_tokens
        self._reserved.cost -= reservation.estimate.most_cost
        self.spent.tokens += tokens
        self.spent.cost += cost
        # Never cleared here: each waiting attempt clears it itself before it looks again.
        self._changed.set()

    @property
    def has_max_cost(self) -> bool:
        """Whether there is a limit in US dollars."""
        return self.budget.max_cost is not None

    def pay(self, cost: float) -> None:
        """Adds what the agent's own model calls cost, in US dollars."""
        self.spent.cost += cost

    @property
    def used_up(self) -> ModelFailure | None:
        """Why nothing more may be spent; None if something may."""
        limit = self.budget.max_cost
        if limit is None or self.spent.cost < limit:
            return None
        spent = f"{_dollars(self.spent.cost)} is spent"
        return ModelFailure("budget", f"The budget of {_dollars(limit)} is used up: {spent}", "Raise `max-cost`.")

    def failed(self, failure: ModelFailure) -> None:
        """Records why an attempt failed. It counts towards the budget, since the provider may bill it."""
        self._failed += 1
        self._last_failure = failure

    def _over(self, expected: Estimate) -> ModelFailure | None:
        budget, spent = self.budget, self.spent
        if budget.max_calls is not None and spent.calls >= budget.max_calls:
            return self._used_up(plural(budget.max_calls, "judge call"), "", "max-judge-calls")
        if budget.max_tokens is not None and spent.tokens + expected.tokens > budget.max_tokens:
            detail = f"{spent.tokens:,.0f} {'token is' if round(spent.tokens) == 1 else 'tokens are'} spent"
            return self._used_up(plural(budget.max_tokens, "token"), detail, "max-tokens")
        if budget.max_cost is not None and spent.cost + expected.cost > budget.max_cost:
            return self._used_up(_dollars(budget.max_cost), f"{_dollars(spent.cost)} is spent", "max-cost")
        return None

    def _used_up(self, limit: str, spent: str, option: str) -> ModelFailure:
        """Why no more calls are made. Failed calls are named first: a larger budget doesn't end an outage."""
        detail = f": {spent}, and the next call does not fit" if spent else ""
        sentence = f"The budget of {limit} is used up{detail}."
        cause, hint = self._last_failure, f"Raise `{option}`."
        if cause is None:
            return ModelFailure("budget", sentence, hint)
        sentence = f"Model calls failed ({cause.message.rstrip('.')}). {sentence} Failed calls count."
        # Most calls succeeded, so the budget and not the outage is the reason.
        if 2 * self._failed < self.spent.calls - self._reserved.calls:
            return ModelFailure("budget", sentence, hint)
        first = cause.hint or "Start the job again when the provider is back."
        return ModelFailure(cause.kind, sentence, f"{first} Then raise `{option}` if the budget is still too small.")

    def _uncertain(self, expected: Estimate) -> bool:
        budget, spent, reserved = self.budget, self.spent, self._reserved
        # Nothing in flight to wait for: an attempt that waited now would wait for ever.
        if not reserved.calls:
            return False
        tokens = spent.tokens + reserved.tokens + expected.most_tokens
        cost = spent.cost + reserved.cost + expected.most_cost
        too_many = budget.max_tokens is not None and tokens > budget.max_tokens
        return too_many or (budget.max_cost is not None and cost > budget.max_cost)


@dataclass(frozen=True, kw_only=True)
class Reservation:
    """The reserved budget of one attempt; settle it exactly once."""

    meter: Meter
    estimate: Estimate

    def settle(self, tokens: float | None, cost: float | None) -> None:
        """Records the actual usage; None if unknown: the estimate counts."""
        expected = self.estimate
        self.meter.settle(self, expected.tokens if tokens is None else tokens, expected.cost if cost is None else cost)


def _dollars(amount: float) -> str:
    """E.g. `$2.5` or `$0.0000001`, never in scientific notation."""
    return "$" + f"{float(f'{amount:.3g}'):,.10f}".rstrip("0").rstrip(".")
