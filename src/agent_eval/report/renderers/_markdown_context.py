"""The values that the templates of the comment and of the job summary share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_eval.report.phrases import is_for_merge, other_reasons
from agent_eval.report.views import (
    BaseComparison,
    Cause,
    Detail,
    Links,
    Reproduction,
    grouping,
    not_run_groups,
    reproduce,
    run_note,
    sections,
)
from agent_eval.report.views.cases import cases_by_reason, named_cases
from agent_eval.results import CaseReport, RunReport


def shared_context(
    report: RunReport,
    base: BaseComparison,
    detail: Detail,
    links: Links,
    warnings: Sequence[str],
    *,
    groups: grouping.Groups,
    failing: Sequence[CaseReport],
    causes: Sequence[Cause],
) -> dict[str, Any]:
    """The shared values, in the bounds of `detail`.

    Args:
        report: What to show.
        base: Its comparison with the base branch.
        detail: How much to show.
        links: Where the text may lead.
        warnings: Plain sentences that come before everything else, after those of the report.
        groups: The cases by section.
        failing: Cases with low scores. The command at the end repeats them and those with errors.
        causes: The errors to show.
    """
    return {
        "report": report,
        "links": links,
        "is_for_merge": is_for_merge(report),
        "note": run_note(report),
        "warnings": [
            detail.shorten_message(warning) for warning in [*report.warnings, *warnings][: max(detail.listed, 3)]
        ],
        "rules": sections.rules_section(report, detail),
        "reasons": [detail.shorten_message(reason) for reason in other_reasons(report, base)] if detail.listed else [],
        "causes": sections.causes_section(causes, detail),
        "better_title": f"Better than on {base.branch}" if base.decided else "Fixed",
        "better": named_cases(groups.better, detail),
        "not_run": cases_by_reason(not_run_groups(report), detail),
        "reproduce": reproduce([*failing, *groups.errored], report.options) if detail.explained else Reproduction(),
    }
