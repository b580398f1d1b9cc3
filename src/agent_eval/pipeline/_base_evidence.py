"""What a report keeps of the base branch: for readers, not for the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agent_eval.results import RunReport


def notable_cases(report: RunReport) -> frozenset[str]:
    """Ids of the cases for which a reader wants to see the base branch's side: those that did not pass or differ."""
    ids = {case.case_id for case in report.cases if case.status != "passed"}
    if report.comparison is not None:
        ids.update(case.case_id for case in report.comparison.cases)
    if report.decision is not None:
        ids.update(case.case_id for case in report.decision.cases)
    return frozenset(ids)
