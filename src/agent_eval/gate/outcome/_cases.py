"""What each case of a report is to the gate, and the groups of cases that texts list."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from agent_eval.core.reason import Reason
from agent_eval.gate.outcome._errors import Cause, causes, has_crashed
from agent_eval.results import (
    CaseComparison,
    CaseDecisionReport,
    CaseReport,
    CaseRunsReport,
    Change,
    ComparisonReport,
    DecisionReport,
    RunReport,
)
from agent_eval.results.origin import CaseWord
from agent_eval.results.outcome import CaseOutcome, Standing

Trend = Literal["regression", "suspected regression", "better", "flaky", "passed again", ""]
"""How a case compares with the base branch by the statistics, whatever its status is. `flaky`: it also fails sometimes
there. `passed again`: it failed once, passed when run again, and never failed there. Empty: unchanged, or without
statistics."""

_WEIGHT: Sequence[CaseWord] = ("broken", "worse", "fixed", "better", "suspicious", "flaky as before", "unchanged")
_FLAKY = frozenset({"flaky", "passed again"})
_WITHOUT_RESULT: Mapping[str, Standing] = {
    "errored": "not-evaluated",
    "quarantined": "quarantined",
    "not_run": "not-run",
}
_RANKS: Mapping[Standing, int] = {
    "regression": 1,
    "failed": 2,
    "fails-as-before": 2,
    "not-evaluated": 3,
    "suspected": 4,
    "flaky": 5,
    "quarantined": 6,
    "not-run": 7,
    "improved": 8,
    "passed": 9,
}
"""The order of what needs attention, after what blocks."""


class Outcome(CaseOutcome):
    """The same, with what texts say beside it."""

    would_block: bool
    """Whether it blocks, or would if the gate were not advisory."""
    excused: bool
    """Whether it did not pass and does not count."""
    word: CaseWord
    """Of its most significant metric."""
    trend: Trend
    as_before: bool
    """Whether it fails on the base branch too, and no less often."""
    always_fails: bool
    """Whether the statistics name it and no run of it passed."""

    @property
    def is_flaky(self) -> bool:
        """Whether it failed in some runs, no more often than on the base branch."""
        return self.trend in _FLAKY


_SECTIONS: Mapping[Standing, str] = {
    "regression": "worse",
    "suspected": "worse",
    "failed": "failed",
    "fails-as-before": "still",
    "flaky": "flaky",
    "improved": "better",
    "not-evaluated": "errored",
    "quarantined": "quarantined",
}
"""Cases that pass as before and those that did not run are in no group."""


@dataclass(frozen=True, kw_only=True)
class Groups:
    """The cases of the head by section; each is in one section at most."""

    worse: list[CaseReport] = field(default_factory=list)
    """Regressions, then suspected ones; without statistics, cases that failed only here."""
    failed: list[CaseReport] = field(default_factory=list)
    """Failing cases that can't be compared with the base branch, or that block by a threshold alone."""
    still: list[CaseReport] = field(default_factory=list)
    flaky: list[CaseReport] = field(default_factory=list)
    """Cases that failed in some runs, no more often than on the base branch."""
    better: list[CaseReport] = field(default_factory=list)
    errored: list[CaseReport] = field(default_factory=list)
    quarantined: list[CaseReport] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Lookups:
    """What a report says of each case, by its id."""

    report: RunReport

    @cached_property
    def decisions(self) -> Mapping[str, Sequence[CaseDecisionReport]]:
        """Results of the statistics, the most significant metric first; empty without statistics."""
        decisions: dict[str, list[CaseDecisionReport]] = {}
        for case in self.report.decision.cases if self.report.decision is not None else ():
            decisions.setdefault(case.case_id, []).append(case)
        for metrics in decisions.values():
            metrics.sort(key=lambda metric: _WEIGHT.index(metric.word))
        return decisions

    @cached_property
    def runs(self) -> Mapping[str, CaseRunsReport]:
        """Passed and scored runs of both sides."""
        return {case.case_id: case for case in self.report.decision.runs} if self.report.decision is not None else {}

    @cached_property
    def changes(self) -> Mapping[str, CaseComparison]:
        """Cases that differ from the base branch."""
        comparison = self.report.comparison
        return {case.case_id: case for case in comparison.cases} if comparison is not None else {}

    @cached_property
    def cases(self) -> Mapping[str, CaseReport]:
        """The cases of the head by their id."""
        return {case.case_id: case for case in self.report.cases}

    @cached_property
    def outcomes(self) -> Mapping[str, Outcome]:
        """What each case is to the gate."""
        blocking = frozenset(self.report.blocking)
        return {case.case_id: _outcome(case, self, case.case_id in blocking) for case in self.report.cases}

    def standing(self, case: CaseReport) -> Standing:
        """What a case is."""
        return self.outcomes[case.case_id].standing

    @cached_property
    def groups(self) -> Groups:
        """The cases by section."""
        return _groups(self)

    @cached_property
    def errors(self) -> Sequence[Cause]:
        """What kept cases from being evaluated."""
        return causes(self.report, self.groups.errored)

    @cached_property
    def crashes(self) -> Sequence[Cause]:
        """The errors because of which cases failed."""
        groups = self.groups
        failed = [case for case in (*groups.worse, *groups.failed, *groups.still) if case.status == "failed"]
        return causes(self.report, failed)


def shown_word(metric: CaseDecisionReport, decision: DecisionReport) -> CaseWord:
    """The word of a metric of a case as texts use it.

    A suspected regression is a regression for them if the comparison fails the run and the case's fresh runs alone say
    so, although the comparison names others. What else fails the run, such as an error of the agent, does not count.
    It is none if its fresh runs pass: what fails the run is not seen in it.
    """
    if metric.word == "suspicious" and metric.passed_again:
        return "flaky as before"
    shows_it = metric.p_value is not None and metric.p_value <= decision.alpha
    if metric.word != "suspicious" or not shows_it or decision.outcome != "failed":
        return metric.word
    return "worse" if metric.head_mean else "broken"


def _outcome(case: CaseReport, found: Lookups, would_block: bool) -> Outcome:
    report, metrics = found.report, found.decisions.get(case.case_id)
    runs, comparison = found.runs.get(case.case_id), found.changes.get(case.case_id)
    word = shown_word(metrics[0], report.decision) if metrics and report.decision is not None else "unchanged"
    trend = _trend(word, runs)
    change = comparison.change if comparison is not None else None
    blocks = would_block and report.gate != "advisory"
    no_pass = case.status in {"failed", "errored"}
    excused = no_pass and not blocks and _is_excused(case, report)
    standing = _standing(case, report, trend, change, would_block=would_block)
    return Outcome(
        standing=standing,
        blocks=blocks,
        would_block=would_block,
        excused=excused,
        counts=blocks or (no_pass and not excused),
        rank=0 if would_block else _RANKS[standing],
        evidence="replayed" if case.replayed else "live",
        word=word,
        trend=trend,
        as_before=trend in _FLAKY or change == "still_failing",
        always_fails=metrics is not None and (metrics[0].word == "broken" if runs is None else runs.head_passed == 0),
    )


def _trend(word: CaseWord, runs: CaseRunsReport | None) -> Trend:
    match word:
        case "broken" | "worse":
            return "regression"
        case "suspicious":
            return "suspected regression"
        case "fixed" | "better":
            return "better"
        case "flaky as before":
            return "passed again" if runs is not None and runs.base_passed == runs.base_runs > 0 else "flaky"
    return ""


def _standing(
    case: CaseReport, report: RunReport, trend: Trend, change: Change | None, *, would_block: bool
) -> Standing:
    if case.status in _WITHOUT_RESULT:
        return _WITHOUT_RESULT[case.status]
    if trend == "regression" or (trend == "suspected regression" and would_block):
        return "regression"
    if trend == "suspected regression":
        return "suspected"
    if case.status == "passed":
        # One good run after a bad one is no improvement: if there are statistics, they decide.
        better = trend == "better" or (report.decision is None and change == "fixed")
        return "improved" if better else "passed"
    if trend in _FLAKY or change == "still_failing":
        if would_block:
            return "failed" if _by_threshold(case, report) else "regression"
        return "flaky" if trend in _FLAKY else "fails-as-before"
    if change != "newly_failing":
        return "failed"
    # One that was never run again, since another had decided, is suspected; one that blocks is more than that.
    return "suspected" if report.decision is not None and not trend and not would_block else "regression"


def _by_threshold(case: CaseReport, report: RunReport) -> bool:
    """Whether a case that is no worse than on the base branch blocks by a threshold.

    If thresholds don't block, it blocks e.g. because the agent raised an error in it.
    """
    crash_blocks = any(reason.code == "agent-error" for reason in report.reasons)
    return report.gate == "thresholds" or (report.gate == "both" and not (crash_blocks and has_crashed(case)))


def _is_excused(case: CaseReport, report: RunReport) -> bool:
    if report.verdict == "passed" or (report.exit_code == 0 and report.shard is None):  # A part has no verdict.
        return True
    return report.verdict == "failed" and bool(report.blocking) and case.status == "failed"


def _groups(found: Lookups) -> Groups:
    groups = Groups()
    for case in found.report.cases:
        if (section := _SECTIONS.get(found.standing(case))) is not None:
            getattr(groups, section).append(case)
    groups.worse.sort(
        key=lambda case: (found.standing(case) == "suspected", not found.outcomes[case.case_id].always_fails)
    )
    return groups


def behind(reason: Reason) -> Mapping[str, Any]:
    """Code and data of the reason behind a reason; empty for none. In a report of a file they are plain values."""
    because = reason.data.get("because")
    because = because.model_dump() if isinstance(because, Reason) else because if isinstance(because, dict) else {}
    data = because.get("data")
    return {**(data if isinstance(data, dict) else {}), "code": str(because.get("code", ""))}


def change_counts(comparison: ComparisonReport | None) -> Counter[Change]:
    """How many cases each change has; none without a comparison."""
    return Counter(case.change for case in comparison.cases) if comparison is not None else Counter()
