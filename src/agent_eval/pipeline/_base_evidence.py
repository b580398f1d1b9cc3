"""What a report keeps of the base branch: for readers, not for the verdict."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from agent_eval.baseline import BaselineOutcome
    from agent_eval.results import RunReport


def notable_cases(report: RunReport) -> frozenset[str]:
    """Ids of the cases for which a reader wants to see the base branch's side: those that did not pass or differ."""
    ids = {case.case_id for case in report.cases if case.status != "passed"}
    if report.comparison is not None:
        ids.update(case.case_id for case in report.comparison.cases)
    if report.decision is not None:
        ids.update(case.case_id for case in report.decision.cases)
    return frozenset(ids)


def store_baseline_recordings(report: RunReport, outcome: BaselineOutcome | None, output: Path) -> None:
    """Writes the baseline's recordings of the notable cases, or notes in the report why there are none. Never raises.

    Args:
        report: The head's, after the comparison.
        outcome: The baseline.
        output: The output directory.
    """
    from agent_eval.baseline import Found
    from agent_eval.baseline.recordings import write_recordings
    from agent_eval.results import BASELINE_RECORDINGS

    if report.baseline is None or report.comparison is None or outcome is None:
        return
    if not isinstance(outcome.baseline, Found) or outcome.baseline.recordings is None:
        return
    renamed = {case.case_id: case.renamed_from or case.case_id for case in report.comparison.cases}
    case_ids = {renamed.get(case_id, case_id) for case_id in notable_cases(report)}
    path = output / BASELINE_RECORDINGS
    try:
        report.baseline.recordings_note = write_recordings(path, outcome.baseline.recordings, case_ids)
    except OSError as error:
        with contextlib.suppress(OSError):
            path.unlink()
        report.baseline.recordings_note = f"The baseline's recordings could not be written: {error.strerror or error}."
