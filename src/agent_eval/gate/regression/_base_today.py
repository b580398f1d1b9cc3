"""Checks stored runs of the base branch against runs of today before a pull request fails. Pure.

The tests assume that a run of today is exchangeable with a run of last week. This assumption fails on a day on which a
tool or the provider is down: every case that depends on it looks like a regression. Before a result based on stored
runs blocks, its cases therefore run a few times on the base branch. If these runs are lower than the stored ones, only
runs of today are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

from agent_eval.gate.stats import Family, FamilyResult
from agent_eval.results import DecisionReasonReport

CHECK_RUNS = 4
"""Base runs of today for each regression of a metric that got worse; without one, for each suspected regression."""
DIFFERS = 0.02
"""Significance level of the check. A false alarm costs runs and some power, never a wrong verdict."""
CHECKED_CASES = 8
"""Most cases of a check that no suspected regression calls for."""


def reason(base_name: str) -> DecisionReasonReport:
    """Says that the base branch fails more often today than its stored runs did."""
    message = f"Today {base_name} fails more often than in its stored runs, so only runs of today were compared"
    return DecisionReasonReport(code="base-differs-today", message=message, blocking=False)


def runs_to_check(results: Sequence[FamilyResult]) -> dict[str, int]:
    """Base runs that the check still needs, by case id."""
    missing: dict[str, int] = {}
    for result in _findings(results):
        for index in result.named or [suspect.index for suspect in result.family.suspects] or _some(result.family):
            series, case_id = result.family.series[index], result.family.case_ids[index]
            count = CHECK_RUNS - len(series.base_confirm)
            if series.base and count > 0:
                missing[case_id] = max(count, missing.get(case_id, 0))
    return missing


def _some(family: Family) -> list[int]:
    """A fixed sample of cases, for a metric that got worse without any suspected regression."""
    return sorted(range(len(family.series)), key=lambda index: crc32(family.case_ids[index].encode()))[:CHECKED_CASES]


def differs(results: Sequence[FamilyResult]) -> bool:
    """Whether the base runs of today are lower than the stored ones in a metric that got worse."""
    for result in _findings(results):
        # Includes every case with base runs, so that naming another case does not change the result.
        p_value = result.family.suite_test(
            [(series.base_confirm[:CHECK_RUNS], series.base) for series in result.family.series]
        )
        if p_value is not None and p_value <= DIFFERS:
            return True
    return False


def _findings(results: Sequence[FamilyResult]) -> list[FamilyResult]:
    return [result for result in results if result.rejected and result.family.rule.blocking]
