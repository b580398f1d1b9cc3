"""What the page is made of: the report, the recordings, the eval cases and the base branch's side.

And how much of it the page keeps, so that it fits `view --size`: five steps, each leaving out more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from agent_eval_results import (
    BASE_RECORDINGS,
    BASELINE_RECORDINGS,
    FILES,
    CaseComparison,
    CaseHistory,
    CaseReport,
    CaseStatus,
    HistoryReport,
    Recording,
    RunReport,
    StoredCase,
    StoredIndex,
    by_id,
    stored_index,
)
from agent_eval_results.report.views import Links, View, view_of
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.models import EvalCase

_STATUSES: Mapping[str, CaseStatus] = {"1": "passed", "0": "failed", "x": "failed"}
"""By outcome of `CaseHistory.outcomes`."""


@dataclass(frozen=True, kw_only=True)
class PageSource:
    """Everything that a page may show."""

    report: RunReport
    view: View | None = None
    """Of the report, if it has been looked up."""
    links: Links = field(default_factory=Links)
    """Where the page may lead."""
    recordings: Callable[[str], Iterable[Recording]] = lambda _: ()
    """The recordings of a case by its id, extra runs included; those of other runs are ignored."""
    cases: Callable[[str], EvalCase | None] = lambda _: None
    """The eval case by its id, as it was run; None if it is unknown."""
    base_recordings: Callable[[str], Iterable[Recording]] = lambda _: ()
    """Recordings of the runs that the base branch's agent made for this report, by the case's id here: it answers the
    eval files of this side."""
    baseline_recordings: Callable[[str], Iterable[Recording]] = lambda _: ()
    """Recordings of the runs that the baseline was measured with, by the case's id on the base branch."""
    base_note: str | None = None
    """Why the base branch's recordings are missing, in a sentence."""
    history: HistoryReport | None = None
    """The base branch's history, by the ids of the report's cases; None: the one that the report has, if any."""
    notices: Callable[[], Sequence[str]] = tuple
    """Remarks on what could not be read, e.g. recordings of another run; asked for when everything has been read."""


@contextlib.contextmanager
def folder_source(
    of: RunReport | View,
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
        of: The report of the folder.
        folder: The output directory.
        links: Where the page may lead.
        cases: The eval cases as they were run, by case id; None: those that the run has stored.
        history: The base branch's history, if it is not the report's own.
        baseline_folder: Another output directory whose recordings are the base branch's side; None: those that the run
            has stored.
    """
    view = of if isinstance(of, View) else None
    report = of.report if isinstance(of, View) else of
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
            # The folder may be of an older run: a case that was edited since would be shown beside the wrong answers.
            return next((line.case for line in lines if line.fingerprint == fingerprints.get(case_id)), None)

        def notices() -> Sequence[str]:
            skipped = sum(file.skipped for file in (recordings, stored_cases, base, baseline) if file is not None)
            strangers = recordings.strangers(fingerprints)
            lines = []
            if skipped:
                lines.append(f"{plural(skipped, 'line')} of the recordings could not be read.")
            # An invalid run has no cases, so that all that an earlier run left would be strange to it.
            if strangers and report.cases:
                lines.append(f"{plural(strangers, 'recording')} of cases that this run does not have.")
            return lines

        yield PageSource(
            report=report,
            view=view,
            links=links,
            recordings=recordings.of,
            cases=eval_case if cases is None else cases.get,
            base_recordings=(lambda _: ()) if base is None else base.of,
            baseline_recordings=baseline.of,
            base_note=report.baseline.recordings_note if report.baseline is not None else None,
            history=history,
            notices=notices,
        )


class Facts:
    """Lookups by case, made once for a page."""

    def __init__(self, source: PageSource) -> None:
        """Prepares the lookups."""
        self.source = source
        self.report = source.report
        self.view = view_of(source.view or source.report)
        # First what the caller has read; then what the comparison kept; a run of the base branch has its own.
        self.history = source.history or source.report.base_history or source.report.history
        self.confirmations = by_id(source.report.confirmations)
        self.base_runs = by_id(source.report.base_runs)

    @cached_property
    def case_histories(self) -> Mapping[str, CaseHistory]:
        """The base branch's history of each case."""
        return {} if self.history is None else {case.case_id: case for case in self.history.cases}

    @cached_property
    def costs(self) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """US dollars for judges and simulated users: by case id, and by metric."""
        by_case: dict[str, float] = {}
        by_purpose: dict[str, float] = {}
        for usage in self.report.case_usage:
            if usage.cost is not None:
                by_case[usage.case_id] = by_case.get(usage.case_id, 0.0) + usage.cost
                by_purpose[usage.purpose] = by_purpose.get(usage.purpose, 0.0) + usage.cost
        return by_case, by_purpose

    def change(self, case_id: str) -> CaseComparison | None:
        """How a case differs from the base branch; None if it does not."""
        return self.view.changes.get(case_id)

    def removed_id(self, case_id: str) -> str:
        """What a removed case is called on the page, where a renamed one may have its name."""
        return f"{case_id} ({self.view.branch})" if case_id in self.view.cases else case_id

    def base_id(self, case_id: str) -> str:
        """The id of a case on the base branch."""
        change = self.change(case_id)
        return case_id if change is None or change.renamed_from is None else change.renamed_from

    @cached_property
    def _base_histories(self) -> Mapping[str, CaseHistory]:
        """Those of the report, which has the cases by their ids here, renamed ones as well."""
        history = self.report.base_history
        return {case.case_id: case for case in history.cases} if history is not None else {}

    def base_statuses(self, case_id: str) -> list[CaseStatus | None]:
        """What the runs of the baseline itself were, in the order of their numbers; None: not known."""
        history, baseline = self.report.base_history, self.report.baseline
        case = self._base_histories.get(case_id)
        if case is None or history is None or baseline is None:
            return []
        times = [history.records[int(number)].recorded_at for number in case.records.split()]
        runs = zip(case.outcomes, times, strict=True)
        return [_STATUSES.get(outcome) for outcome, time in runs if time == baseline.recorded_at]

    def history_of(self, case: CaseReport) -> CaseHistory | None:
        """The base branch's history of a case with the same content; None if there is none."""
        history = self.case_histories.get(case.case_id)
        return history if history is not None and history.fingerprint == case.fingerprint else None


Detail = Literal["full", "failing", "scores"]
"""The setting `report`: conversations of all cases, of the cases that need attention, or none."""

LAST = 5
_ALL = 200_000


@dataclass(frozen=True, kw_only=True)
class CaseDetail:
    """How much of a case the page keeps. Lengths in characters."""

    conversations: bool = True
    base: bool = True
    """The base branch's side."""
    runs: int | None = None
    """The first runs only; None for all."""
    events: bool = True
    """False: texts and calls stay; tool responses, thoughts, data and spans are left out."""
    requests: bool = True
    """Whether system instructions and the names of tools are kept."""
    response: int = _ALL
    """A tool's response."""
    text: int = _ALL
    """Any other text."""
    turns: int = 1_000
    """Turns of a run, and steps of a turn."""
    words: bool = True
    """Whether texts of agents, tools, users and judges may appear at all, e.g. as the reason for a score."""


_NONE = CaseDetail(conversations=False)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How much the page keeps of the cases that pass as before (`quiet`) and of the others."""

    level: int
    quiet: CaseDetail
    others: CaseDetail
    left_out: tuple[str, ...]
    """What is left out, a sentence each."""

    def detail(self, *, quiet: bool) -> CaseDetail:
        """How much of a case is kept, by whether it passes as before."""
        return self.quiet if quiet else self.others


def plans(detail: Detail) -> Sequence[Plan]:
    """The steps from everything that the setting `report` allows to scores only."""
    if detail == "scores":
        only = replace(_NONE, words=False)
        sentence = "Conversations and reasons are left out: the setting `report` is `scores`."
        return [Plan(level=LAST, quiet=only, others=only, left_out=(sentence,))]
    full = CaseDetail()
    # From what is missed least: nobody opens a case that passes as before to read its third run.
    first_run = CaseDetail(response=2_000, requests=False, base=False, runs=1)
    short = (
        "Of cases that pass as before, only the first run is shown, with tool responses cut to 2,000 characters, "
        "without system instructions and the base branch's side."
    )
    calls = "Of cases that pass as before, only texts and calls are shown."
    none = "Of cases that pass as before, the conversations are left out."
    if detail == "failing":
        none = "Conversations of cases that pass as before are left out: the setting `report` is `failing`."
        steps = [Plan(level=0, quiet=_NONE, others=full, left_out=(none,))]
    else:
        steps = [
            Plan(level=0, quiet=full, others=full, left_out=()),
            Plan(level=1, quiet=first_run, others=full, left_out=(short,)),
            Plan(level=2, quiet=replace(first_run, events=False), others=full, left_out=(short, calls)),
            Plan(level=3, quiet=_NONE, others=full, left_out=(none,)),
        ]
    cut = CaseDetail(response=20_000, base=False)
    others = "Of the other cases, tool responses are cut to 20,000 characters, and the base branch's side is left out."
    return [
        *steps,
        Plan(level=4, quiet=_NONE, others=cut, left_out=(none, others)),
        Plan(level=LAST, quiet=_NONE, others=_NONE, left_out=("All conversations are left out.",)),
    ]
