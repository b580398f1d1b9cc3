"""Where each case stands beside the base, and which cases belong together in a text. Plain text, as in `digest`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.report.views._significance import CaseSignificance, case_significance, suite_lines
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

_BRANCH = re.compile(r"[^\s~^:?*\[\\\x00-\x1f\x7f]{1,80}")
"""What git allows in the name of a branch (git-check-ref-format), of a length that a sentence can hold."""
NO_NAME = "the base branch"
"""What to call the base branch where its name is not known."""
_TOGETHER = frozenset({"cases-worse-together", "suite-worse"})


@dataclass(frozen=True, kw_only=True)
class BaseComparison:
    """Everything that is known about the base."""

    comparison: ComparisonReport | None = None
    """None: there is nothing to compare with."""
    baseline: BaselineReport | None = None
    """Where the base's results come from, or why there are none; None: nobody looked."""
    branch: str = NO_NAME
    """What to call it: its name, where that is known."""
    significance: Mapping[str, CaseSignificance] = field(default_factory=dict)
    """By case id; empty where no statistics were made, or there is nothing to say."""
    decided: bool = False
    """Whether statistics were made."""
    together: bool = False
    """Whether cases block because of all of them together, and none by itself."""
    runs: Mapping[str, CaseRunsReport] = field(default_factory=dict)
    """Passed and judged runs of both sides, by case id."""
    changes: Mapping[str, CaseComparison] = field(default_factory=dict)
    """Cases that are not as they were, by id."""
    statistics: Sequence[str] = ()
    """What was tested over all cases together, for those who know statistics."""


def base_comparison(report: RunReport) -> BaseComparison:
    """What a report knows about the base."""
    comparison, decision = report.comparison, report.decision
    branch = branch_name(report)
    return BaseComparison(
        comparison=comparison,
        baseline=report.baseline,
        branch=branch,
        significance=case_significance(decision, branch) if decision is not None else {},
        decided=decision is not None,
        together=decision is not None and any(one.code in _TOGETHER for one in decision.reasons),
        runs={one.case_id: one for one in decision.runs} if decision is not None else {},
        changes={case.case_id: case for case in comparison.cases} if comparison is not None else {},
        statistics=suite_lines(decision, branch) if decision is not None else (),
    )


def branch_name(report: RunReport) -> str:
    """The base branch's name; `the base branch` where it is unknown. It may come from a stranger's file."""
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
    """The head's cases by what a reader wants to know of them, each in one place at most."""

    worse: list[CaseReport] = field(default_factory=list)
    """Regressions, then suspected ones; without statistics what failed and did not on the base branch."""
    failed: list[CaseReport] = field(default_factory=list)
    """Failing, and there is nothing that they could be worse than."""
    still: list[CaseReport] = field(default_factory=list)
    flaky: list[CaseReport] = field(default_factory=list)
    """Failed now and then, or at first, and no worse than on the base branch."""
    better: list[CaseReport] = field(default_factory=list)
    errored: list[CaseReport] = field(default_factory=list)
    quarantined: list[CaseReport] = field(default_factory=list)


def groups(report: RunReport, known: BaseComparison) -> Groups:
    """Sorts the cases; those that pass as they did, and those that did not run, are in no group."""
    blocking = set(report.blocking)
    found = Groups()
    for case in report.cases:
        into = _group(case, known, found)
        if case.case_id in blocking and (into is found.flaky or into is found.still):
            into = found.worse  # Whatever its runs look like, e.g. because the agent breaks in it.
        if into is not None:
            into.append(case)
    found.worse.sort(key=lambda case: (is_suspected(case, known), not _always_fails(case, known)))
    return found


def _always_fails(case: CaseReport, known: BaseComparison) -> bool:
    word = known.significance.get(case.case_id)
    return word is not None and word.always


def is_suspected(case: CaseReport, known: BaseComparison) -> bool:
    """Whether a case looks worse than on the base branch, and no more than that is known."""
    word = known.significance.get(case.case_id)
    return word is not None and word.kind == "suspected regression"


def _group(case: CaseReport, known: BaseComparison, found: Groups) -> list[CaseReport] | None:
    word, one = known.significance.get(case.case_id), known.changes.get(case.case_id)
    kind, change = word.kind if word is not None else "", one.change if one is not None else None
    if case.status == "errored":
        return found.errored
    if case.status == "quarantined":
        return found.quarantined
    if case.status == "not_run":
        return None
    if kind in {"regression", "suspected regression"}:
        return found.worse
    if case.status == "passed":
        # One good run beside a bad one is no improvement: where statistics were made they alone say so.
        return found.better if kind == "better" or (not known.decided and change == "fixed") else None
    if kind in {"flaky", "passed again"}:
        return found.flaky
    if change == "newly_failing":
        return found.worse
    return found.still if change == "still_failing" else found.failed


def change_label(case: CaseReport, known: BaseComparison) -> tuple[str, str]:
    """What became of a case, in a word or a few, and the numbers or the reason behind it."""
    if case.status == "errored":  # What went wrong says more.
        return "", ""
    word = known.significance.get(case.case_id)
    one = known.changes.get(case.case_id)
    if word is not None and word.kind:
        return word.label, word.evidence
    if one is None:
        return "", ""
    if one.change == "unjudged" and one.note:
        return "not compared", one.note
    tags: Mapping[Change, str] = {
        "newly_failing": f"passed on {known.branch}",
        "fixed": "fixed" if not known.decided else "",
        "still_failing": f"failed on {known.branch} too",
        "changed": "a changed case",
        "added": "a new case",
        "renamed": "renamed",
        "unjudged": "not compared",
    }
    return tags.get(one.change, ""), ""


def run_counts(report: RunReport, case: CaseReport, known: BaseComparison) -> tuple[str, str]:
    """How many of a case's runs passed here and on the base branch, e.g. `0/9` and `10/10`.

    The second is a word where there is nothing to compare with: `new`, `changed`, a dash.
    """
    runs = known.runs.get(case.case_id)
    if runs is not None:
        there = f"{runs.base_passed:,}/{runs.base_runs:,}" if runs.base_runs else NO_SCORE
        return f"{runs.head_passed:,}/{runs.head_runs:,}", there
    extra = [run for one in report.confirmations if one.case_id == case.case_id for run in one.runs]
    judged = [run.status == "passed" for run in (*case.runs, *extra) if run.status in {"passed", "failed"}]
    here = f"{sum(judged):,}/{len(judged):,}" if judged else NO_SCORE
    one = known.changes.get(case.case_id)
    words: Mapping[Change, str] = {
        "newly_failing": "passed",
        "still_failing": "failed",
        "added": "new",
        "changed": "changed",
    }
    return here, words.get(one.change, NO_SCORE) if one is not None else NO_SCORE


def metric_base_notes(case: CaseComparison | None, branch: str) -> dict[str, str]:
    """What to say of the base branch beside each metric of a case, by the metric's name."""
    told = {}
    for metric in case.metrics if case is not None else []:
        parts = []
        if metric.score.base is not None:
            parts.append(f"on {branch} {score_text(metric.score.base)}")
        if metric.note:
            parts.append(metric.note)
        if parts:
            told[metric.name] = ", ".join(parts)
    return told


def base_note(line: str, base: Mapping[str, str]) -> str:
    """What the line of a metric has to say about the base branch, from `base_scores`; "" for other lines."""
    return next((f", {told}" for name, told in base.items() if line.startswith(f"{name} ")), "")
