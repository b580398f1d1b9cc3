"""Runs of a gate written as short texts: `case("lamp_on", "110x")` passed twice, failed once, and then broke.

`1` passed, `0` failed, `x` the agent broke, `p` its provider failed, `?` a metric could not be evaluated, `-` not run.
Other errors of the agent: `i` it can't be imported, `c` its process ended, `d` it was too slow.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.gate import diff
from agent_eval.gate.history import KEEP, extend
from agent_eval.gate.regression import Comparable, comparable_cases
from agent_eval_results.data.comparison import ComparisonReport
from agent_eval_results.data.history import HistoryReport
from agent_eval_results.data.merging import merge
from agent_eval_results.data.pairing import pair_up
from agent_eval_results.data.report import (
    CaseReport,
    CaseStatus,
    MetricReport,
    Origin,
    Reason,
    RunReport,
    RunResult,
    RunScore,
)
from agent_eval_results.report.phrases import notes_of, text
from agent_eval_scoring.core.recording import RunError, ToolUse

SCORE, TOKENS = "response_match_score", "token_usage_v1"
FILE = "evals/home.test.json"

ERRORS = {
    "x": RunError(kind="agent-exception", owner="agent", message="KeyError: 'garage'"),
    "i": RunError(kind="agent-import", owner="agent", message="KeyError: 'TOKEN'"),
    "c": RunError(kind="agent-crash", owner="agent", message="killed"),
    "d": RunError(kind="deadline", owner="agent", message="180 s"),
    "p": RunError(kind="provider-unavailable", owner="provider", message="503"),
    "-": RunError(kind="stopped", owner="gate", message="stopped"),
}
STATUS: dict[str, CaseStatus] = {"1": "passed", "p": "errored", "?": "errored", **dict.fromkeys("0xicd", "failed")}


def compare(head: RunReport, base: RunReport, history: HistoryReport | None = None) -> ComparisonReport:
    """The comparison of two runs, paired as a run of the gate pairs them, with its remarks in words."""
    pairing = pair_up(head.cases, base.cases, head.selection, base.selection, history.cases if history else ())
    comparison = diff.compare(head, base, pairing, history)
    for note in notes_of(comparison):
        note.message = text(note)
    return comparison


def said(note: Reason | None) -> str | None:
    """The words of a remark."""
    return note.message if note is not None else None


def comparable(cases: Sequence[CaseReport], base: HistoryReport) -> dict[str, Comparable]:
    """Which cases of the head can be compared with stored runs."""
    return comparable_cases(cases, base, pair_up(cases, (), history=base.cases).stored)


def case(
    eval_id: str,
    runs: str = "",
    *,
    scores: Sequence[float] | None = None,
    tokens: Sequence[float] = (),
    file: str = FILE,
    fingerprint: str | None = None,
    metric: str = SCORE,
    measures: str = "m1",
    threshold: float = 0.5,
    first_run: int = 0,
    min_pass_rate: float = 1.0,
) -> CaseReport:
    """A case with a gating metric, by its runs or by the scores of those."""
    if scores is not None:
        runs = "".join("1" if score >= threshold else "0" for score in scores)
    given = scores if scores is not None else [float(run) if run in "10" else None for run in runs]
    case_id = f"{file}:{eval_id}"
    judged = [
        RunScore(
            run=first_run + at,
            score=score,
            status="not_evaluated" if score is None else "passed" if score >= threshold else "failed",
            reason=Reason(code="turn-count", message="a turn is missing") if score is None else None,
        )
        for at, (run, score) in enumerate(zip(runs, given, strict=True))
        if run in "10?"
    ]
    counted = [RunScore(run=first_run + at, score=count, status="informational") for at, count in enumerate(tokens)]
    part = CaseReport(
        case_id=case_id,
        file=file,
        eval_set_id="home",
        eval_id=eval_id,
        status="passed",
        fingerprint=fingerprint if fingerprint is not None else f"content of {eval_id}",
        metrics=[
            MetricReport(name=metric, threshold=threshold, status="passed", fingerprint=measures, runs=judged),
            *([MetricReport(name=TOKENS, status="informational", runs=counted)] if tokens else []),
        ],
        runs=[
            RunResult(
                run_id=f"{case_id}#{first_run + at + 1}",
                run=first_run + at,
                status=STATUS.get(run, "not_run"),
                error=ERRORS.get(run),
            )
            for at, run in enumerate(runs)
        ],
    )
    [merged] = merge([part], min_pass_rate=min_pass_rate)
    return merged


def replayed(report: CaseReport, recorded: str = "passed", **scores: float) -> CaseReport:
    """A case that was replayed from the tape of a run with a status and scores, which were measured as those now."""
    measured = {
        metric.name: (scores[metric.name], metric.measure) for metric in report.metrics if metric.name in scores
    }
    report.runs[0].tools = ToolUse(mode="all", recorded_status=recorded, recorded_scores=measured)
    return report


def history_of(*reports: RunReport, keep: int = KEEP) -> HistoryReport:
    """What is stored of runs of the base, read back."""
    history = None
    for added in reports:
        history = extend(history, added, keep)
    assert history is not None
    return HistoryReport.model_validate_json(history.model_dump_json())


def report(*cases: CaseReport, day: int = 0, num_runs: int = 1, pull_request: int | None = None) -> RunReport:
    """A run of the gate on a day."""
    return RunReport(
        tool_version="1.0.0",
        verdict="failed" if any(item.status == "failed" for item in cases) else "passed",
        started_at=1_790_000_000.0 + day * 86_400,
        duration=1.0,
        num_runs=num_runs,
        min_pass_rate=1.0,
        origin=Origin(commit=f"{day:08x}" + "0" * 32, run_id=1000 + day, run_attempt=1, pull_request=pull_request),
        cases=list(cases),
    )
