"""Reads and writes the stored runs of a case, a history's columns; and means over them. Pure.

Two single runs differ even if nothing has changed. If the history has more runs of a case, its scores are means.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from agent_eval_results import (
    BROKE,
    FAILED,
    NO_SCORE,
    PASSED,
    UNKNOWN,
    CaseHistory,
    CaseReport,
    HistoryMetric,
    HistoryRecord,
    HistoryReport,
    HistoryRule,
    MetricReport,
    RunReport,
    RunResult,
    is_enough,
    is_skipped,
)

MetricKey = tuple[str, str]
"""A metric's name and fingerprint: scores with the same key measure the same."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The threshold of a metric that a run must reach to pass."""

    threshold: float
    direction: Literal["higher", "lower"] = "higher"

    def holds(self, score: float) -> bool:
        """Whether a score reaches the threshold."""
        return score <= self.threshold if self.direction == "lower" else score >= self.threshold


PassRules = Mapping[MetricKey, Rule]


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run of a case in the history."""

    record: int
    """Index of its record in the history."""
    outcome: str
    """`1`, `0`, `x` or `?`, see results.history."""
    scores: Mapping[MetricKey, float]


def rules_of(case: CaseReport) -> dict[MetricKey, Rule]:
    """The thresholds of a case, by metric. Metrics without a key for their judge are omitted."""
    return {
        (metric.name, metric.fingerprint): Rule(threshold=metric.threshold, direction=metric.direction)
        for metric in case.metrics
        if metric.threshold is not None and metric.blocking and not is_skipped(metric.reason)
    }


def stored(score: float) -> float:
    """Rounds a score like the history does.

    Scores of at most 1 are rounded down to 4 digits, so that none rises to its threshold; others to 5 significant
    digits. Scores that are compared with stored ones must be rounded the same way.
    """
    if 0.0 <= score <= 1.0:
        return math.floor(score * 10_000 + 1e-7) / 10_000  # .29 * 10,000 is 2,899.9999...
    return float(f"{score:.5g}")


def outcome_of(run: RunResult, scores: Mapping[MetricKey, float], rules: PassRules | None) -> str | None:
    """The outcome of a run of today; None if it does not show anything about the agent.

    Args:
        run: The run.
        scores: Its scores.
        rules: The rules to rescore it with. None for its own status, which is more precise than the scores: a custom
            metric may have its own pass rule.
    """
    if run.error is not None:
        return BROKE if run.error.by_agent else None
    if run.did_not_run:
        return None
    if rules is None:
        return {"passed": PASSED, "failed": FAILED}.get(run.status, UNKNOWN)
    return _by_rules(scores, rules)


def _by_rules(scores: Mapping[MetricKey, float], rules: PassRules) -> str:
    scored = [(rule, scores[key]) for key, rule in rules.items() if key in scores]
    if any(not rule.holds(score) for rule, score in scored):
        return FAILED
    return PASSED if len(scored) == len(rules) else UNKNOWN


def _rescored_run(run: StoredRun, rules: PassRules) -> StoredRun:
    """The run under other rules. Scores are rounded: a run that passed by less than 0.0001 may now fail."""
    if run.outcome == BROKE:
        return run
    return replace(run, outcome=_by_rules(run.scores, rules))


def rescored(history: HistoryReport, case: CaseHistory, rules: PassRules) -> list[StoredRun]:
    """A case's stored runs under the given rules, oldest first."""
    runs = stored_runs(history, case)
    return runs if same_rules(stored_rules(history, case), rules) else [_rescored_run(run, rules) for run in runs]


def same_rules(own: PassRules, rules: PassRules) -> bool:
    """Whether outcomes under `own` are valid under `rules`.

    The direction `higher` may be a default: a score equal to its threshold does not show the direction. If a custom
    metric then fails above its threshold, lower is better for it, and its own status already accounts for that.
    """
    return own.keys() == rules.keys() and all(
        own[key].threshold == rule.threshold and rule.direction in {own[key].direction, "higher"}
        for key, rule in rules.items()
    )


def scores_by_run(case: CaseReport) -> dict[int, dict[MetricKey, float]]:
    """All scores of a case, by run number."""
    by_run: dict[int, dict[MetricKey, float]] = {}
    for metric in case.metrics:
        for run_score in metric.runs:
            if run_score.score is not None and math.isfinite(run_score.score):
                by_run.setdefault(run_score.run, {})[metric.name, metric.fingerprint] = run_score.score
    return by_run


def stored_runs(history: HistoryReport, case: CaseHistory) -> list[StoredRun]:
    """The runs of a case, oldest first."""
    columns = [(_metric_at(history, number), column.split()) for number, column in case.scores.items()]
    return [
        StoredRun(
            record=int(record),
            outcome=outcome,
            scores={key: float(column[at]) for key, column in columns if column[at] != NO_SCORE},
        )
        for at, (outcome, record) in enumerate(zip(case.outcomes, case.records.split(), strict=True))
    ]


def _metric_at(history: HistoryReport, number: str | int) -> MetricKey:
    metric = history.metrics[int(number)]
    return metric.name, metric.fingerprint


def stored_rules(history: HistoryReport, case: CaseHistory) -> dict[MetricKey, Rule]:
    """The rules of a case's stored outcomes."""
    if case.rules is None:
        return {}
    return {
        _metric_at(history, rule.metric): Rule(threshold=rule.threshold, direction=rule.direction)
        for rule in history.rules[case.rules]
    }


class HistoryWriter:
    """Writes a history. Shared rules and metrics are written once; records without runs are omitted."""

    def __init__(self, *, keep: int) -> None:
        self._keep = keep
        self._metrics: dict[MetricKey, int] = {}
        self._rules: dict[tuple[tuple[MetricKey, Rule], ...], int] = {}
        self._cases: list[tuple[CaseHistory, Sequence[StoredRun]]] = []

    def add(self, case: CaseReport, rules: PassRules, runs: Sequence[StoredRun]) -> None:
        measured = {(metric.name, metric.fingerprint) for metric in case.metrics}
        # A metric that was removed would keep its column in all later histories.
        if any(not measured.issuperset(run.scores) for run in runs):
            runs = [
                replace(run, scores={key: score for key, score in run.scores.items() if key in measured})
                for run in runs
            ]
        self.add_stored(case.case_id, case.fingerprint, rules, runs)

    def add_stored(self, case_id: str, fingerprint: str, rules: PassRules, runs: Sequence[StoredRun]) -> None:
        stored_cases = [run for run in runs if run.outcome != UNKNOWN or run.scores]
        if not stored_cases:
            return
        # Whole records: the runs of one are of one moment, and a part of them would be no fair sample of it.
        newest = set(sorted({run.record for run in stored_cases})[-self._keep :])
        stored_cases = [run for run in stored_cases if run.record in newest]
        columns: dict[MetricKey, list[str]] = {}
        for at, run in enumerate(stored_cases):
            for key, score in run.scores.items():
                columns.setdefault(key, [NO_SCORE] * len(stored_cases))[at] = _text(score)
        # Nearly all cases of a file have the same rules: written once, they take no place in a history of 10,000 cases.
        shared = tuple(rules.items())
        written = CaseHistory(
            case_id=case_id,
            fingerprint=fingerprint,
            outcomes="".join(run.outcome for run in stored_cases),
            rules=self._rules.setdefault(shared, len(self._rules)),
            scores={str(self._number(key)): " ".join(column) for key, column in columns.items()},
        )
        self._cases.append((written, stored_cases))

    def _number(self, key: MetricKey) -> int:
        return self._metrics.setdefault(key, len(self._metrics))

    def report(self, scoring_version: int, records: Sequence[HistoryRecord]) -> HistoryReport:
        # Numbered again, since records whose runs are all gone are left out.
        used = sorted({run.record for _, runs in self._cases for run in runs})
        numbers = {old: str(new) for new, old in enumerate(used)}
        for case, runs in self._cases:
            case.records = " ".join(numbers[run.record] for run in runs)
        rules = [
            [
                HistoryRule(metric=self._number(key), threshold=rule.threshold, direction=rule.direction)
                for key, rule in shared
            ]
            for shared in self._rules
        ]
        return HistoryReport(
            scoring_version=scoring_version,
            keep=self._keep,
            records=[records[old] for old in used],
            metrics=[HistoryMetric(name=name, fingerprint=fingerprint) for name, fingerprint in self._metrics],
            rules=rules,
            cases=[case for case, _ in self._cases],
        )


def _text(score: float) -> str:
    """The shortest text that is read as the same number: `1`, `.5`, `.8213`, `2340`."""
    text = f"{score:.4f}".rstrip("0").rstrip(".") if 0.0 <= score <= 1.0 else f"{score:.5g}"
    return text.removeprefix("0") or "0"


_ROUNDING = 1.5e-4
"""Stored scores have four digits: a mean that differs from the last score by at most this much is the last score."""


@dataclass(frozen=True, kw_only=True)
class StoredMeans:
    """Means of the base's cases that have several stored runs, by case id."""

    metrics: Mapping[str, Sequence[MetricReport]] = field(default_factory=dict)
    """The report's metrics with mean scores."""
    passes: Mapping[str, float] = field(default_factory=dict)
    """The pass rate, 0 to 1."""
    records: int = 1
    """The maximum number of gate runs that a mean covers."""


def stored_means(base: RunReport, history: HistoryReport | None) -> StoredMeans:
    """The means of the base's stored runs.

    Args:
        base: The base's report.
        history: The history, including this report's runs; None to use the report alone.
    """
    if history is None or history.scoring_version != base.scoring_version:
        return StoredMeans()
    # By the base's own ids: the history is the report's, so no case is renamed between the two.
    case_histories = {case.case_id: case for case in history.cases}
    metrics: dict[str, Sequence[MetricReport]] = {}
    passes: dict[str, float] = {}
    records = 1
    for case in base.cases:
        old = case_histories.get(case.case_id)
        # Scores of a case with other content measure another question.
        runs = stored_runs(history, old) if old is not None and old.fingerprint == case.fingerprint else []
        if len(runs) < 2:
            continue
        records = max(records, len({run.record for run in runs}))
        metrics[case.case_id] = [_averaged(metric, runs) for metric in case.metrics]
        if (share := _share(runs, base.min_pass_rate)) is not None:
            passes[case.case_id] = share
    return StoredMeans(metrics=metrics, passes=passes, records=records)


def _averaged(metric: MetricReport, runs: Sequence[StoredRun]) -> MetricReport:
    key = metric.name, metric.fingerprint
    scores = [run.scores[key] for run in runs if key in run.scores]
    if not scores or metric.score is None:
        return metric
    mean = sum(scores) / len(scores)
    # Else every unchanged score would differ from the base branch's in its fifth digit.
    if abs(mean - metric.score) <= _ROUNDING * max(1.0, abs(metric.score)):
        return metric
    return metric.model_copy(update={"score": mean})


def _share(runs: Sequence[StoredRun], min_pass_rate: float) -> float | None:
    """The share of gate runs in which the case passed; a gate run may have several runs of it."""
    by_record: dict[int, list[bool]] = {}
    for run in runs:
        if run.outcome != UNKNOWN:
            by_record.setdefault(run.record, []).append(run.outcome == PASSED)
    passed = [is_enough(sum(outcomes), len(outcomes), min_pass_rate) for outcomes in by_record.values()]
    return sum(passed) / len(passed) if passed else None
