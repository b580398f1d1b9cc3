"""Sums the model usage of several jobs."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.results.report import CaseUsageReport, ModelUsageReport

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
