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
    cause_evidence,
    cause_sentence,
    diff,
    headline,
    headline_status,
    is_for_merge,
    next_step,
    other_reasons,
    place_text,
)
from agent_eval.report.renderers import _sections as sections
from agent_eval.report.views import (
    Cause,
    Detail,
    Links,
    Reference,
    Reproduction,
    View,
    causes,
    has_cause,
    not_run_groups,
    reproduce,
    view_of,
)
from agent_eval.report.views.examples import Example, SharedCause, acted_before, example_of, shared_causes
from agent_eval.report.views.links import case_reference, file_reference
from agent_eval.results import CaseReport, Place, RunReport

_MOST_PLACES = 3
_INLINE = 12
"""Cases of a cause that are named without a click."""
_NEVER = frozenset({"agent-import", "agent-environment"})


@dataclass(frozen=True, kw_only=True)
class Content:
    """What a text says, found once; a `Detail` only bounds it."""

    view: View
    headline: str
    status: str
    """The symbol before the headline."""
    is_for_merge: bool
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
        is_for_merge=is_for_merge(report),
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
    helps = detail.explained and report.verdict == "failed" and not dead
    return {
        "report": report,
        "links": links,
        "headline": content.headline,
        "headline_status": content.status,
        "next": _next(content.next, links),
        "is_for_merge": content.is_for_merge,
        "warnings": [
            detail.shorten_message(warning) for warning in [*report.warnings, *warnings][: max(detail.listed, 3)]
        ],
        "changed": detail.shorten_message(agent_changes(report)) if detail.listed else "",
        "unchanged": agent_unchanged(report, view.branch) if detail.listed else "",
        "not_run": sections.cases_by_reason(not_run_groups(report), detail),
        "moves": sections.moves_section(diff.metric_moves(view, deltas), detail) if failing else [],
        "rules": sections.rules_section(report, detail),
        "reasons": [detail.shorten_message(reason) for reason in content.reasons] if detail.listed else [],
        "shared": [
            _shared(cause, view.branch, detail, alone=len(shared) == 1) for cause in shared[: max(detail.listed, 1)]
        ],
        "causes": sections.causes_section(errors, detail, hints=NO_SECRETS not in codes),
        "table": sections.failures_table(view, alone, detail, most=rows),
        "examples": [
            _example(example, detail)
            for case in [*acted_before(errors)[: detail.explained], *alone[: min(detail.explained, rows)]]
            if (example := example_of(case)).sides or example.remarks
        ],
        "better_title": f"Better than on {view.branch}" if view.decided else "Newly passing",
        "better": sections.named_cases(groups.better, detail),
        "still": sections.listed_cases(groups.still, view, detail),
        "as_often": as_often(view.branch),
        "flaky": sections.listed_cases(groups.flaky, view, detail),
        "quarantined": sections.listed_cases(groups.quarantined, view, detail),
        "more": sections.listed_cases(alone[rows:], view, detail),
        "metrics": sections.metrics_section(view, deltas, detail),
        "base": sections.base_section(view, detail, links),
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


def _shared(shared: SharedCause, branch: str, detail: Detail, *, alone: bool) -> dict[str, Any]:
    cause, cases = shared.cause, shared.cases
    shown = [case_reference(case, detail) for case in cases[: max(detail.listed, 3)]]
    return {
        "count": len(cases),
        "sentence": cause_sentence(cause, branch),
        "evidence": cause_evidence(cause, branch),
        # What to do next names the first place of each cause.
        "places": [_place(place) for place in cause.changed_here[alone:_MOST_PLACES]],
        "called_before": cause.called_before,
        "cases": shown[:_INLINE],
        "folded": shown[_INLINE:],
        "more": len(cases) - len(shown),
        "example": _example(shared.example, detail) if detail.side else None,
    }


def _place(place: Place) -> Reference:
    return Reference(text=place_text(place), file=place.file, line=place.first, changed=True)


def _example(example: Example, detail: Detail) -> dict[str, Any]:
    case: CaseReport = example.case
    reference = case_reference(case, detail)
    side = max(detail.side, 60)
    return {
        "case": reference,
        "place": file_reference(case.file, case.line),
        "turn": None if example.turn is None else example.turn + 1,
        "turn_link": Reference(text=f"turn {(example.turn or 0) + 1}", case_id=case.case_id, turn=example.turn),
        "user": shorten(" ".join(example.user.split()), side),
        "sides": [
            {
                **line.__dict__,
                "expected": shorten(line.expected.strip(), side),
                "now": shorten(line.now.strip(), side),
            }
            for line in example.sides
        ],
        "left_out": example.left_out,
        "remarks": [detail.shorten_message(line) for line in example.remarks],
    }
