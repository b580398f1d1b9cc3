"""Merges runs of a case, and says what a recording says about its run.

The runner merges single runs as they end. The result does not depend on the order of the runs.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from agent_eval_results.data.origin import NO_FACTS
from agent_eval_results.data.report import (
    CaseReport,
    CaseStatus,
    CaseUsageReport,
    MetricReport,
    MetricStatus,
    ModelUsageReport,
    Reason,
    RunResult,
    RunScore,
)
from agent_eval_scoring.core.means import mean_of_present
from agent_eval_scoring.core.recording import Recording, RunError

WITHOUT_KEY = "without-key"
"""The code of criteria and cases that are skipped because there is no API key (`without-keys: deterministic-only`)."""

Direction = Literal["higher", "lower"]
"""Which side of a threshold passes."""
_EPSILON = 1e-9
"""Tolerance: a rate of 2/3 meets a `min-pass-rate` of 0.6666666667."""


def is_enough(passed: int, runs: int, min_pass_rate: float) -> bool:
    """Whether so many of a case's runs meet the rate that must pass, 0 to 1."""
    return passed / runs >= min_pass_rate - _EPSILON


def status_of_run(error: RunError | None, scores: Iterable[RunScore]) -> CaseStatus:
    """The status of a run that took place. A failure takes precedence over a missing score."""
    if error is not None:
        return "failed" if error.by_agent else "errored"
    scores = tuple(scores)
    counted = [score for score in scores if not is_skipped(score.reason)]
    statuses = {score.status for score in counted}
    # A custom metric is code of the pull request: if it raises an exception, the run fails.
    if "failed" in statuses or any(score.broke for score in counted):
        return "failed"
    return "errored" if "not_evaluated" in statuses or _decides_nothing(scores) else "passed"


def _decides_nothing(scores: Iterable[RunScore]) -> bool:
    gating = [is_skipped(score.reason) for score in scores if not score.only_measures]
    return bool(gating) and all(gating)


def result_of_run(recording: Recording, status: CaseStatus) -> RunResult:
    """What a recording says about its run, in fields of the same names."""
    facts = {name: getattr(recording, name) for name in _shared()}
    lost = {(each.agent, each.toolset): each for turn in recording.all_turns for each in turn.lost_toolsets}
    return RunResult(**facts, status=status, turns=len(recording.invocations), lost_toolsets=list(lost.values()))


@functools.cache
def _shared() -> list[str]:
    return sorted(RunResult.model_fields.keys() & Recording.model_fields.keys())


def is_skipped(reason: Reason | None) -> bool:
    """Whether a metric has no score because it is left out of the case, which its other metrics decide."""
    return reason is not None and reason.code in {WITHOUT_KEY, NO_FACTS}


def merge(parts: Iterable[CaseReport], *, min_pass_rate: float) -> list[CaseReport]:
    """Merges the parts of each case and decides the status of its metrics and of the case.

    Args:
        parts: Cases with any of their runs, in any order. If a run occurs twice, the later one counts.
        min_pass_rate: Share of a case's runs that must pass, 0 to 1.

    Returns:
        One report per case, in the order of their first parts.
    """
    return [_merged(group, min_pass_rate) for group in by_id(parts).values()]


def by_id(parts: Iterable[CaseReport]) -> dict[str, list[CaseReport]]:
    """The parts of each case, in their order."""
    groups: dict[str, list[CaseReport]] = {}
    for part in parts:
        groups.setdefault(part.case_id, []).append(part)
    return groups


def _merged(parts: Sequence[CaseReport], min_pass_rate: float) -> CaseReport:
    runs, scored = _single(parts[0]) if len(parts) == 1 else _latest(parts)
    metrics = [_metric(metric, scores) for metric, scores in scored]
    status, reason = _case_status(runs, [metric for metric in metrics if metric.blocking], min_pass_rate)
    first = parts[0]
    if len(parts) == 1 and (status, reason, metrics, runs) == (first.status, first.reason, first.metrics, first.runs):
        return first
    conversation = next((part.conversation for part in parts if part.conversation is not None), None)
    return first.changed(status=status, reason=reason, metrics=metrics, runs=runs, conversation=conversation)


_Scored = Iterable[tuple[MetricReport, list[RunScore]]]
"""The metrics of a case, each with its scores by run."""


def _latest(parts: Sequence[CaseReport]) -> tuple[list[RunResult], _Scored]:
    """The runs of all parts by number, of each the latest, and its scores."""
    latest = {run.run: (run, part) for part in parts for run in part.runs}
    by_metric: dict[str, tuple[MetricReport, list[RunScore]]] = {}
    for part in parts:
        for metric in part.metrics:
            scores = by_metric.setdefault(metric.name, (metric, []))[1]
            scores += [score for score in metric.runs if score.run in latest and latest[score.run][1] is part]
    for _, scores in by_metric.values():
        scores.sort(key=lambda score: score.run)
    return [run for _, (run, _) in sorted(latest.items())], by_metric.values()


def _single(part: CaseReport) -> tuple[list[RunResult], _Scored]:
    """The same of one part with one run, as nearly all parts are; it takes a fraction of the time."""
    if len(part.runs) != 1 or len({metric.name for metric in part.metrics}) != len(part.metrics):
        return _latest([part])
    number = part.runs[0].run
    return part.runs, [(metric, [score for score in metric.runs if score.run == number]) for metric in part.metrics]


def _metric(metric: MetricReport, runs: list[RunScore]) -> MetricReport:
    mean = mean_of_present(run.score for run in runs)
    missing = next((run for run in runs if run.lacks_result), None)
    direction = _direction(metric, runs)
    status: MetricStatus
    reason: Reason | None = None
    if missing is not None:
        # Not hidden by the runs that could be evaluated.
        status, reason = "not_evaluated", missing.reason
    elif metric.threshold is None:
        status = "informational"
    # A custom metric decides each run itself: a mean on the passing side does not outvote it.
    elif mean is not None and reaches(mean, metric, direction) and any(run.passed for run in runs):
        status = "passed"
    else:
        status = "failed"
    if (status, mean, direction, reason, runs) == (
        metric.status, metric.score, metric.direction, metric.reason, metric.runs
    ):  # fmt: skip
        return metric
    return metric.changed(score=mean, status=status, reason=reason, direction=direction, runs=runs)


def _direction(metric: MetricReport, runs: Sequence[RunScore]) -> Direction:
    """Which side passes, inferred from the runs: a custom metric decides itself whether it passed (as in ADK)."""
    if metric.threshold is None:
        return metric.direction
    higher_passes = {
        (run.score > metric.threshold) == run.passed
        for run in runs
        if run.score is not None and run.score != metric.threshold and run.is_judged
    }
    if len(higher_passes) != 1:
        return metric.direction
    return "higher" if higher_passes.pop() else "lower"


def reaches(score: float, metric: MetricReport, direction: Direction | None = None) -> bool:
    """Whether a score is on the passing side of a metric's threshold. True without a threshold."""
    if metric.threshold is None:
        return True
    lower = (direction or metric.direction) == "lower"
    return score <= metric.threshold if lower else score >= metric.threshold


def _case_status(
    runs: Sequence[RunResult], metrics: Sequence[MetricReport], min_pass_rate: float
) -> tuple[CaseStatus, Reason | None]:
    total = len(runs)
    counts = Counter(run.status for run in runs)
    below = [metric for metric in metrics if metric.failed]
    if counts["failed"] == total and all(run.error is not None for run in runs):
        # Without any score the case fails, however low min-pass-rate is.
        return "failed", _error_of(runs)
    # The case fails even if all other runs pass.
    if counts["failed"] and not is_enough(total - counts["failed"], total, min_pass_rate):
        return "failed", _why_failed(runs, counts["passed"], min_pass_rate, metrics)
    # After the failures: those are too many for the case to pass, whatever the other runs would have shown.
    if counts["errored"]:
        return "errored", _why_errored(runs, metrics)
    if counts["not_run"]:
        missing = next(run for run in runs if run.did_not_run)
        return "not_run", _of_error(missing.error) if missing.error is not None else Reason.of("not-run")
    # Enough runs pass, and still the mean of a metric is too low: ADK averages over runs before it compares.
    if below:
        return "failed", _below(below)
    if any(metric.lacks_result and not is_skipped(metric.reason) for metric in metrics):
        # min-pass-rate tolerates the failed run, but the metric is still unknown.
        return "errored", _why_errored(runs, metrics)
    return "passed", None


def _why_failed(
    runs: Sequence[RunResult], passed: int, min_pass_rate: float, metrics: Sequence[MetricReport]
) -> Reason:
    if len(runs) > 1:
        return Reason.of("min-pass-rate", passed=passed, runs=len(runs), rate=min_pass_rate)
    below = [metric for metric in metrics if metric.failed]
    errors = [score.error for metric in metrics for score in metric.runs if score.error is not None]
    if errors and not below:
        return _of_error(errors[0])
    return _below(below)


def _error_of(runs: Sequence[RunResult]) -> Reason:
    error = next(run.error for run in runs if run.error is not None)
    # The number of runs says something only if there are several.
    if len(runs) == 1:
        return _of_error(error)
    return Reason.of(error.kind, phrase="no-run-completed", runs=len(runs), message=error.message)


def _of_error(error: RunError) -> Reason:
    return Reason(code=error.kind, message=error.message)


def _below(metrics: Sequence[MetricReport]) -> Reason:
    """Why the metrics failed. A custom metric decides itself, maybe against its score."""
    decided = {
        metric.name: [metric.score, metric.threshold]
        for metric in metrics
        if metric.score is not None and metric.threshold is not None and metric.score >= metric.threshold
    }
    below = [metric.name for metric in metrics if metric.name not in decided]
    return Reason.of("below-threshold", metrics=below, decided=decided)


def _why_errored(runs: Sequence[RunResult], metrics: Sequence[MetricReport]) -> Reason:
    error = next((run.error for run in runs if run.errored and run.error is not None), None)
    if error is not None:
        return _of_error(error)
    unknown = [metric for metric in metrics if metric.lacks_result]
    missing = min(unknown, key=lambda metric: is_skipped(metric.reason))
    return Reason.of("not-evaluated", metric=missing.name, because=missing.reason)


_COUNTS = ("calls", "cached_replies", "input_tokens", "output_tokens", "cached_tokens", "thought_tokens", "cost")


def sum_model_usage(reports: Iterable[ModelUsageReport]) -> list[ModelUsageReport]:
    """The usage by model, sorted by name. A count that no job reports stays None."""
    groups: dict[str, list[ModelUsageReport]] = {}
    for report in reports:
        groups.setdefault(report.model, []).append(report)
    return [
        ModelUsageReport(
            model=model,
            versions=sorted({version for report in group for version in report.versions}),
            failures=sum(report.failures for report in group),
            saved_votes=sum(report.saved_votes for report in group),
            **{name: _sum(getattr(report, name) for report in group) for name in _COUNTS},
        )
        for model, group in sorted(groups.items())
    ]


def sum_case_usage(reports: Iterable[CaseUsageReport]) -> list[CaseUsageReport]:
    """The usage by case, purpose and model, in this sort order."""
    groups: dict[tuple[str, str, str], list[CaseUsageReport]] = {}
    for report in reports:
        groups.setdefault((report.case_id, report.purpose, report.model), []).append(report)
    return [
        CaseUsageReport(
            case_id=case_id,
            purpose=purpose,
            model=model,
            **{name: _sum(getattr(report, name) for report in group) for name in _COUNTS},
        )
        for (case_id, purpose, model), group in sorted(groups.items())
    ]


def _sum(values: Iterable[float | None]) -> float | None:
    counts = [value for value in values if value is not None]
    return sum(counts) if counts else None
