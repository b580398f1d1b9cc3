"""The base branch's history as a pull request's report keeps it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from agent_eval.gate.history._trend import KEEP_ROWS
from agent_eval.gate.pairing import same_cases
from agent_eval.results import CaseReport, HistoryReport, SelectionReport


def excerpt(
    history: HistoryReport,
    cases: Sequence[CaseReport],
    selection: SelectionReport | None = None,
    *,
    with_scores: Collection[str],
) -> HistoryReport:
    """The trend, and the outcomes of the cases that were run and have the same content on the base branch.

    Args:
        history: The base branch's history.
        cases: The head's cases.
        selection: What the head's run was limited to.
        with_scores: Ids of the head's cases that keep their scores. All scores would double a report.

    Returns:
        A history whose cases have the head's ids.
    """
    heads = {base_id: case_id for case_id, base_id in same_cases(cases, history.cases, selection).items()}
    kept = []
    for case in history.cases:
        if (case_id := heads.get(case.case_id)) is not None:
            update = {"case_id": case_id} if case_id in with_scores else {"case_id": case_id, "scores": {}}
            kept.append(case.model_copy(update=update))
    return history.model_copy(update={"cases": kept, "trend": history.trend[-KEEP_ROWS:]})
