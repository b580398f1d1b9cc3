"""Applies the policy to scored cases: thresholds, informational metrics, quarantine. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.evalset.models import INFORMATIONAL_METRICS
from agent_eval.gate.policy import MetricPolicy, Policy, PolicyReader, QuarantineEntry
from agent_eval.results import (
    CaseReport,
    MetricReport,
    MetricStatus,
    Reason,
    RunResult,
    RunScore,
    merge,
    reaches,
    status_of_run,
)

QUARANTINED = "quarantined"
"""The code of a quarantined case's reason."""


def apply_policy(cases: Sequence[CaseReport], policy: Policy, *, min_pass_rate: float) -> list[CaseReport]:
    """Applies the policy's thresholds and quarantines.

    Args:
        cases: The scored cases. They are not modified; a case without policy entries is returned as it is.
        policy: The repository's policy.
        min_pass_rate: As for `results.merge.merge`.

    Returns:
        The cases in the same order. A quarantined case has the status `quarantined`, and its reason contains its
        actual result. A case that was not run remains `not_run`.
    """
    reader = PolicyReader(policy)
    result = []
    for case in cases:
        rescored = _judged(case, reader, min_pass_rate) if policy.entries else case
        entry = reader.quarantine(case.file, case.eval_id) if policy.quarantine else None
        result.append(_quarantined(rescored, entry) if entry is not None and rescored.status != "not_run" else rescored)
    return result


def _judged(case: CaseReport, reader: PolicyReader, min_pass_rate: float) -> CaseReport:
    entries = reader.of_case(case.file, case.eval_id)
    metrics = [_metric(metric, reader.metric(metric.name, entries)) for metric in case.metrics]
    if all(new is old for new, old in zip(metrics, case.metrics, strict=True)):
        return case
    runs = [_run(run, metrics) for run in case.runs]
    part = CaseReport(
        case_id=case.case_id,
        file=case.file,
        line=case.line,
        eval_set_id=case.eval_set_id,
        eval_id=case.eval_id,
        status=case.status,
        fingerprint=case.fingerprint,
        metrics=metrics,
        runs=runs,
    )
    [merged] = merge([part], min_pass_rate=min_pass_rate)
    return merged


def _metric(metric: MetricReport, metric_policy: MetricPolicy) -> MetricReport:
    threshold = metric.threshold if metric_policy.threshold is None else metric_policy.threshold
    blocking = metric_policy.blocking
    # For an informational metric (cost, duration) that gates only by the policy, lower is better.
    default = "lower" if metric.name in INFORMATIONAL_METRICS else metric.direction
    direction = (metric_policy.direction or default) if threshold is not None else metric.direction
    if metric_policy.also_configured and threshold is not None and metric.threshold is not None:
        threshold = (min if direction == "lower" else max)(threshold, metric.threshold)
    if (threshold, blocking, direction) == (metric.threshold, metric.blocking, metric.direction):
        return metric
    rescored = MetricReport(
        name=metric.name,
        score=metric.score,
        threshold=threshold,
        status=metric.status,
        reason=metric.reason,
        judge=metric.judge,
        fingerprint=metric.fingerprint,
        blocking=blocking,
        direction=direction,
        runs=[],
    )
    rescored.runs = [_score(run, rescored) for run in metric.runs]
    return rescored


def _score(run: RunScore, metric: MetricReport) -> RunScore:
    status: MetricStatus
    if metric.threshold is None:
        status = "informational"
    elif run.score is None:
        status = "not_evaluated"
    else:
        status = "passed" if reaches(run.score, metric) else "failed"
    return RunScore(
        run=run.run,
        score=run.score,
        status=status,
        reason=run.reason,
        evidence=run.evidence,
        details=run.details,
        error=run.error,
    )


def _run(run: RunResult, metrics: Iterable[MetricReport]) -> RunResult:
    scores = [score for metric in metrics if metric.blocking for score in metric.runs if score.run == run.run]
    return run.model_copy(update={"status": status_of_run(run, scores)})


def _quarantined(case: CaseReport, entry: QuarantineEntry) -> CaseReport:
    did = "it passed" if case.status == "passed" else "it failed" if case.status == "failed" else "it was not evaluated"
    if case.reason is not None and case.status != "passed":
        did += f" ({case.reason.message})"
    until = f"quarantined until {entry.expires.isoformat()} by {entry.owner}: {entry.reason}"
    return CaseReport(
        case_id=case.case_id,
        file=case.file,
        line=case.line,
        eval_set_id=case.eval_set_id,
        eval_id=case.eval_id,
        status="quarantined",
        reason=Reason(code=QUARANTINED, message=f"{did}; {until}"),
        fingerprint=case.fingerprint,
        metrics=case.metrics,
        runs=case.runs,
    )


def quarantine_notices(cases: Sequence[CaseReport]) -> list[str]:
    """A notice about the quarantined cases, e.g. `2 quarantined cases, 1 of which failed`."""
    quarantined_cases = [case for case in cases if case.status == "quarantined"]
    if not quarantined_cases:
        return []
    count = len(quarantined_cases)
    failed = sum(any(run.status == "failed" for run in case.runs) for case in quarantined_cases)
    if count == 1:
        return [f"1 quarantined case, which {'failed' if failed else 'did not fail'}; it doesn't block"]
    return [f"{count:,} quarantined cases, {f'{failed:,}' if failed else 'none'} of which failed; they don't block"]
