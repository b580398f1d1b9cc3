"""What the comment and the job summary say: the values of their templates, in the bounds of a `Detail`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from agent_eval.core.text import shorten
from agent_eval.gate.caveats import NO_SECRETS
from agent_eval.report.markup import link, linked, prose
from agent_eval.report.phrases import (
    Step,
    agent_changes,
    agent_unchanged,
    as_often,
    case_details,
    diff,
    headline,
    headline_status,
    next_step,
    other_reasons,
    suite_lines,
)
from agent_eval.report.phrases.rule_changes import base_name, rule_rows, rule_sentences
from agent_eval.report.views import (
    Cause,
    Detail,
    Links,
    Reference,
    Reproduction,
    View,
    causes,
    digest,
    grouping,
    has_cause,
    not_run_groups,
    reproduce,
    spending,
    view_of,
    visible,
)
from agent_eval.report.views.examples import SharedCause, acted_before, example_of, shared_causes
from agent_eval.results import CaseReport, ComparisonReport, RunReport

_MOST_NAMES = 12
_SEVERITIES = ("error", "warning", "notice")
_NEVER = frozenset({"agent-import", "agent-environment"})


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a text says, found once; a `Detail` only bounds it."""

    view: View
    headline: str
    status: str
    """The symbol before the headline."""
    next: Sequence[Step]
    """What to do next."""
    reasons: Sequence[str]
    shared: Sequence[SharedCause]
    alone: Sequence[CaseReport]
    """Failing cases that no cause explains."""
    errors: Sequence[Cause]


def content_of(report: RunReport) -> Content:
    """What the comment and the job summary say of a report."""
    view = view_of(report)
    groups = view.groups
    shared, left = shared_causes(report, [*groups.worse, *groups.failed], view.branch)
    return Content(
        view=view,
        shared=shared,
        alone=[case for case in left if not has_cause(case)],
        errors=[*causes(report, [case for case in left if has_cause(case)]), *view.errors],
        headline=headline(view),
        status=headline_status(report),
        reasons=other_reasons(view),
        next=next_step(view),
    )


def context(content: Content, detail: Detail, links: Links, warnings: Sequence[str], *, rows: int) -> dict[str, Any]:
    """The values that both texts have.

    Args:
        content: What to show.
        detail: How much to show.
        links: Where the text may lead.
        warnings: Plain sentences that come after what to do next, after those of the report.
        rows: The most cases in the table of those that no cause explains.
    """
    view, shared, alone, errors = content.view, content.shared, content.alone, content.errors
    report, groups = view.report, view.groups
    failing = [*groups.worse, *groups.failed]
    dead = any(error.kind in _NEVER for error in errors)
    codes = {reason.code for reason in report.reasons}
    deltas = diff.delta_rows(view)
    moves = diff.metric_moves(view, deltas) if failing and detail.listed else []
    helps = detail.explained and report.verdict == "failed" and not dead
    return {
        "report": report,
        "sources": diff.SOURCES,
        "view": view,
        "detail": detail,
        "links": links,
        "headline": content.headline,
        "headline_status": content.status,
        "next": _next(content.next, links),
        "warnings": [
            detail.shorten_message(warning) for warning in [*report.warnings, *warnings][: max(detail.listed, 3)]
        ],
        "changed": detail.shorten_message(agent_changes(report)) if detail.listed else "",
        "unchanged": agent_unchanged(report, view.branch) if detail.listed else "",
        "reasons": [detail.shorten_message(reason) for reason in content.reasons] if detail.listed else [],
        "shared": shared[: max(detail.listed, 1)],
        # What to do next names the first place of the only cause.
        "named_places": len(shared) == 1,
        "causes": errors[: detail.listed],
        # A library's log explains nothing.
        "logged": [error for error in errors if error.log and error.owner == "agent"][:3],
        "log_text": _log_text,
        # What a provider needs, the text says at its top.
        "hints": NO_SECRETS not in codes,
        "table": alone[:rows],
        "examples": [
            example
            for case in [*acted_before(errors)[: detail.explained], *alone[: min(detail.explained, rows)]]
            if (example := example_of(case)).sides or example.remarks
        ],
        "better_title": f"Better than on {view.branch}" if view.decided else "Newly passing",
        "better": groups.better,
        "still": groups.still,
        "as_often": as_often(view.branch),
        "flaky": groups.flaky,
        "quarantined": groups.quarantined,
        "more": alone[rows:],
        "rule_rows": rule_rows(report),
        "rule_sentences": rule_sentences(report),
        "rule_base": base_name(report.rule_changes) if report.rule_changes is not None else "",
        "moves": moves,
        "metrics": _metrics(view, deltas, detail),
        "not_run": not_run_groups(report)[: detail.listed],
        "base": _base(view, detail),
        "problems": sorted(report.problems, key=lambda problem: _SEVERITIES.index(problem.severity)),
        "reproduce": reproduce([*failing, *groups.errored], report.options) if helps else Reproduction(),
        "run_url": links.own(links.run_url),
        "report_url": links.own(links.report_url),
        "artifacts": [detail.shorten(name) for name in links.artifacts[:5]],
        # The head commit of a pull request rather than GitHub's merge of it, which people don't know.
        "tested_commit": None if report.origin is None else report.origin.head_commit or report.origin.commit,
    }


def _next(steps: Sequence[Step], links: Links) -> Markup:
    run = links.own(links.run_url)
    parts = []
    for step in steps:
        if isinstance(step, str):
            # Escaping removes the blanks at its ends.
            parts.append(Markup(" ") * step.startswith(" ") + prose(step) + Markup(" ") * step.endswith(" "))
        elif isinstance(step, Reference):
            parts.append(linked(step, links))
        else:
            parts.append(prose(step.text) if run is None else link(prose(step.text), run))
    return Markup("").join(parts)


def _metrics(view: View, deltas: Sequence[diff.DeltaRow], detail: Detail) -> dict[str, Any]:
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


def _base(view: View, detail: Detail) -> dict[str, Any]:
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


def _log_text(log: str, detail: Detail) -> str:
    """The end of a traceback or a log, which says what happened."""
    shown = visible(log[-detail.log * 2 :]).strip("\n") if detail.log else ""
    return shown if len(shown) <= detail.log else "…" + shown[len(shown) - detail.log :]
