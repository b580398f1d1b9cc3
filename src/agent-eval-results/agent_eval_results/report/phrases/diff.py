"""Differences from the base branch: the rows of the table, cost and time, other cases. Plain text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_eval_results import BaselineReport, BaselineSource, Change, ComparisonReport, MetricComparison, RunReport
from agent_eval_results.outcome import change_counts
from agent_eval_results.report.views import digest
from agent_eval_results.report.views.grouping import View
from agent_eval_results.report.views.numbers import (
    NO_SCORE,
    delta_text,
    measurement_text,
    percent_text,
    points_text,
    relative_text,
    score_text,
)
from agent_eval_scoring.core.text import plural


@dataclass(frozen=True, kw_only=True)
class DeltaRow:
    """A number here and on the base branch."""

    name: str | None
    """The metric's; None: the share of cases that pass."""
    now: str
    base: str
    change: str
    needs: str = ""
    needed: str = ""
    """The same with the number of cases below."""
    failed: int = 0
    not_evaluated: int = 0
    gates: bool = True
    note: str = ""
    """Which cases the numbers omit, and why."""

    @property
    def moved(self) -> bool:
        """Whether the number changed."""
        return not self.change.startswith(("±", NO_SCORE))


def delta_rows(view: View) -> list[DeltaRow]:
    """The table: cases that pass, gating metrics, informational ones.

    A number now is that of the compared cases, so that the change is the difference of the two beside it; where none
    can be compared it is that of all cases. Empty without a comparison.
    """
    comparison = view.report.comparison
    if comparison is None:
        return []
    compared = {metric.name: metric for metric in comparison.metrics}
    return [_pass_row(view.report, comparison), *(_row(row, compared.get(row.name)) for row in view.metric_rows)]


def _pass_row(report: RunReport, comparison: ComparisonReport) -> DeltaRow:
    rate, totals = comparison.pass_rate, report.totals
    counts = change_counts(comparison)
    compared = comparison.unchanged + counts["newly_failing"] + counts["fixed"] + counts["still_failing"]
    change = points_text(rate.delta)
    decimals = int("." in change)  # So that the three add up.
    return DeltaRow(
        name=None,
        now=percent_text(totals.pass_rate if rate.delta is None else rate.head, decimals=decimals),
        base=percent_text(rate.base, decimals=decimals),
        change=change,
        failed=totals.failed,
        not_evaluated=totals.errored,
        note=f"over {compared:,} of {plural(totals.cases, 'case')}" if compared < totals.cases and rate.base is not None
        else "",
    )  # fmt: skip


def _row(row: digest.MetricRow, compared: MetricComparison | None) -> DeltaRow:
    comparable = compared is not None and compared.cases > 0
    score = compared.score if compared is not None and comparable else None
    threshold = row.thresholds[0] if len(row.thresholds) == 1 else None

    def shown(value: float | None) -> str:
        return score_text(value, threshold) if row.gates else measurement_text(row.name, value)

    now, base = (row.mean, None) if score is None else (score.head, score.base)
    delta = None if score is None else score.delta
    scored = row.passed + row.failed + row.informational
    left = (
        f"over {compared.cases:,} of {scored:,} cases"
        if compared is not None and comparable and compared.cases < scored
        else ""
    )
    why = compared.note.message if compared is not None and compared.note and (left or not comparable) else ""
    if row.gates:
        change = delta_text(delta)
    elif now is None or base is None:
        change = delta_text(None)
    else:
        change = relative_text(now, base) or delta_text(delta)
    return DeltaRow(
        name=row.name,
        now=shown(now),
        base=shown(base),
        change=change,
        needs=row.threshold if row.gates else "",
        needed=row.needed if row.gates and row.thresholds else "",
        failed=row.failed,
        not_evaluated=row.not_evaluated,
        gates=row.gates,
        note="; ".join(part for part in (left, why) if part),
    )


def other_changes(comparison: ComparisonReport) -> list[tuple[str, list[str]]]:
    """Cases that are not the same as on the base branch, by kind: a title and the names."""
    names: dict[Change, list[str]] = {}
    renamed = []
    for case in comparison.cases:
        if case.renamed_from is not None:
            renamed.append(f"{case.renamed_from} → {digest.case_path(case)}")
        elif case.is_other or case.lacks_comparison:
            why = f": {case.note.message}" if case.lacks_comparison and case.note else ""
            names.setdefault(case.change, []).append(f"{digest.case_path(case)}{why}")
    titles: Mapping[Change, str] = {
        "added": "New",
        "changed": "Changed: their scores can't be compared",
        "removed": "Removed",
        "unjudged": "Without a result on both sides",
    }
    listed = [(title, cases) for change, title in titles.items() if (cases := names.get(change))]
    return [*listed, *([("Renamed", renamed)] if renamed else [])]


SOURCES: Mapping[BaselineSource, str] = {
    "artifact": "Artifact",
    "file": "Committed file",
    "rerun": "The base branch's agent, run now",
}
"""What the sources of the base branch's results are called."""


def no_baseline_reason(baseline: BaselineReport) -> str:
    """Why there is no baseline, in one sentence."""
    lead = {
        "none-yet": "Nothing to compare with yet",
        "fetch-failed": "Not compared with the base branch: its results could not be retrieved",
        "incompatible": "Not compared with the base branch: its results are not comparable",
    }[baseline.status]
    return f"{lead}. {baseline.message}"


def comparison_summary(comparison: ComparisonReport) -> str:
    """`48 cases compared: 2 newly failing, 1 newly passing, 43 passing as before`."""
    counts = change_counts(comparison)
    phrases: Sequence[tuple[int, str]] = [
        (counts["newly_failing"], "newly failing"),
        (counts["fixed"], "newly passing"),
        (counts["still_failing"], "still failing"),
        (comparison.unchanged, "passing as before"),
        (counts["unjudged"], "without a result to compare"),
    ]
    parts = [f"{number:,} {what}" for number, what in phrases if number]
    rest = [f"{counts[change]:,} {change}" for change in ("changed", "added", "removed") if counts[change]]
    summary = ", ".join(parts) or "nothing in common"
    return f"{plural(comparison.compared, 'case')} compared: {summary}" + (f"; {', '.join(rest)}" if rest else "")


_LEAST_MOVE = 0.005
"""The smallest change of a mean score that is mentioned."""
_MOST_MOVES = 5


@dataclass(frozen=True, kw_only=True)
class MetricMove:
    """A gating metric in the sentence about changed means."""

    name: str
    now: str
    base: str
    needed: str


def metric_moves(view: View, rows: Sequence[DeltaRow]) -> list[MetricMove]:
    """The gating metrics that got worse, of `delta_rows`."""
    comparison = view.report.comparison
    compared = {metric.name: metric for metric in comparison.metrics} if comparison is not None else {}
    lower = {metric.name for case in view.report.cases for metric in case.metrics if metric.lower_is_better}
    worse = []
    for row in rows:
        if row.name is None or not row.gates or row.name not in compared:
            continue
        delta = compared[row.name].score.delta
        if delta is not None and (delta if row.name in lower else -delta) >= _LEAST_MOVE:
            worse.append(MetricMove(name=row.name, now=row.now, base=row.base, needed=row.needed))
    return worse[:_MOST_MOVES]
