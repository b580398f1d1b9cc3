"""What the gate's statistics say about each case and about the suite, in plain text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval.core.text import every, plural
from agent_eval.report.views.numbers import percent_text, score_text
from agent_eval.results import (
    CaseDecisionReport,
    CaseRunsReport,
    DecisionReport,
    FlakinessReport,
    SuiteTestReport,
)
from agent_eval.results.origin import CaseWord

ChangeKind = Literal["regression", "suspected regression", "better", "flaky", "passed again", ""]
"""What a text calls a case. `flaky`: it also fails sometimes on the base branch. `passed again`: it failed once, passed
when run again, and never failed on the base branch. "": unchanged."""

_WEIGHT: Sequence[CaseWord] = (
    "broken",
    "worse",
    "fixed",
    "better",
    "suspicious",
    "flaky as before",
    "unchanged",
)


@dataclass(frozen=True, kw_only=True)
class CaseSignificance:
    """How a case compares with the base branch."""

    kind: ChangeKind
    word: CaseWord = "unchanged"
    """Of its most significant metric (`shown_word`)."""
    always: bool = False
    """Whether it fails every time."""
    label: str = ""
    """The heading of a single case, e.g. "always fails"."""
    evidence: str = ""
    """The numbers, e.g. "0 of 6 now, 10 of 10 on main"."""
    details: tuple[str, ...] = ()
    """Statistical details, a line each."""


def case_significance(decision: DecisionReport, branch: str) -> dict[str, CaseSignificance]:
    """The result of each case: that of its most significant metric.

    Args:
        decision: The results of the statistics, by case and metric.
        branch: The name of the base branch.

    Returns:
        The results by case id.
    """
    cases: dict[str, list[CaseDecisionReport]] = {}
    for case in decision.cases:
        cases.setdefault(case.case_id, []).append(case)
    runs = {case.case_id: case for case in decision.runs}
    return {case_id: _word(metrics, runs.get(case_id), decision, branch) for case_id, metrics in cases.items()}


def _word(
    metrics: Sequence[CaseDecisionReport], runs: CaseRunsReport | None, decision: DecisionReport, branch: str
) -> CaseSignificance:
    first = min(metrics, key=lambda metric: _WEIGHT.index(metric.word))
    kind = _kind(shown_word(first, decision), runs)
    always = first.word == "broken" if runs is None else runs.head_passed == 0
    evidence = _evidence(first, runs, branch)
    if kind == "flaky" and first.flakiness is not None:
        evidence = f"{evidence}; {_history(first.flakiness, branch)}"
    return CaseSignificance(
        kind=kind,
        word=shown_word(first, decision),
        always=always,
        label=_label(first, kind, always=always),
        evidence=evidence,
        details=tuple(_line(metric, runs, decision, branch) for metric in metrics if metric.word != "unchanged"),
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


def _kind(word: CaseWord, runs: CaseRunsReport | None) -> ChangeKind:
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


def _label(metric: CaseDecisionReport, kind: ChangeKind, *, always: bool) -> str:
    if kind not in {"regression", "suspected regression"}:
        return kind
    if metric.metric != "pass":
        return f"{metric.metric} got worse" if kind == "regression" else f"{metric.metric}: suspected regression"
    label = "always fails" if always else "sometimes fails"
    return label if kind == "regression" else f"{label}, suspected regression"


def _evidence(metric: CaseDecisionReport, runs: CaseRunsReport | None, branch: str) -> str:
    if metric.metric == "pass" and runs is not None:
        here, there = (
            f"{passed:,} of {plural(total, 'run')} passed"
            for passed, total in ((runs.head_passed, runs.head_runs), (runs.base_passed, runs.base_runs))
        )
        return f"{here}, on {branch} {there.removesuffix(' passed')}" if runs.base_runs else here
    if metric.metric != "pass" and metric.head_mean is not None and metric.base_mean is not None:
        return f"{metric.metric} {score_text(metric.head_mean)}, on {branch} {score_text(metric.base_mean)}"
    return metric.evidence


def _line(metric: CaseDecisionReport, runs: CaseRunsReport | None, decision: DecisionReport, branch: str) -> str:
    parts = [_evidence(metric, runs, branch)]
    if metric.flakiness is not None:
        parts.append(_history(metric.flakiness, branch))
    if metric.p_value is not None and metric.p_value <= decision.alpha:
        parts.append(f"chance alone does this to at most {_share(max(metric.p_value, 0.0001))} of unchanged cases")
    if metric.would_decide:
        parts.append(metric.would_decide)
    return "; ".join(part for part in parts if part)


def _history(flakiness: FlakinessReport, branch: str) -> str:
    """E.g. "3 of its 10 runs on main failed (a rate of 11% to 60%), the first at 5f0c1d2"."""
    since = f", the first at {flakiness.since[:7]}" if flakiness.since else ""
    counts = f"{flakiness.failures:,} of its {plural(flakiness.runs, 'run')} on {branch} failed"
    return f"{counts} (a rate of {flakiness.low:.0%} to {flakiness.high:.0%}){since}"


def _share(value: float) -> str:
    """A probability as a percentage: `6%`, `0.04%`, `less than 0.01%`."""
    if value < 0.0001:
        return "less than 0.01%"
    return f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.2g}%"


def suite_lines(decision: DecisionReport, branch: str) -> list[str]:
    """The tests over all cases together: a few sentences for each metric."""
    lines = [_suite_line(suite, decision.alpha, branch) for suite in decision.suites]
    if decision.extra_runs:
        lines.append(
            f"{plural(decision.extra_runs, 'extra run was', 'extra runs were')} made to separate changes from chance."
        )
    return lines


def _suite_line(suite: SuiteTestReport, alpha: float, branch: str) -> str:
    cases = every(suite.cases, "case")
    what = cases[:1].upper() + cases[1:] if suite.metric == "pass" else f"{suite.metric} over {cases}"
    return f"{what}: {' '.join(_suite_sentences(suite, alpha, branch))}"


def _suite_sentences(suite: SuiteTestReport, alpha: float, branch: str) -> Iterator[str]:
    if suite.drop is None and suite.p_value is None:
        yield "nothing to compare."
        return
    if suite.drop is not None:
        yield f"{_moved(suite)} than on {branch}."
    if suite.drop is not None and suite.drop > 0:
        # Said of what the gate used: the screening decides whether every case runs again, and these runs then decide.
        if suite.p_again is not None:
            yield f"In the fresh runs of all cases alone, such a difference {_by_chance(suite.p_again)}."
        elif suite.p_value is not None and suite.p_value < 0.5:
            yield f"A difference like that {_by_chance(suite.p_value)}."
        if suite.p_adjusted is not None and suite.p_adjusted <= alpha:
            together = _share(max(suite.p_adjusted, 0.0001))
            yield f"All of it together: at most {together}; the gate fails at {percent_text(alpha)}."
    if suite.minimum_detectable_drop is not None:
        way = "Rises" if suite.direction == "lower" else "Drops"
        yield f"{way} of the whole suite below about {_size(suite, suite.minimum_detectable_drop)} can go unseen."


def _by_chance(value: float) -> str:
    return f"happens by chance in {_share(value)} of unchanged pull requests"


def _moved(suite: SuiteTestReport) -> str:
    drop = suite.drop or 0.0
    if abs(drop) < 1e-9:
        return "no fewer passes" if suite.metric == "pass" else "no higher and no lower"
    size = _size(suite, abs(drop))
    if suite.metric == "pass":
        return f"{size} {'fewer' if drop > 0 else 'more'} passes"
    higher = (drop > 0) == (suite.direction == "lower")
    return f"{size} {'higher' if higher else 'lower'}"


def _size(suite: SuiteTestReport, value: float) -> str:
    if suite.metric != "pass":
        return score_text(value) if value >= 0.01 else f"{value:.2g}"
    points = f"{100 * value:.1f}".removesuffix(".0") if value >= 0.0095 else f"{100 * value:.1g}"
    return f"{points} {'point' if points == '1' else 'points'}"
