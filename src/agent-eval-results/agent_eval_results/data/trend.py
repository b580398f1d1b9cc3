"""The base branch's trend: drift, flaky cases, the totals of each run. Pure.

A pull request is compared with the current base branch. If the base gets slightly worse with every merge, no comparison
detects it. This module therefore compares the newest rows of the trend with the first ones, and where there are too few
of them the newer half of the history with the older half.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from random import Random
from statistics import fmean

from agent_eval_results import (
    BROKE,
    PASSED,
    UNKNOWN,
    CaseHistory,
    CaseReport,
    HistoryRecord,
    HistoryReport,
    ModelUsageReport,
    RunReport,
    TrendRow,
)
from agent_eval_results.data.exact_tests import exact_p, wilson
from agent_eval_results.data.stored_runs import PassRules, outcome_of, rescored, scores_by_run, stored_runs

ALPHA = 0.002
"""Significance level of the test of halves. There is one after every merge, on nearly the same records: without any
change the base is said to get worse about once in 2,500 merges (at 0.01 once in 400)."""
CASE_ALPHA = 0.01
"""Significance level of the test of a single case."""
_BROKE = 0.001
"""The same for the newest runs of a case if all of them failed: three of 20 are enough if the others passed."""
_DAY = 86_400
_PINNED = 20
"""How many days of the trend are at least compared with: the first half of those with the same cases."""
_NEWEST = ((4, 4.2), (10, 3.5))
"""How many of the newest days are compared with them, and from how many standard errors of the difference on it is
reported: few notice a step at once, more a slow decline. Without any change, together about once in 1,500 merges."""
_RENEWED = 20
"""For how many days a lower level is reported before it is what later ones are compared with."""
_SPLITS = 1000
"""With more ways to split the records than this, this many are sampled."""


@dataclass(frozen=True, kw_only=True)
class Flakiness:
    """How often an unchanged case fails on the base branch."""

    failures: int
    runs: int
    low: float
    high: float
    """95% Wilson interval of the failure rate, 0 to 1."""
    since: HistoryRecord | None
    """The record of its first failure that is kept; None if it never failed."""
    broke: HistoryRecord | None
    """The record from which on all its runs failed; None if its newest run passed, or none did."""

    @property
    def rate(self) -> float:
        """Failures divided by runs; 0 without runs."""
        return self.failures / self.runs if self.runs else 0.0

    @property
    def is_mixed(self) -> bool:
        """Whether it both passed and failed."""
        return 0 < self.failures < self.runs


@dataclass(frozen=True, kw_only=True)
class CaseDrift:
    """A case that passes less often in the newer part of the history."""

    case_id: str
    older: tuple[int, int]
    """Passed and all runs."""
    newer: tuple[int, int]
    p_value: float
    """One-sided p-value of the exact test, which assumes that runs of one day are independent."""
    since: HistoryRecord
    """The first record of the newer part: the one after its last pass, or the first of the newer half."""


@dataclass(frozen=True, kw_only=True)
class Erosion:
    """The newest days of the base branch are worse than the first ones of the same cases."""

    before: float
    now: float
    """Share of cases that passed, mean over the days, 0 to 1."""
    first: HistoryRecord
    """The oldest record that is compared with."""
    days: int
    """How many of the newest days `now` is about."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """The newer half of the history compared with the older half, or the newest rows of the trend with the first."""

    older: float | None
    newer: float | None
    """Pass rates, mean over the cases with runs in both halves, 0 to 1; None without any, or if the trend decides."""
    p_value: float | None
    """One-sided p-value of the drop if the records are exchangeable. Permuting whole records accounts for days
    that are bad for all cases. None with fewer than 12 records, since no order of them is significant at ALPHA, and if
    the trend decides."""
    since: HistoryRecord | None
    """The first record of the newer half."""
    cases: tuple[CaseDrift, ...]
    """Cases whose newest runs all failed, or with a p-value of at most CASE_ALPHA, the smallest first."""
    erosion: Erosion | None = None

    @property
    def worse(self) -> bool:
        """Whether the base branch got worse as a whole."""
        return self.p_value is not None and self.p_value <= ALPHA


def flakiness(history: HistoryReport, case: CaseHistory, rules: PassRules | None = None) -> Flakiness:
    """How often a case of the history fails. An error of the agent is a failure.

    Args:
        history: The base branch's history.
        case: One of its cases.
        rules: The rules to rescore its runs with; None for the stored outcomes.
    """
    stored = stored_runs(history, case) if rules is None else rescored(history, case, rules)
    runs = [run for run in stored if run.outcome != UNKNOWN]
    failed = [run for run in runs if run.outcome != PASSED]
    low, high = wilson(len(failed), len(runs))
    since = history.records[failed[0].record] if failed else None
    last = max((at for at, run in enumerate(runs, 1) if run.outcome == PASSED), default=len(runs))
    broke = history.records[runs[last].record] if last < len(runs) else None
    return Flakiness(failures=len(failed), runs=len(runs), low=low, high=high, since=since, broke=broke)


def drift(history: HistoryReport, *, seed: int = 0) -> Drift:
    """Compares the newer half of the records with the older half.

    The statistic is the mean drop of the pass rate over the cases. The p-value is from a permutation test over all
    splits of the records into halves (with more than 1,000, from 1,000 seeded ones and the observed one).
    """
    count = len(history.records)
    half = count // 2
    cases = {case.case_id: _by_record(case, count) for case in history.cases}
    named = []
    for case_id, records in cases.items():
        last = max((at for at, (passed, _) in enumerate(records, 1) if passed), default=half)
        # The first split depends on the outcomes, so it needs more evidence; it names what broke before half the
        # records have it.
        for start, alpha in ((last, _BROKE), (half, CASE_ALPHA)):
            older, newer = _sum(records[:start]), _sum(records[start:])
            p_value = exact_p(newer[1] - newer[0], newer[1], older[1] - older[0], older[1])
            if p_value <= alpha:
                since = history.records[start]
                named.append(CaseDrift(case_id=case_id, older=older, newer=newer, p_value=p_value, since=since))
                break
    decides, erosion = _erosion(history.trend)
    rates, suite_p = (None, None) if decides else _suite(list(cases.values()), count, half, seed)
    return Drift(
        older=rates[0] if rates else None,
        newer=rates[1] if rates else None,
        p_value=suite_p,
        since=history.records[half] if rates else None,
        cases=tuple(sorted(named, key=lambda case: (case.p_value, case.case_id))),
        erosion=erosion,
    )


def _erosion(trend: Sequence[TrendRow]) -> tuple[bool, Erosion | None]:
    """Compares the newest days with the first ones of the same cases, by the difference of means in standard errors.

    The rows of one day (UTC) count as one: a bad day of a service is bad for all of them. A lower level that nobody
    repairs is reported for _RENEWED days; then those are what is compared with, as after a rise, which would hide what
    is lost later.

    Returns:
        Whether there are enough days, and what was lost.
    """
    newest = trend[-1] if trend else None
    days: dict[int, list[TrendRow]] = {}
    for row in trend:
        if newest and _measures(row) == _measures(newest) and row.unknown * 10 < row.cases and _judged(row) > 0:
            days.setdefault(int(row.recorded_at // _DAY), []).append(row)
    rates = [fmean(row.passed / _judged(row) for row in rows) for rows in days.values()]
    starts = [rows[0] for rows in days.values()]
    first = lower = 0  # The first day that is compared with; for how many days the level has been lower.
    found = None
    for end in range(_PINNED + _NEWEST[0][0], len(rates) + 1):
        found, higher = None, 0
        for count, limit in _NEWEST:
            if end - first < _PINNED + count:
                continue
            before, now = rates[first : first + max(_PINNED, (end - first) // 2)], rates[end - count : end]
            fallen = _standard_errors(before, now, max(starts[-1].cases, 1))
            # What was said is not over because one day was a little better.
            if fallen > (limit / 2 if lower else limit):
                found = Erosion(before=fmean(before), now=fmean(now), first=starts[first], days=count)
            higher = count if fallen < -limit else higher
        lower = lower + 1 if found else 0
        if higher:
            first = end - higher
        elif lower > _RENEWED:
            first, lower, found = end - _RENEWED, 0, None
    return len(rates) >= _PINNED + _NEWEST[0][0], found


def _standard_errors(before: Sequence[float], now: Sequence[float], cases: int) -> float:
    """How many standard errors the mean has fallen."""
    means = fmean(before), fmean(now)
    squares = sum((rate - mean) ** 2 for rates, mean in zip((before, now), means, strict=True) for rate in rates)
    spread = squares / (len(before) + len(now) - 2)
    # Suites that always pass have no spread: half a case is less than any of them can show.
    error = math.sqrt(max(spread, (0.5 / cases) ** 2) * (1 / len(before) + 1 / len(now)))
    return (means[0] - means[1]) / error


def _judged(row: TrendRow) -> int:
    """Cases that passed or failed: a quarantined one that fails is no part of the rate, as in `totals`."""
    return row.passed + row.failed + row.broke


def _measures(row: TrendRow) -> tuple[object, ...]:
    """What rows must share to be compared: cases, rules, who scored. A new google-adk may well cost something."""
    return row.suite, row.rules, row.scoring_version, row.judges


def _by_record(case: CaseHistory, count: int) -> list[tuple[int, int]]:
    """Passed and all runs, record by record."""
    passed, runs = [0] * count, [0] * count
    for record, outcome in zip(map(int, case.records.split()), case.outcomes, strict=True):
        if outcome != UNKNOWN:
            runs[record] += 1
            passed[record] += outcome == PASSED
    return list(zip(passed, runs, strict=True))


def _sum(records: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return sum(passed for passed, _ in records), sum(runs for _, runs in records)


def _suite(
    cases: Sequence[Sequence[tuple[int, int]]], count: int, half: int, seed: int
) -> tuple[tuple[float, float] | None, float | None]:
    """Pass rates of both halves and the p-value of their difference."""
    if not half or not cases:
        return None, None
    import numpy as np

    table = np.array(cases, dtype=np.float64)
    splits = _splits(count, half, seed)
    older = np.zeros((count, len(splits)))
    for column, records in enumerate(splits):
        older[list(records), column] = 1.0
    # A split may leave a case without runs on one side: 0 / 0 is NaN, which `both` leaves out.
    with np.errstate(invalid="ignore", divide="ignore"):
        before = (table[:, :, 0] @ older) / (table[:, :, 1] @ older)
        after = (table[:, :, 0] @ (1 - older)) / (table[:, :, 1] @ (1 - older))
    both = ~(np.isnan(before) | np.isnan(after))  # Excludes cases without runs in one of the halves.
    counts = both.sum(axis=0)
    if not counts[0]:
        return None, None
    drops = np.where(both, before - after, 0.0).sum(axis=0) / np.maximum(counts, 1)
    rates = float(before[both[:, 0], 0].mean()), float(after[both[:, 0], 0].mean())
    as_much = int((drops >= drops[0] - 1e-12).sum())
    # With few records even the most extreme order of them is no evidence.
    enough = 1 / math.comb(count, half) <= ALPHA
    return rates, as_much / len(splits) if enough else None


def _splits(count: int, half: int, seed: int) -> list[tuple[int, ...]]:
    """Ways to choose the older records, the observed one first."""
    if math.comb(count, half) <= _SPLITS:
        return list(combinations(range(count), half))
    random = Random(seed)  # noqa: S311 - a permutation test, no secret
    return [tuple(range(half)), *(tuple(random.sample(range(count), half)) for _ in range(_SPLITS))]


def trend_row(report: RunReport, record: HistoryRecord) -> TrendRow:
    """The totals of a run of the base branch.

    Args:
        report: The run.
        record: Its record in the history.
    """
    words = [_outcome(case) for case in report.cases]
    judged = [run for case in report.cases for run in case.runs if run.is_judged]
    # A replay takes no time, and its tokens were paid for when it was recorded.
    runs = [run for run in judged if not run.replayed]
    counts = [(run.usage.input_tokens, run.usage.output_tokens) for run in runs]
    tokens = [(sent or 0) + (received or 0) for sent, received in counts if (sent, received) != (None, None)]
    seconds = sorted(run.duration for run in runs)
    return TrendRow(
        **dict(record),
        scoring_version=report.scoring_version,
        cases=len(report.cases),
        passed=words.count("passed"),
        failed=words.count("failed"),
        broke=words.count("broke"),
        quarantined=words.count("quarantined"),
        unknown=words.count("unknown"),
        means=_means(report.cases),
        p50=_percentile(seconds, 0.5),
        p95=_percentile(seconds, 0.95),
        tokens=round(sum(tokens) / len(tokens), 1) if tokens else None,
        cost=_cost(report.model_usage),
        suite=suite_hash(report.cases),
        rules=_rules_hash(report),
        judges=sorted({metric.judge for case in report.cases for metric in case.metrics if metric.judge}),
        adk=",".join(sorted({value for name, value in report.provenance.items() if name.partition(" ")[0] == "adk"})),
    )


def suite_hash(cases: Sequence[CaseReport]) -> str:
    """Hash of which cases were run, and of their messages and expectations."""
    digest = hashlib.sha256()
    for case_id, fingerprint in sorted((case.case_id, case.fingerprint) for case in cases):
        # JSON, and so an id, may have half of a surrogate pair, which strict UTF-8 refuses.
        digest.update(f"{case_id}\0{fingerprint}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _rules_hash(report: RunReport) -> str:
    """Hash of what decides whether a case passes. With other rules the same answers pass more or less often."""
    # Not by case: one whose runs all ended with an error has no metrics.
    rules = sorted(
        {
            (metric.name, metric.fingerprint, metric.threshold, metric.direction, metric.blocking)
            for case in report.cases
            for metric in case.metrics
            if metric.threshold is not None
        }
    )
    return hashlib.sha256(repr((report.num_runs, report.min_pass_rate, rules)).encode()).hexdigest()[:16]


def _outcome(case: CaseReport) -> str:
    if case.lacks_result:
        return "unknown"
    if case.status in {"passed", "quarantined"}:
        return case.status
    scores = scores_by_run(case)
    broke = any(outcome_of(run, scores.get(run.run, {}), None) == BROKE for run in case.runs)
    return "broke" if broke else "failed"


def _means(cases: Sequence[CaseReport]) -> dict[str, float]:
    scores: dict[str, list[float]] = {}
    for case in cases:
        for metric in case.metrics:
            # A custom metric may return infinity: no mean over cases would be left.
            if metric.is_configured and metric.score is not None and math.isfinite(metric.score):
                scores.setdefault(metric.name, []).append(metric.score)
    return {name: round(sum(values) / len(values), 4) for name, values in scores.items()}


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    return round(ordered[math.ceil(share * len(ordered)) - 1], 3) if ordered else None


def _cost(usage: Sequence[ModelUsageReport]) -> float | None:
    costs = [entry.cost for entry in usage if entry.cost is not None]
    return round(sum(costs), 6) if costs else None
