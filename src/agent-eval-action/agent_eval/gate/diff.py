"""Compares head and base, case by case and metric by metric. Pure.

Only cases with the same content and metrics with the same options and judge are compared. The others are listed
separately with the reason. A delta is a plain difference; `gate.regression` decides whether it is significant.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import agent_eval_results as results
from agent_eval_results.data.pairing import Pair, Pairing
from agent_eval_results.data.stored_runs import StoredMeans, stored_means

_MOST_DROPS = 10
_SAME = 1e-9
"""Scores that differ by at most this rounding error are equal."""

Fate = Literal["comparable", "options", "judge", "scoring", "unmeasured", "unjudged", "new", "gone", "replayed"]
"""Whether a metric's two scores may be compared, or why not."""


def _fate_note(
    fate: Fate, head: results.MetricReport | None = None, base: results.MetricReport | None = None
) -> results.Reason | None:
    """Why two scores can't be compared; None for comparable ones."""
    if fate == "comparable":
        return None
    if fate == "judge" and head is not None and base is not None:
        return results.Reason.of("judge-differs", models=[head.judge or "none", base.judge or "none"])
    if fate == "unmeasured" and head is not None:
        return results.Reason.of("unmeasured", side="here" if head.score is None else "base")
    return results.Reason.of(_NOTES[fate])


_NOTES: Mapping[Fate, str] = {
    "judge": "judge-differs",
    "options": "options-differ",
    "scoring": "scoring-differs",
    "unmeasured": "unmeasured",
    "unjudged": "side-unjudged",
    "new": "new-criterion",
    "gone": "criterion-gone",
    "replayed": "was-replayed",
}


def _alike(score: float | None, other: float | None) -> bool:
    """Whether two scores are the same, or both missing."""
    return score == other if score is None or other is None else abs(score - other) <= _SAME


def compare(
    head: results.RunReport, base: results.RunReport, pairing: Pairing, history: results.HistoryReport | None = None
) -> results.ComparisonReport:
    """Compares two runs.

    Args:
        head: The run to report on.
        base: The run to compare with.
        pairing: Of their cases.
        history: The base branch's stored runs. With a history, the base's scores and pass rate are means over them; the
            status of each case is still that of its last run.

    Returns:
        Deltas over the cases with the same content on both sides, and every changed case. A case or metric without a
        result on one side, or with another definition there, has no delta.
    """
    means = stored_means(base, history)
    table = _Metrics(same_scoring=head.scoring_version == base.scoring_version)
    compared = [(pair, _compared(*pair, means, table)) for pair in pairing.pairs]
    listed = {id(case): comparison for (case, _), comparison in compared if comparison is not None}
    listed |= {id(case): _alone(case, "changed", head=case, base=old) for case, old in pairing.changed}
    listed |= {id(case): _alone(case, "added", head=case) for case in pairing.added}
    not_run = results.Reason.of("not-in-base-run")
    listed |= {id(case): _alone(case, "unjudged", head=case, note=not_run) for case in pairing.not_on_base}
    counted = [pair for pair, comparison in compared if comparison is None or comparison.change != "unjudged"]
    return results.ComparisonReport(
        cases=[listed[id(case)] for case in head.cases if id(case) in listed]
        + [_alone(case, "removed", base=case) for case in pairing.removed],
        compared=len(compared),
        unchanged=sum(case.passed and old.passed for case, old in pairing.pairs),
        metrics=table.rows(),
        pass_rate=_pass_rate(counted, means),
        duration=_over(counted, lambda case: _mean(run.duration for run in _good(case) if not run.replayed)),
        tokens=_over(counted, lambda case: _mean(_tokens(run) for run in _good(case))),
        cost=results.Delta(head=_cost(head), base=_cost(base)),
        base_records=means.records,
        drops=table.drops(),
        notes=[*_notes(head, base, pairing), *table.notes()],
    )


def _compared(
    head: results.CaseReport, base: results.CaseReport, means: StoredMeans, table: _Metrics
) -> results.CaseComparison | None:
    """How a case of both sides differs; None if it passed on both, under the same id."""
    renamed = head.case_id != base.case_id
    olds = {metric.name: metric for metric in means.metrics.get(base.case_id, base.metrics)}
    judged = {head.status, base.status}.isdisjoint({"errored", "not_run"})
    fates = {
        metric.name: table.add(head, base, metric, olds.get(metric.name), judged=judged) for metric in head.metrics
    }
    change, note = _change(head, base, fates)
    if change is None and renamed:
        change = "renamed"
    if change is None:
        return None
    return results.CaseComparison(
        case_id=head.case_id,
        file=head.file,
        eval_id=head.eval_id,
        change=change,
        head=head.status,
        base=base.status,
        renamed_from=base.case_id if renamed else None,
        metrics=list(_metrics(head, olds, fates)) if judged else [],
        note=note,
    )


def _alone(
    case: results.CaseReport,
    change: results.Change,
    *,
    head: results.CaseReport | None = None,
    base: results.CaseReport | None = None,
    note: results.Reason | None = None,
) -> results.CaseComparison:
    return results.CaseComparison(
        case_id=case.case_id,
        file=case.file,
        eval_id=case.eval_id,
        change=change,
        head=head.status if head else None,
        base=base.status if base else None,
        note=note,
    )


_NO_RESULT = frozenset({"errored", "not_run", "quarantined"})


def _change(
    head: results.CaseReport, base: results.CaseReport, fates: Mapping[str, Fate]
) -> tuple[results.Change | None, results.Reason | None]:
    """How a case with the same content changed, or why that is unknown.

    A change between failed and passed only counts if the failing metric is comparable: a new criterion does not make a
    case newly failing, and removing one does not fix a case.
    """
    if head.status in _NO_RESULT:
        both = head.status == base.status
        return "unjudged", results.Reason.of("no-result", result=head.status, side="both" if both else "here")
    if base.status in _NO_RESULT:
        return "unjudged", results.Reason.of("no-result", result=base.status, side="base")
    if head.status == base.status:
        return (None if head.passed else "still_failing"), None
    failing = head if head.failed else base
    culprits = _culprits(failing)
    foreign = [name for name in culprits if fates.get(name, "gone") != "comparable"]
    if failing is head and (head.error_kinds or not culprits or len(foreign) < len(culprits)):
        return "newly_failing", None
    if not foreign:
        return "fixed", None
    because = _fate_note(fates.get(foreign[0], "gone"))
    side: Literal["here", "base"] = "here" if failing is head else "base"
    return "unjudged", results.Reason.of("metric-not-compared", metric=foreign[0], because=because, side=side)


def _culprits(case: results.CaseReport) -> list[str]:
    """The metrics that make a case fail: those below their threshold, otherwise those that failed in any run."""
    gating = [metric for metric in case.metrics if metric.threshold is not None and metric.blocking]
    below = [metric.name for metric in gating if metric.failed]
    return below or [metric.name for metric in gating if any(run.failed for run in metric.runs)]


def _metrics(
    head: results.CaseReport, base: Mapping[str, results.MetricReport], fates: Mapping[str, Fate]
) -> Iterator[results.CaseMetricComparison]:
    for metric in head.metrics:
        old, fate = base.get(metric.name), fates[metric.name]
        if not metric.is_configured:
            continue
        if fate != "comparable" or old is None:
            note = _fate_note(fate, metric, old)
            yield results.CaseMetricComparison(name=metric.name, score=results.Delta(head=metric.score), note=note)
        elif metric.status != old.status or not _alike(metric.score, old.score):
            there = old.threshold
            yield results.CaseMetricComparison(
                name=metric.name,
                score=results.Delta(head=metric.score, base=old.score),
                note=results.Reason.of("needs", here=metric.threshold, there=there)
                if there is not None and metric.threshold is not None and metric.threshold != there
                else None,
            )


def _pass_rate(pairs: Sequence[Pair], means: StoredMeans) -> results.Delta:
    if not pairs:
        return results.Delta()
    head = sum(case.passed for case, _ in pairs)
    base = sum(means.passes.get(case.case_id, float(case.passed)) for _, case in pairs)
    return results.Delta(head=head / len(pairs), base=base / len(pairs))


def _over(pairs: Iterable[Pair], measure: Callable[[results.CaseReport], float | None]) -> results.Delta:
    """The mean of a measure over the cases that have it on both sides."""
    head = base = 0.0
    count = 0
    for pair in pairs:
        new, old = map(measure, pair)
        if new is not None and old is not None:
            head, base, count = head + new, base + old, count + 1
    return results.Delta(head=head / count, base=base / count) if count else results.Delta()


def _good(case: results.CaseReport) -> Iterator[results.RunResult]:
    return (run for run in case.runs if run.error is None)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean of the present values; None without any."""
    present = [value for value in values if value is not None]
    return sum(present) / len(present) if present else None


def _tokens(run: results.RunResult) -> float | None:
    usage = run.usage
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    return float((usage.input_tokens or 0) + (usage.output_tokens or 0))


def _cost(report: results.RunReport) -> float | None:
    """US dollars for all models, without the agent's extra runs; None without model calls, or if a price is missing."""
    used = (usage for usage in report.case_usage if usage.calls and usage.purpose not in {"agent-again", "agent-base"})
    costs = [usage.cost for usage in used]
    prices = [cost for cost in costs if cost is not None]
    return sum(prices) if costs and len(prices) == len(costs) else None


def _notes(head: results.RunReport, base: results.RunReport, pairing: Pairing) -> Iterator[results.Reason]:
    if head.scoring_version != base.scoring_version:
        yield results.Reason.of("scores-not-compared", here=head.scoring_version, there=base.scoring_version)
    if pairing.left_out:
        yield results.Reason.of("outside-selection", count=pairing.left_out)
    if pairing.without_fingerprints:
        yield results.Reason.of("compared-by-name", count=pairing.without_fingerprints)
    live = sum(not case.replayed for case in head.cases)
    if head.num_runs != base.num_runs and (live or not head.cases):
        differ = results.Reason.of("num-runs-differ", here=head.num_runs, there=base.num_runs)
        if live < len(head.cases):
            differ = results.Reason.of("num-runs-differ", here=head.num_runs, there=base.num_runs, count=live)
        yield differ
    if head.min_pass_rate != base.min_pass_rate:
        yield results.Reason.of("min-pass-rate-differs", here=head.min_pass_rate, there=base.min_pass_rate)


@dataclass(kw_only=True)
class _Row:
    """A metric over the cases so far."""

    cases: int = 0
    head: float = 0.0
    base: float = 0.0
    thresholds: set[float | None] = field(default_factory=set)
    base_thresholds: set[float | None] = field(default_factory=set)
    moved: Counter[tuple[float, float]] = field(default_factory=Counter)
    """Number of cases with another threshold than on the base branch, by (base, head)."""
    left_out: dict[str, list[results.Reason]] = field(default_factory=dict)
    """Why cases can't be compared: equal reasons, one for each case."""


@dataclass(kw_only=True)
class _Metrics:
    """Accumulates metrics over the cases."""

    same_scoring: bool
    """Whether both sides were scored by the same rules."""
    _rows: dict[str, _Row] = field(default_factory=dict)
    _dropped: list[tuple[float, results.CaseReport, results.MetricReport, float]] = field(default_factory=list)

    def add(
        self,
        case: results.CaseReport,
        old: results.CaseReport,
        head: results.MetricReport,
        base: results.MetricReport | None,
        *,
        judged: bool,
    ) -> Fate:
        """Adds a metric of a case.

        Args:
            case: The case on the head.
            old: The case on the base branch.
            head: The metric on the head.
            base: The metric of that name on the base branch.
            judged: Whether the case has a result on both sides.

        Returns:
            Whether the two scores may be compared.
        """
        row = self._rows.setdefault(head.name, _Row())
        row.thresholds.add(head.threshold)
        if base is not None:
            row.base_thresholds.add(base.threshold)
            if base.threshold is not None and head.threshold is not None and base.threshold != head.threshold:
                row.moved[base.threshold, head.threshold] += 1
        fate = self._fate(head, base) if judged else "unjudged"
        if fate == "comparable" and head.name == "invocation_duration_v1" and case.replayed:
            fate = "replayed"  # No model took its time.
        if fate == "new" and base is None and any(run.error is not None for run in old.runs):
            fate = "unmeasured"  # A run that broke off has no scores.
        if (note := _fate_note(fate, head, base)) is not None:
            row.left_out.setdefault(str(note), []).append(note)
            return fate
        assert base is not None
        assert head.score is not None
        assert base.score is not None
        row.cases += 1
        row.head += head.score
        row.base += base.score
        if case.passed and old.passed and head.threshold is not None:
            drop = head.score - base.score if head.direction == "lower" else base.score - head.score
            if drop > _SAME:
                self._dropped.append((drop, case, head, base.score))
        return fate

    def _fate(self, head: results.MetricReport, base: results.MetricReport | None) -> Fate:
        if base is None or (head.threshold is not None and base.threshold is None):
            return "new"
        if not self.same_scoring:
            return "scoring"
        if head.judge != base.judge:
            return "judge"
        if head.fingerprint and base.fingerprint and head.fingerprint != base.fingerprint:
            return "options"
        if head.score is None or base.score is None or "not_evaluated" in {head.status, base.status}:
            return "unmeasured"
        return "comparable"

    def rows(self) -> list[results.MetricComparison]:
        """The head's metrics, in order of appearance."""
        return [
            results.MetricComparison(
                name=name,
                cases=row.cases,
                score=results.Delta(head=row.head / row.cases, base=row.base / row.cases)
                if row.cases
                else results.Delta(),
                threshold=_only(row.thresholds),
                base_threshold=_only(row.base_thresholds),
                not_compared=sum(map(len, row.left_out.values())),
                note=_left_out(row),
            )
            for name, row in self._rows.items()
        ]

    def drops(self) -> list[results.Move]:
        """The largest drops of scores that still pass, the largest first."""
        return [
            results.Move(
                case_id=case.case_id,
                file=case.file,
                eval_id=case.eval_id,
                name=metric.name,
                score=results.Delta(head=metric.score, base=base),
            )
            for _, case, metric, base in heapq.nlargest(_MOST_DROPS, self._dropped, key=lambda entry: entry[0])
        ]

    def notes(self) -> Iterator[results.Reason]:
        """The changed thresholds."""
        for name, row in self._rows.items():
            for (base, head), count in row.moved.most_common(3):
                yield results.Reason.of("threshold-moved", metric=name, here=head, there=base, count=count)


def _only(thresholds: set[float | None]) -> float | None:
    return next(iter(thresholds)) if len(thresholds) == 1 else None


def _left_out(row: _Row) -> results.Reason | None:
    """The most frequent reason, and how many cases have others."""
    ordered = sorted(row.left_out.values(), key=len, reverse=True)
    if not ordered:
        return None
    first, *others = ordered
    return results.Reason.of(
        "left-out", because=first[0], count=len(first), more=sum(map(len, others)), total=row.cases
    )
