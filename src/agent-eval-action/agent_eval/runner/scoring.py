"""Scores a recorded run for the report."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Sequence
from dataclasses import replace

from agent_eval.runner.plan import NO_JUDGE, PlannedCase
from agent_eval_agents.fingerprints import versioned
from agent_eval_results import (
    WITHOUT_KEY,
    CaseReport,
    MetricReport,
    Reason,
    Recording,
    RunError,
    RunResult,
    RunScore,
    TurnEvidence,
    Usage,
    is_skipped,
    result_of_run,
    status_of_run,
)
from agent_eval_scoring.core.content import text_of
from agent_eval_scoring.core.invocation import AgentDetails, AppDetails, Invocation, InvocationEvent, InvocationEvents
from agent_eval_scoring.core.masking import Masker
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria import (
    CodeMetric,
    Conversation,
    Criterion,
    CustomMetric,
    MetricRunner,
    NotEvaluated,
    Packaged,
    Result,
    Scored,
    TurnFinding,
    calls_not_visible,
    explained,
    unlabelled,
)
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS, JUDGED_METRICS
from agent_eval_scoring.models import Replies

_USER, _SIDE, _TURNS = 300, 1500, 10
"""Limits of results.json: characters of a user's message, characters of each side of a finding, and turns. The
recordings have the full text."""
_REASONS, _REASON = 20, 500
"""Reasons per finding, and characters per reason."""


def build_models() -> None:
    """Builds the models of an agent's start and of a run: pydantic would build each when it is used first, while the
    agent's processes wait. Not for a thread: two that build one model at once may find half of it.
    """
    from agent_eval_agents.messages import AgentsDescribed, Hello, Loaded, TurnFacts

    answers = (Hello, Loaded, AgentsDescribed, TurnFacts, InvocationEvent, InvocationEvents, AgentDetails, AppDetails)
    for model in (*answers, Invocation, Recording, Usage, RunError, RunScore, MetricReport, RunResult, CaseReport):
        model.model_rebuild()


def waits(criterion: Criterion) -> bool:
    """Whether a criterion waits for a model or for the process of a custom metric."""
    base = unlabelled(criterion)
    return base.name in JUDGED_METRICS or isinstance(base, CustomMetric | CodeMetric | Packaged)


async def report_run(
    planned: PlannedCase,
    recording: Recording,
    metrics: MetricRunner | None = None,
    replies: Replies | None = None,
    masker: Masker | None = None,
    known: dict[Hashable, MetricReport] | None = None,
) -> CaseReport:
    """Scores one run. A failed run has no scores, because an error is not a score of 0.

    Masking changes no score: judges and code of others get both sides masked; our own criteria compare the secrets, and
    explain the difference of the masked texts.

    Args:
        planned: The case.
        recording: The recorded run.
        metrics: Runs custom metrics; None if the agent's code does not run here.
        replies: Those of its judges, if they are replayed or recorded.
        masker: Has masked the recording and the case.
        known: Metrics of earlier runs. They are replaced from now on, never changed.
    """
    reports: list[MetricReport] = []
    if recording.error is None:
        conversation = Conversation(
            case=planned.case,
            actual=recording.invocations,
            expected=planned.case.conversation,
            run=recording.run,
            case_id=planned.case_id,
            calls_visible=recording.calls_visible,
            metrics=metrics,
            replies=replies,
        )
        exact = _revealed(conversation, masker or Masker(), planned.secrets)
        # Criteria that wait run concurrently. The others are cheaper than a task.
        waiting = [criterion for criterion in planned.criteria if waits(criterion)]
        results = dict(
            zip(
                (criterion.name for criterion in waiting),
                await asyncio.gather(*(_score(criterion, conversation) for criterion in waiting)),
                strict=True,
            )
        )
        for criterion in planned.criteria:
            outcome = results[criterion.name] if criterion in waiting else await _score(criterion, conversation)
            if exact is not None and criterion not in waiting:
                outcome = _with_scores(outcome, await _score(criterion, exact), conversation)
            reports.append(_metric(criterion, outcome, recording, planned, {} if known is None else known))
        reasons = [metric.runs[0].reason for metric in reports if metric.name not in INFORMATIONAL_METRICS]
        codes = {reason.code for reason in reasons if reason is not None}
        if WITHOUT_KEY in codes and all(map(is_skipped, reasons)):
            error = RunError(kind=WITHOUT_KEY, owner="gate", message=NO_JUDGE)
            return report_not_run(planned, recording.run, error)  # Nothing has decided that it passes.
    counted = (score for metric in reports if metric.blocking for score in metric.runs)
    status = status_of_run(recording.error, counted)
    return _case(planned, result_of_run(recording, status), reports)


async def _score(criterion: Criterion, conversation: Conversation) -> Result:
    return calls_not_visible(criterion, conversation) or explained(await criterion.score(conversation), conversation)


def _revealed(conversation: Conversation, masker: Masker, known: frozenset[str]) -> Conversation | None:
    """The conversation with its secrets; None if it has none."""
    turns = [*conversation.actual, *(conversation.expected or ())]
    revealed = [masker.revealed(turn, known) for turn in turns]
    case = masker.revealed(conversation.case, known)
    if case is conversation.case and all(after is before for after, before in zip(revealed, turns, strict=True)):
        return None
    count = len(conversation.actual)
    expected = None if conversation.expected is None else revealed[count:]
    return replace(conversation, case=case, actual=revealed[:count], expected=expected)


def _with_scores(masked: Result, exact: Result, conversation: Conversation) -> Result:
    """The scores of the secrets with the texts of the masked conversation."""
    if not isinstance(masked, Scored) or not isinstance(exact, Scored):
        return masked
    texts = {finding.turn: finding for finding in masked.findings}
    findings = [
        replace(texts.get(low.turn) or _of_answers(conversation, low), score=low.score) for low in exact.findings
    ]
    return replace(
        masked, score=exact.score, passed=exact.passed, turn_scores=exact.turn_scores, findings=tuple(findings)
    )


def _of_answers(conversation: Conversation, low: TurnFinding) -> TurnFinding:
    """A finding that the masked texts have not, since they are alike enough: with both, and without words about them.

    Those of a finding about the secrets may be cut within one.
    """
    expected = text_of(conversation.expected[low.turn].final_response) if conversation.expected else ""
    return replace(low, expected=expected, actual=text_of(conversation.actual[low.turn].final_response), why=())


def _metric(
    criterion: Criterion,
    result: Result,
    recording: Recording,
    planned: PlannedCase,
    known: dict[Hashable, MetricReport],
) -> MetricReport:
    """The metric of a run; instead of one that equals an earlier run's, as most of 10,000 cases do, that one."""
    if not isinstance(result, Scored) or result.findings or result.details:
        return _new_metric(criterion, result, recording, planned)
    # As text, for which -0.0 is not 0.0.
    values = str((result.score, result.passed, result.turn_scores))
    key = criterion.name, criterion.threshold, planned.identities.get(criterion.name), recording.run, values
    if key not in known:
        known[key] = _new_metric(criterion, result, recording, planned)
    return known[key]


def _new_metric(criterion: Criterion, result: Result, recording: Recording, planned: PlannedCase) -> MetricReport:
    score = _run_score(criterion, result, recording, planned)
    identity = planned.identities.get(criterion.name)
    fingerprint = identity.fingerprint if identity else ""
    # A custom metric may name its version: another prompt or model is another measurement, though its code is the same.
    version = score.details.get("version") if isinstance(unlabelled(criterion), CustomMetric) else None
    return MetricReport(
        name=criterion.name,
        # As `merge` decides of a single run, which then need not make another one.
        score=score.score,
        threshold=criterion.threshold,
        status=score.status,
        reason=score.reason if score.lacks_result else None,
        judge=identity.judge if identity else None,
        fingerprint=versioned(fingerprint, version) if isinstance(version, str) else fingerprint,
        direction="lower" if identity is not None and identity.direction == "lower" else "higher",
        blocking=identity is None or identity.direction != "none",
        runs=[score],
    )


def report_not_run(planned: PlannedCase, run: int, error: RunError) -> CaseReport:
    """A run that did not take place, or that the gate cancelled."""
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
        status = "informational" if criterion.name in INFORMATIONAL_METRICS else "not_evaluated"
        return RunScore(
            run=recording.run, status=status, reason=result.reason, error=result.error, details=result.details
        )
    if criterion.threshold is None:
        return RunScore(
            run=recording.run,
            score=result.score,
            status="informational",
            turn_scores=_turn_scores(result),
            details=result.details,
        )
    if result.score is None:
        reason = Reason.of("no-score")
        return RunScore(run=recording.run, status="not_evaluated", reason=reason)
    # Compared without tolerance, as in ADK. Custom metrics decide for themselves.
    passed = result.score >= criterion.threshold if result.passed is None else result.passed
    return RunScore(
        run=recording.run,
        score=result.score,
        status="passed" if passed else "failed",
        turn_scores=_turn_scores(result),
        evidence=_evidence(result, criterion.threshold, passed, planned.case.conversation or recording.invocations),
        details=result.details,
    )


def _turn_scores(result: Scored) -> list[float | None]:
    # Of one turn it is the score itself.
    return list(result.turn_scores) if len(result.turn_scores) > 1 else []


def _evidence(result: Scored, threshold: float, passed: bool, turns: Sequence[Invocation]) -> list[TurnEvidence]:
    """Of a score that passes, the turns that would fail by themselves: the mean hides them.

    What a turn's score means to a custom metric, which decides itself, is not known.
    """
    if not passed:
        return [_turn(finding, turns) for finding in _lowest(result.findings)]
    low = [found for found in result.findings if found.score is not None and found.score < threshold]
    return [_turn(finding, turns) for finding in _lowest(low)] if result.passed is None else []


def _lowest(findings: Sequence[TurnFinding]) -> list[TurnFinding]:
    """The turns with the lowest scores, in the order of the conversation."""
    # A turn without a score, e.g. one without an answer, is worse than any.
    worst = sorted(findings, key=lambda finding: (finding.score if finding.score is not None else -1.0, finding.turn))
    return sorted(worst[:_TURNS], key=lambda finding: finding.turn)


def _line(line: Reason | str) -> Reason:
    return Reason(code="note", message=shorten(line, _REASON)) if isinstance(line, str) else line


def _turn(finding: TurnFinding, turns: Sequence[Invocation]) -> TurnEvidence:
    user = text_of(turns[finding.turn].user_content) if finding.turn < len(turns) else ""
    omitted = len(finding.why) - _REASONS
    more = [Reason.of("further-lines", more=omitted)] if omitted > 0 else []
    return TurnEvidence(
        turn=finding.turn,
        score=finding.score,
        user=shorten(user, _USER),
        expected=shorten(finding.expected, _SIDE),
        actual=shorten(finding.actual, _SIDE),
        why=[*map(_line, finding.why[:_REASONS]), *more],
    )
