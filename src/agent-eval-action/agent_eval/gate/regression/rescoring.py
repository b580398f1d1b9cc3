"""Applies the policy to scored cases: thresholds, informational metrics, quarantine; of replayed cases also to scores
that fell since they were recorded. Pure.

Nothing varies in a replay, so one run on each side decides, without statistics, and about the same scores as of live
runs: those of metrics that the policy names. Judges' scores are not compared: with `missing-live`, a judge may be asked
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.gate.policy import MetricPolicy, Policy, PolicyReader, QuarantineEntry
from agent_eval_results import (
    CaseDecisionReport,
    CaseReport,
    DecisionReasonReport,
    DecisionReport,
    MetricReport,
    MetricStatus,
    Reason,
    RunResult,
    RunScore,
    merge,
    reaches,
    status_of_run,
)
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS

QUARANTINED = "quarantined"
"""The code of a quarantined case's reason."""
_MOST_NAMES = 5
"""Cases of a reason whose numbers it has."""
_SAME = 1e-9
"""A rounding error."""


def apply_policy(cases: Sequence[CaseReport], policy: Policy, *, min_pass_rate: float) -> list[CaseReport]:
    """Applies the policy's thresholds and quarantines.

    Args:
        cases: The scored cases. They are not modified; a case without policy entries is returned as it is.
        policy: The repository's policy.
        min_pass_rate: As for `merge`.

    Returns:
        The cases in the same order. A quarantined case has the status `quarantined`, and its reason contains its
        actual result. A case that was not run remains `not_run`.
    """
    reader = PolicyReader(policy)
    result = []
    for case in cases:
        rescored = _judged(case, reader, min_pass_rate) if policy.entries else case
        entry = reader.quarantine(case.file, case.eval_id) if policy.quarantine else None
        result.append(_quarantined(rescored, entry) if entry is not None and not rescored.did_not_run else rescored)
    return result


def _judged(case: CaseReport, reader: PolicyReader, min_pass_rate: float) -> CaseReport:
    entries = reader.of_case(case.file, case.eval_id)
    metrics = [_metric(metric, reader.metric(metric.name, entries)) for metric in case.metrics]
    if all(new is old for new, old in zip(metrics, case.metrics, strict=True)):
        return case
    runs = [_run(run, metrics) for run in case.runs]
    [merged] = merge([case.changed(metrics=metrics, runs=runs)], min_pass_rate=min_pass_rate)
    return merged


def by_policy(metric: MetricReport, case: CaseReport, reader: PolicyReader) -> MetricReport:
    """A metric of a case as the policy has it: its threshold, and whether it may fail the case."""
    return _metric(metric, reader.metric(metric.name, reader.of_case(case.file, case.eval_id)))


def as_recorded(case: CaseReport, *, min_pass_rate: float) -> CaseReport:
    """A replayed case as it was when it was recorded, on the metrics that were measured in the same way.

    A case that its tape does not answer has no result there, either.
    """
    run = case.runs[0]
    if run.tools is None or not case.replayed:
        return case
    metrics = []
    for metric in case.metrics:
        score, measure = run.tools.recorded_scores.get(metric.name, (None, ""))
        if measure == metric.measure:
            scored = RunScore(run=run.run, score=score, status=metric.status)
            metrics.append(metric.changed(runs=[_run_score(scored, metric)]))
    status = run.tools.recorded_status
    before = run.changed(error=None, status=status if status in {"passed", "failed"} else "errored")
    [merged] = merge([case.changed(metrics=metrics, runs=[before], conversation=None)], min_pass_rate=min_pass_rate)
    return merged


def _metric(metric: MetricReport, metric_policy: MetricPolicy) -> MetricReport:
    threshold = metric.threshold if metric_policy.threshold is None else metric_policy.threshold
    blocking = metric_policy.blocking and metric.blocking
    # For an informational metric (cost, duration) that gates only by the policy, lower is better.
    default = "lower" if metric.name in INFORMATIONAL_METRICS else metric.direction
    direction = (metric_policy.direction or default) if threshold is not None else metric.direction
    if metric_policy.also_configured and threshold is not None and metric.threshold is not None:
        threshold = (min if direction == "lower" else max)(threshold, metric.threshold)
    if (threshold, blocking, direction) == (metric.threshold, metric.blocking, metric.direction):
        return metric
    rescored = metric.changed(threshold=threshold, blocking=blocking, direction=direction)
    if (threshold, direction) == (metric.threshold, metric.direction):
        return rescored  # A custom metric may decide against its score.
    rescored.runs = [_run_score(run, rescored) for run in metric.runs]
    return rescored


def _run_score(run: RunScore, metric: MetricReport) -> RunScore:
    status = _status(run, metric)
    if status == "not_evaluated" and run.reason is None:  # What only informs needs no value.
        return run.changed(status=status, reason=Reason.of("unreported"))
    return run.changed(status=status)


def _status(run: RunScore, metric: MetricReport) -> MetricStatus:
    if metric.threshold is None:
        return "not_evaluated" if run.lacks_result else "informational"
    if run.score is None:
        return "not_evaluated"
    return "passed" if reaches(run.score, metric) else "failed"


def _run(run: RunResult, metrics: Iterable[MetricReport]) -> RunResult:
    if run.did_not_run:
        return run
    scores = [score for metric in metrics if metric.blocking for score in metric.runs if score.run == run.run]
    return run.changed(status=status_of_run(run.error, scores))


def _quarantined(case: CaseReport, entry: QuarantineEntry) -> CaseReport:
    reason = Reason.of(
        QUARANTINED,
        result=case.status,
        because=case.reason,
        until=entry.expires.isoformat(),
        owner=entry.owner,
        note=entry.reason,
    )
    return case.changed(status="quarantined", reason=reason)


def fails_alone(case: CaseReport, policy: Policy, *, min_pass_rate: float) -> bool:
    """Whether a case fails a gate that thresholds decide: by the policy, unless it only informs or is quarantined."""
    [judged] = apply_policy([case], policy, min_pass_rate=min_pass_rate)
    reader = PolicyReader(policy)
    return judged.failed and reader.blocks(reader.of_case(case.file, case.eval_id))


def quarantine_notes(cases: Sequence[CaseReport]) -> list[Reason]:
    """A note about the quarantined cases, and how many of them failed; empty if there are none."""
    quarantined = [case for case in cases if case.is_quarantined]
    failed = sum(case.had_in_quarantine("failed") for case in quarantined)
    if not quarantined:
        return []
    return [Reason.of(QUARANTINED, phrase="quarantined-cases", count=failed, total=len(quarantined))]


def with_replayed(decision: DecisionReport, cases: Sequence[CaseReport], policy: Policy) -> DecisionReport:
    """The decision with the replayed cases whose scores fell by more than the policy allows.

    Args:
        decision: On the cases that ran live.
        cases: The head's, with the policy applied.
        policy: The repository's policy.
    """
    fell = [score for score in replayed_scores(cases, policy) if score.word == "worse"]
    reasons = []
    for metric, blocking in dict.fromkeys((worse.metric, worse.blocking) for worse in fell):
        group = [worse for worse in fell if (worse.metric, worse.blocking) == (metric, blocking)]
        reason = DecisionReasonReport.of(
            "case-worse", metric=metric, count=len(group), numbers=[worse.numbers for worse in group[:_MOST_NAMES]]
        )
        ids = [worse.case_id for worse in group]
        reasons.append(reason.model_copy(update={"metric": metric, "case_ids": ids, "blocking": blocking}))
    return decision.model_copy(
        update={
            "outcome": "failed" if any(worse.blocking for worse in fell) else decision.outcome,
            "reasons": [*reasons, *decision.reasons],
            "cases": [*decision.cases, *fell],
        }
    )


def replayed_scores(cases: Sequence[CaseReport], policy: Policy) -> list[CaseDecisionReport]:
    """The scores of replayed cases that the policy compares with the recorded ones."""
    reader = PolicyReader(policy)
    replayed = [case for case in cases if case.replayed and case.is_judged]
    return [score for case in replayed for metric in case.metrics if (score := _compared(case, metric, reader))]


def _compared(case: CaseReport, metric: MetricReport, reader: PolicyReader) -> CaseDecisionReport | None:
    use, entries = case.runs[0].tools, reader.of_case(case.file, case.eval_id)
    recorded, measure = (use.recorded_scores if use else {}).get(metric.name, (0.0, ""))
    policy, score = reader.metric(metric.name, entries), metric.score
    if not policy.named or score is None or measure != metric.measure or metric.judge:
        return None
    if metric.name == "invocation_duration_v1":  # No model took its time.
        return None
    is_informational = metric.name in INFORMATIONAL_METRICS
    direction = policy.direction or ("lower" if is_informational else metric.direction)
    drop = score - recorded if direction == "lower" else recorded - score
    unit = abs(recorded) if is_informational or metric.threshold is None else 1.0
    return CaseDecisionReport(
        case_id=case.case_id,
        metric=metric.name,
        word="worse" if drop > (policy.max_drop or 0.0) * unit + _SAME else "unchanged",
        blocking=policy.blocking and reader.blocks(entries),
        head_mean=score,
        head_runs=1,
        base_mean=recorded,
        base_runs=1,
    )
