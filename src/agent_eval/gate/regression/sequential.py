"""The sequential test: which runs to make next, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_eval.core.text import plural
from agent_eval.gate.regression import _base_today as base_today
from agent_eval.gate.regression._decide import Unpaid, decide
from agent_eval.gate.regression.retrial import Retrial, next_runs, outcomes
from agent_eval.gate.stats import (
    PASS,
    ROUND,
    Budget,
    CaseDecision,
    CaseEvidence,
    Decision,
    Family,
    FamilyResult,
    MetricRule,
    Rules,
    Runs,
    Suspect,
    family_results,
)

_WORTH_A_LOOK, _WORTH_A_NAME = 4.0, 50.0
"""Minimum likelihood ratio for the first and further runs of a case once the verdict is clear."""
_MANY = 5
"""With this many suspected regressions a clear verdict does not name cases: confirming each costs most of a suite."""


def next_step(
    evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget, retrials: Sequence[Retrial] = ()
) -> Runs | Decision:
    """Returns the runs to make next, or the decision.

    The function is stateless: the result depends only on the evidence, not on the order of runs and cases, nor on a
    crash between calls. A caller may stop at any time by passing a budget of 0; that decision is valid.

    Args:
        evidence: All evaluated cases of the head.
        rules: The user's rules.
        budget: The remaining budget. `can_run_base` must be the same in all calls. A caller whose runs fail permanently
            passes `extra_runs=0`.
        retrials: Failures that can't be compared with the base branch and run again before they block.

    Returns:
        Runs to make before the next call, or the decision.
    """
    again = next_runs(retrials, budget.extra_runs)
    if budget.extra_runs is not None:
        budget = replace(budget, extra_runs=budget.extra_runs - sum(again.values()))
    constant = frozenset(retrial.case_id for retrial in retrials if retrial.constant_error)
    step = _compare(evidence, rules, budget, constant)
    if isinstance(step, Runs):
        head = {case_id: max(again.get(case_id, 0), step.head.get(case_id, 0)) for case_id in {**again, **step.head}}
        return replace(step, head=head)
    if again:
        count, cases = plural(sum(again.values()), "run"), plural(len(again), "failed case")
        return Runs(head=again, base={}, why=f"{count} of {cases} that can't be compared with the base")
    compared = {case.case_id for case in evidence}
    tried = sum(len(retrial.failed) for retrial in retrials if retrial.case_id not in compared)
    return replace(
        step,
        cases=tuple(_by_its_error(case) if case.case_id in constant else case for case in step.cases),
        retrials=outcomes(retrials),
        extra_runs=step.extra_runs + tried,
    )


def _by_its_error(case: CaseDecision) -> CaseDecision:
    """A case that blocks by a constant error: it is no longer suspected, and no more runs are needed."""
    if case.metric != PASS or case.word != "suspicious":
        return case
    return replace(case, word="broken", undecided=False, would_decide=None)


def _compare(
    evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget, constant: frozenset[str]
) -> Runs | Decision:
    """Decides from the comparison; `constant` are cases that block by a constant error of the agent."""
    results = family_results(_families(evidence, rules, budget), rules)
    if missing := _base_runs_of_constant(evidence, rules, budget, constant):
        count = plural(sum(missing.values()), "run")
        return Runs(head={}, base=missing, why=f"{count} of the base branch to check whether its agent has this error")
    step = _step(evidence, results, budget, constant)
    if isinstance(step, Runs) or rules.confirm_on_base != "auto" or not budget.can_run_base:
        return step
    missing = base_today.runs_to_check(results)
    if missing and (budget.extra_runs is None or budget.extra_runs >= sum(missing.values())):
        count = plural(sum(missing.values()), "run")
        return Runs(head={}, base=missing, why=f"{count} of the base branch to check its stored runs")
    if missing or not base_today.differs(results):
        return step
    step = _step(evidence, family_results(_families(evidence, rules, budget, today_only=True), rules), budget, constant)
    return (
        step if isinstance(step, Runs) else replace(step, reasons=(*step.reasons, base_today.reason(rules.base_name)))
    )


def _base_runs_of_constant(
    evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget, constant: frozenset[str]
) -> dict[str, int]:
    """Base runs of today that distinguish an outage from an error of the pull request; a few cases represent all."""
    if not budget.can_run_base or rules.confirm_on_base == "never":
        return {}
    cases = [case for case in evidence if case.case_id in constant]
    missing = {
        case.case_id: base_today.CHECK_RUNS - len(case.metrics[PASS].base_confirm)
        for case in cases[: base_today.CHECKED_CASES]
    }
    missing = {case_id: count for case_id, count in missing.items() if count > 0}
    too_many = budget.extra_runs is not None and budget.extra_runs < sum(missing.values())
    return {} if too_many else missing


def _step(
    evidence: Sequence[CaseEvidence], results: Sequence[FamilyResult], budget: Budget, constant: frozenset[str]
) -> Runs | Decision:
    requests = _requested_runs(results, constant)
    runs = _afforded(requests, budget)
    if runs is None and not constant:
        runs = _second_look(results, budget)
    return runs or decide(evidence, results, Unpaid(case_ids=frozenset(requests), why=budget.no_more))


def _second_look(results: Sequence[FamilyResult], budget: Budget) -> Runs | None:
    """More runs of every case for the second interim analysis, if the first was borderline and nothing else is due."""
    if any(result.rejected and result.family.rule.blocking for result in results):
        return None
    head: dict[str, int] = {}
    base: dict[str, int] = {}
    for result in results:
        if result.family.rule.blocking and result.family.again_due:
            for case_id, (head_runs, base_runs) in result.family.missing().items():
                if head_runs:
                    head[case_id] = max(head_runs, head.get(case_id, 0))
                if base_runs:
                    base[case_id] = max(base_runs, base.get(case_id, 0))
    count = sum(head.values()) + sum(base.values())
    if not count or (budget.extra_runs is not None and budget.extra_runs < count):
        return None
    return Runs(head=head, base=base, why=f"{plural(count, 'run')} of the whole suite for the second interim analysis")


def _families(
    evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget, *, today_only: bool = False
) -> list[Family]:
    defaults = rules.metrics or {PASS: MetricRule()}
    families: dict[tuple[str, float | None, bool, str], Family] = {}
    for case in evidence:
        own = rules.cases.get(case.case_id, {})
        for metric, series in case.metrics.items():
            rule = own.get(metric) or defaults.get(metric)
            if rule is None:
                continue
            key = (metric, rule.alpha, rule.blocking, rule.direction)
            family = families.get(key)
            if family is None:
                family = Family(metric=metric, rule=rule, rules=rules, budget=budget, today_only=today_only)
                families[key] = family
            family.add(case.case_id, series, rule.max_drop)
    # Pass or fail first, then by name.
    return [families[key] for key in sorted(families, key=lambda key: (key[0] != PASS, key[0], key[1] or 0, *key[2:]))]


_Rank = tuple[bool, float]


def _requested_runs(results: Sequence[FamilyResult], constant: frozenset[str]) -> dict[str, tuple[_Rank, int, int]]:
    """By case id: its priority, and its next runs of head and base; none for a constant error, which blocks.

    Pass or fail has priority over scores, which have no measured likelihood ratio; then the higher ratio.
    """
    requests: dict[str, tuple[_Rank, int, int]] = {}
    for result in results:
        if not result.family.rule.blocking:
            continue
        for suspect in result.family.suspects:
            case_id = result.family.case_ids[suspect.index]
            if case_id in constant:
                continue
            if suspect.active and not ((result.rejected or constant) and _clear(result, suspect)):
                head, base = _round(suspect)
                previous = requests.get(case_id, ((False, 0.0), 0, 0))
                requests[case_id] = (
                    max(previous[0], (result.family.metric == PASS, suspect.likelihood_ratio)),
                    max(previous[1], head),
                    max(previous[2], base),
                )
    return requests


def _clear(results: FamilyResult, suspect: Suspect) -> bool:
    """Whether neither the verdict nor naming this case needs more of its runs."""
    if results.named or len(results.family.suspects) >= _MANY:
        return True
    return suspect.likelihood_ratio < (_WORTH_A_NAME if suspect.trial.made else _WORTH_A_LOOK)


def _round(suspect: Suspect) -> tuple[int, int]:
    trial = suspect.trial
    head = min(ROUND - trial.made % ROUND, trial.planned - trial.made)
    base = 0 if suspect.base_underpowered else min(ROUND, trial.base_planned - trial.base_made)
    return head, base


def _afforded(requests: dict[str, tuple[_Rank, int, int]], budget: Budget) -> Runs | None:
    remaining = budget.extra_runs
    head: dict[str, int] = {}
    base: dict[str, int] = {}
    by_name = sorted(requests.items())
    for case_id, (_, head_runs, base_runs) in sorted(by_name, key=lambda item: item[1][0], reverse=True):
        if remaining is not None:
            if remaining < head_runs + base_runs:
                continue
            remaining -= head_runs + base_runs
        if head_runs:
            head[case_id] = head_runs
        if base_runs:
            base[case_id] = base_runs
    if not head and not base:
        return None
    count = sum(head.values()) + sum(base.values())
    cases = len({*head, *base})
    return Runs(head=head, base=base, why=f"{plural(count, 'run')} to confirm {plural(cases, 'suspected regression')}")
