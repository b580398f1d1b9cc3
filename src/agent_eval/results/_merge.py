"""Runs of a case become the case, wherever they were made.

The runner merges single runs with it as they end, and shards of one evaluation merge their reports' cases with it: both
get the same numbers, whatever finished first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from agent_eval.core.text import plural
from agent_eval.results.report import (
    CaseReport,
    CaseStatus,
    MetricReport,
    MetricStatus,
    Reason,
    RunResult,
    RunScore,
)

WITHOUT_KEY = "without-key"
"""The code of what was left out because there is no key for it, where the gate was told to do without."""

Direction = Literal["higher", "lower"]
"""Which side of a threshold is good."""
_EPSILON = 1e-9
"""A rate such as 2/3 must meet a demand of 0.6666666667 that somebody typed."""


def status_of_run(run: RunResult, scores: Iterable[RunScore]) -> CaseStatus:
    """What one run amounts to: a failure weighs more than something that could not be judged."""
    if run.status == "not_run":
        return "not_run"
    if run.error is not None:
        return "failed" if run.error.owner == "agent" else "errored"
    counted = [score for score in scores if not _left_out(score.reason)]
    statuses = {score.status for score in counted}
    # Without a score, but not without an owner: a metric that the pull request's own code broke fails the run.
    if "failed" in statuses or any(score.error is not None and score.error.owner == "agent" for score in counted):
        return "failed"
    return "errored" if "not_evaluated" in statuses else "passed"


def _left_out(reason: Reason | None) -> bool:
    return reason is not None and reason.code == WITHOUT_KEY


def merge(parts: Iterable[CaseReport], *, min_pass_rate: float) -> list[CaseReport]:
    """Merges what belongs to the same case, and decides its metrics and status anew.

    Args:
        parts: Cases with any of their runs, in any order. A run that is there twice counts once, the later one.
        min_pass_rate: Share of a case's runs that must pass, 0 to 1.

    Returns:
        One report per case, in the order in which their first parts came.
    """
    groups: dict[str, list[CaseReport]] = {}
    for part in parts:
        groups.setdefault(part.case_id, []).append(part)
    return [_merged(group, min_pass_rate) for group in groups.values()]


def _merged(parts: Sequence[CaseReport], min_pass_rate: float) -> CaseReport:
    latest = {run.run: (run, part) for part in parts for run in part.runs}
    runs = [run for _, (run, _) in sorted(latest.items())]
    found: dict[str, tuple[MetricReport, list[RunScore]]] = {}
    for part in parts:
        for metric in part.metrics:
            scores = found.setdefault(metric.name, (metric, []))[1]
            scores += [score for score in metric.runs if score.run in latest and latest[score.run][1] is part]
    metrics = [_metric(metric, sorted(scores, key=lambda score: score.run)) for metric, scores in found.values()]
    status, reason = _case_status(runs, [metric for metric in metrics if metric.blocking], min_pass_rate)
    first = parts[0]
    # Not model_copy: what it keeps besides the fields would be half of a big report's memory.
    return CaseReport(
        case_id=first.case_id,
        file=first.file,
        line=first.line,
        eval_set_id=first.eval_set_id,
        eval_id=first.eval_id,
        status=status,
        reason=reason,
        fingerprint=first.fingerprint,
        metrics=metrics,
        runs=runs,
        conversation=next((part.conversation for part in parts if part.conversation is not None), None),
    )


def _metric(metric: MetricReport, runs: list[RunScore]) -> MetricReport:
    scores = [run.score for run in runs if run.score is not None]
    mean = _mean(scores)
    missing = next((run for run in runs if run.status == "not_evaluated"), None)
    direction = _direction(metric, runs)
    status: MetricStatus
    reason: Reason | None = None
    if metric.threshold is None:
        status = "informational"
    elif missing is not None:
        # Never masked by the runs, or the metrics, that could be evaluated.
        status, reason = "not_evaluated", missing.reason
    elif mean is not None and reaches(mean, metric, direction) and any(run.status == "passed" for run in runs):
        status = "passed"
    else:
        status = "failed"
    return MetricReport(
        name=metric.name,
        score=mean,
        threshold=metric.threshold,
        status=status,
        reason=reason,
        judge=metric.judge,
        fingerprint=metric.fingerprint,
        blocking=metric.blocking,
        direction=direction,
        runs=runs,
    )


def _direction(metric: MetricReport, runs: Sequence[RunScore]) -> Direction:
    """Which side is good, as the runs show: a custom metric says itself whether it passed (ADK infers it likewise)."""
    shown = {
        (run.score > metric.threshold) == (run.status == "passed")
        for run in runs
        if run.score is not None
        and metric.threshold is not None
        and run.score != metric.threshold
        and run.status in {"passed", "failed"}
    }
    if len(shown) != 1:
        return metric.direction
    return "higher" if shown.pop() else "lower"


def reaches(score: float, metric: MetricReport, direction: Direction | None = None) -> bool:
    """Whether a score is on the good side of a metric's threshold, if it has one."""
    if metric.threshold is None:
        return True
    lower = (direction or metric.direction) == "lower"
    return score <= metric.threshold if lower else score >= metric.threshold


def _mean(values: Sequence[float]) -> float | None:
    """The plain mean with a running sum: the same on every Python, which `sum` is not since 3.12."""
    if not values:
        return None
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def _case_status(
    runs: Sequence[RunResult], metrics: Sequence[MetricReport], min_pass_rate: float
) -> tuple[CaseStatus, Reason | None]:
    total = len(runs)
    counts = Counter(run.status for run in runs)
    below = [metric for metric in metrics if metric.status == "failed"]
    if counts["failed"] == total and all(run.error is not None for run in runs):
        # Not one score: however few runs have to pass, there is nothing that could.
        return "failed", _error_of(runs)
    # What is missing could not save it: it failed, whatever else happened.
    if counts["failed"] and (total - counts["failed"]) / total < min_pass_rate - _EPSILON:
        return "failed", _why_failed(runs, counts["passed"], min_pass_rate, metrics)
    if counts["errored"]:
        return "errored", _why_errored(runs, metrics)
    if counts["not_run"]:
        missing = next(run for run in runs if run.status == "not_run")
        message = missing.error.message if missing.error else "It was not run"
        return "not_run", Reason(code=missing.error.kind if missing.error else "not-run", message=message)
    if below:
        return "failed", Reason(code="below-threshold", message=_below(below))
    if any(metric.status == "not_evaluated" and not _left_out(metric.reason) for metric in metrics):
        # The pass rate forgave the run that lacks it; nobody knows the metric all the same.
        return "errored", _why_errored(runs, metrics)
    return "passed", None


def _why_failed(
    runs: Sequence[RunResult], passed: int, min_pass_rate: float, metrics: Sequence[MetricReport]
) -> Reason:
    if len(runs) > 1:
        share = f"{passed} of {plural(len(runs), 'run')} passed"
        return Reason(code="min-pass-rate", message=f"{share}; min-pass-rate is {min_pass_rate:g}")
    below = [metric for metric in metrics if metric.status == "failed"]
    broken = [score.error for metric in metrics for score in metric.runs if score.error is not None]
    if broken and not below:
        return Reason(code=broken[0].kind, message=broken[0].message)
    return Reason(code="below-threshold", message=_below(below))


def _error_of(runs: Sequence[RunResult]) -> Reason:
    error = next(run.error for run in runs if run.error is not None)
    every = f"none of the {len(runs)} runs came to its end; the first: " if len(runs) > 1 else ""
    return Reason(code=error.kind, message=every + error.message)


def _below(metrics: Sequence[MetricReport]) -> str:
    """Why the metrics failed. A custom metric decides by itself: fewer may be better, or it contradicts its score."""
    below = [metric.name for metric in metrics if not _says_so_itself(metric)]
    own = [
        f"{metric.name} says FAILED (score {metric.score:g}, threshold {metric.threshold:g})"
        for metric in metrics
        if _says_so_itself(metric)
    ]
    return "; ".join([f"below the threshold: {', '.join(below)}"] * bool(below) + own)


def _says_so_itself(metric: MetricReport) -> bool:
    """Whether a metric failed although its score is not below the threshold."""
    return metric.score is not None and metric.threshold is not None and metric.score >= metric.threshold


def _why_errored(runs: Sequence[RunResult], metrics: Sequence[MetricReport]) -> Reason:
    error = next((run.error for run in runs if run.status == "errored" and run.error is not None), None)
    if error is not None:
        return Reason(code=error.kind, message=error.message)
    missing = next(metric for metric in metrics if metric.status == "not_evaluated" and not _left_out(metric.reason))
    why = f": {missing.reason.message}" if missing.reason else ""
    return Reason(code="not-evaluated", message=f"{missing.name} could not be evaluated{why}")
