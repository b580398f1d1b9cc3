"""What every text tells, before it is dressed: the verdict in one sentence, why a case failed, a row for each metric.

Everything here is plain text as it was found; the renderers escape it for their medium.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from agent_eval.core.text import first_line, plural, shorten
from agent_eval.report.numbers import duration_text, measurement_text, score_text, threshold_text
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, MetricReport, RunReport, TurnEvidence

VERDICT_WORD: Mapping[str, str] = {
    "passed": "Passed",
    "failed": "Failed",
    "inconclusive": "Inconclusive",
    "invalid": "Invalid",
}

_LINE = 300
"""Characters of one line of an explanation."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """A turn to show, and the run it comes from."""

    run: int
    """0-based."""
    evidence: TurnEvidence


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that keeps a case from passing."""

    subject: str
    """The metric's name, or the error's kind."""
    summary: str
    """One line, e.g. `tool_trajectory_avg_score 0.50, needs 1.00`."""
    lines: tuple[str, ...] = ()
    """Details, each on one line."""
    telling: tuple[str, ...] = ()
    """Of those, what to say when there is no room for all: the differences rather than the counts."""
    turns: tuple[Turn, ...] = ()
    """Turns that lowered the score, of the first run that has any."""
    log: str = ""
    """A traceback and the end of the agent's log; many lines."""


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


def findings(case: CaseReport) -> list[Finding]:
    """Everything that keeps a case from passing, the weightiest first: errors, then metrics, then the rest."""
    found = [*_error_findings(case), *_metric_findings(case)]
    if case.reason is not None and (not found or case.reason.code not in {finding.subject for finding in found}):
        message = first_line(case.reason.message, _LINE)
        if not found:
            found.append(Finding(subject=case.reason.code, summary=message))
        elif len(case.runs) > 1:
            # With several runs the rule about them is what the scores alone don't tell.
            found.append(Finding(subject=case.reason.code, summary=message))
    return found


def _error_findings(case: CaseReport) -> Iterator[Finding]:
    groups: dict[tuple[str, str, int | None], tuple[RunError, list[int]]] = {}
    for run in case.runs:
        if run.error is not None:
            key = (run.error.kind, run.error.message, run.error.turn)
            groups.setdefault(key, (run.error, []))[1].append(run.run)
    for error, runs in groups.values():
        where = "" if error.turn is None else f" in turn {error.turn + 1}"
        lines = [first_line(error.hint, _LINE)] if error.hint else []
        if len(case.runs) > 1:
            lines.append(_which_runs(runs, len(case.runs)))
        yield Finding(
            subject=error.kind,
            summary=f"{error.kind}{where}: {first_line(error.message, _LINE)}",
            lines=tuple(lines),
            log=_log(error),
        )


def _log(error: RunError | None) -> str:
    told = (error.traceback, error.log_tail) if error is not None else ()
    return "\n\n".join(text.strip("\n") for text in told if text and text.strip())


def _which_runs(runs: Sequence[int], total: int) -> str:
    if len(runs) == total:
        return f"in all {total} runs"
    named = ", ".join(str(run + 1) for run in runs[:10]) + (" …" if len(runs) > 10 else "")
    return f"in {'run' if len(runs) == 1 else 'runs'} {named} of {total}"


def _metric_findings(case: CaseReport) -> Iterator[Finding]:
    for metric in case.metrics:
        if metric.status == "informational":
            continue
        bad = [run.run for run in metric.runs if run.status in {"failed", "not_evaluated"}]
        if metric.status == "passed" and (case.status == "passed" or not bad):
            continue
        turns = _turns(metric)
        judged = any("judge" in run.details for run in metric.runs)
        lines, telling = [], []
        broken = next((run.error for run in metric.runs if run.error is not None), None)
        if broken is not None and broken.hint:
            lines.append(first_line(broken.hint, _LINE))
        if metric.reason is not None and metric.status == "failed":
            lines.append(first_line(metric.reason.message, _LINE))
        for turn in turns:
            number = f"turn {turn.evidence.turn + 1}: "
            said = [number + first_line(line, _LINE) for line in turn.evidence.why if line.strip()]
            lines.extend(said)
            # A finding opens with a count, if there is anything more to say than that. A judge's doesn't.
            telling.extend(said if judged else said[1:] or said)
        if len(metric.runs) > 1:
            lines.append("runs: " + ", ".join(score_text(run.score, metric.threshold) for run in metric.runs[:20]))
        yield Finding(
            subject=metric.name,
            summary=_metric_summary(metric, bad),
            lines=tuple(lines),
            telling=tuple(telling),
            turns=turns,
            log=_log(broken),
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


def _metric_summary(metric: MetricReport, bad: Sequence[int]) -> str:
    reason = metric.reason or next((run.reason for run in metric.runs if run.reason is not None), None)
    missing = [run.run for run in metric.runs if run.status == "not_evaluated"]
    if metric.status == "not_evaluated" or missing:
        some = "" if len(metric.runs) == 1 or not missing else f" {_which_runs(missing, len(metric.runs))}"
        return f"{metric.name} not evaluated{some}" + (f": {first_line(reason.message, _LINE)}" if reason else "")
    needs = threshold_text(metric.threshold, at_most=metric.direction == "lower")
    needs += "" if metric.blocking else " (it only informs)"
    numbers = f"{metric.name} {score_text(metric.score, metric.threshold)}, needs {needs}"
    # The mean is good enough, but too many runs were not.
    return numbers if metric.status == "failed" else f"{numbers}, fell short {_which_runs(bad, len(metric.runs))}"


def _turns(metric: MetricReport) -> tuple[Turn, ...]:
    """The turns of the worst run that has evidence; of equals the first."""
    runs = [run for run in metric.runs if run.evidence]
    if not runs:
        return ()
    worst = min(runs, key=lambda run: float("inf") if run.score is None else run.score)
    return tuple(Turn(run=worst.run, evidence=evidence) for evidence in worst.evidence)


def why(case: CaseReport, limit: int = 3) -> list[str]:
    """Why a case did not pass, in at most `limit` lines: each finding's summary first, details while there is room.

    Where the findings leave none, and there are three lines or more, the first has a detail and the last are named in
    one line: one reason says more than all numbers.
    """
    found = findings(case)
    reason = (found[0].telling or found[0].lines)[:1] if found and limit > 2 else ()
    if limit == 1 and len(found) > 1:
        return [f"{found[0].summary}; and {plural(len(found) - 1, 'more finding')}"]
    if len(found) + len(reason) > limit:
        told = limit - 1 - len(reason)
        named = shorten(", ".join(finding.subject for finding in found[told:]), _LINE)
        first, *others = [finding.summary for finding in found[:told]]
        return [first, *reason, *others, f"and {plural(len(found) - told, 'more finding')}: {named}"]
    room = limit - len(found)
    lines = []
    for finding in found:
        details = (finding.telling or finding.lines)[:room]
        room -= len(details)
        lines += [finding.summary, *details]
    return lines


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
