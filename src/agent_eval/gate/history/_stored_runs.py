"""A case's stored runs: out of the columns of a history and into them again. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval.results import (
    BROKE,
    FAILED,
    NO_SCORE,
    PASSED,
    UNKNOWN,
    WITHOUT_KEY,
    CaseHistory,
    CaseReport,
    HistoryMetric,
    HistoryRecord,
    HistoryReport,
    HistoryRule,
    MetricReport,
    RunResult,
)

MetricKey = tuple[str, str]
"""A metric's name and fingerprint: scores with the same key measure the same."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a metric must reach for a run to pass."""

    threshold: float
    direction: Literal["higher", "lower"] = "higher"

    def holds(self, score: float) -> bool:
        """Whether a score is good enough."""
        return score <= self.threshold if self.direction == "lower" else score >= self.threshold


PassRules = Mapping[MetricKey, Rule]


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run of a case as the history keeps it."""

    record: int
    """Which of the history's records it is from."""
    outcome: str
    """`1`, `0`, `x` or `?`, see results.history."""
    scores: Mapping[MetricKey, float]


def rules_of(case: CaseReport) -> dict[MetricKey, Rule]:
    """What a run of the case must reach, metric by metric. Metrics that have no key for their judge are not asked."""
    return {
        (metric.name, metric.fingerprint): Rule(threshold=metric.threshold, direction=metric.direction)
        for metric in case.metrics
        if metric.threshold is not None and metric.blocking and not _withheld(metric)
    }


def _withheld(metric: MetricReport) -> bool:
    return metric.reason is not None and metric.reason.code == WITHOUT_KEY


def stored(score: float) -> float:
    """A score as the history keeps it.

    Rounded down to 4 digits, so that none rises to its threshold; above 1 to 5 significant digits. Scores that are
    compared with stored ones must be rounded the same way.
    """
    if 0.0 <= score <= 1.0:
        return math.floor(score * 10_000 + 1e-7) / 10_000  # .29 * 10,000 is 2,899.9999...
    return float(f"{score:.5g}")


def outcome_of(run: RunResult, scores: Mapping[MetricKey, float], rules: PassRules | None) -> str | None:
    """What a run of today came to; None if it says nothing about the agent.

    Args:
        run: The run.
        scores: Its scores.
        rules: By which to judge it; None: as it was judged, which knows more than the scores (a custom metric may pass
            by a rule of its own).
    """
    if run.error is not None:
        return BROKE if run.error.owner == "agent" else None
    if run.status == "not_run":
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
    """The run under other rules. Its scores are rounded, so what passed by less than a ten-thousandth may now fail."""
    if run.outcome == BROKE:
        return run
    return StoredRun(record=run.record, outcome=_by_rules(run.scores, rules), scores=run.scores)


def rescored(history: HistoryReport, case: CaseHistory, rules: PassRules) -> list[StoredRun]:
    """A case's stored runs as these rules judge them, oldest first."""
    runs = stored_runs(history, case)
    return runs if same_rules(stored_rules(history, case), rules) else [_rescored_run(run, rules) for run in runs]


def same_rules(own: PassRules, rules: PassRules) -> bool:
    """Whether what was judged by `own` is as good as judged by `rules`.

    `higher` may only mean that no score has shown the direction: one on its threshold passes either way. A custom
    metric that then fails above it is one of those that are better when they are lower, and knew that itself.
    """
    return own.keys() == rules.keys() and all(
        own[key].threshold == rule.threshold and rule.direction in {own[key].direction, "higher"}
        for key, rule in rules.items()
    )


def scores_by_run(case: CaseReport) -> dict[int, dict[MetricKey, float]]:
    """All scores of a case, by the number of the run."""
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
    """By which rules the stored outcomes of a case were judged."""
    if case.rules is None:
        return {}
    return {
        _metric_at(history, rule.metric): Rule(threshold=rule.threshold, direction=rule.direction)
        for rule in history.rules[case.rules]
    }


class HistoryWriter:
    """Writes a history: what many cases share is written once, records that nothing is from are not written."""

    def __init__(self, *, keep: int) -> None:
        self._keep = keep
        self._metrics: dict[MetricKey, int] = {}
        self._rules: dict[tuple[tuple[MetricKey, Rule], ...], int] = {}
        self._cases: list[tuple[CaseHistory, Sequence[StoredRun]]] = []

    def add(self, case: CaseReport, rules: PassRules, runs: Sequence[StoredRun]) -> None:
        measured = {(metric.name, metric.fingerprint) for metric in case.metrics}
        if any(not measured.issuperset(run.scores) for run in runs):
            runs = [
                StoredRun(
                    record=run.record,
                    outcome=run.outcome,
                    scores={key: score for key, score in run.scores.items() if key in measured},
                )
                for run in runs
            ]
        self.add_stored(case.case_id, case.fingerprint, rules, runs)

    def add_stored(self, case_id: str, fingerprint: str, rules: PassRules, runs: Sequence[StoredRun]) -> None:
        stored_cases = [run for run in runs if run.outcome != UNKNOWN or run.scores]
        if not stored_cases:
            return
        newest = set(sorted({run.record for run in stored_cases})[-self._keep :])
        stored_cases = [run for run in stored_cases if run.record in newest]
        columns: dict[MetricKey, list[str]] = {}
        for at, run in enumerate(stored_cases):
            for key, score in run.scores.items():
                columns.setdefault(key, [NO_SCORE] * len(stored_cases))[at] = _text(score)
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
    """`1`, `.5`, `.8213`, `2340`; as short as a number can be written that is read as the same."""
    text = f"{score:.4f}".rstrip("0").rstrip(".") if 0.0 <= score <= 1.0 else f"{score:.5g}"
    return text.removeprefix("0") or "0"
