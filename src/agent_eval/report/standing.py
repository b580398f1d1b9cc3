"""Where each case stands beside the base, and which cases belong together in a text. Plain text, as in `digest`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.report.digest import unjudged_groups
from agent_eval.report.numbers import score_text
from agent_eval.report.words import BETTER, WORSE, CaseWord, case_words, suite_lines
from agent_eval.results.comparison import BaselineReport, CaseComparison, Change, ComparisonReport
from agent_eval.results.report import CaseReport, RunReport


@dataclass(frozen=True, kw_only=True)
class Against:
    """Everything that is known about the base."""

    comparison: ComparisonReport | None = None
    """None: there is nothing to compare with."""
    baseline: BaselineReport | None = None
    """Where the base's results come from, or why there are none; None: nobody looked."""
    words: Mapping[str, CaseWord] = field(default_factory=dict)
    """By case id; empty where no statistics were made, or nothing is to be told."""
    decided: bool = False
    """Whether statistics were made."""
    changes: Mapping[str, CaseComparison] = field(default_factory=dict)
    """Cases that are not as they were, by id."""
    statistics: Sequence[str] = ()
    """What was tested over all cases together, for those who know statistics."""


def against(report: RunReport) -> Against:
    """What a report knows about the base."""
    comparison = report.comparison
    return Against(
        comparison=comparison,
        baseline=report.baseline,
        words=case_words(report.decision) if report.decision is not None else {},
        decided=report.decision is not None,
        changes={case.case_id: case for case in comparison.cases} if comparison is not None else {},
        statistics=suite_lines(report.decision) if report.decision is not None else (),
    )


def count(comparison: ComparisonReport) -> Mapping[Change, int]:
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
    """Newly failing, or worse by the gate's word; the worst first."""
    failed: list[CaseReport] = field(default_factory=list)
    """Failing, and there is nothing that they could be worse than."""
    still: list[CaseReport] = field(default_factory=list)
    flaky: list[CaseReport] = field(default_factory=list)
    better: list[CaseReport] = field(default_factory=list)
    errored: list[CaseReport] = field(default_factory=list)
    unjudged: list[tuple[str, list[CaseReport]]] = field(default_factory=list)
    """Errored ones that no judge could be asked about, by the cause; they are not among `errored`."""
    quarantined: list[CaseReport] = field(default_factory=list)


def groups(report: RunReport, known: Against) -> Groups:
    """Sorts the cases; those that pass as they did, and those that did not run, are in no group."""
    changes, blocking = known.changes, set(report.blocking)
    found = Groups()
    for case in report.cases:
        word = known.words[case.case_id].word if case.case_id in known.words else None
        one = changes.get(case.case_id)
        into = _group(case, word, one.change if one is not None else None, found)
        if case.case_id in blocking and (into is found.flaky or into is found.still):
            into = found.worse  # Whatever its runs look like, e.g. because the agent breaks in it.
        if into is not None:
            into.append(case)
    order = {word: number for number, word in enumerate(WORSE)}

    def weight(case: CaseReport) -> int:
        word = known.words.get(case.case_id)
        return order.get(word.word, 1) if word is not None else 1

    found.worse.sort(key=weight)
    found.unjudged.extend(unjudged_groups(found.errored))
    together = {case.case_id for _, cases in found.unjudged for case in cases}
    found.errored[:] = [case for case in found.errored if case.case_id not in together]
    return found


def _group(case: CaseReport, word: str | None, change: Change | None, found: Groups) -> list[CaseReport] | None:
    if case.status == "errored":
        return found.errored
    if case.status == "quarantined":
        return found.quarantined
    if case.status == "not_run":
        return None
    if word in WORSE:
        return found.worse
    if case.status == "passed":
        return found.better if word in BETTER or change == "fixed" else None
    if word == "flaky as before":
        return found.flaky
    if change == "newly_failing":
        return found.worse
    return found.still if change == "still_failing" else found.failed


TAGS: Mapping[Change, str] = {
    "newly_failing": "passed on the base",
    "fixed": "fixed",
    "still_failing": "failed on the base too",
    "changed": "the case has changed",
    "added": "new",
    "renamed": "renamed",
    "unjudged": "not compared",
}


def tag(case: CaseReport, known: Against) -> tuple[str, str]:
    """What became of a case, in a word or a few, and the numbers or the reason behind it."""
    if case.status == "errored":  # What went wrong says more.
        return "", ""
    word = known.words.get(case.case_id)
    one = known.changes.get(case.case_id)
    if word is not None and word.word != "unchanged":
        return word.word, word.evidence
    if one is None:
        return "", ""
    if one.change == "unjudged" and one.note:
        return "not compared", one.note
    return TAGS.get(one.change, ""), ""


def base_scores(case: CaseComparison | None) -> dict[str, str]:
    """What to say of the base beside each metric of a case, by the metric's name."""
    told = {}
    for metric in case.metrics if case is not None else []:
        parts = []
        if metric.score.base is not None:
            parts.append(f"base {score_text(metric.score.base)}")
        if metric.note:
            parts.append(metric.note)
        if parts:
            told[metric.name] = ", ".join(parts)
    return told


def on_base(line: str, base: Mapping[str, str]) -> str:
    """What the line of a metric has to say about the base, from `base_scores`; "" for other lines."""
    return next((f", {told}" for name, told in base.items() if line.startswith(f"{name} ")), "")
