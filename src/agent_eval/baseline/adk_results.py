"""A result of `adk eval` or `adk web` as the older side of a comparison.

ADK measured its scores; they are shown beside ours and never enter a statistical test: the report has no history, and
nothing is known of what the cases asked (no fingerprints).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_eval.baseline.reader import UnreadableError
from agent_eval.core.files import MAX_RESULTS, read_regular
from agent_eval.core.text import harmless
from agent_eval.results import (
    AdkCaseResult,
    AdkMetricResult,
    AdkSetResult,
    AdkStatus,
    CaseReport,
    CaseStatus,
    MetricReport,
    MetricStatus,
    RunReport,
    RunResult,
    RunScore,
    adk_result_value,
    adk_set_result,
)

ADK_SUFFIX = ".evalset_result.json"
"""The end of the names of ADK's result files."""
MEASURED_BY_ADK = "adk"
"""The `tool_version` of a report of ADK's results."""
_CASE: Mapping[AdkStatus, CaseStatus] = {AdkStatus.PASSED: "passed", AdkStatus.FAILED: "failed"}
_METRIC: Mapping[AdkStatus, MetricStatus] = {
    AdkStatus.PASSED: "passed",
    AdkStatus.FAILED: "failed",
    AdkStatus.NOT_EVALUATED: "not_evaluated",
    AdkStatus.INFORMATIONAL: "informational",
}


def read_adk_results(path: Path, head: RunReport) -> RunReport:
    """Reads a result of ADK. Its cases are the head's cases of the same eval set and eval id, or else of the eval id.

    Args:
        path: A `.evalset_result.json`.
        head: The newer side of the comparison.

    Raises:
        UnreadableError: It can't be read, or is not a result of ADK.
    """
    from pydantic_core import from_json

    where = harmless(str(path))
    try:
        value = adk_result_value(from_json(read_regular(path, MAX_RESULTS), allow_inf_nan=False))
        if value is None:
            raise ValueError("it has no `eval_case_results`")
        result = adk_set_result(value)
    except OSError as error:
        raise UnreadableError(f"{where} can't be read: {error.strerror or error}.", _HINT) from None
    except ValueError as error:
        raise UnreadableError(f"{where} is not a result of ADK: {harmless(str(error))}.", _HINT) from None
    if not result.eval_case_results:
        raise UnreadableError(f"{where} has no cases.", _HINT)
    cases = list(_cases(result, head))
    return RunReport(
        tool_version=MEASURED_BY_ADK,
        verdict="passed" if all(case.status == "passed" for case in cases) else "failed",
        started_at=result.creation_timestamp,
        duration=0.0,
        num_runs=max(len(case.runs) for case in cases),
        min_pass_rate=head.min_pass_rate,
        cases=cases,
    )


_HINT = "Name a file of `.adk/eval_history`, as `adk eval` and `adk web` write it."


def _cases(result: AdkSetResult, head: RunReport) -> Iterator[CaseReport]:
    runs: dict[tuple[str, str], list[AdkCaseResult]] = {}
    for case in result.eval_case_results:
        runs.setdefault((case.eval_set_id or result.eval_set_id, case.eval_id), []).append(case)
    for (set_id, eval_id), cases in runs.items():
        file = _file(set_id, eval_id, head)
        statuses = [_CASE.get(case.final_eval_status, "errored") for case in cases]
        yield CaseReport(
            case_id=f"{file}:{eval_id}",
            file=file,
            eval_set_id=set_id,
            eval_id=eval_id,
            status=_worst(statuses),
            metrics=_metrics(cases),
            runs=[
                RunResult(
                    run_id=f"{file}:{eval_id}#{number + 1}",
                    run=number,
                    status=status,
                    duration=_seconds(cases[number]),
                    turns=len(cases[number].eval_metric_result_per_invocation),
                )
                for number, status in enumerate(statuses)
            ],
        )


def _file(set_id: str, eval_id: str, head: RunReport) -> str:
    """The head's eval file with the case; else the eval set's id, in whose place no file is known."""
    same = [case for case in head.cases if case.eval_id == eval_id]
    candidates = [case for case in same if case.eval_set_id == set_id] or same
    return candidates[0].file if len(candidates) == 1 else set_id


def _seconds(case: AdkCaseResult) -> float:
    """The seconds of the turns; 0 where ADK has not measured them."""
    return sum(turn.actual_invocation.duration or 0.0 for turn in case.eval_metric_result_per_invocation)


def _worst(statuses: Sequence[CaseStatus]) -> CaseStatus:
    order: tuple[CaseStatus, ...] = ("failed", "errored", "passed")
    return next(status for status in order if status in statuses)


def _metrics(cases: Sequence[AdkCaseResult]) -> list[MetricReport]:
    results: dict[str, list[tuple[int, AdkMetricResult]]] = {}
    for number, case in enumerate(cases):
        for metric in case.overall_eval_metric_results:
            results.setdefault(metric.metric_name, []).append((number, metric))
    return [_metric(name, runs) for name, runs in results.items()]


def _metric(name: str, results: Sequence[tuple[int, AdkMetricResult]]) -> MetricReport:
    runs = [RunScore(run=number, score=metric.score, status=_METRIC[metric.eval_status]) for number, metric in results]
    scores = [run.score for run in runs if run.score is not None]
    statuses = [run.status for run in runs]
    worst: tuple[MetricStatus, ...] = ("failed", "not_evaluated", "passed", "informational")
    latest = results[-1][1]
    options = (latest.criterion or {}).get("judge_model_options")
    judge = options.get("judge_model") if isinstance(options, Mapping) else None
    return MetricReport(
        name=name,
        score=sum(scores) / len(scores) if scores else None,
        threshold=None if latest.eval_status is AdkStatus.INFORMATIONAL else latest.threshold,
        status=next(status for status in worst if status in statuses),
        judge=judge if isinstance(judge, str) else None,
        runs=runs,
    )
