"""The sections that the job summary and the comment share. Plain data; the renderers escape it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_eval.core.text import shorten
from agent_eval.report.phrases import case_details, diff, suite_lines
from agent_eval.report.views import digest, grouping, spending, visible
from agent_eval.report.views.detail import Detail
from agent_eval.report.views.grouping import View
from agent_eval.results import ComparisonReport

_MOST_NAMES = 12


def metrics_section(view: View, deltas: Sequence[diff.DeltaRow], detail: Detail) -> dict[str, Any]:
    """The tables of metrics, with the base branch's numbers (`diff.delta_rows`) if there are any."""
    most = max(detail.listed, 5)
    comparison = view.report.comparison
    means = view.metric_rows
    if not any(row.mean is not None for row in means):
        means = []  # Nothing was measured: the headline says all that a table could.
    compared = [row for row in deltas if row.moved or row.failed or row.not_evaluated or row.note] if means else []
    notes = comparison.notes[: detail.listed] if comparison is not None else []
    return {
        "unevaluated": any(row.not_evaluated for row in compared),
        "deltas": [row for row in compared if row.gates][: most + 1],
        "informational_deltas": [row for row in compared if not row.gates][: min(detail.listed, 20)],
        "means": [row for row in means if row.gates and comparison is None][:most],
        "informational": [row for row in means if not row.gates and comparison is None][: min(detail.listed, 20)],
        "notes": [detail.shorten_message(note.message) for note in notes],
        "base_runs": comparison.base_records if comparison is not None else 1,
        "spending": spending(view),
    }


def base_section(view: View, detail: Detail) -> dict[str, Any]:
    """The base branch: cases that are not the same there, and statistics."""
    comparison = view.report.comparison
    changes = diff.other_changes(comparison) if comparison is not None and detail.listed else []
    return {
        "changes": [
            (title, [detail.shorten(name) for name in names[: detail.listed]], max(len(names) - detail.listed, 0))
            for title, names in changes
        ],
        "changes_title": _changes_title(comparison, view.branch) if comparison is not None else "",
        "branch": view.branch,
        "drops": comparison.drops[: min(detail.listed, 5)] if comparison is not None and changes else [],
        "statistics": [detail.shorten_message(line) for line in suite_lines(view)[: detail.listed]],
        "case_statistics": [
            (detail.shorten(digest.case_name(case)), [shorten(line, 2 * detail.name) for line in lines[:5]])
            for case, lines in case_details(view)[: min(detail.listed, _MOST_NAMES)]
        ],
    }


def _changes_title(comparison: ComparisonReport, branch: str) -> str:
    counts = grouping.change_counts(comparison)
    parts = {
        "new": counts["added"],
        "changed": counts["changed"],
        "removed": counts["removed"],
        "renamed": sum(case.renamed_from is not None for case in comparison.cases),
        "not compared": sum(
            case.change == "unjudged" and case.head not in diff.LISTED_APART for case in comparison.cases
        ),
    }
    changes = ", ".join(f"{number:,} {change}" for change, number in parts.items() if number)
    return f"Cases that differ from {branch}: {changes}"


def log_text(log: str, detail: Detail) -> str:
    """The end of a traceback or a log, which says what happened."""
    shown = visible(log[-detail.log * 2 :]).strip("\n") if detail.log else ""
    return shown if len(shown) <= detail.log else "…" + shown[len(shown) - detail.log :]
