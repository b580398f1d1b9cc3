"""What the page is made of: the report, the recordings, the eval cases and the base branch's side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent_eval.evalset.models import EvalCase
from agent_eval.report.phrases import headline
from agent_eval.report.views import (
    BaseComparison,
    Links,
    MetricRow,
    grouping,
    metric_rows,
)
from agent_eval.results import (
    CaseComparison,
    CaseDecisionReport,
    CaseHistory,
    CaseReport,
    HistoryReport,
    Recording,
    RunReport,
)


def _no_recordings(_: str) -> Iterable[Recording]:
    return ()


def _no_case(_: str) -> EvalCase | None:
    return None


@dataclass(frozen=True, kw_only=True)
class PageSource:
    """Everything that a page may show."""

    report: RunReport
    links: Links = field(default_factory=Links)
    """Where the page may lead."""
    recordings: Callable[[str], Iterable[Recording]] = _no_recordings
    """The recordings of a case by its id, extra runs included; those of other runs are ignored."""
    cases: Callable[[str], EvalCase | None] = _no_case
    """The eval case by its id, as it was run; None if it is unknown."""
    base_recordings: Callable[[str], Iterable[Recording]] = _no_recordings
    """Recordings of the runs that the base branch's agent made for this report, by the base branch's id of the case."""
    baseline_recordings: Callable[[str], Iterable[Recording]] = _no_recordings
    """Recordings of the runs that the baseline was measured with, by the same id."""
    base_note: str | None = None
    """Why the base branch's recordings are missing, in a sentence."""
    history: HistoryReport | None = None
    """The base branch's history, by the ids of the report's cases; None: the one that the report has, if any."""
    notices: Callable[[], Sequence[str]] = tuple
    """Remarks on what could not be read, e.g. recordings of another run; asked for when everything has been read."""


class Facts:
    """Lookups by case, made once for a page."""

    def __init__(self, source: PageSource) -> None:
        """Prepares the lookups."""
        self.source = source
        self.report = source.report
        self.base: BaseComparison = grouping.base_comparison(source.report)
        self.history = source.history or source.report.base_history or source.report.history
        self.blocking = frozenset(source.report.blocking)
        self.confirmations = _by_id(source.report.confirmations)
        self.base_runs = _by_id(source.report.base_runs)
        self.decisions: dict[str, list[CaseDecisionReport]] = {}
        for item in source.report.decision.cases if source.report.decision is not None else ():
            self.decisions.setdefault(item.case_id, []).append(item)

    @cached_property
    def headline(self) -> str:
        """The decision and its cause."""
        return headline(self.report, self.base)

    @cached_property
    def metric_rows(self) -> Sequence[MetricRow]:
        """A row for each metric of the report."""
        return metric_rows(self.report)

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
        return self.base.changes.get(case_id)

    def base_id(self, case_id: str) -> str:
        """The id of a case on the base branch."""
        change = self.change(case_id)
        return case_id if change is None or change.renamed_from is None else change.renamed_from

    def base_outcomes(self, base_id: str) -> str:
        """What the runs of the baseline itself were, in the order of their numbers, as `CaseHistory.outcomes`."""
        history, baseline = self.report.base_history, self.report.baseline
        case = next((case for case in history.cases if case.case_id == base_id), None) if history is not None else None
        if case is None or history is None or baseline is None:
            return ""
        times = [history.records[int(number)].recorded_at for number in case.records.split()]
        runs = zip(case.outcomes, times, strict=True)
        return "".join(outcome for outcome, time in runs if time == baseline.recorded_at)

    def history_of(self, case: CaseReport) -> CaseHistory | None:
        """The base branch's history of a case with the same content; None if there is none."""
        history = self.case_histories.get(case.case_id)
        return history if history is not None and history.fingerprint == case.fingerprint else None

    def needs_attention(self, case: CaseReport) -> bool:
        """Whether a case did not pass, or differs from the base branch."""
        change = self.change(case.case_id)
        significance = self.base.significance.get(case.case_id)
        return (
            case.status != "passed"
            or case.case_id in self.blocking
            or (significance is not None and bool(significance.kind))
            or (change is not None and change.change in {"newly_failing", "fixed", "added"})
        )


def _by_id(parts: Iterable[CaseReport]) -> dict[str, list[CaseReport]]:
    by_id: dict[str, list[CaseReport]] = {}
    for part in parts:
        by_id.setdefault(part.case_id, []).append(part)
    return by_id
