"""Converts reports and history to samples, and the policy to rules of the statistics. Pure.

Both sides are evaluated with the head's thresholds, and only on metrics that both sides measured. A pull request that
raises a threshold, adds a criterion or changes a judge has not made the agent worse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

import agent_eval_results as results
from agent_eval.gate.policy import MetricPolicy, Policy, PolicyReader
from agent_eval.gate.regression.retrial import Outcome, Retrial, is_constant_error, outcomes
from agent_eval.gate.stats import CaseEvidence, MetricRule, Rules, Series
from agent_eval_results.data.answers import never_started
from agent_eval_results.data.stored_runs import (
    MetricKey,
    PassRules,
    StoredRun,
    outcome_of,
    rescored,
    rules_of,
    same_rules,
    scores_by_run,
    stored,
    stored_rules,
)
from agent_eval_scoring.evalset.models import INFORMATIONAL_METRICS

_ALL = range(1 << 30)
"""The numbers of all runs."""
_VALUE: Mapping[str, float] = {results.PASSED: 1.0, results.FAILED: 0.0, results.BROKE: 0.0}


@dataclass(frozen=True, kw_only=True)
class Comparable:
    """A case of the head that can be compared with the base branch."""

    history: results.CaseHistory
    """Its stored runs, with its id on the base branch, which differs if the case was renamed."""
    rules: PassRules
    """The head's thresholds of the metrics that both sides measured. A run passes if it reaches them."""
    missing: tuple[str, ...]
    """The head's gating metrics without a comparable score on the base branch."""


@dataclass(frozen=True, kw_only=True)
class MoreEvidence:
    """What is known beside the screening and the stored runs."""

    head: Sequence[results.CaseReport] = ()
    """The head's extra runs, with the same case ids, in any number of parts; the policy's thresholds are applied."""
    rounds: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """The round of each of them, by case id and run number; where it is unknown, all are of one."""
    base: Sequence[results.CaseReport] = ()
    """The same for today's extra runs of the base branch, with the base branch's case ids."""
    before: Collection[str] = ()
    """Regressions of the pull request's previous push (`held_against`)."""
    earlier: Mapping[str, tuple[Series, ...]] = field(default_factory=dict)
    """Pass or fail in earlier attempts of the same commit, by case id of the head (`earlier_runs`)."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """Input of `sequential.next_step`."""

    evidence: tuple[CaseEvidence, ...]
    rules: Rules
    comparable: Mapping[str, Comparable] = field(default_factory=dict)
    """By case id of the head. For all other cases the thresholds decide."""
    retrials: tuple[Retrial, ...] = ()
    """Failures for which the thresholds decide, with their additional runs."""

    @cached_property
    def tested(self) -> frozenset[tuple[str, str]]:
        """The scores that are compared with those of the base branch, by case id and metric."""
        return frozenset(
            (case.case_id, metric) for case in self.evidence for metric in case.metrics if metric != results.PASS
        )

    @cached_property
    def reproduced(self) -> Mapping[str, Outcome]:
        """Whether these failures were reproduced, by case id."""
        return outcomes(self.retrials)


def comparable_cases(
    cases: Sequence[results.CaseReport], base: results.HistoryReport, stored: Mapping[str, results.CaseHistory]
) -> dict[str, Comparable]:
    """The cases of the head that can be compared with the base branch, by id.

    Args:
        cases: The head's cases.
        base: The base branch's history.
        stored: Its cases by the head's id (`Pairing.stored`).
    """
    # The head always has the current scoring version; a baseline may be older.
    # Scores of another version differ without any change of the agent.
    if base.scoring_version != results.SCORING_VERSION:
        return {}
    comparable: dict[str, Comparable] = {}
    for case in cases:
        if (history := stored.get(case.case_id)) is not None and not case.replayed:
            # If every run of the head raised an error before scoring, only the history has the thresholds.
            rules = rules_of(case) if case.metrics else stored_rules(base, history)
            # A case whose runs all raised an error on the base has no scores, but failed under any rules.
            measured = set(rules) if set(history.outcomes) == {results.BROKE} else _measured(base, history)
            common = {key: rule for key, rule in rules.items() if key in measured}
            missing = tuple(name for name, fingerprint in rules if (name, fingerprint) not in measured)
            # Without any threshold a case still passes or breaks, and that can be compared.
            if common or not rules:
                comparable[case.case_id] = Comparable(history=history, rules=common, missing=missing)
    return comparable


def _measured(base: results.HistoryReport, case: results.CaseHistory) -> set[MetricKey]:
    metrics = [base.metrics[int(number)] for number in case.scores]
    return {(metric.name, metric.fingerprint) for metric in metrics}


def gather(
    cases: Sequence[results.CaseReport],
    base: results.HistoryReport,
    comparable: Mapping[str, Comparable],
    policy: Policy,
    *,
    num_runs: int,
    min_pass_rate: float = 1.0,
    same_day: bool = False,
    more: MoreEvidence = MoreEvidence(),
    rules: Rules | None = None,
) -> Gathered:
    """Collects the samples and rules of all cases.

    Args:
        cases: The head's cases, with the policy applied (`rescoring.apply_policy`).
        base: The base branch's history. For a base branch run of today: `history.extend(None, report)`.
        comparable: From `comparable_cases`.
        policy: The repository's policy.
        num_runs: Screening runs of each case; runs with higher numbers in `cases` are confirmation runs.
        min_pass_rate: The share of runs that a case must pass, 0 to 1.
        same_day: Whether `base` was run beside the head (`baseline: rerun`).
        more: Extra runs of both sides, and earlier runs of the pull request.
        rules: When to confirm on the base branch, and its name; the policy decides about the rest.

    Returns:
        The samples in the order of the cases. Quarantined cases, cases without history on the base branch and cases
        that never started (more runs would give the same result) are omitted.
    """
    reader = PolicyReader(policy)
    extra, base_extra = results.by_id(more.head), results.by_id(more.base)
    base_answers = not _has_errors(base, more.base)
    evidence: list[CaseEvidence] = []
    retrials: list[Retrial] = []
    of_every_case = tuple(number for number, entry in enumerate(policy.entries) if not entry.cases)
    defaults = {results.PASS: _rule(reader.metric(results.PASS, (of_every_case,)), None, True)}
    exceptions: dict[str, dict[str, MetricRule]] = {}
    lower = _better_when_lower(cases, base)
    for case in cases:
        pair = comparable.get(case.case_id)
        entries = reader.of_case(case.file, case.eval_id)
        # Runs cost money: what can only inform is not run again.
        if reader.blocks(entries):
            kind = _retrial(case, pair, base)
            if kind is not None:
                parts = extra.get(case.case_id, ())
                retrials.append(
                    Retrial(
                        case_id=case.case_id,
                        kind=kind,
                        failed=tuple(_failures(parts, kind)),
                        min_pass_rate=min_pass_rate,
                        # An error in every run blocks without statistics, unless the base's agent has errors, too.
                        constant_error=kind == "error" and base_answers and is_constant_error([case, *parts]),
                    )
                )
        if pair is None or case.status in {"quarantined", "not_run"} or never_started(case):
            continue
        head = _runs([case], pair.rules, _ALL[:num_runs])
        if not head:
            continue
        there = rescored(base, pair.history, pair.rules)
        # A base that has just run is screened as the head is; stored runs are of another day.
        series_of = partial(
            _series,
            head_screen=head,
            head_confirm=_runs([case], pair.rules, _ALL[num_runs:], rounds=more.rounds)
            + _runs(extra.get(case.case_id, ()), pair.rules, rounds=more.rounds),
            base=() if same_day else there,
            base_screen=there if same_day else (),
            # By its name there: the head's may be another case's, where two have swapped their names.
            base_confirm=_runs(base_extra.get(pair.history.case_id, ()), pair.rules),
        )
        metrics = {results.PASS: series_of(None, before=case.case_id in more.before)}
        own = {results.PASS: _rule(reader.metric(results.PASS, entries), None, reader.blocks(entries))}
        for metric in case.metrics:
            metric_policy = reader.metric(metric.name, entries)
            if metric_policy.named or metric.compared_only:
                direction = metric_policy.direction or ("lower" if metric.name in lower else "higher")
                sign = -1.0 if direction == "lower" else 1.0
                series = series_of((metric.name, metric.fingerprint), sign=sign, threshold=metric.threshold)
                # A metric that is new here has nothing to be worse than.
                if series.head_screen and (series.base or series.base_screen):
                    metrics[metric.name] = series
                    costs = metric.threshold is None or metric.name in INFORMATIONAL_METRICS
                    rule = _rule(metric_policy, series if costs else None, reader.blocks(entries))
                    own[metric.name] = dataclasses.replace(rule, direction=direction)
        evidence.append(CaseEvidence(case_id=case.case_id, metrics=metrics, earlier=more.earlier.get(case.case_id, ())))
        # Only pass or fail has a default: other metrics are tested where a policy entry names them.
        if exception := {name: rule for name, rule in own.items() if defaults.get(name) != rule}:
            exceptions[case.case_id] = exception
    rules = dataclasses.replace(rules or Rules(), alpha=policy.alpha, metrics=defaults, cases=exceptions)
    return Gathered(evidence=tuple(evidence), rules=rules, comparable=comparable, retrials=tuple(retrials))


def _has_errors(base: results.HistoryReport, base_runs: Iterable[results.CaseReport]) -> bool:
    """Whether any run of the base branch ended with an error of the agent."""
    return any(results.BROKE in case.outcomes for case in base.cases) or any(case.error_kinds for case in base_runs)


def _retrial(
    case: results.CaseReport, pair: Comparable | None, base: results.HistoryReport
) -> Literal["case", "error", "quarantined"] | None:
    """The kind of retrial that a failure needs before it blocks; None if there is none or the comparison decides."""
    if never_started(case):
        return None
    if case.is_quarantined:
        outcomes = [run.outcome for run in rescored(base, pair.history, pair.rules)] if pair is not None else []
        # Flaky is what the quarantine is for. News is only a case that usually passes there and now never does.
        all_failed = all(run.failed for run in case.runs)
        return "quarantined" if all_failed and 2 * outcomes.count(results.PASSED) > len(outcomes) else None
    if not case.failed:
        return None
    failed = case.failing_metrics
    if case.replayed:  # It would fail again; but a judge may err.
        is_judged = bool(failed) and all(metric.judge for metric in failed)
        return "case" if is_judged and not case.failed_when_recorded else None
    failing = [metric.name for metric in failed]
    # No comparison can tell whether it is new, so it has to fail again to block.
    if pair is None or not set(failing).isdisjoint(pair.missing):
        return "case"
    return "error" if case.error_kinds else None


def _failures(parts: Iterable[results.CaseReport], kind: Literal["case", "error", "quarantined"]) -> Iterator[bool]:
    """Whether each additional run with a result failed again, or for an error, raised an error again."""
    for run in sorted((run for part in parts for run in part.runs), key=lambda run: run.run):
        # A run that a service lost is no evidence for either side.
        if run.broke or (run.error is None and run.is_judged):
            yield run.broke if kind == "error" else not run.passed


def _rule(metric_policy: MetricPolicy, relative_to: Series | None, blocks: bool) -> MetricRule:
    """A rule of the statistics. A tolerance relative to the base is converted to the score's own unit."""
    drop = metric_policy.max_drop or 0.0
    if relative_to is not None:
        base = relative_to.base or relative_to.base_screen
        # A cost has no scale of its own: its tolerance is a share of the base's mean, which may be negated.
        drop *= abs(sum(base)) / len(base)
    return MetricRule(max_drop=drop, blocking=metric_policy.blocking and blocks, alpha=metric_policy.alpha)


def _better_when_lower(cases: Iterable[results.CaseReport], base: results.HistoryReport) -> set[str]:
    """Metrics for which lower is better: informational metrics, and custom metrics with that direction in any case.

    A single case may not show the direction: a score equal to its threshold passes either way.
    """
    names = {metric.name for case in cases for metric in case.metrics if metric.lower_is_better}
    names |= {base.metrics[rule.metric].name for rules in base.rules for rule in rules if rule.direction == "lower"}
    return names | set(INFORMATIONAL_METRICS)


def _runs(
    parts: Sequence[results.CaseReport],
    rules: PassRules,
    numbers: range = _ALL,
    rounds: Mapping[tuple[str, int], int] = {},
) -> list[StoredRun]:
    """Today's runs with a result, in the order of their numbers; the record of each is its round."""
    by_number: dict[int, StoredRun] = {}
    for part in parts:
        scores = scores_by_run(part)
        as_judged = same_rules(rules_of(part), rules)
        for run in part.runs:
            own = scores.get(run.run, {})
            outcome = outcome_of(run, own, None if as_judged else rules) if run.run in numbers else None
            if outcome is not None:
                record = rounds.get((part.case_id, run.run), 0)
                rounded = {key: stored(score) for key, score in own.items()}
                by_number[run.run] = StoredRun(record=record, outcome=outcome, scores=rounded)
    return [by_number[number] for number in sorted(by_number)]


def _series(
    metric: MetricKey | None,
    *,
    head_screen: Sequence[StoredRun],
    head_confirm: Sequence[StoredRun],
    base: Sequence[StoredRun],
    base_screen: Sequence[StoredRun],
    base_confirm: Sequence[StoredRun],
    sign: float = 1.0,
    threshold: float | None = None,
    before: bool = False,
) -> Series:
    """A metric's scores in all runs of a case; without a metric, 1.0 for a passed run and 0.0 for a failed one."""

    def score(run: StoredRun) -> float | None:
        return _VALUE.get(run.outcome) if metric is None else run.scores.get(metric)

    def values(runs: Sequence[StoredRun]) -> tuple[float, ...]:
        return tuple(sign * value for run in runs if (value := score(run)) is not None)

    def records(runs: Sequence[StoredRun]) -> tuple[int, ...]:
        return tuple(run.record for run in runs if score(run) is not None)

    return Series(
        head_screen=values(head_screen),
        head_confirm=values(head_confirm),
        head_rounds=records(head_confirm),
        base=values(base),
        base_screen=values(base_screen),
        base_confirm=values(base_confirm),
        base_days=tuple(map(str, records(base))),
        before=before,
        threshold=None if threshold is None else sign * threshold,
    )


def earlier_runs(
    attempts: Iterable[results.RunReport],
    cases: Sequence[results.CaseReport],
    base: results.HistoryReport,
    comparable: Mapping[str, Comparable],
    policy: Policy,
) -> dict[str, tuple[Series, ...]]:
    """What earlier attempts of the same commit measured, by case id, in their order.

    An attempt that passed leaves nothing: only a failure is a reason to try again. If this attempt has an earlier one's
    screening runs (those of its parts, or resumed ones), they count once, as its own.
    """
    own = {run.run_id for case in cases for run in case.runs}
    earlier: dict[str, tuple[Series, ...]] = {}
    for report in attempts:
        if report.decision is not None and report.decision.outcome != "passed":
            shared = {case.case_id for case in report.cases if any(run.run_id in own for run in case.runs)}
            more = MoreEvidence(head=report.confirmations, base=report.base_runs)
            for case in gather(report.cases, base, comparable, policy, num_runs=report.num_runs, more=more).evidence:
                series = case.metrics[results.PASS]
                kept = dataclasses.replace(series, head_screen=()) if case.case_id in shared else series
                earlier[case.case_id] = (*earlier.get(case.case_id, ()), kept)
    return earlier


def held_against(cases: Iterable[results.CaseDecisionReport]) -> frozenset[str]:
    """Ids of the cases that the next push of a pull request must check again.

    Every push is another chance to pass by luck. A regression or suspected regression of the previous push is therefore
    suspected in this one too, even if its screening run passes. Only this push's runs count: if it fixes the case, it
    passes.
    """
    words = {"broken", "worse", "suspicious"}
    return frozenset(case.case_id for case in cases if case.metric == results.PASS and case.word in words)
