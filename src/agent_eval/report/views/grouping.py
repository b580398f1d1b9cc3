"""How each case compares with the base branch, and the groups in which texts list the cases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from agent_eval.gate.outcome import Lookups
from agent_eval.report.views._causes import Cause, causes
from agent_eval.report.views.digest import MetricRow, metric_rows
from agent_eval.report.views.numbers import NO_SCORE
from agent_eval.results import CaseReport, Change, ComparisonReport, RunReport
from agent_eval.results.outcome import Standing

NO_NAME = "the base branch"
"""What a sentence calls the base branch if its name is unknown."""
_BRANCH = re.compile(r"[^\s~^:?*\[\\\x00-\x1f\x7f]{1,80}")
"""What git allows in the name of a branch (git-check-ref-format), limited in length."""


@dataclass(frozen=True, kw_only=True)
class View(Lookups):
    """A report with what every text looks up in it, found once."""

    branch: str
    """The name of the base branch, or NO_NAME."""

    @property
    def decided(self) -> bool:
        """Whether statistics were made."""
        return self.report.decision is not None

    @property
    def column(self) -> str:
        """The base branch's name above a column."""
        return self.branch if self.branch != NO_NAME else "Base branch"

    def standing(self, case: CaseReport) -> Standing:
        """What a case is (`gate.outcome`)."""
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

    @cached_property
    def metric_rows(self) -> Sequence[MetricRow]:
        """A row for each metric."""
        return metric_rows(self.report)

    def judged_runs(self, case: CaseReport) -> tuple[int, int]:
        """How many runs of a case passed, and how many were judged, extra runs included."""
        if (runs := self.runs.get(case.case_id)) is not None:
            return runs.head_passed, runs.head_runs
        judged = [run.status == "passed" for run in self.report.runs_of(case) if run.status in {"passed", "failed"}]
        return sum(judged), len(judged)

    def run_counts(self, case: CaseReport) -> tuple[str, str]:
        """How many of a case's runs passed here and on the base branch, e.g. `0/9` and `10/10`.

        Without a comparison the second one is a word: `new`, `changed`, or a dash.
        """
        passed, judged = self.judged_runs(case)
        here = f"{passed:,}/{judged:,}" if judged else NO_SCORE
        runs, comparison = self.runs.get(case.case_id), self.changes.get(case.case_id)
        if runs is not None:
            return here, f"{runs.base_passed:,}/{runs.base_runs:,}" if runs.base_runs else NO_SCORE
        words: Mapping[Change, str] = {
            "newly_failing": "passed",
            "still_failing": "failed",
            "added": "new",
            "changed": "changed",
        }
        return here, words.get(comparison.change, NO_SCORE) if comparison is not None else NO_SCORE


def view_of(report: RunReport) -> View:
    """Looks up what texts need of a report."""
    return View(report=report, branch=branch_name(report))


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


def _groups(view: View) -> Groups:
    groups = Groups()
    for case in view.report.cases:
        if (section := _SECTIONS.get(view.standing(case))) is not None:
            getattr(groups, section).append(case)
    groups.worse.sort(
        key=lambda case: (view.standing(case) == "suspected", not view.outcomes[case.case_id].always_fails)
    )
    return groups
