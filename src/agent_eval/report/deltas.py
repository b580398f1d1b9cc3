"""What the texts tell about the base branch, before it is dressed: the sentence, the table, the groups of cases.

Plain text, as in `digest`; the renderers escape it for their medium.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.core.text import plural
from agent_eval.report import digest
from agent_eval.report.numbers import (
    NO_SCORE,
    cost_text,
    count_text,
    delta_text,
    duration_text,
    measurement_text,
    percent_text,
    points_text,
    relative_text,
    score_text,
)
from agent_eval.report.words import BETTER, WORSE, CaseWord, case_words, suite_lines
from agent_eval.results.comparison import BaselineReport, CaseComparison, Change, ComparisonReport, MetricComparison
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


def headline(report: RunReport, known: Against) -> str:
    """The verdict in one sentence, with the numbers that made it, those against the base included."""
    said = digest.headline(report)
    comparison = known.comparison
    if comparison is None or report.verdict == "invalid" or not comparison.compared:
        return said
    counts = count(comparison)
    if known.decided:
        words = Counter(known.words[case.case_id].word for case in report.cases if case.case_id in known.words)
        parts = [f"{words[word]:,} {word}" for word in (*WORSE, *BETTER) if words[word]]
        none = "nothing worse than on the base"
    else:
        told: Mapping[Change, str] = {"newly_failing": "newly failing", "fixed": "fixed"}
        parts = [f"{counts[change]:,} {what}" for change, what in told.items() if counts[change]]
        none = "none newly failing"
    if parts:
        return f"{said}; since the base {listing(parts)}"
    still = counts["still_failing"]
    if still and still == report.totals.failed:
        return f"{said}; {'it' if still == 1 else 'they'} failed on the base too"
    if report.totals.passed == report.totals.cases == comparison.unchanged:
        return f"{said}, as on the base"
    return f"{said}; {none}"


def listing(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def count(comparison: ComparisonReport) -> Mapping[Change, int]:
    """How many cases each change has."""
    counts: dict[Change, int] = dict.fromkeys(
        ("newly_failing", "fixed", "still_failing", "changed", "added", "removed", "unjudged", "renamed"), 0
    )
    for case in comparison.cases:
        counts[case.change] += 1
    return counts


@dataclass(frozen=True, kw_only=True)
class DeltaRow:
    """A number now and on the base."""

    name: str | None
    """The metric's; None: the share of cases that pass."""
    now: str
    base: str
    change: str
    needs: str = ""
    failed: int = 0
    not_evaluated: int = 0
    gates: bool = True
    note: str = ""
    """Which cases the numbers leave out, and why."""

    @property
    def moved(self) -> bool:
        """Whether there is a change to tell."""
        return not self.change.startswith(("±", NO_SCORE))


def rows(report: RunReport, comparison: ComparisonReport) -> list[DeltaRow]:
    """The table: cases that pass, gating metrics, informational ones.

    A number now is that of the compared cases, so that the change is the difference of the two beside it; where none
    can be compared it is that of all cases.
    """
    known = {metric.name: metric for metric in comparison.metrics}
    return [_pass_row(report, comparison), *(_row(row, known.get(row.name)) for row in digest.metric_rows(report))]


def _pass_row(report: RunReport, comparison: ComparisonReport) -> DeltaRow:
    rate, totals = comparison.pass_rate, report.totals
    counts = count(comparison)
    judged = totals.passed + totals.failed
    compared = comparison.unchanged + counts["newly_failing"] + counts["fixed"] + counts["still_failing"]
    return DeltaRow(
        name=None,
        now=percent_text(totals.pass_rate if rate.delta is None else rate.head),
        base=percent_text(rate.base),
        change=points_text(rate.delta),
        failed=totals.failed,
        note=f"over the {compared:,} of {judged:,} that can be compared" if compared < judged and rate.base is not None
        else "",
    )  # fmt: skip


def _row(row: digest.MetricRow, known: MetricComparison | None) -> DeltaRow:
    comparable = known is not None and known.cases > 0
    score = known.score if known is not None and comparable else None
    threshold = row.thresholds[0] if len(row.thresholds) == 1 else None

    def shown(value: float | None) -> str:
        return score_text(value, threshold) if row.gates else measurement_text(row.name, value)

    now, base = (row.mean, None) if score is None else (score.head, score.base)
    delta = None if score is None else score.delta
    scored = row.passed + row.failed + row.informational
    left = (
        f"over {known.cases:,} of {scored:,} cases" if known is not None and comparable and known.cases < scored else ""
    )
    why = known.note if known is not None and known.note and (left or not comparable) else ""
    if row.gates:
        change = delta_text(delta)
    elif now is None or base is None:
        change = delta_text(None)
    else:
        change = relative_text(now, base) or delta_text(delta)
    return DeltaRow(
        name=row.name,
        now=shown(now),
        base=shown(base),
        change=change,
        needs=row.threshold if row.gates else "",
        failed=row.failed,
        not_evaluated=row.not_evaluated,
        gates=row.gates,
        note="; ".join(part for part in (left, why) if part),
    )


def spending(report: RunReport, comparison: ComparisonReport | None) -> str:
    """Seconds, tokens and dollars in one line, beside those of the base; "" when nothing ran."""
    return ", ".join(_spending(report, comparison))


def _spending(report: RunReport, comparison: ComparisonReport | None) -> Iterator[str]:
    good = [run for case in report.cases for run in case.runs if run.error is None]
    if not good:
        return
    if comparison is not None and comparison.duration.head is not None and comparison.duration.base is not None:
        head, base = comparison.duration.head, comparison.duration.base
        yield f"{duration_text(head)} a run{_beside(head, base, duration_text(base))}"
    else:
        yield f"{duration_text(sum(run.duration for run in good) / len(good))} a run"
    if comparison is not None and comparison.tokens.head is not None and comparison.tokens.base is not None:
        head, base = comparison.tokens.head, comparison.tokens.base
        yield f"{count_text(round(head))} tokens{_beside(head, base, count_text(round(base)))}"
    else:
        known = [run.usage for run in good if run.usage.input_tokens is not None or run.usage.output_tokens is not None]
        if known:
            spent = sum((usage.input_tokens or 0) + (usage.output_tokens or 0) for usage in known) / len(known)
            yield f"{count_text(round(spent))} tokens"
    if report.model_usage:
        costs = [usage.cost for usage in report.model_usage]
        known_costs = [cost for cost in costs if cost is not None]
        now = cost_text(sum(known_costs)) if len(known_costs) == len(costs) else "an unknown sum"
        old = comparison.cost.base if comparison is not None else None
        beside = "" if old is None else f" (base {cost_text(old)})"
        yield f"{now}{beside} for judges and simulated users"


def _beside(head: float, base: float, shown: str) -> str:
    return f" (base {shown}, {relative_text(head, base) or NO_SCORE})"


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
    quarantined: list[CaseReport] = field(default_factory=list)


def groups(report: RunReport, known: Against) -> Groups:
    """Sorts the cases; those that pass as they did, and those that did not run, are in no group."""
    changes = known.changes
    found = Groups()
    for case in report.cases:
        word = known.words[case.case_id].word if case.case_id in known.words else None
        one = changes.get(case.case_id)
        into = _group(case, word, one.change if one is not None else None, found)
        if into is not None:
            into.append(case)
    order = {word: number for number, word in enumerate(WORSE)}

    def weight(case: CaseReport) -> int:
        word = known.words.get(case.case_id)
        return order.get(word.word, 1) if word is not None else 1

    found.worse.sort(key=weight)
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


def other_changes(comparison: ComparisonReport) -> list[tuple[str, list[str]]]:
    """Cases that are not the same ones as on the base, by what happened: a title and the names."""
    found: dict[Change, list[str]] = {}
    renamed = []
    for case in comparison.cases:
        if case.renamed_from is not None:
            renamed.append(f"{case.renamed_from} → {case.case_id}")
        elif case.change in {"added", "removed", "changed"}:
            found.setdefault(case.change, []).append(case.case_id)
        elif case.change == "unjudged":
            found.setdefault(case.change, []).append(f"{case.case_id}: {case.note}" if case.note else case.case_id)
    titles: Mapping[Change, str] = {
        "added": "New",
        "changed": "Changed, so that their scores can't be compared",
        "removed": "Gone",
        "unjudged": "Without a result on both sides that can be compared",
    }
    listed = [(title, found[change]) for change, title in titles.items() if change in found]
    return [*listed, *([("The same case under another name", renamed)] if renamed else [])]


def no_base(baseline: BaselineReport) -> str:
    """Why there is nothing to compare with, in one sentence."""
    lead = {
        "none-yet": "Nothing to compare with yet",
        "fetch-failed": "Not compared with the base: its results could not be had",
        "incompatible": "Not compared with the base: its results are not comparable",
    }[baseline.status]
    return f"{lead}. {baseline.message}"


def summary_of(comparison: ComparisonReport) -> str:
    """How many cases were compared, e.g. `48 cases compared: 2 newly failing, 1 fixed, 43 passing as before`."""
    counts = count(comparison)
    said: Sequence[tuple[int, str]] = [
        (counts["newly_failing"], "newly failing"),
        (counts["fixed"], "fixed"),
        (counts["still_failing"], "still failing"),
        (comparison.unchanged, "passing as before"),
        (counts["unjudged"], "without a result to compare"),
    ]
    parts = [f"{number:,} {what}" for number, what in said if number]
    rest = [f"{counts[change]:,} {change}" for change in ("changed", "added", "removed") if counts[change]]
    told = ", ".join(parts) or "nothing in common"
    return f"{plural(comparison.compared, 'case')} compared: {told}" + (f"; {', '.join(rest)}" if rest else "")
