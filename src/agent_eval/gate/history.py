"""What earlier runs of the base know: runs are added, kept and dropped here, piece by piece. Pure.

A run counts for a case as long as the case asks the same (its fingerprint), and its score for a metric as long as the
metric measures the same (the metric's fingerprint). Whatever else changes is dropped, and only that.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval.core.text import plural
from agent_eval.results.history import (
    BROKE,
    FAILED,
    NO_SCORE,
    PASSED,
    UNKNOWN,
    CaseHistory,
    HistoryMetric,
    HistoryRecord,
    HistoryReport,
    HistoryRule,
)
from agent_eval.results.merge import WITHOUT_KEY
from agent_eval.results.report import CaseReport, MetricReport, RunReport, RunResult

KEEP = 10
"""Runs of a case that are kept unless a setting says otherwise."""

MetricKey = tuple[str, str]
"""A metric's name and fingerprint: scores with the same key measure the same."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """What a metric must reach for a run to pass."""

    threshold: float
    direction: Literal["higher", "lower"] = "higher"

    def holds(self, score: float) -> bool:
        """Whether a score is good enough."""
        return score <= self.threshold if self.direction == "lower" else score >= self.threshold


PassRules = Mapping[MetricKey, Rule]


@dataclass(frozen=True, kw_only=True)
class StoredRun:
    """One run of a case as the history keeps it."""

    record: int
    """Which of the history's records it is from."""
    outcome: str
    """`1`, `0`, `x` or `?`, see results.history."""
    scores: Mapping[MetricKey, float]


def extend(previous: HistoryReport | None, report: RunReport, keep: int = KEEP) -> HistoryReport:
    """Adds a run of the base branch to what is known of the runs before it.

    Only what a later gate may compare with enters: nothing of a run that was invalid, broken off or of a pull request,
    no run of a case that errored, none that was made to confirm something (its number is above `num_runs`: cases are
    chosen for those, so they are not a fair sample). A run that is there already changes nothing.

    Args:
        previous: The history in the newest baseline; None if there is none.
        report: A run of the base branch.
        keep: The most runs to keep of a case, at least 1; the newest are.

    Returns:
        The history to store with the report.
    """
    if previous is not None and previous.scoring_version != report.scoring_version:
        previous = None  # The same answers would get other scores now.
    why_not = unfit(report)
    if why_not is None and previous is not None and _key_of(_record(report)) in map(_key_of, previous.records):
        why_not = "it is there already"
    if why_not is not None:
        return previous or HistoryReport(scoring_version=report.scoring_version, keep=keep)
    before = {case.case_id: case for case in previous.cases} if previous is not None else {}
    records = [*previous.records, _record(report)] if previous is not None else [_record(report)]
    number = len(records) - 1
    olds = base_ids(report.cases, before)
    writer = _Writer(keep=keep)
    for case in report.cases:
        old = before.get(olds.get(case.case_id, ""))
        stored = stored_runs(previous, old) if previous is not None and old is not None else []
        rules = rules_of(case)
        if stored and previous is not None and old is not None and stored_rules(previous, old) != rules:
            stored = [_judged_anew(run, rules) for run in stored]
        stored += fresh_runs(case, report.num_runs, number)
        writer.add(case, rules, stored)
    if previous is not None:
        # What this run left out may be back in the next one.
        here = {case.case_id for case in report.cases} | set(olds.values())
        oldest = len(records) - keep
        for old in previous.cases:
            runs = stored_runs(previous, old) if old.case_id not in here else []
            if runs and runs[-1].record >= oldest:
                writer.add_stored(old.case_id, old.fingerprint, stored_rules(previous, old), runs)
    return writer.report(report.scoring_version, records)


def unfit(report: RunReport) -> str | None:
    """Why a run must not become history, as a clause; None if it may."""
    if report.verdict == "invalid" or not report.cases:
        return "nothing was run"
    if report.origin is not None and report.origin.pull_request is not None:
        return "it is a pull request's"
    left = sum(_broken_off(case) for case in report.cases)
    # What ran before it ended is what ran fastest: not a fair sample.
    return f"{plural(left, 'case')} did not run to the end" if left else None


def _broken_off(case: CaseReport) -> bool:
    if case.status == "not_run":
        return case.reason is None or case.reason.code != WITHOUT_KEY
    return any(run.status == "not_run" and (run.error is None or run.error.kind != WITHOUT_KEY) for run in case.runs)


def base_ids(cases: Iterable[CaseReport], base: Mapping[str, CaseHistory]) -> dict[str, str]:
    """The id on the base of each case that asks the same there, renamed ones included; others are left out."""
    found: dict[str, str] = {}
    fresh: dict[str, list[str]] = {}
    heads = list(cases)
    for case in heads:
        old = base.get(case.case_id)
        if old is None and case.fingerprint:
            fresh.setdefault(case.fingerprint, []).append(case.case_id)
        elif old is not None and old.fingerprint == case.fingerprint:
            found[case.case_id] = old.case_id
    if fresh:
        there = {case.case_id for case in heads}
        gone = Counter(old.fingerprint for old in base.values() if old.case_id not in there)
        names = {old.fingerprint: old.case_id for old in base.values() if old.case_id not in there}
        for fingerprint, ids in fresh.items():
            if len(ids) == 1 and gone[fingerprint] == 1:
                found[ids[0]] = names[fingerprint]
    return found


def rules_of(case: CaseReport) -> dict[MetricKey, Rule]:
    """What a run of the case must reach, metric by metric. Metrics that have no key for their judge are not asked."""
    return {
        (metric.name, metric.fingerprint): Rule(threshold=metric.threshold, direction=metric.direction)
        for metric in case.metrics
        if metric.threshold is not None and metric.blocking and not _withheld(metric)
    }


def _withheld(metric: MetricReport) -> bool:
    return metric.reason is not None and metric.reason.code == WITHOUT_KEY


def stored(score: float) -> float:
    """A score as the history keeps it.

    Rounded down to 4 digits, so that none rises to its threshold; above 1 to 5 significant digits. Scores that are
    compared with stored ones must be rounded the same way.
    """
    if 0.0 <= score <= 1.0:
        return math.floor(score * 10_000 + 1e-7) / 10_000  # .29 * 10,000 is 2,899.9999...
    return float(f"{score:.5g}")


def outcome_of(run: RunResult, scores: Mapping[MetricKey, float], rules: PassRules) -> str | None:
    """What a run of the head came to; None if it says nothing about the agent."""
    if run.error is not None:
        return BROKE if run.error.owner == "agent" else None
    return None if run.status == "not_run" else _by_rules(scores, rules)


def _by_rules(scores: Mapping[MetricKey, float], rules: PassRules) -> str:
    known = [(rule, scores[key]) for key, rule in rules.items() if key in scores]
    if any(not rule.holds(score) for rule, score in known):
        return FAILED
    return PASSED if len(known) == len(rules) else UNKNOWN


def _judged_anew(run: StoredRun, rules: PassRules) -> StoredRun:
    """The run under other rules. Its scores are rounded, so what passed by less than a ten-thousandth may now fail."""
    if run.outcome == BROKE:
        return run
    return StoredRun(record=run.record, outcome=_by_rules(run.scores, rules), scores=run.scores)


def judged(history: HistoryReport, case: CaseHistory, rules: PassRules) -> list[StoredRun]:
    """A case's stored runs as these rules judge them, oldest first."""
    runs = stored_runs(history, case)
    return runs if stored_rules(history, case) == rules else [_judged_anew(run, rules) for run in runs]


def scores_by_run(case: CaseReport) -> dict[int, dict[MetricKey, float]]:
    """All scores of a case, by the number of the run."""
    found: dict[int, dict[MetricKey, float]] = {}
    for metric in case.metrics:
        for one in metric.runs:
            if one.score is not None and math.isfinite(one.score):
                found.setdefault(one.run, {})[metric.name, metric.fingerprint] = one.score
    return found


def fresh_runs(case: CaseReport, num_runs: int, record: int) -> list[StoredRun]:
    """What of a case's own runs becomes history."""
    rules, scores = rules_of(case), scores_by_run(case)
    kept = []
    for run in sorted(case.runs, key=lambda run: run.run):
        own = scores.get(run.run, {})
        outcome = outcome_of(run, own, rules) if run.run < num_runs else None
        if outcome is not None and (outcome != UNKNOWN or own):
            rounded = {key: stored(score) for key, score in own.items()}
            kept.append(StoredRun(record=record, outcome=outcome, scores=rounded))
    return kept


def stored_runs(history: HistoryReport, case: CaseHistory) -> list[StoredRun]:
    """The runs of a case, oldest first."""
    columns = [(_metric_at(history, number), column.split()) for number, column in case.scores.items()]
    return [
        StoredRun(
            record=int(record),
            outcome=outcome,
            scores={key: float(column[at]) for key, column in columns if column[at] != NO_SCORE},
        )
        for at, (outcome, record) in enumerate(zip(case.outcomes, case.records.split(), strict=True))
    ]


def _metric_at(history: HistoryReport, number: str | int) -> MetricKey:
    metric = history.metrics[int(number)]
    return metric.name, metric.fingerprint


def stored_rules(history: HistoryReport, case: CaseHistory) -> dict[MetricKey, Rule]:
    """By which rules the stored outcomes of a case were judged."""
    if case.rules is None:
        return {}
    return {
        _metric_at(history, rule.metric): Rule(threshold=rule.threshold, direction=rule.direction)
        for rule in history.rules[case.rules]
    }


def _record(report: RunReport) -> HistoryRecord:
    origin = report.origin
    if origin is None:
        return HistoryRecord(recorded_at=report.started_at, tool_version=report.tool_version)
    return HistoryRecord(
        commit=origin.commit,
        run_id=origin.run_id,
        run_attempt=origin.run_attempt,
        run_url=origin.run_url,
        recorded_at=report.started_at,
        tool_version=report.tool_version,
    )


def _key_of(record: HistoryRecord) -> tuple[object, ...]:
    if record.run_id is not None:
        return record.run_id, record.run_attempt
    return record.commit, record.recorded_at


class _Writer:
    """Writes a history: what is the same for many cases once, records that nothing is from not at all."""

    def __init__(self, *, keep: int) -> None:
        self._keep = keep
        self._metrics: dict[MetricKey, int] = {}
        self._rules: dict[tuple[tuple[MetricKey, Rule], ...], int] = {}
        self._cases: list[tuple[CaseHistory, Sequence[StoredRun]]] = []

    def add(self, case: CaseReport, rules: PassRules, runs: Sequence[StoredRun]) -> None:
        measured = {(metric.name, metric.fingerprint) for metric in case.metrics}
        if any(not measured.issuperset(run.scores) for run in runs):
            runs = [
                StoredRun(
                    record=run.record,
                    outcome=run.outcome,
                    scores={key: score for key, score in run.scores.items() if key in measured},
                )
                for run in runs
            ]
        self.add_stored(case.case_id, case.fingerprint, rules, runs)

    def add_stored(self, case_id: str, fingerprint: str, rules: PassRules, runs: Sequence[StoredRun]) -> None:
        kept = [run for run in runs if run.outcome != UNKNOWN or run.scores][-self._keep :]
        if not kept:
            return
        columns: dict[MetricKey, list[str]] = {}
        for at, run in enumerate(kept):
            for key, score in run.scores.items():
                columns.setdefault(key, [NO_SCORE] * len(kept))[at] = _text(score)
        shared = tuple(rules.items())
        written = CaseHistory(
            case_id=case_id,
            fingerprint=fingerprint,
            outcomes="".join(run.outcome for run in kept),
            rules=self._rules.setdefault(shared, len(self._rules)),
            scores={str(self._number(key)): " ".join(column) for key, column in columns.items()},
        )
        self._cases.append((written, kept))

    def _number(self, key: MetricKey) -> int:
        return self._metrics.setdefault(key, len(self._metrics))

    def report(self, scoring_version: int, records: Sequence[HistoryRecord]) -> HistoryReport:
        used = sorted({run.record for _, runs in self._cases for run in runs})
        numbers = {old: str(new) for new, old in enumerate(used)}
        for case, runs in self._cases:
            case.records = " ".join(numbers[run.record] for run in runs)
        rules = [
            [
                HistoryRule(metric=self._number(key), threshold=rule.threshold, direction=rule.direction)
                for key, rule in shared
            ]
            for shared in self._rules
        ]
        return HistoryReport(
            scoring_version=scoring_version,
            keep=self._keep,
            records=[records[old] for old in used],
            metrics=[HistoryMetric(name=name, fingerprint=fingerprint) for name, fingerprint in self._metrics],
            rules=rules,
            cases=[case for case, _ in self._cases],
        )


def _text(score: float) -> str:
    """`1`, `.5`, `.8213`, `2340`; as short as a number can be written that is read as the same."""
    text = f"{score:.4f}".rstrip("0").rstrip(".") if 0.0 <= score <= 1.0 else f"{score:.5g}"
    return text.removeprefix("0") or "0"
