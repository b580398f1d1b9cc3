"""How a case and the suite compare with the base branch: labels, numbers and what the statistics say of them, of the
run and of the base branch's history.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agent_eval_results import (
    CaseComparison,
    CaseDecisionReport,
    CaseReport,
    FlakinessReport,
    HistoryRecord,
    PassRates,
    Runs,
    RunsFor,
    SuiteTestReport,
)
from agent_eval_results.data.origin import PULL_REQUEST
from agent_eval_results.data.trend import CASE_ALPHA, Drift
from agent_eval_results.report.views import first_difference, reason_lines
from agent_eval_results.report.views.grouping import View
from agent_eval_results.report.views.numbers import percent_text, score_text
from agent_eval_scoring.core.text import every, listed, plural, short_name

_LABELS: Mapping[str, str] = {
    "always-fails": "always fails",
    "always-fails-suspected": "always fails, suspected regression",
    "sometimes-fails": "sometimes fails",
    "sometimes-fails-suspected": "sometimes fails, suspected regression",
    "metric-worse": "{metric} got worse",
    "metric-worse-suspected": "{metric}: suspected regression",
    "answers-differ": "answers differently from {base}",
    "answers-differ-suspected": "answers differently from {base}",
    "newly_failing": "passed on {base}",
    "newly_failing-suspected": "passed on {base}, suspected regression",
    "still_failing": "failed on {base} too",
    "fixed": "newly passing",
    "added": "a new case",
    "changed": "a changed case",
    "unjudged": "not compared",
}
"""By `Outcome.label`; others are their own words."""


def change_label(case: CaseReport, view: View) -> tuple[str, str]:
    """A short label of how a case compares with the base branch, and the numbers or the reason for it."""
    outcome, comparison = view.outcomes[case.case_id], view.changes.get(case.case_id)
    decided = view.decisions.get(case.case_id)
    words = _LABELS.get(outcome.label, outcome.label)
    label = words.format(base=view.branch, metric=decided[0].metric if decided else "")
    # The statistics have numbers; a mere comparison with one run only has the reason why it says nothing.
    if outcome.label and outcome.trend:
        return label, case_evidence(case.case_id, view)
    note = comparison.note if comparison is not None and outcome.is_unjudged else None
    return label, note.message if note is not None else ""


def metric_base_notes(case: CaseComparison | None, branch: str) -> dict[str, str]:
    """A note about the base branch for each metric of a case, by the metric's name."""
    notes = {}
    for metric in case.metrics if case is not None else []:
        parts = []
        if metric.score.base is not None:
            parts.append(f"on {branch} {score_text(metric.score.base)}")
        if metric.note:
            parts.append(metric.note.message)
        if parts:
            notes[metric.name] = ", ".join(parts)
    return notes


def case_evidence(case_id: str, view: View) -> str:
    """The numbers of a case that the statistics name, e.g. `0 of 6 runs passed, on main 10 of 10 runs`."""
    first = view.decisions[case_id][0]
    numbers = _evidence(first, view)
    # These few runs look like a regression: the longer history shows why it is none.
    if view.outcomes[case_id].is_flaky_there and first.flakiness is not None:
        return f"{numbers}; {_history(first.flakiness, view.branch)}"
    return numbers


def why_not_passed(case: CaseReport, view: View) -> str:
    """The numbers of a case that the statistics name, else the first reason why it did not pass."""
    notes = metric_base_notes(view.changes.get(case.case_id), view.branch)
    return change_label(case, view)[1] or next(iter(reason_lines(case, 1, notes)), "")


def case_difference(case: CaseReport, view: View) -> str:
    """What is different about a failing case, or about one that passes with a score that got worse."""
    if case.passed and case.case_id in view.decisions:
        return case_evidence(case.case_id, view)
    return first_difference(case)


def are_alike(cases: Sequence[CaseReport], view: View) -> bool:
    """Whether more than two cases all differ in the same from what is expected."""
    return len(cases) > 2 and len({case_difference(case, view) for case in cases}) == 1


def case_details(view: View) -> list[tuple[CaseReport, list[str]]]:
    """What the statistics say of the cases that they name, a line for each metric."""
    return [
        (case, [_line(metric, view) for metric in metrics])
        for case in view.report.cases
        if (metrics := [metric for metric in view.decisions.get(case.case_id, ()) if metric.is_notable])
    ]


def _evidence(metric: CaseDecisionReport, view: View) -> str:
    runs, branch = view.runs.get(metric.case_id), view.branch
    if metric.metric == "pass" and runs is not None:
        here, there = (
            f"{passed:,} of {plural(total, 'run')} passed"
            for passed, total in ((runs.head_passed, runs.head_runs), (runs.base_passed, runs.base_runs))
        )
        return f"{here}, on {branch} {there.removesuffix(' passed')}" if runs.base_runs else here
    if metric.metric != "pass" and metric.head_mean is not None and metric.base_mean is not None:
        return f"{metric.metric} {score_text(metric.head_mean)}, on {branch} {score_text(metric.base_mean)}"
    return metric.evidence


def _line(metric: CaseDecisionReport, view: View) -> str:
    parts, decision = [_evidence(metric, view)], view.report.decision
    if metric.flakiness is not None:
        parts.append(_history(metric.flakiness, view.branch))
    if metric.p_value is not None and decision is not None and decision.is_beyond_chance(metric):
        # Drawn permutations can't show less: there are 9,999 of them.
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


def suite_lines(view: View) -> list[str]:
    """The tests over all cases together: a few sentences for each metric; none without statistics."""
    decision, branch = view.report.decision, view.branch
    if decision is None:
        return []
    lines = [_suite_line(suite, decision.alpha, branch, view.report.change) for suite in decision.suites]
    if decision.extra_runs:
        lines.append(
            f"{plural(decision.extra_runs, 'extra run was', 'extra runs were')} made to separate changes from chance."
        )
    return lines


def _suite_line(suite: SuiteTestReport, alpha: float, branch: str, change: str) -> str:
    cases = every(suite.cases, "case")
    what = cases[:1].upper() + cases[1:] if suite.metric == "pass" else f"{suite.metric} over {cases}"
    return f"{what}: {' '.join(_suite_sentences(suite, alpha, branch, change))}"


def _suite_sentences(suite: SuiteTestReport, alpha: float, branch: str, change: str) -> Iterator[str]:
    if suite.drop is None and suite.p_value is None:
        yield "nothing to compare."
        return
    if suite.drop is not None:
        yield f"{_moved(suite)} than on {branch}."
    if suite.drop is not None and suite.drop > 0:
        # Said of what the gate used: the screening decides whether every case runs again, and these runs then decide.
        if suite.p_again is not None:
            yield f"In the fresh runs of all cases alone, such a difference {_by_chance(suite.p_again, change)}."
        elif suite.p_value is not None and suite.p_value < 0.5:
            yield f"A difference like that {_by_chance(suite.p_value, change)}."
        if suite.p_adjusted is not None and suite.p_adjusted <= alpha:
            together = _share(max(suite.p_adjusted, 0.0001))
            yield f"All of it together: at most {together}; the gate fails at {percent_text(alpha)}."
    if suite.minimum_detectable_drop:  # 0: all scores are equal, which says nothing about the next ones.
        way = "Rises" if suite.direction == "lower" else "Drops"
        yield f"{way} of the whole suite below about {_size(suite, suite.minimum_detectable_drop)} can go unseen."


def _by_chance(value: float, change: str) -> str:
    return f"happens by chance in {_share(value)} of unchanged {change}s"


def _moved(suite: SuiteTestReport) -> str:
    drop = suite.drop or 0.0
    # Sums of scores in another order differ in their last bits.
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


_MOST_CASES = 5


_RUNS_FOR: Mapping[RunsFor, tuple[str, str]] = {
    "suspects": ("to confirm {}", "suspected regression"),
    "suite": ("of half of the suite to see whether it got worse as a whole", "case"),
    "retrials": ("of {} that can't be compared with the base", "failed case"),
    "base-error": ("of the base branch to check whether its agent has this error", "case"),
    "base-stored": ("of the base branch to check its stored runs", "case"),
    "facts": ("of {} to see whether changed answers stay changed", "case"),
}


def extra_runs(step: Runs) -> str:
    """The runs that a decision needs, for the log."""
    count = plural(sum(step.head.values()) + sum(step.base.values()), "run")
    purpose, noun = _RUNS_FOR[step.why]
    return f"{count} {purpose.format(plural(len({*step.head, *step.base}), noun))}"


def pass_rates_notices(rates: Sequence[PassRates]) -> list[str]:
    """`Of 3 runs of a case at least one passes with 97.0% (pass@3), ...`; nothing without rates."""
    if not rates:
        return []
    first, last = rates[0], rates[-1]
    return [
        f"Of {last.k} runs of a case at least one passes with {last.any:.1%} (pass@{last.k}), all pass with "
        f"{last.all:.1%} (pass^{last.k}); a single run with {first.any:.1%}"
    ]


def drift_notices(trend: Drift, change: str = PULL_REQUEST) -> list[str]:
    """Notices without statistical terms; empty without drift. `change`: see `RunReport.change`."""
    notices = []
    if trend.worse and trend.older is not None and trend.newer is not None and trend.p_value is not None:
        where = _named(trend.since)
        notices.append(
            f"The base branch got worse: {trend.older:.1%} of its runs passed before {where}, {trend.newer:.1%} since. "
            "Chance alone says so in about 1 of 2,500 merges"
        )
    elif trend.erosion is not None:
        lost, since = trend.erosion, _named(trend.erosion.first)
        notices.append(
            f"The base branch got worse: {lost.before:.1%} of its cases passed from {since} on, {lost.now:.1%} in the "
            f"newest {lost.days} days. Chance alone says so on about 1 of 1,500 days"
        )
    if trend.cases:
        names = [
            f"{short_name(case.case_id)} ({_of(case.newer)} since {_named(case.since)}, {_of(case.older)} before)"
            for case in trend.cases
        ]
        notices.append(
            f"On the base branch {plural(len(trend.cases), 'case')} passed less often lately: "
            f"{listed(names, _MOST_CASES)}. Repair or quarantine there what broke: no {change} is blamed. "
            f"Chance alone names 1 of {1 / CASE_ALPHA:.0f} cases"
        )
    return notices


def _of(counts: tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]}"


def _named(record: HistoryRecord | None) -> str:
    if record is None:
        return "some time"
    return record.commit[:8] or f"run {record.run_id}" if record.commit or record.run_id else "its newer runs"
