"""How each case compares with the base branch, and the groups in which texts list the cases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from agent_eval_results import CaseReport, Change, RunReport
from agent_eval_results.data.outcome import RunOutcome
from agent_eval_results.outcome import Lookups, run_outcome
from agent_eval_results.report.views.digest import MetricRow, metric_rows
from agent_eval_results.report.views.numbers import NO_SCORE

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

    @cached_property
    def outcome(self) -> RunOutcome:
        """What the run is to a reader."""
        return run_outcome(self)

    @cached_property
    def metric_rows(self) -> Sequence[MetricRow]:
        """A row for each metric."""
        return metric_rows(self.report)

    def judged_runs(self, case: CaseReport) -> tuple[int, int]:
        """How many runs of a case passed, and how many were judged, extra runs included."""
        if (runs := self.runs.get(case.case_id)) is not None:
            return runs.head_passed, runs.head_runs
        judged = [run.passed for run in self.report.runs_of(case) if run.is_judged]
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


def view_of(report: RunReport | View) -> View:
    """Looks up what texts need of a report. A view stays what it is: its report changes no more."""
    return report if isinstance(report, View) else View(report=report, branch=branch_name(report))


def branch_name(report: RunReport) -> str:
    """The base branch's name; `the base branch` where it is unknown. It may come from an untrusted file."""
    name = report.baseline.branch if report.baseline is not None else ""
    return name if _BRANCH.fullmatch(name) else NO_NAME
