"""The source of a page for a run's output directory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent_eval.core.text import plural
from agent_eval.evalset.models import EvalCase
from agent_eval.report.html._source import PageSource
from agent_eval.report.views import Links
from agent_eval.results import BASE_RECORDINGS, BASELINE_RECORDINGS, FILES, HistoryReport, Recording, RunReport
from agent_eval.runner import StoredCase, StoredIndex, stored_index


@contextlib.contextmanager
def folder_source(
    report: RunReport,
    folder: Path,
    *,
    links: Links,
    cases: Mapping[str, EvalCase] | None = None,
    history: HistoryReport | None = None,
    baseline_folder: Path | None = None,
) -> Iterator[PageSource]:
    """The source of a page, with what lies beside the report: recordings of both sides, and the eval cases.

    Every one of these files may be missing or damaged; the page then says so.

    Args:
        report: The report of the folder.
        folder: The output directory.
        links: Where the page may lead.
        cases: The eval cases as they were run, by case id; None: those that the run has stored.
        history: The base branch's history, if it is not the report's own.
        baseline_folder: Another output directory whose recordings are the base branch's side; None: those that the run
            has stored.
    """
    with contextlib.ExitStack() as stack:

        def index(path: Path) -> StoredIndex[Recording]:
            return stack.enter_context(stored_index(path, Recording))

        recordings = index(folder / FILES["recordings-file"])
        stored_cases = (
            stack.enter_context(stored_index(folder / FILES["cases-file"], StoredCase)) if cases is None else None
        )
        base = index(folder / BASE_RECORDINGS) if baseline_folder is None else None
        own = folder / BASELINE_RECORDINGS
        baseline = index(own if baseline_folder is None else baseline_folder / FILES["recordings-file"])
        fingerprints = {case.case_id: case.fingerprint for case in report.cases}

        def eval_case(case_id: str) -> EvalCase | None:
            lines = () if stored_cases is None else stored_cases.of(case_id)
            return next((line.case for line in lines if line.fingerprint == fingerprints.get(case_id)), None)

        def notices() -> Sequence[str]:
            skipped = sum(file.skipped for file in (recordings, stored_cases, base, baseline) if file is not None)
            strangers = recordings.strangers(fingerprints)
            lines = []
            if skipped:
                lines.append(f"{plural(skipped, 'line')} of the recordings could not be read.")
            if strangers and report.cases:
                lines.append(f"{plural(strangers, 'recording')} of cases that this run does not have.")
            return lines

        yield PageSource(
            report=report,
            links=links,
            recordings=recordings.of,
            cases=eval_case if cases is None else cases.get,
            base_recordings=(lambda _: ()) if base is None else base.of,
            baseline_recordings=baseline.of,
            base_note=report.baseline.recordings_note if report.baseline is not None else None,
            history=history,
            notices=notices,
        )
