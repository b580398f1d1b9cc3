"""Screen and confirm: which runs to make next, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_eval.core.text import plural
from agent_eval.gate.regression import _base_today as base_today
from agent_eval.gate.regression._words import describe
from agent_eval.gate.regression.retrial import Retrial, outcomes, wanted_runs
from agent_eval.gate.stats import (
    PASS,
    ROUND,
    Budget,
    CaseEvidence,
    Decision,
    Family,
    Judged,
    MetricRule,
    Rules,
    Runs,
    Suspect,
    judge,
)

_WORTH_A_LOOK, _WORTH_A_NAME = 4.0, 50.0
"""How much likelier "worse" must be for a case to get first and further runs when the verdict is clear already."""
_MANY = 5
"""Where so many cases are suspicious a clear verdict needs no names: to find them costs most of a suite."""


def next_step(
    evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget, retrials: Sequence[Retrial] = ()
) -> Runs | Decision:
    """Says which runs to make next, or decides.

    It remembers nothing between calls: everything follows from the evidence, so the order in which runs or cases come,
    or a crash in between, changes nothing. Stop at any time by passing a budget of 0: what is decided then is valid.

    Args:
        evidence: All cases that were judged on the head.
        rules: What the user wants.
        budget: What may still be spent. `can_run_base` must be the same in all calls. A caller whose runs fail for good
            must not go on asking: it passes `extra_runs=0`.
        retrials: Failures that can't be compared with the base, and run again before they block.

    Returns:
        Runs to make before asking again, or the decision.
    """
    again = wanted_runs(retrials, budget.extra_runs)
    if budget.extra_runs is not None:
        budget = replace(budget, extra_runs=budget.extra_runs - sum(again.values()))
    step = _compare(evidence, rules, budget)
    if isinstance(step, Runs):
        head = {case_id: max(again.get(case_id, 0), step.head.get(case_id, 0)) for case_id in {**again, **step.head}}
        return replace(step, head=head)
    if again:
        count, cases = plural(sum(again.values()), "run"), plural(len(again), "failed case")
        return Runs(head=again, base={}, why=f"{count} of {cases} that can't be compared with the base")
    compared = {case.case_id for case in evidence}
    tried = sum(len(one.failed) for one in retrials if one.case_id not in compared)
    return replace(step, retrials=outcomes(retrials), extra_runs=step.extra_runs + tried)


def _compare(evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget) -> Runs | Decision:
    judged = judge(_families(evidence, rules, budget), rules)
    step = _step(evidence, judged, budget)
    if isinstance(step, Runs) or rules.confirm_on_base != "auto" or not budget.can_run_base:
        return step
    missing = base_today.runs_to_check(judged)
    if missing and (budget.extra_runs is None or budget.extra_runs >= sum(missing.values())):
        count = plural(sum(missing.values()), "run")
        return Runs(head={}, base=missing, why=f"{count} of the base to see whether it is today what it was")
    if missing or not base_today.differs(judged):
        return step
    step = _step(evidence, judge(_families(evidence, rules, budget, today_only=True), rules), budget)
    return step if isinstance(step, Runs) else replace(step, reasons=(*step.reasons, base_today.REASON))


def _step(evidence: Sequence[CaseEvidence], judged: Sequence[Judged], budget: Budget) -> Runs | Decision:
    wanted = _wanted(judged)
    runs = _afforded(wanted, budget) or _second_look(judged, budget)
    return runs or describe(evidence, judged, out_of_budget=frozenset(wanted))


def _second_look(judged: Sequence[Judged], budget: Budget) -> Runs | None:
    """More runs of every case, once nothing else is to be done, where the suite is on the brink."""
    if any(one.rejected and one.family.rule.blocking for one in judged):
        return None
    head: dict[str, int] = {}
    base: dict[str, int] = {}
    for one in judged:
        if one.family.rule.blocking and one.family.again_due:
            for case_id, (now, before) in one.family.missing().items():
                if now:
                    head[case_id] = max(now, head.get(case_id, 0))
                if before:
                    base[case_id] = max(before, base.get(case_id, 0))
    count = sum(head.values()) + sum(base.values())
    if not count or (budget.extra_runs is not None and budget.extra_runs < count):
        return None
    return Runs(head=head, base=base, why=f"{plural(count, 'run')} for a second look at the whole suite")


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
    # The cases' own verdict first, then by name.
    return [families[key] for key in sorted(families, key=lambda key: (key[0] != PASS, key[0], key[1] or 0, *key[2:]))]


_Rank = tuple[bool, float]


def _wanted(judged: Sequence[Judged]) -> dict[str, tuple[_Rank, int, int]]:
    """By case: how much it comes first, and how many runs of head and base it should get.

    Pass or fail comes before scores, whose promise is not measured; then what is the more promising.
    """
    wanted: dict[str, tuple[_Rank, int, int]] = {}
    for one in judged:
        if not one.family.rule.blocking:
            continue
        for suspect in one.family.suspects:
            if suspect.active and not (one.rejected and _clear(one, suspect)):
                head, base = _round(suspect)
                before = wanted.get(one.family.case_ids[suspect.index], ((False, 0.0), 0, 0))
                wanted[one.family.case_ids[suspect.index]] = (
                    max(before[0], (one.family.metric == PASS, suspect.promise)),
                    max(before[1], head),
                    max(before[2], base),
                )
    return wanted


def _clear(judged: Judged, suspect: Suspect) -> bool:
    """Whether the verdict needs no more runs of this case, not even to give it a name."""
    if judged.named or len(judged.family.suspects) >= _MANY:
        return True
    return suspect.promise < (_WORTH_A_NAME if suspect.trial.made else _WORTH_A_LOOK)


def _round(suspect: Suspect) -> tuple[int, int]:
    trial = suspect.trial
    head = min(ROUND - trial.made % ROUND, trial.planned - trial.made)
    base = 0 if suspect.thin else min(ROUND, trial.base_planned - trial.base_made)
    return head, base


def _afforded(wanted: dict[str, tuple[_Rank, int, int]], budget: Budget) -> Runs | None:
    left = budget.extra_runs
    head: dict[str, int] = {}
    base: dict[str, int] = {}
    by_name = sorted(wanted.items())
    for case_id, (_, now, before) in sorted(by_name, key=lambda item: item[1][0], reverse=True):
        if left is not None:
            if left < now + before:
                continue
            left -= now + before
        if now:
            head[case_id] = now
        if before:
            base[case_id] = before
    if not head and not base:
        return None
    count = sum(head.values()) + sum(base.values())
    cases = len({*head, *base})
    return Runs(head=head, base=base, why=f"{plural(count, 'run')} to confirm {plural(cases, 'suspicious case')}")
