"""The sections that the job summary and the comment share. Plain data; the renderers escape it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from agent_eval.core.text import shorten
from agent_eval.report.phrases import case_details, case_evidence, change_labels, diff, metric_base_notes, suite_lines
from agent_eval.report.phrases.rule_changes import base_name, rule_rows, rule_sentences
from agent_eval.report.views import (
    cases_with_low_turns,
    digest,
    first_difference,
    grouping,
    reason_lines,
    spending,
    visible,
)
from agent_eval.report.views.detail import Detail
from agent_eval.report.views.grouping import NO_NAME, View
from agent_eval.report.views.links import Links, case_reference, known_commit
from agent_eval.results import BaselineReport, CaseReport, ComparisonReport, ProblemReport, RunReport

_MOST_NAMES = 12
_SOURCES: Mapping[str, str] = {
    "artifact": "Artifact",
    "file": "Committed file",
    "rerun": "The base branch's agent, run now",
}


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
        "branch": column_title(view),
        "unevaluated": any(row.not_evaluated for row in compared),
        "deltas": [row for row in compared if row.gates][: most + 1],
        "informational_deltas": [row for row in compared if not row.gates][: min(detail.listed, 20)],
        "means": [row for row in means if row.gates and comparison is None][:most],
        "informational": [row for row in means if not row.gates and comparison is None][: min(detail.listed, 20)],
        "notes": [detail.shorten_message(note.message) for note in notes],
        "base_runs": comparison.base_records if comparison is not None else 1,
        "spending": spending(view),
    }


def column_title(view: View) -> str:
    """The base branch's name above a column."""
    return view.branch if view.branch != NO_NAME else "Base branch"


def difference(case: CaseReport, view: View) -> str:
    """What is different about a failing case, or about one that passes with a score that got worse."""
    if case.status == "passed" and case.case_id in view.decisions:
        return case_evidence(case.case_id, view)
    return first_difference(case)


def low_turns_section(report: RunReport, detail: Detail) -> dict[str, Any]:
    """Cases that pass although a turn is below a threshold: name, place, and the turns in words."""
    cases = cases_with_low_turns(report)
    return {"cases": cases[: detail.listed], "more": max(len(cases) - detail.listed, 0)}


def rules_section(report: RunReport, detail: Detail) -> dict[str, Any]:
    """What the pull request changes about the gate."""
    rows = rule_rows(report)
    most = max(detail.listed, 3)
    return {
        "base": base_name(report.rule_changes) if report.rule_changes is not None else "",
        "rows": rows[:most],
        "more": max(len(rows) - most, 0),
        "sentences": [detail.shorten_message(sentence) for sentence in rule_sentences(report)],
    }


def problems_section(problems: Sequence[ProblemReport], detail: Detail) -> dict[str, Any]:
    """Problems in files and settings, errors first."""
    severities = ("error", "warning", "notice")
    ordered = sorted(problems, key=lambda problem: severities.index(problem.severity))
    return {"listed": ordered[: detail.listed], "more": max(len(ordered) - detail.listed, 0)}


def base_section(view: View, detail: Detail, links: Links) -> dict[str, Any]:
    """The base branch: cases that are not the same there, statistics, and where its results come from."""
    comparison = view.report.comparison
    baseline = view.report.baseline
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
        "baseline": _baseline(baseline, detail, links) if baseline is not None else None,
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


def _baseline(baseline: BaselineReport, detail: Detail, links: Links) -> dict[str, Any]:
    """Where the base branch's results come from, or why there are none."""
    steps = [
        (_SOURCES[step.source], detail.shorten_message(step.message))
        for step in baseline.steps[: min(detail.listed, 10)]
    ]
    available = baseline.status == "found"
    return {
        "available": available,
        "sentence": detail.shorten_message(baseline.message if available else diff.no_baseline_reason(baseline)),
        "commit": known_commit(baseline.commit),
        "wanted_commit": known_commit(baseline.wanted_commit),
        "run_url": links.own(baseline.run_url) if available else None,
        "recorded": _day(baseline.recorded_at) if available and baseline.recorded_at is not None else "",
        "steps": steps if len(steps) > 1 else [],
    }


def _day(timestamp: float) -> str:
    try:
        return datetime.fromtimestamp(timestamp, UTC).strftime("%Y-%m-%d")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def log_text(log: str, detail: Detail) -> str:
    """The end of a traceback or a log, which says what happened."""
    shown = visible(log[-detail.log * 2 :]).strip("\n") if detail.log else ""
    return shown if len(shown) <= detail.log else "…" + shown[len(shown) - detail.log :]


def listed_cases(cases: Sequence[CaseReport], view: View, detail: Detail) -> dict[str, Any] | None:
    """Cases for a table with a line for each; None if there are none."""
    if not cases:
        return None
    shown = cases[: detail.listed]
    return {
        "cases": [
            _line(case, evidence, metric_base_notes(view.changes.get(case.case_id), view.branch), detail)
            for case, (_, evidence) in zip(shown, change_labels(shown, view), strict=True)
        ],
        "more": max(len(cases) - detail.listed, 0),
        "count": len(cases),
    }


def _line(case: CaseReport, evidence: str, notes: Mapping[str, str], detail: Detail) -> dict[str, Any]:
    why = reason_lines(case, 1, notes)
    return {
        "case": case_reference(case, detail),
        "mark": case.status,
        "evidence": detail.shorten(evidence),
        "why": shorten(why[0], detail.name) if why else "",
    }


def named_cases(cases: Sequence[CaseReport], detail: Detail) -> dict[str, Any] | None:
    """Cases of which only the names are shown; None if there are none."""
    if not cases:
        return None
    names = [detail.shorten(digest.case_name(case)) for case in cases[: detail.listed]]
    return {"names": names, "more": len(cases) - len(names)}


def cases_by_reason(groups: Sequence[tuple[str, list[CaseReport]]], detail: Detail) -> list[tuple[str, int, list[str]]]:
    """Reasons with the number of their cases and the first names."""
    return [
        (detail.shorten(reason), len(cases), [detail.shorten(digest.case_name(case)) for case in cases[:5]])
        for reason, cases in groups[: detail.listed]
    ]
