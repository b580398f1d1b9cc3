"""A recorded run becomes scores on the wire."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from agent_eval.agents.protocol import MetricRunner
from agent_eval.core.content import text_of
from agent_eval.core.invocation import Invocation
from agent_eval.core.text import shorten
from agent_eval.criteria import (
    Conversation,
    Criterion,
    CustomMetric,
    NotEvaluated,
    Packaged,
    Result,
    Scored,
    TurnFinding,
    unlabelled,
)
from agent_eval.evalset.models import JUDGED_METRICS
from agent_eval.results import (
    CaseReport,
    MetricReport,
    Reason,
    Recording,
    RunError,
    RunResult,
    RunScore,
    TurnEvidence,
    status_of_run,
)
from agent_eval.runner.plan import PlannedCase

_USER, _SIDE, _TURNS = 300, 1500, 10
"""Characters of a user's message and of each side of a finding, and turns, that results.json keeps: the whole is in
the recordings."""
_REASONS, _REASON = 20, 500
"""Reasons of a finding, and characters of each."""


def waits(criterion: Criterion) -> bool:
    """Whether a criterion mostly waits for somebody else: a model, or the process of a custom metric."""
    working = unlabelled(criterion)
    return working.name in JUDGED_METRICS or isinstance(working, CustomMetric | Packaged)


async def report_run(planned: PlannedCase, recording: Recording, metrics: MetricRunner | None = None) -> CaseReport:
    """Scores one run. A run that failed has no scores: an error is not a 0.

    Args:
        planned: The case.
        recording: What the agent did.
        metrics: Runs custom metrics; None where there is no agent's environment.
    """
    scores: list[tuple[Criterion, RunScore]] = []
    if recording.error is None:
        conversation = Conversation(
            case=planned.case,
            actual=recording.invocations,
            expected=planned.case.conversation,
            run=recording.run,
            case_id=planned.case_id,
            metrics=metrics,
        )
        # Those that mostly wait at once; the others cost less than a task would.
        judged = [criterion for criterion in planned.criteria if waits(criterion)]
        verdicts = dict(
            zip(
                (criterion.name for criterion in judged),
                await asyncio.gather(*(criterion.score(conversation) for criterion in judged)),
                strict=True,
            )
        )
        for criterion in planned.criteria:
            outcome = verdicts[criterion.name] if criterion in judged else await criterion.score(conversation)
            scores.append((criterion, _run_score(criterion, outcome, recording, planned)))
    result = RunResult(
        run_id=recording.run_id,
        run=recording.run,
        status="passed",
        error=recording.error,
        started_at=recording.started_at,
        duration=recording.duration,
        usage=recording.usage,
        turns=len(recording.invocations),
        attempts=recording.attempts,
        stop_reason=recording.stop_reason,
    )
    result.status = status_of_run(result, (score for _, score in scores))
    return _case(planned, result, [_metric(criterion, score, planned) for criterion, score in scores])


def _metric(criterion: Criterion, score: RunScore, planned: PlannedCase) -> MetricReport:
    known = planned.identities.get(criterion.name)
    return MetricReport(
        name=criterion.name,
        threshold=criterion.threshold,
        status=score.status,
        judge=known.judge if known else None,
        fingerprint=known.fingerprint if known else "",
        runs=[score],
    )


def report_not_run(planned: PlannedCase, run: int, error: RunError) -> CaseReport:
    """A run that did not take place, or was broken off by us."""
    return _case(planned, RunResult(run_id=planned.run_id(run), run=run, status="not_run", error=error), [])


def _case(planned: PlannedCase, run: RunResult, metrics: list[MetricReport]) -> CaseReport:
    return CaseReport(
        case_id=planned.case_id,
        file=planned.file,
        line=planned.line,
        eval_set_id=planned.eval_set_id,
        eval_id=planned.case.eval_id,
        status=run.status,
        fingerprint=planned.content,
        metrics=metrics,
        runs=[run],
    )


def _run_score(criterion: Criterion, result: Result, recording: Recording, planned: PlannedCase) -> RunScore:
    if isinstance(result, NotEvaluated):
        status = "not_evaluated" if criterion.threshold is not None else "informational"
        reason = Reason(code=result.code, message=result.message)
        return RunScore(run=recording.run, status=status, reason=reason, error=result.error, details=result.details)
    if criterion.threshold is None:
        return RunScore(run=recording.run, score=result.score, status="informational", details=result.details)
    if result.score is None:
        reason = Reason(code="no-score", message="The criterion gave no score")
        return RunScore(run=recording.run, status="not_evaluated", reason=reason)
    # A plain comparison without tolerance, as in ADK; custom metrics compare themselves.
    passed = result.score >= criterion.threshold if result.passed is None else result.passed
    return RunScore(
        run=recording.run,
        score=result.score,
        status="passed" if passed else "failed",
        evidence=[] if passed else _evidence(result, planned.case.conversation or recording.invocations),
        details=result.details,
    )


def _evidence(result: Scored, turns: Sequence[Invocation]) -> list[TurnEvidence]:
    return [_turn(finding, turns) for finding in _weightiest(result.findings)]


def _weightiest(findings: Sequence[TurnFinding]) -> list[TurnFinding]:
    """The turns with the lowest scores, in the order of the conversation."""
    worst = sorted(findings, key=lambda finding: (finding.score if finding.score is not None else -1.0, finding.turn))
    return sorted(worst[:_TURNS], key=lambda finding: finding.turn)


def _turn(finding: TurnFinding, turns: Sequence[Invocation]) -> TurnEvidence:
    user = text_of(turns[finding.turn].user_content) if finding.turn < len(turns) else ""
    left = len(finding.why) - _REASONS
    more = [f"and {left:,} more"] if left > 0 else []
    return TurnEvidence(
        turn=finding.turn,
        score=finding.score,
        user=shorten(user, _USER),
        expected=shorten(finding.expected, _SIDE),
        actual=shorten(finding.actual, _SIDE),
        why=[*(shorten(line, _REASON) for line in finding.why[:_REASONS]), *more],
    )
