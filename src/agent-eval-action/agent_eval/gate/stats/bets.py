"""Bets that a case got worse, paid by its fresh runs on the head. Pure.

An *e-value* is the payoff of a bet of 1 that is fair if nothing changed: its expectation is then at most 1, so it
exceeds 1/alpha in at most a share alpha of unchanged pull requests, however often one looks and for whatever reason one
stops (R. Turner, A. Ly, P. Gruenwald, Generic E-variables for exact sequential k-sample tests, 2024; J. Ville, 1939).
Only runs made after the case was suspected are bets; the run that made it suspicious is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import exp, fsum, lgamma, log

_PRIOR = 0.5
"""Jeffreys' prior of a case's failure rate, Beta(0.5, 0.5): the bets are fair on average over it."""
_LOST = (0.3, 0.6, 0.95)
"""Shares of its passes that a case that got worse may have lost; the bet is spread evenly over them."""
_SPREAD = 2.0
"""About how many of the suspected cases are taken to have got worse."""


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
