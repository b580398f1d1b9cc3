"""The trend of the base branch: a row of totals for each recorded run. Pure."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

from agent_eval.gate.history._stored_runs import outcome_of, scores_by_run
from agent_eval.results import BROKE, CaseReport, HistoryRecord, ModelUsageReport, RunReport, TrendRow

KEEP_ROWS = 200
"""Rows that are kept: about 200 bytes each."""


def trend_row(report: RunReport, record: HistoryRecord) -> TrendRow:
    """The totals of a run of the base branch.

    Args:
        report: The run.
        record: Its record in the history.
    """
    words = [_outcome(case) for case in report.cases]
    judged = [run for case in report.cases for run in case.runs if run.status in {"passed", "failed"}]
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
        judges=sorted({metric.judge for case in report.cases for metric in case.metrics if metric.judge}),
        adk=",".join(sorted({value for name, value in report.provenance.items() if name.partition(" ")[0] == "adk"})),
    )


def joined_rows(older: Sequence[TrendRow], newer: Sequence[TrendRow]) -> list[TrendRow]:
    """The newest KEEP_ROWS rows of both in order of time; a run that both have counts once."""
    rows = {key_of(row): row for row in (*older, *newer)}
    return sorted(rows.values(), key=lambda row: row.recorded_at)[-KEEP_ROWS:]


def key_of(record: HistoryRecord) -> tuple[object, ...]:
    """What identifies a run of the base branch."""
    if record.run_id is not None:
        return record.run_id, record.run_attempt
    return record.commit, record.recorded_at


def suite_hash(cases: Sequence[CaseReport]) -> str:
    """Hash of which cases were run, and of their messages and expectations."""
    digest = hashlib.sha256()
    for case_id, fingerprint in sorted((case.case_id, case.fingerprint) for case in cases):
        digest.update(f"{case_id}\0{fingerprint}\0".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:16]


def _outcome(case: CaseReport) -> str:
    if case.status in {"errored", "not_run"}:
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
            if metric.threshold is not None and metric.score is not None and math.isfinite(metric.score):
                scores.setdefault(metric.name, []).append(metric.score)
    return {name: round(sum(values) / len(values), 4) for name, values in scores.items()}


def _percentile(ordered: Sequence[float], share: float) -> float | None:
    return round(ordered[math.ceil(share * len(ordered)) - 1], 3) if ordered else None


def _cost(usage: Sequence[ModelUsageReport]) -> float | None:
    costs = [entry.cost for entry in usage if entry.cost is not None]
    return round(sum(costs), 6) if costs else None
