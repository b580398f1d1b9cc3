"""Compares the scores of replayed cases with those of the runs that were recorded. Pure.

Nothing varies in a replay, so one run on each side decides, without statistics, and about the same scores as of live
runs: those of metrics that the policy names. Judges' scores are not compared: with `missing-live`, a judge may be asked
again.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.gate.policy import Policy, PolicyReader
from agent_eval_results import CaseDecisionReport, CaseReport, DecisionReasonReport, DecisionReport, MetricReport
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS

_MOST_NAMES = 5
"""Cases of a reason whose numbers it has."""
_SAME = 1e-9
"""A rounding error."""


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
