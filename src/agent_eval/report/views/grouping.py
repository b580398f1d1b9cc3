"""How each case compares with the base branch, and the groups in which texts list the cases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from agent_eval.report.views._significance import CaseSignificance, case_significance, suite_lines
from agent_eval.report.views.digest import has_crashed
from agent_eval.report.views.numbers import NO_SCORE, score_text
from agent_eval.results import (
    BaselineReport,
    CaseComparison,
    CaseReport,
    CaseRunsReport,
    Change,
    ComparisonReport,
    RunReport,
)

NO_NAME = "the base branch"
"""What a sentence calls the base branch if its name is unknown."""
_BRANCH = re.compile(r"[^\s~^:?*\[\\\x00-\x1f\x7f]{1,80}")
"""What git allows in the name of a branch (git-check-ref-format), limited in length."""
_FLAKY = frozenset({"flaky", "passed again"})
_TOGETHER = frozenset({"cases-worse-together", "suite-worse"})


@dataclass(frozen=True, kw_only=True)
class BaseComparison:
    """Everything that a report says about the base branch."""

    comparison: ComparisonReport | None = None
    """None: there is nothing to compare with."""
    baseline: BaselineReport | None = None
    """Where the base branch's results come from, or why there are none; None if the run did not look for any."""
    branch: str = NO_NAME
    """The name of the base branch, or NO_NAME."""
    significance: Mapping[str, CaseSignificance] = field(default_factory=dict)
    """Results of the statistics by case id; empty without statistics."""
    decided: bool = False
    """Whether statistics were made."""
    together: bool = False
    """Whether the cases block only together, and none by itself."""
    runs: Mapping[str, CaseRunsReport] = field(default_factory=dict)
    """Passed and scored runs of both sides, by case id."""
    changes: Mapping[str, CaseComparison] = field(default_factory=dict)
    """Cases that differ from the base branch, by id."""
    statistics: Sequence[str] = ()
    """Statistical details of the whole suite."""
    blocking: Set[str] = frozenset()
    """Ids of the cases that block, each by itself."""


def base_comparison(report: RunReport) -> BaseComparison:
    """What a report says about the base branch."""
    comparison, decision = report.comparison, report.decision
    branch = branch_name(report)
    return BaseComparison(
        comparison=comparison,
        baseline=report.baseline,
        branch=branch,
        significance=case_significance(decision, branch) if decision is not None else {},
        decided=decision is not None,
        together=decision is not None and any(item.code in _TOGETHER for item in decision.reasons),
        runs={item.case_id: item for item in decision.runs} if decision is not None else {},
        changes={case.case_id: case for case in comparison.cases} if comparison is not None else {},
        statistics=suite_lines(decision, branch) if decision is not None else (),
        blocking=frozenset(report.blocking),
    )


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


def groups(report: RunReport, base: BaseComparison) -> Groups:
    """Groups the cases. Those that pass as before and those that did not run are in no group."""
    blocking = set(report.blocking)
    groups_ = Groups()
    for case in report.cases:
        into = _group(case, base, groups_)
        if case.case_id in blocking and (into is groups_.flaky or into is groups_.still):
            into = groups_.failed if _by_threshold(case, report) else groups_.worse
        if into is not None:
            into.append(case)
    groups_.worse.sort(key=lambda case: (is_suspected(case, base), not _always_fails(case, base)))
    return groups_


def _by_threshold(case: CaseReport, report: RunReport) -> bool:
    """Whether a case that is no worse than on the base branch blocks by a threshold.

    If thresholds don't block, it blocks e.g. because the agent raised an error in it.
    """
    crash_blocks = any(reason.code == "agent-error" for reason in report.reasons)
    return report.gate == "thresholds" or (report.gate == "both" and not (crash_blocks and has_crashed(case)))


def _always_fails(case: CaseReport, base: BaseComparison) -> bool:
    significance = base.significance.get(case.case_id)
    return significance is not None and significance.always


def is_suspected(case: CaseReport, base: BaseComparison) -> bool:
    """Whether a case is a suspected regression: also one that was never run again, since another had decided.

    A case that blocks by itself, e.g. because the agent raised an error, is more than that.
    """
    significance = base.significance.get(case.case_id)
    if case.case_id in base.blocking:
        return False
    if significance is not None and significance.kind:
        return significance.kind == "suspected regression"
    comparison = base.changes.get(case.case_id)
    return base.decided and comparison is not None and comparison.change == "newly_failing"


def is_flaky(case: CaseReport, base: BaseComparison) -> bool:
    """Whether a case failed in some runs, no more often than on the base branch."""
    significance = base.significance.get(case.case_id)
    return significance is not None and significance.kind in _FLAKY


def fails_as_before(case: CaseReport, base: BaseComparison) -> bool:
    """Whether a failing case fails on the base branch too, and no less often."""
    comparison = base.changes.get(case.case_id)
    return is_flaky(case, base) or (comparison is not None and comparison.change == "still_failing")


def _group(case: CaseReport, base: BaseComparison, groups_: Groups) -> list[CaseReport] | None:
    significance, comparison = base.significance.get(case.case_id), base.changes.get(case.case_id)
    kind, change = (
        significance.kind if significance is not None else "",
        comparison.change if comparison is not None else None,
    )
    if case.status == "errored":
        return groups_.errored
    if case.status == "quarantined":
        return groups_.quarantined
    if case.status == "not_run":
        return None
    if kind in {"regression", "suspected regression"}:
        return groups_.worse
    if case.status == "passed":
        # One good run after a bad one is no improvement: if there are statistics, they decide.
        return groups_.better if kind == "better" or (not base.decided and change == "fixed") else None
    if kind in _FLAKY:
        return groups_.flaky
    if change == "newly_failing":
        return groups_.worse
    return groups_.still if change == "still_failing" else groups_.failed


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


def change_label(case: CaseReport, base: BaseComparison) -> tuple[str, str]:
    """A short label of how a case compares with the base branch, and the numbers or the reason for it."""
    if case.status == "errored":  # The error says more.
        return "", ""
    significance = base.significance.get(case.case_id)
    comparison = base.changes.get(case.case_id)
    if significance is not None and significance.kind:
        return significance.label, significance.evidence
    if comparison is None:
        return "", ""
    if comparison.change == "unjudged" and comparison.note:
        return "not compared", comparison.note
    labels: Mapping[Change, str] = {
        "newly_failing": f"passed on {base.branch}",
        "fixed": "fixed" if not base.decided else "",
        "still_failing": f"failed on {base.branch} too",
        "changed": "a changed case",
        "added": "a new case",
        "renamed": "renamed",
        "unjudged": "not compared",
    }
    return labels.get(comparison.change, ""), ""


def run_counts(report: RunReport, case: CaseReport, base: BaseComparison) -> tuple[str, str]:
    """How many of a case's runs passed here and on the base branch, e.g. `0/9` and `10/10`.

    Without a comparison the second one is a word: `new`, `changed`, or a dash.
    """
    runs = base.runs.get(case.case_id)
    if runs is not None:
        there = f"{runs.base_passed:,}/{runs.base_runs:,}" if runs.base_runs else NO_SCORE
        return f"{runs.head_passed:,}/{runs.head_runs:,}", there
    judged = [run.status == "passed" for run in report.runs_of(case) if run.status in {"passed", "failed"}]
    here = f"{sum(judged):,}/{len(judged):,}" if judged else NO_SCORE
    comparison = base.changes.get(case.case_id)
    words: Mapping[Change, str] = {
        "newly_failing": "passed",
        "still_failing": "failed",
        "added": "new",
        "changed": "changed",
    }
    return here, words.get(comparison.change, NO_SCORE) if comparison is not None else NO_SCORE


def metric_base_notes(case: CaseComparison | None, branch: str) -> dict[str, str]:
    """A note about the base branch for each metric of a case, by the metric's name."""
    notes = {}
    for metric in case.metrics if case is not None else []:
        parts = []
        if metric.score.base is not None:
            parts.append(f"on {branch} {score_text(metric.score.base)}")
        if metric.note:
            parts.append(metric.note)
        if parts:
            notes[metric.name] = ", ".join(parts)
    return notes
