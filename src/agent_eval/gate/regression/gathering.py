"""From reports and history to plain numbers for the statistics, and from the policy to their rules. Pure.

Both sides are judged by the head's thresholds, and only by what both of them measured: a pull request that raises a
threshold, adds a criterion or changes a judge has not made the agent worse.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent_eval.evalset.models import INFORMATIONAL_METRICS
from agent_eval.gate.history import (
    MetricKey,
    PassRules,
    StoredRun,
    judged,
    judged_alike,
    never_started,
    outcome_of,
    rules_of,
    scores_by_run,
    stored,
    stored_rules,
)
from agent_eval.gate.pairing import same_cases
from agent_eval.gate.policy import MetricPolicy, Policy, PolicyReader
from agent_eval.gate.regression.attempts import Before
from agent_eval.gate.regression.rejudging import apply_policy
from agent_eval.gate.regression.retrial import Retrial
from agent_eval.gate.stats import PASS, CaseEvidence, ConfirmOnBase, MetricRule, Rules, Series
from agent_eval.results import BROKE, FAILED, PASSED, SCORING_VERSION, CaseHistory, CaseReport, HistoryReport, RunResult

_ENDLESS = 1 << 30
_VALUE: Mapping[str, float] = {PASSED: 1.0, FAILED: 0.0, BROKE: 0.0}


@dataclass(frozen=True, kw_only=True)
class Comparable:
    """What of a case can be compared with the base."""

    base_id: str
    """The case's id there; another one if it was renamed."""
    rules: PassRules
    """By what a run passes on both sides: the head's thresholds of the metrics that both have measured."""
    missing: tuple[str, ...]
    """The head's gating metrics that the base has no comparable score of."""


@dataclass(frozen=True, kw_only=True)
class Gathered:
    """What the statistical gate is asked, see `sequential.next_step`."""

    evidence: tuple[CaseEvidence, ...]
    rules: Rules
    comparable: Mapping[str, Comparable] = field(default_factory=dict)
    """By case id of the head. What isn't here is for the thresholds to judge."""
    retrials: tuple[Retrial, ...] = ()
    """The failures that the thresholds judge, with the runs that tried them again."""


def comparable_cases(cases: Sequence[CaseReport], base: HistoryReport | None) -> dict[str, Comparable]:
    """What of each case of the head can be compared with the base; cases of which nothing can are left out."""
    # What we write is of our own version; what was read may be older.
    if base is None or base.scoring_version != SCORING_VERSION:
        return {}
    there = {case.case_id: case for case in base.cases}
    found: dict[str, Comparable] = {}
    for case_id, base_id in same_cases(cases, there.values()).items():
        found[case_id] = Comparable(base_id=base_id, rules={}, missing=())
    for case in cases:
        if (known := found.get(case.case_id)) is not None:
            old = there[known.base_id]
            # Where every run broke before it was scored, the head says nothing of what a run must reach.
            rules = rules_of(case) if case.metrics else stored_rules(base, old)
            # Where the agent always broke there is no score; it failed all the same, by whatever rule.
            measured = set(rules) if set(old.outcomes) == {BROKE} else _measured(base, old)
            common = {key: rule for key, rule in rules.items() if key in measured}
            missing = tuple(name for name, fingerprint in rules if (name, fingerprint) not in measured)
            if common or not rules:
                found[case.case_id] = Comparable(base_id=known.base_id, rules=common, missing=missing)
            else:
                del found[case.case_id]
    return found


def _measured(base: HistoryReport, case: CaseHistory) -> set[MetricKey]:
    metrics = [base.metrics[int(number)] for number in case.scores]
    return {(metric.name, metric.fingerprint) for metric in metrics}


def gather(
    cases: Sequence[CaseReport],
    base: HistoryReport | None,
    policy: Policy,
    *,
    num_runs: int,
    min_pass_rate: float = 1.0,
    confirm_on_base: ConfirmOnBase = "auto",
    confirmations: Iterable[CaseReport] = (),
    base_confirmations: Iterable[CaseReport] = (),
    same_day: bool = False,
    before: Mapping[str, Before] | None = None,
) -> Gathered:
    """Gathers what is to be decided.

    Args:
        cases: The head's, with the policy applied (`rejudging.apply_policy`).
        base: What is known of the base. Of a base that was run today it is `history.extend(None, its_report)`.
        policy: What the repository wants.
        num_runs: How often each case was run to screen; runs with higher numbers in `cases` count as confirmations.
        min_pass_rate: The share of runs that a case must pass, 0 to 1.
        confirm_on_base: Handed on to the rules.
        confirmations: The head's extra runs, by the same case ids, in any number of parts.
        base_confirmations: The extra runs of the base of today, by the case ids of either side.
        same_day: Whether `base` was run beside the head (`baseline: rerun`).
        before: By case id of the head what the pull request's previous attempt held against a case.

    Returns:
        The evidence in the order of the cases, without quarantined ones, those that nothing is known of on the base,
        and those that never started: more runs would show nothing else.
    """
    comparable = comparable_cases(cases, base)
    reader = PolicyReader(policy)
    unheld = dataclasses.replace(policy, quarantine=())
    more, base_more = (
        _by_id(apply_policy(list(extra), unheld, min_pass_rate=0.0)) for extra in (confirmations, base_confirmations)
    )
    there = {case.case_id: case for case in base.cases} if base is not None else {}
    evidence: list[CaseEvidence] = []
    retrials: list[Retrial] = []
    defaults = {PASS: _rule(reader.metric(PASS, _general(policy)), None, True)}
    exceptions: dict[str, dict[str, MetricRule]] = {}
    lower = _better_when_lower(cases, base)
    for case in cases:
        known = comparable.get(case.case_id)
        if base is not None and reader.blocks(reader.of_case(case.file, case.eval_id)):
            kind = _retrial(case, known, there)
            failed = tuple(_failures(more.get(case.case_id, ()), kind)) if kind is not None else ()
            if kind is not None:
                retrials.append(Retrial(case_id=case.case_id, kind=kind, failed=failed, min_pass_rate=min_pass_rate))
        if base is None or known is None or case.status in {"quarantined", "not_run"} or never_started(case):
            continue
        entries = reader.of_case(case.file, case.eval_id)
        renamed = base_more.get(known.base_id, ()) if known.base_id != case.case_id else ()
        sides = _Sides(
            head=_runs([case], known.rules, range(num_runs)),
            head_more=_runs([case], known.rules, range(num_runs, _ENDLESS))
            + _runs(more.get(case.case_id, ()), known.rules, range(_ENDLESS)),
            base=judged(base, there[known.base_id], known.rules),
            base_more=_runs([*base_more.get(case.case_id, ()), *renamed], known.rules, range(_ENDLESS)),
            same_day=same_day,
            before=(before or {}).get(case.case_id, ""),
        )
        if not sides.head:
            continue
        metrics = {PASS: sides.passes()}
        own = {PASS: _rule(reader.metric(PASS, entries), None, reader.blocks(entries))}
        for metric in case.metrics:
            wanted = reader.metric(metric.name, entries)
            if wanted.named:
                direction = wanted.direction or ("lower" if metric.name in lower else "higher")
                sign = -1.0 if direction == "lower" else 1.0
                series = sides.scores((metric.name, metric.fingerprint), sign, metric.threshold)
                if series.head_screen and (series.base or series.base_screen):
                    metrics[metric.name] = series
                    costs = metric.threshold is None or metric.name in INFORMATIONAL_METRICS
                    rule = _rule(wanted, series if costs else None, reader.blocks(entries))
                    own[metric.name] = dataclasses.replace(rule, direction=direction)
        evidence.append(CaseEvidence(case_id=case.case_id, metrics=metrics))
        # Nothing but pass or fail has a default: a metric is tested where an entry names it.
        if exception := {name: rule for name, rule in own.items() if defaults.get(name) != rule}:
            exceptions[case.case_id] = exception
    rules = Rules(alpha=policy.alpha, confirm_on_base=confirm_on_base, metrics=defaults, cases=exceptions)
    return Gathered(evidence=tuple(evidence), rules=rules, comparable=comparable, retrials=tuple(retrials))


def _retrial(
    case: CaseReport, known: Comparable | None, there: Mapping[str, CaseHistory]
) -> Literal["case", "error", "quarantined"] | None:
    """As what a failure is to run again before it blocks; None where the comparison says all, or nothing failed."""
    if never_started(case):
        return None
    if case.status == "quarantined":
        outcomes = there[known.base_id].outcomes if known is not None else ""
        all_failed = all(run.status == "failed" for run in case.runs)
        return "quarantined" if all_failed and 2 * outcomes.count(PASSED) > len(outcomes) else None
    if case.status != "failed":
        return None
    failing = [one.name for one in case.metrics if one.blocking and one.status in {"failed", "not_evaluated"}]
    if known is None or not set(failing).isdisjoint(known.missing):
        return "case"
    return "error" if any(map(_broke, case.runs)) else None


def _broke(run: RunResult) -> bool:
    return run.error is not None and run.error.owner == "agent"


def _failures(parts: Iterable[CaseReport], kind: Literal["case", "error", "quarantined"]) -> Iterator[bool]:
    """Of each further run that says something about the agent, whether it failed, or broke, again."""
    for run in sorted((run for part in parts for run in part.runs), key=lambda run: run.run):
        if _broke(run) or (run.error is None and run.status in {"passed", "failed"}):
            yield _broke(run) if kind == "error" else run.status != "passed"


def _general(policy: Policy) -> tuple[int, ...]:
    """The entries that hold for every case."""
    return tuple(number for number, entry in enumerate(policy.entries) if not entry.cases)


def _rule(wanted: MetricPolicy, relative_to: Series | None, blocks: bool) -> MetricRule:
    """A rule of the statistics. A tolerance that is a share of the base becomes one in the score's own unit."""
    drop = wanted.max_drop or 0.0
    if relative_to is not None:
        base = relative_to.base or relative_to.base_screen
        drop *= abs(sum(base)) / len(base)
    return MetricRule(max_drop=drop, blocking=wanted.blocking and blocks, alpha=wanted.alpha)


def _better_when_lower(cases: Iterable[CaseReport], base: HistoryReport | None) -> set[str]:
    """The metrics that are better when they are lower: all that costs, and custom ones that pass that way somewhere.

    A single case need not show it: a score on its threshold passes either way.
    """
    found = {metric.name for case in cases for metric in case.metrics if metric.direction == "lower"}
    if base is not None:
        found |= {base.metrics[rule.metric].name for rules in base.rules for rule in rules if rule.direction == "lower"}
    return found | set(INFORMATIONAL_METRICS)


def _by_id(cases: Iterable[CaseReport]) -> dict[str, list[CaseReport]]:
    found: dict[str, list[CaseReport]] = {}
    for case in cases:
        found.setdefault(case.case_id, []).append(case)
    return found


def _runs(parts: Sequence[CaseReport], rules: PassRules, numbers: range) -> list[StoredRun]:
    """The runs of today that say something about the agent, by their numbers."""
    found: dict[int, StoredRun] = {}
    for part in parts:
        scores = scores_by_run(part)
        as_judged = judged_alike(rules_of(part), rules)
        for run in part.runs:
            own = scores.get(run.run, {})
            outcome = outcome_of(run, own, None if as_judged else rules) if run.run in numbers else None
            if outcome is not None:
                rounded = {key: stored(score) for key, score in own.items()}
                found[run.run] = StoredRun(record=-1, outcome=outcome, scores=rounded)
    return [found[number] for number in sorted(found)]


@dataclass(frozen=True, kw_only=True)
class _Sides:
    """All runs of one case."""

    head: Sequence[StoredRun]
    head_more: Sequence[StoredRun]
    base: Sequence[StoredRun]
    base_more: Sequence[StoredRun]
    same_day: bool
    before: Before

    def passes(self) -> Series:
        """Ones and zeros."""
        passes = self._series(lambda run: _VALUE.get(run.outcome), None)
        return dataclasses.replace(passes, before=self.before)

    def scores(self, key: MetricKey, sign: float, threshold: float | None) -> Series:
        """Scores of a metric, turned so that higher is better."""

        def score(run: StoredRun) -> float | None:
            value = run.scores.get(key)
            return None if value is None else sign * value

        return self._series(score, None if threshold is None else sign * threshold)

    def _series(self, value: Callable[[StoredRun], float | None], threshold: float | None) -> Series:
        base = [(found, str(run.record)) for run in self.base if (found := value(run)) is not None]
        values = tuple(found for found, _ in base)
        return Series(
            head_screen=_values(self.head, value),
            head_confirm=_values(self.head_more, value),
            base=() if self.same_day else values,
            base_screen=values if self.same_day else (),
            base_confirm=_values(self.base_more, value),
            base_days=None if self.same_day else tuple(day for _, day in base),
            threshold=threshold,
        )


def _values(runs: Sequence[StoredRun], value: Callable[[StoredRun], float | None]) -> tuple[float, ...]:
    return tuple(found for run in runs if (found := value(run)) is not None)
