"""A run in plain text, not yet escaped: a row for each metric, notes on judges, names and groups of cases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from agent_eval_results import CaseComparison, CaseReport, ChangedAnswer, MetricReport, RunReport
from agent_eval_results.outcome import has_crashed, has_timed_out, is_unanswered
from agent_eval_results.report.views.detail import one_line
from agent_eval_results.report.views.numbers import duration_text, measurement_text, score_text, threshold_text
from agent_eval_scoring.core.reason import NO_REASON
from agent_eval_scoring.core.text import first_line, listed, plural, share, shorten, unbroken

_CASE_NAME, _LONG = 80, 1_000
_LINE = 300
"""Characters of one line of an explanation."""
_JUDGED_BY = {"vertex": "Vertex AI's evaluation service", "judge": "{}, not by Vertex AI as in ADK"}
WAS_REPLAYED = "Replayed from its tape: no model was asked"


def answered_notes(case: CaseReport) -> list[str]:
    """What answered instead of models and tools."""
    by_hand = f"{plural(case.by_hand, 'tool call')} answered by hand: by `tool_responses` of the case"
    return [WAS_REPLAYED] * case.replayed + [by_hand] * bool(case.by_hand)


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
        """Whether it gates; an informational metric doesn't."""
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
    def needed(self) -> str:
        """What each case needs; if some don't reach it, how many: `needs 0.80`, `1 of 9 cases below 0.80`,
        `2 of 9 cases below thresholds of 0.60 to 0.80`.
        """
        if not self.failed:
            return f"needs {self.threshold}"
        side = "above" if self.at_most else "below"
        limit = ("thresholds of " if len(self.thresholds) > 1 else "") + self.threshold.removeprefix("at most ")
        return f"{share(self.failed, self.passed + self.failed, 'case')} {side} {limit}"

    @property
    def score(self) -> str:
        """The mean in the metric's unit."""
        if not self.gates:
            return measurement_text(self.name, self.mean)
        return score_text(self.mean, self.thresholds[0] if len(self.thresholds) == 1 else None)


def failed_word(case: CaseReport) -> str:
    """How a failed case failed: `no answer`, `timed out`, `crashed` or `failed`."""
    if is_unanswered(case):
        return "no answer"
    if has_timed_out(case):
        return "timed out"
    return "crashed" if has_crashed(case) else "failed"


def run_note(report: RunReport) -> str:
    """Runs of each case and the duration, e.g. `3 runs each, 48 s`."""
    runs = f"{report.num_runs} runs each, " if report.num_runs != 1 else ""
    return f"{runs}{duration_text(report.duration)}"


def metric_rows(report: RunReport) -> list[MetricRow]:
    """A row for each metric: gating ones first, each group in the order of appearance."""
    metrics_by_name: dict[str, list[MetricReport]] = {}
    for case in report.cases:
        for metric in case.metrics:
            metrics_by_name.setdefault(metric.name, []).append(metric)
    rows = [_metric_row(name, metrics) for name, metrics in metrics_by_name.items()]
    return sorted(rows, key=lambda row: not row.gates)


def _metric_row(name: str, metrics: Sequence[MetricReport]) -> MetricRow:
    # Without a frame for each: there may be 100,000 of them.
    scores = [score for score in map(attrgetter("score"), metrics) if score is not None]
    statuses = Counter(map(attrgetter("status"), metrics))
    thresholds = set(map(attrgetter("threshold"), metrics))
    return MetricRow(
        name=name,
        thresholds=tuple(sorted(threshold for threshold in thresholds if threshold is not None)),
        mean=sum(scores) / len(scores) if scores else None,
        passed=statuses["passed"],
        failed=statuses["failed"],
        not_evaluated=statuses["not_evaluated"],
        informational=statuses["informational"],
        at_most="lower" in set(map(attrgetter("direction"), metrics)),
    )


def close_vote_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each metric with close verdicts, which one vote could have changed, e.g. 3:2."""
    close: dict[str, dict[str, int]] = {}
    counts: Counter[str] = Counter()
    for case in cases:
        for metric in case.metrics:
            verdicts = [said for run in metric.runs for said in run.verdicts]
            counts[metric.name] += len(verdicts) + sum(run.verdicts_left_out for run in metric.runs)
            if close_by_case := sum(said.close for said in verdicts):
                close.setdefault(metric.name, {})[case.eval_id] = close_by_case
    return [
        f"{name}: {sum(close_by_case.values()):,} of {plural(counts[name], 'verdict')} "
        f"{'was' if sum(close_by_case.values()) == 1 else 'were'} close, where one vote more could change "
        f"{'it' if sum(close_by_case.values()) == 1 else 'them'} ({listed(list(close_by_case), 3)})"
        for name, close_by_case in close.items()
    ]


def backend_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each judge of metrics for which ADK uses Vertex AI: the scores of the two differ."""
    metrics_by_judge: dict[tuple[str, str], dict[str, None]] = {}
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                if run.backend in _JUDGED_BY:
                    model = (run.judge.model if run.judge is not None else None) or "a judge"
                    metrics_by_judge.setdefault((run.backend, model), {})[metric.name] = None
    return [
        f"{', '.join(metrics)}: judged by {_JUDGED_BY[backend].format(model)}"
        for (backend, model), metrics in metrics_by_judge.items()
    ]


def missing_verdict_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line for each metric that has a score although a verdict of the judge is missing."""
    cases_by_metric: dict[str, list[str]] = {}
    for case in cases:
        for metric in case.metrics:
            for run in metric.runs:
                if run.score is not None:
                    missing = sum(said.verdict is None for said in run.verdicts)
                    cases_by_metric.setdefault(metric.name, []).extend([case.eval_id] * missing)
    return [
        f"{name}: no verdict on {plural(len(ids), 'thing')} that could not change whether the case passes "
        f"({shorten(', '.join(dict.fromkeys(ids)), 200)})"
        for name, ids in cases_by_metric.items()
        if ids
    ]


def truncation_notes(cases: Iterable[CaseReport]) -> list[str]:
    """A line on conversations that ended at their limit, rather than by the simulated user."""
    led = [(case.eval_id, run) for case in cases for run in case.runs if run.stop_reason is not None]
    ids = [eval_id for eval_id, run in led if run.stop_reason == "turn-limit"]
    if not ids:
        return []
    named = shorten(", ".join(dict.fromkeys(ids)), 200)
    return [f"{len(ids):,} of {plural(len(led), 'simulated conversation')} ended at max_allowed_invocations ({named})"]


def case_name(case: CaseReport | CaseComparison | ChangedAnswer) -> str:
    """The name of a case, on one line and cut, so that it is the same in every text. In the oldest format the id is the
    path of the file, of which only the last part is shown.
    """
    name = case.file.rpartition("/")[2] if case.eval_id == case.file else case.eval_id
    # A forged one may have megabytes.
    name = one_line(name if len(name) <= _LONG else shorten(name, _CASE_NAME))
    return name if len(name) <= _CASE_NAME else unbroken(shorten(name, _CASE_NAME))


def is_odd(case: CaseReport) -> bool:
    """Whether a name is cut or has invisible characters, so that only its place shows which case it is."""
    return case.eval_id not in {case.file, case_name(case)}


def case_path(case: CaseComparison) -> str:
    """The file and the name, e.g. `evals/home.evalset.json:lamp_on`."""
    return case.file if case.eval_id == case.file else f"{case.file}:{case_name(case)}"


def location(file: str | None, line: int | None) -> str:
    """`file:line`, without the parts that are unknown."""
    return ":".join(str(part) for part in (file, line) if part is not None)


def not_run_groups(report: RunReport) -> list[tuple[str, list[CaseReport]]]:
    """The cases that were not run, by the reason for it."""
    groups: dict[str, list[CaseReport]] = {}
    for case in filter(lambda case: case.did_not_run, report.cases):
        reason = first_line(case.reason.message, _LINE) if case.reason else NO_REASON
        groups.setdefault(reason, []).append(case)
    return list(groups.items())
