"""Means over the base branch's stored runs of a case, instead of its last run. Pure.

Two single runs differ even if nothing has changed. If the history has more runs of a case, its scores are means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.gate.history._stored_runs import StoredRun, stored_runs
from agent_eval.results import PASSED, UNKNOWN, HistoryReport, MetricReport, RunReport

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
    case_histories = {case.case_id: case for case in history.cases}
    metrics: dict[str, Sequence[MetricReport]] = {}
    passes: dict[str, float] = {}
    records = 1
    for case in base.cases:
        old = case_histories.get(case.case_id)
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
    if abs(mean - metric.score) <= _ROUNDING * max(1.0, abs(metric.score)):
        return metric
    return metric.model_copy(update={"score": mean})


def _share(runs: Sequence[StoredRun], min_pass_rate: float) -> float | None:
    """The share of gate runs in which the case passed; a gate run may have several runs of it."""
    by_record: dict[int, list[bool]] = {}
    for run in runs:
        if run.outcome != UNKNOWN:
            by_record.setdefault(run.record, []).append(run.outcome == PASSED)
    passed = [sum(outcomes) / len(outcomes) >= min_pass_rate for outcomes in by_record.values()]
    return sum(passed) / len(passed) if passed else None
