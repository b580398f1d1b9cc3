"""What every text tells of a run, before it is dressed: the verdict in one sentence, a row for each metric, groups.

Everything here is plain text as it was found; the renderers escape it for their medium.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.core.text import first_line, plural, shorten
from agent_eval.report.numbers import duration_text, measurement_text, score_text, threshold_text
from agent_eval.results.report import CaseReport, MetricReport, RunReport

VERDICT_WORD: Mapping[str, str] = {
    "passed": "Passed",
    "failed": "Failed",
    "inconclusive": "Inconclusive",
    "invalid": "Invalid",
}

_LINE = 300
"""Characters of one line of an explanation."""


@dataclass(frozen=True, kw_only=True)
class MetricRow:
    """One metric over all cases."""

    name: str
    thresholds: tuple[float, ...]
    """Ascending, without repetition: files may differ."""
    mean: float | None
    """Mean over the cases that have a score."""
    passed: int
    failed: int
    not_evaluated: int
    informational: int
    at_most: bool = False
    """Lower is better."""

    @property
    def gates(self) -> bool:
        """Whether it decides anything; an informational metric doesn't."""
        return bool(self.thresholds) or not self.informational

    @property
    def threshold(self) -> str:
        """`0.80`, `0.50 to 0.80`, `at most 900.00`, or a dash."""
        if not self.thresholds:
            return threshold_text(None)
        low, high = self.thresholds[0], self.thresholds[-1]
        shown = threshold_text(low, at_most=self.at_most)
        return shown if low == high else f"{shown} to {threshold_text(high)}"

    @property
    def score(self) -> str:
        """The mean in the metric's unit."""
        if not self.gates:
            return measurement_text(self.name, self.mean)
        return score_text(self.mean, self.thresholds[0] if len(self.thresholds) == 1 else None)


def with_status(report: RunReport, status: str) -> list[CaseReport]:
    """The cases of one status, in the report's order."""
    return [case for case in report.cases if case.status == status]


def has_crashed(case: CaseReport) -> bool:
    """Whether code of the pull request broke down in a run of the case: the agent, or a metric that comes with it."""
    errors = [run.error for run in case.runs] + [run.error for metric in case.metrics for run in metric.runs]
    return any(error is not None and error.owner == "agent" for error in errors)


def headline(report: RunReport) -> str:
    """The verdict in one sentence, with the numbers that made it."""
    totals = report.totals
    if report.verdict == "invalid":
        errors = sum(problem.severity == "error" for problem in report.problems)
        found = plural(errors, "error") + " in the eval files or the configuration" if errors else _first_reason(report)
        return f"Invalid: {found}; nothing was run"
    rest = []
    if report.verdict == "failed":
        crashed = sum(has_crashed(case) for case in with_status(report, "failed"))
        below = totals.failed - crashed
        causes = [f"{below} below a threshold"] * bool(below) + [f"{crashed} by an error of the agent"] * bool(crashed)
        count = f"{totals.failed:,} of {plural(totals.cases, 'case')}"
        rest = [count + (f" ({', '.join(causes)})" if crashed else "")] if totals.failed else [_first_reason(report)]
    elif report.verdict == "passed":
        if totals.passed == totals.cases:
            rest = [f"all {plural(totals.cases, 'case')}" if totals.cases != 1 else "the only case"]
        else:
            rest = [f"{totals.passed:,} of {plural(totals.cases, 'case')}"]
    if totals.errored:
        unjudged = f"{totals.errored:,}" if rest else f"{totals.errored:,} of {plural(totals.cases, 'case')}"
        rest.append(f"{unjudged} could not be judged")
    if totals.not_run:
        rest.append(f"{totals.not_run:,} not run")
    if totals.quarantined:
        rest.append(f"{totals.quarantined:,} quarantined")
    if report.verdict != "passed" and totals.passed:
        rest.append(f"{totals.passed:,} passed")
    return f"{VERDICT_WORD[report.verdict]}: {', '.join(rest) if rest else _first_reason(report)}"


def _first_reason(report: RunReport) -> str:
    return first_line(report.reasons[0].message) if report.reasons else "no reason was recorded"


def other_reasons(report: RunReport) -> list[str]:
    """What the gate gave as reasons and the headline doesn't say, a line each."""
    said = headline(report)
    lines = [first_line(reason.message, _LINE) for reason in report.reasons[:5]]
    return [line for line in lines if line and line not in said]


def run_note(report: RunReport) -> str:
    """How often each case ran and how long it all took, e.g. `3 runs each, 48 s`."""
    runs = f"{report.num_runs} runs each, " if report.num_runs != 1 else ""
    return f"{runs}{duration_text(report.duration)}"


def metric_rows(report: RunReport) -> list[MetricRow]:
    """A row for each metric: gating ones first, each group in the order of appearance."""
    found: dict[str, list[MetricReport]] = {}
    for case in report.cases:
        for metric in case.metrics:
            found.setdefault(metric.name, []).append(metric)
    rows = [_metric_row(name, metrics) for name, metrics in found.items()]
    return sorted(rows, key=lambda row: not row.gates)


def _metric_row(name: str, metrics: Sequence[MetricReport]) -> MetricRow:
    scores = [metric.score for metric in metrics if metric.score is not None]
    statuses = [metric.status for metric in metrics]
    return MetricRow(
        name=name,
        thresholds=tuple(sorted({metric.threshold for metric in metrics if metric.threshold is not None})),
        mean=sum(scores) / len(scores) if scores else None,
        passed=statuses.count("passed"),
        failed=statuses.count("failed"),
        not_evaluated=statuses.count("not_evaluated"),
        informational=statuses.count("informational"),
        at_most=any(metric.direction == "lower" for metric in metrics),
    )


def close_votes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each metric with verdicts that one vote more or less could have changed, e.g. 3:2."""
    close: dict[str, dict[str, int]] = {}
    counts: Counter[str] = Counter()
    for case in cases:
        for metric in case.metrics:
            listed = [one for run in metric.runs for one in run.details.get("judgements", ())]
            counts[metric.name] += len(listed) + sum(run.details.get("judgements_left_out", 0) for run in metric.runs)
            if found := sum(bool(one.get("close")) for one in listed):
                close.setdefault(metric.name, {})[case.eval_id] = found
    return [
        f"{name}: {sum(found.values()):,} of {plural(counts[name], 'verdict')} "
        f"{'was' if sum(found.values()) == 1 else 'were'} close, where one vote more could change "
        f"{'it' if sum(found.values()) == 1 else 'them'} ({_some(list(found))})"
        for name, found in close.items()
    ]


def _some(names: Sequence[str], most: int = 3) -> str:
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(shorten(name, 60) for name in names[:most]) + more


def place(file: str | None, line: int | None) -> str:
    """`file:line`, as far as it is known."""
    return ":".join(str(part) for part in (file, line) if part is not None)


def judges_cause(case: CaseReport) -> str | None:
    """Why no judge could be asked about a case, as a code; None where that is not all that kept it from a verdict."""
    if case.status != "errored" or any(run.error is not None for run in case.runs):
        return None
    codes = [metric.reason.code if metric.reason else "" for metric in case.metrics if metric.status == "not_evaluated"]
    ours = [code for code in codes if code == "budget" or code.startswith("judge-")]
    return ours[0] if ours and len(ours) == len(codes) else None


def unjudged_groups(cases: Iterable[CaseReport]) -> list[tuple[str, list[CaseReport]]]:
    """Two cases or more that no judge could be asked about, by the cause, which is told once: that of the first."""
    found: dict[str, list[CaseReport]] = {}
    for case in cases:
        if (code := judges_cause(case)) is not None:
            found.setdefault(code, []).append(case)
    return [(_judges_words(group[0]), group) for group in found.values() if len(group) > 1]


def _judges_words(case: CaseReport) -> str:
    told = (metric.reason.message for metric in case.metrics if metric.status == "not_evaluated" and metric.reason)
    return first_line(next(told), _LINE)


def not_run_groups(report: RunReport) -> list[tuple[str, list[CaseReport]]]:
    """The cases that were not run, by the reason for it."""
    groups: dict[str, list[CaseReport]] = {}
    for case in with_status(report, "not_run"):
        reason = first_line(case.reason.message, _LINE) if case.reason else "no reason was recorded"
        groups.setdefault(reason, []).append(case)
    return list(groups.items())
