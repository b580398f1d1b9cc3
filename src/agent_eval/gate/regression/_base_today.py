"""Checks stored runs of the base branch against runs of today before a pull request fails. Pure.

The tests assume that a run of today is exchangeable with a run of last week. This assumption fails on a day on which a
tool or the provider is down: every case that depends on it looks like a regression. Before a result based on stored
runs blocks, its cases therefore run a few times on the base branch. If these runs are lower than the stored ones, only
runs of today are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from agent_eval.gate.stats import Family

CHECK_RUNS = 2
"""Base runs of today for each regression of a metric that got worse; without one, for each suspected regression."""
DIFFERS = 0.02
"""Significance level of the check. A false alarm costs runs and some power, never a wrong verdict."""
CHECKED_CASES = 8
"""Most cases of a check that no suspected regression calls for."""


def runs_to_check(families: Sequence[Family]) -> dict[str, int]:
    """Base runs that the check still needs, by case id."""
    missing: dict[str, int] = {}
    for family in _findings(families):
        for index in family.named or got_worse(family) or _some(family):
            if count := missing_runs(family, index):
                missing[family.case_ids[index]] = max(count, missing.get(family.case_ids[index], 0))
    return missing


def missing_runs(family: Family, index: int) -> int:
    """Base runs of today that the check of one case still needs."""
    series = family.series[index]
    return max(CHECK_RUNS - len(series.base_confirm), 0) if series.base else 0


def got_worse(family: Family) -> list[int]:
    """The suspected regressions that a metric got worse by: the indices of those whose fresh runs say so."""
    return [suspect.index for suspect in family.suspects if not family.binary or suspect.e_value() > 1]


def _some(family: Family) -> list[int]:
    """A few suspected regressions or, without any, a fixed sample of cases."""
    cases = [suspect.index for suspect in family.suspects] or list(range(len(family.series)))
    return sorted(cases, key=lambda index: crc32(family.case_ids[index].encode()))[:CHECKED_CASES]


def differs(families: Sequence[Family]) -> bool:
    """Whether the base runs of today are lower than the stored ones in a metric that got worse."""
    for family in _findings(families):
        # Includes every case with base runs, so that naming another case does not change the result.
        p_value = family.suite_test([(series.base_confirm[:CHECK_RUNS], series.base) for series in family.series])
        if p_value is not None and p_value <= DIFFERS:
            return True
    return False


def _findings(families: Sequence[Family]) -> list[Family]:
    return [family for family in families if family.rejected and family.rule.blocking]
