"""A suspected regression: a case whose screening runs look worse, and bets that it got worse, paid by its fresh runs.
Pure.

An *e-value* is the payoff of a bet of 1 that is fair if nothing changed: its expectation is then at most 1, so it
exceeds 1/alpha in at most a share alpha of unchanged pull requests, however often one looks and for whatever reason one
stops (R. Turner, A. Ly, P. Gruenwald, Generic E-variables for exact sequential k-sample tests, 2024; J. Ville, 1939).
Only runs made after the case was suspected are bets; the run that made it suspicious is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, fsum, lgamma, log

from agent_eval.gate.stats.samples import failed

THIN_BASE = 6
"""With fewer base runs, the history is too short for a comparison alone."""
THRESHOLD_RUNS = 6
"""A case is broken if it fails screening and then this many runs in a row, while all of its few base runs passed. With
one base run, 1 in 256 of the cases with a pass rate of 50% does so."""
WORTH_MORE = 1.2
"""The payoff of the bet, screening included, from which on a case gets more runs."""
_PRIOR = 0.5
"""Jeffreys' prior of a case's failure rate, Beta(0.5, 0.5): the bets are fair on average over it."""
_LOST = (0.3, 0.6, 0.95)
"""Shares of its passes that a case that got worse may have lost; the bet is spread evenly over them."""
_SPREAD = 2.0
"""About how many of the suspected cases are taken to have got worse."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A case whose screening runs look worse."""

    index: int
    """The case's index in the family."""
    fresh: tuple[float, ...]
    """The head's runs since the case is suspected, in order; at most `planned`."""
    rounds: tuple[int, ...]
    """The round of each of `fresh`: runs of the same round are made at the same time."""
    planned: int
    """Maximum of fresh runs."""
    base_failures: int
    """Only meaningful for pass or fail."""
    base_made: int
    base_planned: int
    worth: float
    """At least `WORTH_MORE`: more runs are worthwhile. For pass or fail, the payoff of the bet with the screening runs
    counted too; that is no fair bet, and only selects runs."""
    always_fails_on_base: bool
    """The base has runs and none of them passed, or none of today's since something changed there."""
    is_binary: bool
    """Whether all values are zeros and ones."""
    base_underpowered: bool
    """The base has too few runs for a significant comparison, whatever the head's further runs."""
    p_value: float
    """p-value of the fresh runs alone, valid at any time."""
    weight: float
    """The case's share of the error rate of all suspected regressions."""

    @property
    def made(self) -> int:
        """Number of fresh runs."""
        return len(self.fresh)

    @property
    def failures(self) -> int:
        """Failed fresh runs."""
        return failed(self.fresh)

    @property
    def failed_rounds(self) -> int:
        """In how many rounds of fresh runs at least one failed."""
        return len({number for value, number in zip(self.fresh, self.rounds, strict=True) if not value})

    def e_value(self, without_round: int | None = None) -> float:
        """The payoff of a bet that the case got worse (`bets.case_e`), of pass or fail.

        Args:
            without_round: Leaves the runs of this round out.
        """
        kept = [value for value, number in zip(self.fresh, self.rounds, strict=True) if number != without_round]
        return case_e(failed(kept), len(kept), self.base_failures, self.base_made)

    @property
    def active(self) -> bool:
        """Whether more runs are useful."""
        if self.always_fails or self.always_fails_on_base:
            return False
        may_fail_most = 3 * (self.failures + self.planned - self.made) >= 2 * self.planned
        if self.history_too_short and self.made < self.planned and may_fail_most and 2 * self.failures >= self.made:
            return True
        unfinished = self.made < self.planned or self.base_made < self.base_planned
        return not self.base_underpowered and self.worth >= WORTH_MORE and unfinished

    @property
    def history_too_short(self) -> bool:
        """Whether the base has too few runs for a decision, unless every run of the head fails."""
        few = self.base_planned < THIN_BASE and not self.base_failures
        return self.is_binary and not self.always_fails_on_base and (self.base_underpowered or few)

    @property
    def undecided(self) -> bool:
        """Whether at least 2/3 of the fresh runs failed and the base history is too short for a decision."""
        return self.history_too_short and not self.always_fails and 0 < 2 * self.made <= 3 * self.failures

    @property
    def always_fails(self) -> bool:
        """Whether the case failed so many runs in a row that it must not pass for lack of history."""
        if (
            not self.is_binary
            or self.always_fails_on_base
            or self.base_planned >= THIN_BASE
            or 2 * self.base_failures > self.base_made
        ):
            return False
        enough = self.planned if self.base_failures else THRESHOLD_RUNS
        return self.failures == self.made >= enough


@lru_cache(maxsize=65536)
def case_e(failures: int, runs: int, base_failures: int, base_runs: int) -> float:
    """The payoff of a bet of 1 that a case fails more often on the head.

    The likelihood ratio of the head's runs, given those of the base. Worse: the failure rate is r + (1 - r)x, with r
    the base's mean rate and x the share of passes that were lost. Unchanged: it is the base's, not known exactly.

    Args:
        failures: Failed runs of the head among `runs`.
        runs: Fresh runs of the head.
        base_failures: Failed runs of the base among `base_runs`.
        base_runs: Runs of the base.

    Returns:
        0 or more; 1.0 without runs of the head.
    """
    if not runs:
        return 1.0
    passes = runs - failures
    failed, passed = base_failures + _PRIOR, base_runs - base_failures + _PRIOR
    rate = failed / (failed + passed)
    unchanged = _log_beta(failed + failures, passed + passes) - _log_beta(failed, passed)
    worse = (rate + (1 - rate) * lost for lost in _LOST)
    return fsum(exp(failures * log(q) + passes * log(1 - q) - unchanged) for q in worse) / len(_LOST)


def joint_e(values: Iterable[float]) -> float:
    """The payoff of betting on all suspected cases at once.

    The stake of each case is a half, or 2/m of m > 4 cases, and what it pays is staked on the next one. One broken case
    thus counts almost fully, and several slightly worse cases multiply.

    Args:
        values: `case_e` of each suspected case.

    Returns:
        0 or more; 1.0 without any.
    """
    payoffs = sorted(values)  # The rounding of the product must not depend on the order of cases.
    stake = min(0.5, _SPREAD / max(len(payoffs), 1))
    total = 1.0
    for payoff in payoffs:
        total *= 1 - stake + stake * payoff
    return total


def p_of(e_value: float) -> float:
    """The p-value of an e-value: an upper bound, since P(e >= 1/p) <= p (Markov's inequality)."""
    return min(1.0, 1 / e_value) if e_value > 0 else 1.0


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
