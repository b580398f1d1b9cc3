"""Input and output types of the sequential test. Pure.

`gate.regression.next_step` takes `Rules` and samples and returns either `Runs` to make before the next call or the
decision, a `DecisionReport`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent_eval_results import NoMoreRuns

ConfirmOnBase = Literal["auto", "always", "never"]
"""When the base branch runs beside the head's confirmation runs: `auto` if it has too few stored runs to decide,
`always` for every suspected regression (then only runs of the same day are compared), `never`."""

Outcome = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class MetricRule:
    """How one metric gates."""

    max_drop: float = 0.0
    """Tolerance in the score's own unit, 0 or more: a smaller drop never blocks."""
    blocking: bool = True
    """False: tested and reported, but never fails the gate."""
    alpha: float | None = None
    """A separate error rate; None shares `Rules.alpha` with the other metrics."""
    direction: Literal["higher", "lower"] = "higher"
    """Which way is better. With `lower` the values of the series are negated; reported means are not."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """The user's rules."""

    alpha: float = 0.05
    """Family-wise error rate: the probability that a pull request without any effect fails, over all cases and
    metrics."""
    confirm_on_base: ConfirmOnBase = "auto"
    careful: bool = False
    """Whether all cases run twice more, and suspected ones up to twice as often: earlier attempts have no results."""
    metrics: Mapping[str, MetricRule] = field(default_factory=dict)
    """By metric. Other metrics are not tested; `{}` tests only whether the cases pass."""
    cases: Mapping[str, Mapping[str, MetricRule]] = field(default_factory=dict)
    """Exceptions, by case id and metric."""
    confirm_runs: int = 15
    """Maximum confirmation runs of the head for a suspected regression. More runs detect smaller drops."""
    seed: int = 0
    """Seed of the random permutations, used where there are too many to enumerate."""

    @property
    def blocking_metrics(self) -> int:
        """The number of metrics that can fail the gate."""
        everywhere = (self.metrics, *self.cases.values())
        return len({name for rules in everywhere for name, rule in rules.items() if rule.blocking}) or 1


@dataclass(frozen=True, kw_only=True)
class Budget:
    """The remaining budget."""

    extra_runs: int | None = None
    """Remaining runs beyond the screening, both sides together; None for no limit."""
    can_run_base: bool = False
    """Whether the base branch can be run."""
    no_more: NoMoreRuns = "limit"
    """What keeps a case from running again once `extra_runs` is 0."""


_SUITES = {"never": 5, "auto": 8, "always": 10}
"""Default limit of extra runs, as a multiple of the whole suite. Few pull requests use that many: a small drop of all
cases, or a day on which everything fails, needs them (docs/statistics.md)."""
_LEAST_EXTRA = 100
"""Minimum of the default limit: fewer runs decide nothing."""


def usual_extra_runs(cases: int, num_runs: int, *, metrics: int, confirm_on_base: ConfirmOnBase) -> int:
    """The default limit of extra runs of a pull request.

    Args:
        cases: Number of cases.
        num_runs: Screening runs of each case.
        metrics: Number of compared metrics that can block; each may have its own suspected regressions.
        confirm_on_base: Pass `never` if the base branch can't be run.
    """
    suites = _SUITES[confirm_on_base] * (1 + metrics) / 2
    return max(round(suites * cases * num_runs), _LEAST_EXTRA)
