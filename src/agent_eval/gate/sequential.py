"""Screen and confirm: which runs to make next, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.core.text import plural
from agent_eval.gate.decision import Budget, Decision, MetricRule, Rules, Runs
from agent_eval.gate.evidence import PASS, CaseEvidence
from agent_eval.gate.families import ROUND, Family
from agent_eval.gate.judgement import Judged, judge
from agent_eval.gate.suspect import Suspect
from agent_eval.gate.words import describe

_WORTH_A_LOOK, _WORTH_A_NAME = 4.0, 50.0
"""How much likelier "worse" must be for a case to get first and further runs when the verdict is clear already."""


def next_step(evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget) -> Runs | Decision:
    """Says which runs to make next, or decides.

    It remembers nothing between calls: everything follows from the evidence, so the order in which runs or cases come,
    or a crash in between, changes nothing. Stop at any time by passing a budget of 0: what is decided then is valid.

    Args:
        evidence: All cases that were judged on the head.
        rules: What the user wants.
        budget: What may still be spent. `can_run_base` must be the same in all calls. A caller whose runs fail for good
            must not go on asking: it passes `extra_runs=0`.

    Returns:
        Runs to make before asking again, or the decision.
    """
    families = _families(evidence, rules, budget)
    judged = judge(families, rules)
    wanted = _wanted(judged)
    runs = _afforded(wanted, budget) or _second_look(judged, budget)
    if runs is not None:
        return runs
    return describe(evidence, judged, out_of_budget=frozenset(wanted))


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


def _families(evidence: Sequence[CaseEvidence], rules: Rules, budget: Budget) -> list[Family]:
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
                family = families[key] = Family(metric=metric, rule=rule, rules=rules, budget=budget)
            family.add(case.case_id, series, rule.max_drop)
    # The cases' own verdict first, then by name.
    return [families[key] for key in sorted(families, key=lambda key: (key[0] != PASS, key[0], key[1] or 0, *key[2:]))]


def _wanted(judged: Sequence[Judged]) -> dict[str, tuple[float, int, int]]:
    """By case: how promising it is, and how many runs of head and base it should get."""
    wanted: dict[str, tuple[float, int, int]] = {}
    for one in judged:
        if not one.family.rule.blocking:
            continue
        for suspect in one.family.suspects:
            if suspect.active and not (one.rejected and _clear(one, suspect)):
                head, base = _round(suspect)
                before = wanted.get(one.family.case_ids[suspect.index], (0.0, 0, 0))
                wanted[one.family.case_ids[suspect.index]] = (
                    max(before[0], suspect.promise),
                    max(before[1], head),
                    max(before[2], base),
                )
    return wanted


def _clear(judged: Judged, suspect: Suspect) -> bool:
    """Whether the verdict needs no more runs of this case, not even to give it a name."""
    return bool(judged.named) or suspect.promise < (_WORTH_A_NAME if suspect.trial.made else _WORTH_A_LOOK)


def _round(suspect: Suspect) -> tuple[int, int]:
    trial = suspect.trial
    head = min(ROUND - trial.made % ROUND, trial.planned - trial.made)
    base = 0 if suspect.thin else min(ROUND, trial.base_planned - trial.base_made)
    return head, base


def _afforded(wanted: dict[str, tuple[float, int, int]], budget: Budget) -> Runs | None:
    left = budget.extra_runs
    head: dict[str, int] = {}
    base: dict[str, int] = {}
    for case_id, (_, now, before) in sorted(wanted.items(), key=lambda item: (-item[1][0], item[0])):
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
