"""What the gate's statistics say of each case, in the words that the texts use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.core.text import plural
from agent_eval.report.numbers import delta_text
from agent_eval.results import status
from agent_eval.results.decision import CaseDecisionReport, DecisionReport, FlakinessReport, SuiteTestReport

WORSE: Sequence[status.CaseWord] = ("broken", "worse", "suspicious")
"""Words for what looks worse than on the base, the worst first."""
BETTER: Sequence[status.CaseWord] = ("fixed", "better")
_WEIGHT: Sequence[status.CaseWord] = (
    "broken",
    "worse",
    "fixed",
    "better",
    "suspicious",
    "flaky as before",
    "unchanged",
)


@dataclass(frozen=True, kw_only=True)
class CaseWord:
    """What became of a case."""

    word: status.CaseWord
    evidence: str = ""
    """The numbers for everybody, e.g. "0 of 5 now, 10 of 10 on base"."""
    details: tuple[str, ...] = ()
    """The numbers for those who know statistics, a line each."""


def case_words(decision: DecisionReport) -> dict[str, CaseWord]:
    """A word for each case: that of the metric that says most.

    Args:
        decision: What the statistics say, by case and metric.

    Returns:
        By case id.
    """
    cases: dict[str, list[CaseDecisionReport]] = {}
    for one in decision.cases:
        cases.setdefault(one.case_id, []).append(one)
    return {case_id: _word(found) for case_id, found in cases.items()}


def _word(found: Sequence[CaseDecisionReport]) -> CaseWord:
    first = min(found, key=lambda one: _WEIGHT.index(one.word))
    name = "" if first.metric == "pass" else f"{first.metric}: "
    evidence = f"{name}{first.evidence}" if first.evidence else ""
    if first.word == "flaky as before" and first.flakiness is not None:
        evidence = f"{evidence}; {_history(first.flakiness)}"
    return CaseWord(
        word=first.word,
        evidence=evidence,
        details=tuple(_line(one) for one in found if one.word != "unchanged"),
    )


def _line(one: CaseDecisionReport) -> str:
    parts = [one.evidence] if one.evidence else []
    if one.flakiness is not None:
        parts.append(_history(one.flakiness))
    if one.p_value is not None:
        parts.append(_p("p", one.p_value))
    if one.p_adjusted is not None:
        parts.append(_p("p after Holm", one.p_adjusted))
    if one.would_decide:
        parts.append(one.would_decide)
    return f"{one.metric}: {one.word}" + (f" ({', '.join(parts)})" if parts else "")


def _history(known: FlakinessReport) -> str:
    """E.g. "in its history 3 of 10 runs failed (11% to 60% at 95%), since 5f0c1d2e"."""
    since = f", since {known.since[:8]}" if known.since else ""
    counts = f"{known.failures:,} of {plural(known.runs, 'run')} failed"
    return f"in its history {counts} ({known.low:.0%} to {known.high:.0%} at 95%){since}"


def _p(name: str, value: float) -> str:
    """A p-value with two digits that count, e.g. `p = 0.012`, `p < 0.0001`."""
    return f"{name} < 0.0001" if value < 0.0001 else f"{name} = {value:.2g}"


def suite_lines(decision: DecisionReport) -> list[str]:
    """What was tested over all cases together, a line for each metric."""
    lines = [_suite_line(suite) for suite in decision.suites]
    if decision.extra_runs:
        lines.append(f"{plural(decision.extra_runs, 'run was', 'runs were')} made to confirm.")
    return lines


def _suite_line(suite: SuiteTestReport) -> str:
    return f"{suite.metric} over {plural(suite.cases, 'case')}: {', '.join(_suite_parts(suite))}"


def _suite_parts(suite: SuiteTestReport) -> Iterator[str]:
    worse = "rise" if suite.direction == "lower" else "drop"
    if suite.drop is not None:
        interval = "" if suite.interval is None else f" (95%: {suite.interval[0]:.3f} to {suite.interval[1]:.3f})"
        change = suite.drop if suite.direction == "lower" else -suite.drop
        yield f"mean change {delta_text(change)}, a {worse} of {suite.drop:.3f}{interval}"
    tests: Mapping[str, float | None] = {
        "p of the screening": suite.p_value,
        "p of the second look": suite.p_again,
        "p of the confirmation": suite.p_confirm,
        "p of all after Holm": suite.p_adjusted,
    }
    yield from (_p(name, value) for name, value in tests.items() if value is not None)
    if suite.minimum_detectable_drop is not None:
        yield f"a {worse} of {suite.minimum_detectable_drop:.3f} would have been seen 4 times out of 5"
    if suite.drop is None and suite.p_value is None:
        yield "nothing to compare"
