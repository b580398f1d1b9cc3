"""What the gate's statistics say of each case, in the words of the texts. Plain text, as in `digest`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval.core.text import plural
from agent_eval.gate.stats import exact_p
from agent_eval.report.views.numbers import percent_text, score_text
from agent_eval.results import (
    CaseDecisionReport,
    CaseRunsReport,
    DecisionReport,
    FlakinessReport,
    SuiteTestReport,
    status,
)

ChangeKind = Literal["regression", "suspected regression", "better", "flaky", "passed again", ""]
"""What a text calls a case. `flaky`: it fails now and then on the base branch too. `passed again`: it failed at first,
never on the base branch, and not when it was run again. "": there is nothing to say."""

_WEIGHT: Sequence[status.CaseWord] = (
    "broken",
    "worse",
    "fixed",
    "better",
    "suspicious",
    "flaky as before",
    "unchanged",
)
_CERTAIN = 500
"""Runs of a side beyond which no exact test is computed for a text; no gate makes that many."""


@dataclass(frozen=True, kw_only=True)
class CaseSignificance:
    """What became of a case."""

    kind: ChangeKind
    always: bool = False
    """Whether it fails every time."""
    label: str = ""
    """The same for the reader of one case, e.g. "always fails"."""
    evidence: str = ""
    """The numbers, e.g. "0 of 6 now, 10 of 10 on main"."""
    details: tuple[str, ...] = ()
    """The numbers for those who know statistics, a line each."""


def case_significance(decision: DecisionReport, branch: str) -> dict[str, CaseSignificance]:
    """A word for each case: that of the metric that says most.

    Args:
        decision: What the statistics say, by case and metric.
        branch: What to call the base branch.

    Returns:
        By case id.
    """
    cases: dict[str, list[CaseDecisionReport]] = {}
    for one in decision.cases:
        cases.setdefault(one.case_id, []).append(one)
    runs = {one.case_id: one for one in decision.runs}
    return {case_id: _word(found, runs.get(case_id), decision, branch) for case_id, found in cases.items()}


def _word(
    found: Sequence[CaseDecisionReport], runs: CaseRunsReport | None, decision: DecisionReport, branch: str
) -> CaseSignificance:
    first = min(found, key=lambda one: _WEIGHT.index(one.word))
    kind = _kind(first, runs, decision)
    always = first.word == "broken" if runs is None else runs.head_passed == 0
    evidence = _evidence(first, runs, branch)
    if kind == "flaky" and first.flakiness is not None:
        evidence = f"{evidence}; {_history(first.flakiness, branch)}"
    return CaseSignificance(
        kind=kind,
        always=always,
        label=_label(first, kind, always=always),
        evidence=evidence,
        details=tuple(_line(one, runs, decision, branch) for one in found if one.word != "unchanged"),
    )


def _kind(one: CaseDecisionReport, runs: CaseRunsReport | None, decision: DecisionReport) -> ChangeKind:
    match one.word:
        case "broken" | "worse":
            return "regression"
        case "suspicious":
            return "regression" if _is_plain(one, runs, decision) else "suspected regression"
        case "fixed" | "better":
            return "better"
        case "flaky as before":
            return "passed again" if runs is not None and runs.base_passed == runs.base_runs > 0 else "flaky"
    return ""


def _is_plain(one: CaseDecisionReport, runs: CaseRunsReport | None, decision: DecisionReport) -> bool:
    """Whether a case whose runs ended before the statistics named it is a regression to anyone who sees its numbers.

    It is one if it fails every time and never failed on the base branch. Once the gate has failed anyway, a single run
    is enough for that, and so is the case's own exact test.
    """
    failed = decision.outcome == "failed"
    if failed and one.p_value is not None and one.p_value <= decision.alpha:
        return True
    if runs is None or not runs.head_runs or not runs.base_runs or one.metric != "pass":
        return False
    if runs.head_passed == 0 and runs.base_passed == runs.base_runs:
        return failed or runs.head_runs > 1
    if not failed or max(runs.head_runs, runs.base_runs) > _CERTAIN:
        return False
    failures = runs.head_runs - runs.head_passed, runs.base_runs - runs.base_passed
    return exact_p(failures[0], runs.head_runs, failures[1], runs.base_runs) <= decision.alpha


def _label(one: CaseDecisionReport, kind: ChangeKind, *, always: bool) -> str:
    if kind not in {"regression", "suspected regression"}:
        return kind
    if one.metric != "pass":
        return f"{one.metric} got worse" if kind == "regression" else f"{one.metric} may have got worse"
    label = "always fails" if always else "sometimes fails"
    return label if kind == "regression" else f"{label}, suspected regression"


def _evidence(one: CaseDecisionReport, runs: CaseRunsReport | None, branch: str) -> str:
    if one.metric == "pass" and runs is not None:
        here, there = (
            f"{passed:,} of {plural(made, 'run')} passed"
            for passed, made in ((runs.head_passed, runs.head_runs), (runs.base_passed, runs.base_runs))
        )
        return f"{here}, on {branch} {there.removesuffix(' passed')}" if runs.base_runs else here
    if one.metric != "pass" and one.head_mean is not None and one.base_mean is not None:
        return f"{one.metric} {score_text(one.head_mean)}, on {branch} {score_text(one.base_mean)}"
    return one.evidence


def _line(one: CaseDecisionReport, runs: CaseRunsReport | None, decision: DecisionReport, branch: str) -> str:
    parts = [_evidence(one, runs, branch)]
    if one.flakiness is not None:
        parts.append(_history(one.flakiness, branch))
    if one.p_value is not None:
        adjusted = "" if one.p_adjusted is None else f", Holm-adjusted {_p(one.p_adjusted)}"
        parts.append(
            f"chance alone does this to {_share(one.p_value)} of unchanged cases ({_p(one.p_value)}{adjusted})"
        )
    if one.would_decide:
        parts.append(one.would_decide)
    return "; ".join(part for part in parts if part)


def _history(known: FlakinessReport, branch: str) -> str:
    """E.g. "3 of its 10 runs on main failed (a rate of 11% to 60%), the first at 5f0c1d2"."""
    since = f", the first at {known.since[:7]}" if known.since else ""
    counts = f"{known.failures:,} of its {plural(known.runs, 'run')} on {branch} failed"
    return f"{counts} (a rate of {known.low:.0%} to {known.high:.0%}){since}"


def _p(value: float) -> str:
    """A p-value with two digits that count, e.g. `p = 0.012`, `p < 0.0001`."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"


def _share(value: float) -> str:
    """A probability as a share for people: `6%`, `0.04%`, `less than 0.01%`."""
    if value < 0.0001:
        return "less than 0.01%"
    return f"{100 * value:.0f}%" if value >= 0.1 else f"{100 * value:.2g}%"


def suite_lines(decision: DecisionReport, branch: str) -> list[str]:
    """What was tested over all cases together: a few sentences for each metric."""
    lines = [_suite_line(suite, decision.alpha, branch) for suite in decision.suites]
    if decision.extra_runs:
        lines.append(
            f"{plural(decision.extra_runs, 'extra run was', 'extra runs were')} made to tell change from chance."
        )
    return lines


def _suite_line(suite: SuiteTestReport, alpha: float, branch: str) -> str:
    what = "All" if suite.metric == "pass" else f"{suite.metric} over all"
    sentences = list(_suite_sentences(suite, alpha, branch))
    return f"{what} {plural(suite.cases, 'case')}: {' '.join(sentences)}"


def _suite_sentences(suite: SuiteTestReport, alpha: float, branch: str) -> Iterator[str]:
    if suite.drop is None and suite.p_value is None:
        yield "nothing to compare."
        return
    if suite.drop is not None:
        yield f"{_moved(suite)} than on {branch}."
    tests: Mapping[str, float | None] = {
        "A difference like that": suite.p_value,
        "With a second look at all cases, it": suite.p_again,
        "What the cases that were run again did": suite.p_confirm,
    }
    if suite.drop is not None and suite.drop <= 0:
        tests = {}  # What is no worse needs no test.
    for what, value in tests.items():
        if value is not None:
            yield f"{what} happens by chance in {_share(value)} of unchanged pull requests ({_p(value)})."
    if suite.p_adjusted is not None and tests:
        yield f"All of it together: {_share(suite.p_adjusted)}; the gate fails at {percent_text(alpha)} or less."
    if suite.minimum_detectable_drop is not None:
        way = "Rises" if suite.direction == "lower" else "Drops"
        yield f"{way} of the whole suite below about {_size(suite, suite.minimum_detectable_drop)} can go unseen."


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
    points = f"{100 * value:.0f}" if value >= 0.0095 else f"{100 * value:.1g}"
    return f"{points} {'point' if points == '1' else 'points'}"
