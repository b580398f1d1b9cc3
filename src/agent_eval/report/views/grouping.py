"""How each case compares with the base branch, and the groups in which texts list the cases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from agent_eval.report.views._causes import Cause, causes
from agent_eval.report.views.digest import MetricRow, has_crashed, metric_rows
from agent_eval.report.views.numbers import NO_SCORE
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

NO_NAME = "the base branch"
"""What a sentence calls the base branch if its name is unknown."""
_BRANCH = re.compile(r"[^\s~^:?*\[\\\x00-\x1f\x7f]{1,80}")
"""What git allows in the name of a branch (git-check-ref-format), limited in length."""
_FLAKY = frozenset({"flaky", "passed again"})


ChangeKind = Literal["regression", "suspected regression", "better", "flaky", "passed again", ""]
"""What a text calls a case. `flaky`: it also fails sometimes on the base branch. `passed again`: it failed once, passed
when run again, and never failed on the base branch. "": unchanged."""
_WEIGHT: Sequence[CaseWord] = ("broken", "worse", "fixed", "better", "suspicious", "flaky as before", "unchanged")


@dataclass(frozen=True, kw_only=True)
class View:
    """A report with what every text looks up in it, found once."""

    report: RunReport
    branch: str
    """The name of the base branch, or NO_NAME."""
    decisions: Mapping[str, Sequence[CaseDecisionReport]]
    """Results of the statistics by case id, the most significant metric first; empty without statistics."""
    runs: Mapping[str, CaseRunsReport]
    """Passed and scored runs of both sides, by case id."""
    changes: Mapping[str, CaseComparison]
    """Cases that differ from the base branch, by id."""
    blocking: Set[str]
    """Ids of the cases that block, each by itself."""

    @property
    def decided(self) -> bool:
        """Whether statistics were made."""
        return self.report.decision is not None

    @property
    def column(self) -> str:
        """The base branch's name above a column."""
        return self.branch if self.branch != NO_NAME else "Base branch"

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

    @cached_property
    def metric_rows(self) -> Sequence[MetricRow]:
        """A row for each metric."""
        return metric_rows(self.report)

    def word(self, case_id: str) -> CaseWord:
        """The word of the most significant metric of a case (`shown_word`)."""
        decision, metrics = self.report.decision, self.decisions.get(case_id)
        return shown_word(metrics[0], decision) if metrics and decision is not None else "unchanged"

    def kind(self, case_id: str) -> ChangeKind:
        """How a case compares with the base branch, by the statistics."""
        match self.word(case_id):
            case "broken" | "worse":
                return "regression"
            case "suspicious":
                return "suspected regression"
            case "fixed" | "better":
                return "better"
            case "flaky as before":
                runs = self.runs.get(case_id)
                return "passed again" if runs is not None and runs.base_passed == runs.base_runs > 0 else "flaky"
        return ""

    def always_fails(self, case_id: str) -> bool:
        """Whether no run of a case that the statistics name passed."""
        metrics, runs = self.decisions.get(case_id), self.runs.get(case_id)
        if not metrics:
            return False
        return metrics[0].word == "broken" if runs is None else runs.head_passed == 0

    def is_suspected(self, case: CaseReport) -> bool:
        """Whether a case is a suspected regression: also one that was never run again, since another had decided.

        A case that blocks by itself, e.g. because the agent raised an error, is more than that.
        """
        if case.case_id in self.blocking:
            return False
        if kind := self.kind(case.case_id):
            return kind == "suspected regression"
        comparison = self.changes.get(case.case_id)
        return self.decided and comparison is not None and comparison.change == "newly_failing"

    def is_flaky(self, case: CaseReport) -> bool:
        """Whether a case failed in some runs, no more often than on the base branch."""
        return self.kind(case.case_id) in _FLAKY

    def fails_as_before(self, case: CaseReport) -> bool:
        """Whether a failing case fails on the base branch too, and no less often."""
        comparison = self.changes.get(case.case_id)
        return self.is_flaky(case) or (comparison is not None and comparison.change == "still_failing")

    def run_counts(self, case: CaseReport) -> tuple[str, str]:
        """How many of a case's runs passed here and on the base branch, e.g. `0/9` and `10/10`.

        Without a comparison the second one is a word: `new`, `changed`, or a dash.
        """
        runs = self.runs.get(case.case_id)
        if runs is not None:
            there = f"{runs.base_passed:,}/{runs.base_runs:,}" if runs.base_runs else NO_SCORE
            return f"{runs.head_passed:,}/{runs.head_runs:,}", there
        judged = [run.status == "passed" for run in self.report.runs_of(case) if run.status in {"passed", "failed"}]
        here = f"{sum(judged):,}/{len(judged):,}" if judged else NO_SCORE
        comparison = self.changes.get(case.case_id)
        words: Mapping[Change, str] = {
            "newly_failing": "passed",
            "still_failing": "failed",
            "added": "new",
            "changed": "changed",
        }
        return here, words.get(comparison.change, NO_SCORE) if comparison is not None else NO_SCORE


def view_of(report: RunReport) -> View:
    """Looks up what texts need of a report."""
    comparison, decision = report.comparison, report.decision
    decisions: dict[str, list[CaseDecisionReport]] = {}
    for case in decision.cases if decision is not None else ():
        decisions.setdefault(case.case_id, []).append(case)
    for metrics in decisions.values():
        metrics.sort(key=lambda metric: _WEIGHT.index(metric.word))
    return View(
        report=report,
        branch=branch_name(report),
        decisions=decisions,
        runs={case.case_id: case for case in decision.runs} if decision is not None else {},
        changes={case.case_id: case for case in comparison.cases} if comparison is not None else {},
        blocking=frozenset(report.blocking),
    )


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


def branch_name(report: RunReport) -> str:
    """The base branch's name; `the base branch` where it is unknown. It may come from an untrusted file."""
    name = report.baseline.branch if report.baseline is not None else ""
    return name if _BRANCH.fullmatch(name) else NO_NAME


def change_counts(comparison: ComparisonReport) -> Mapping[Change, int]:
    """How many cases each change has."""
    counts: dict[Change, int] = dict.fromkeys(
        ("newly_failing", "fixed", "still_failing", "changed", "added", "removed", "unjudged", "renamed"), 0
    )
    for case in comparison.cases:
        counts[case.change] += 1
    return counts


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


def _groups(view: View) -> Groups:
    """Groups the cases. Those that pass as before and those that did not run are in no group."""
    groups = Groups()
    for case in view.report.cases:
        into = _group(case, view, groups)
        if case.case_id in view.blocking and (into is groups.flaky or into is groups.still):
            into = groups.failed if _by_threshold(case, view.report) else groups.worse
        if into is not None:
            into.append(case)
    groups.worse.sort(key=lambda case: (view.is_suspected(case), not view.always_fails(case.case_id)))
    return groups


def _by_threshold(case: CaseReport, report: RunReport) -> bool:
    """Whether a case that is no worse than on the base branch blocks by a threshold.

    If thresholds don't block, it blocks e.g. because the agent raised an error in it.
    """
    crash_blocks = any(reason.code == "agent-error" for reason in report.reasons)
    return report.gate == "thresholds" or (report.gate == "both" and not (crash_blocks and has_crashed(case)))


def _group(case: CaseReport, view: View, groups: Groups) -> list[CaseReport] | None:
    kind, comparison = view.kind(case.case_id), view.changes.get(case.case_id)
    change = comparison.change if comparison is not None else None
    if case.status == "errored":
        return groups.errored
    if case.status == "quarantined":
        return groups.quarantined
    if case.status == "not_run":
        return None
    if kind in {"regression", "suspected regression"}:
        return groups.worse
    if case.status == "passed":
        # One good run after a bad one is no improvement: if there are statistics, they decide.
        return groups.better if kind == "better" or (not view.decided and change == "fixed") else None
    if kind in _FLAKY:
        return groups.flaky
    if change == "newly_failing":
        return groups.worse
    return groups.still if change == "still_failing" else groups.failed


def blocking_ids(report: RunReport) -> frozenset[str]:
    """Ids of the cases that fail the gate; none with `advisory`, although the report names those that would."""
    return frozenset(report.blocking if report.gate != "advisory" else ())


def is_excused(case: CaseReport, report: RunReport, blocking: Set[str]) -> bool:
    """Whether a case did not pass but does not block, e.g. because it fails on the base branch too.

    A test report skips it: a single failure makes a build of Jenkins unstable, and a session of pytest red. If the gate
    did not decide by case (an inconclusive run, or one that fails for another reason), every failure counts.

    Args:
        case: A case of the report.
        report: The report.
        blocking: Its `blocking_ids`.
    """
    if case.status not in {"failed", "errored"} or case.case_id in blocking:
        return False
    others_block = report.verdict == "failed" and bool(report.blocking)
    return report.verdict == "passed" or (others_block and case.status == "failed")
