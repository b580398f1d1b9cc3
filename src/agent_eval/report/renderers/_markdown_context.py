"""What the comment and the job summary say: the values of their templates, in the bounds of a `Detail`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from agent_eval.core.text import shorten
from agent_eval.gate.caveats import NO_SECRETS
from agent_eval.report.markup import link, linked, prose
from agent_eval.report.phrases import (
    Step,
    agent_changes,
    agent_unchanged,
    cause_evidence,
    cause_sentence,
    headline,
    headline_status,
    is_for_merge,
    next_step,
    other_reasons,
    place_text,
)
from agent_eval.report.views import (
    BaseComparison,
    Detail,
    Links,
    Reference,
    Reproduction,
    causes,
    grouping,
    has_cause,
    not_run_groups,
    reproduce,
    sections,
)
from agent_eval.report.views.examples import Example, SharedCause, acted_before, example_of, shared_causes
from agent_eval.report.views.links import case_reference, file_reference
from agent_eval.results import CaseReport, Place, RunReport

_MOST_PLACES = 3
_INLINE = 12
"""Cases of a cause that are named without a click."""
_NEVER = frozenset({"agent-import", "agent-environment"})


def context(
    report: RunReport,
    base: BaseComparison,
    detail: Detail,
    links: Links,
    warnings: Sequence[str],
    *,
    rows: int,
) -> dict[str, Any]:
    """The values that both texts have.

    Args:
        report: What to show.
        base: Its comparison with the base branch.
        detail: How much to show.
        links: Where the text may lead.
        warnings: Plain sentences that come after what to do next, after those of the report.
        rows: The most cases in the table of those that no cause explains.
    """
    groups = grouping.groups(report, base)
    failing = [*groups.worse, *groups.failed]
    shared, left = shared_causes(report, failing, base.branch)
    alone = [case for case in left if not has_cause(case)]
    errors = [*causes(report, [case for case in left if has_cause(case)]), *causes(report, groups.errored)]
    dead = any(error.kind in _NEVER for error in errors)
    codes = {reason.code for reason in report.reasons}
    helps = detail.explained and report.verdict == "failed" and not dead
    return {
        "report": report,
        "links": links,
        "headline": headline(report, base),
        "headline_status": headline_status(report),
        "next": _next(next_step(report, base), links),
        "is_for_merge": is_for_merge(report),
        "warnings": [
            detail.shorten_message(warning) for warning in [*report.warnings, *warnings][: max(detail.listed, 3)]
        ],
        "rules": sections.rules_section(report, detail),
        "reasons": [detail.shorten_message(reason) for reason in other_reasons(report, base)] if detail.listed else [],
        "shared": [_shared(cause, base, detail, alone=len(shared) == 1) for cause in shared[: max(detail.listed, 1)]],
        "causes": sections.causes_section(errors, detail, hints=NO_SECRETS not in codes),
        "table": sections.failures_table(report, alone, base, detail, most=rows),
        "examples": [
            _example(example_of(case), detail)
            for case in [*acted_before(errors)[: detail.explained], *alone[: min(detail.explained, rows)]]
        ],
        "changed": detail.shorten_message(agent_changes(report)) if detail.listed else "",
        "unchanged": agent_unchanged(report, base.branch) if detail.listed else "",
        "moves": sections.moves_section(report, base, detail) if failing else [],
        "better_title": f"Better than on {base.branch}" if base.decided else "Fixed",
        "better": sections.named_cases(groups.better, detail),
        "not_run": sections.cases_by_reason(not_run_groups(report), detail),
        "still": sections.listed_cases(groups.still, base, detail),
        "flaky": sections.listed_cases(groups.flaky, base, detail),
        "quarantined": sections.listed_cases(groups.quarantined, base, detail),
        "more": sections.listed_cases(alone[rows:], base, detail),
        "metrics": sections.metrics_section(report, base, detail),
        "base": sections.base_section(report, base, detail, links),
        "reproduce": reproduce([*failing, *groups.errored], report.options) if helps else Reproduction(),
        "run_url": links.own(links.run_url),
        "report_url": links.own(links.report_url),
        "artifacts": [detail.shorten(name) for name in links.artifacts[:5]],
        "tested_commit": _tested_commit(report),
    }


def _tested_commit(report: RunReport) -> str | None:
    """The head commit of a pull request rather than GitHub's merge of it, which people don't know."""
    origin = report.origin
    return None if origin is None else origin.head_commit or origin.commit


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


def _shared(shared: SharedCause, base: BaseComparison, detail: Detail, *, alone: bool) -> dict[str, Any]:
    cause, cases = shared.cause, shared.cases
    shown = [case_reference(case, detail) for case in cases[: max(detail.listed, 3)]]
    return {
        "count": len(cases),
        "sentence": cause_sentence(cause, base.branch),
        "evidence": cause_evidence(cause, base.branch),
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
