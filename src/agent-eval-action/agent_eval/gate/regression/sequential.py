"""The sequential test: which runs to make next, and when to stop. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from zlib import crc32

from agent_eval.gate import stats
from agent_eval.gate.regression._decide import CHECKED_CASES, Unpaid, decide, differs, missing_runs, runs_to_check
from agent_eval.gate.regression.retrial import Retrial, next_runs
from agent_eval_results import PASS, CaseDecisionReport, DecisionReasonReport, DecisionReport, Runs

_BATCHES = (2, 4, 7, 11)
"""Fresh runs of a suspected regression after each round, up to `Rules.confirm_runs`."""
_BASE_BATCH = 4
"""Base runs beside each of these rounds, as far as the base has too few."""
_SUITE_TRIGGER = 3.0
"""Every case runs again if the p-value of the screening runs is at most this multiple of the error rate."""
_ANOTHER_COLUMN = 0.3
"""The p-value of the first fresh column up to which every case runs once more."""
_BASE_DIFFERS = "base-differs-today"
"""Code of the reason that the base branch fails more often today than in its stored runs."""


def next_step(
    evidence: Sequence[stats.CaseEvidence], rules: stats.Rules, budget: stats.Budget, retrials: Sequence[Retrial] = ()
) -> Runs | DecisionReport:
    """Returns the runs to make next, or the decision.

    The function is stateless: the result depends only on the evidence, not on the order of cases, nor on a crash
    between calls. A caller may stop at any time by passing a budget of 0; that decision is valid.

    Args:
        evidence: All evaluated cases of the head.
        rules: The user's rules.
        budget: The remaining budget. `can_run_base` must be the same in all calls. A caller whose runs fail permanently
            passes `extra_runs=0`.
        retrials: Failures that can't be compared with the base branch and run again before they block.

    Returns:
        Runs to make before the next call, or the decision on all cases.
    """
    # Paid for first: a failure that nothing can be compared with blocks unless it passes now.
    again = next_runs(retrials, budget.extra_runs)
    if budget.extra_runs is not None:
        budget = replace(budget, extra_runs=budget.extra_runs - sum(again.values()))
    constant = frozenset(retrial.case_id for retrial in retrials if retrial.constant_error)
    # What an earlier attempt has found only adds to what this attempt finds by itself.
    step = _compare([case.continued for case in evidence], rules, budget, constant)
    if any(case.earlier for case in evidence) and not isinstance(step, Runs) and step.outcome == "passed":
        step = _compare(evidence, rules, budget, constant)
    if isinstance(step, Runs):
        head = {case_id: max(again.get(case_id, 0), step.head.get(case_id, 0)) for case_id in {**again, **step.head}}
        return replace(step, head=head)
    if again:
        return Runs(head=again, base={}, why="retrials")
    compared = {case.case_id for case in evidence}
    tried = sum(len(retrial.failed) for retrial in retrials if retrial.case_id not in compared)
    # The statistics did not see the retrials, by which these cases block.
    cases = [_by_its_error(case) if case.case_id in constant else case for case in step.cases]
    made = (
        max((len(series.head_confirm) + len(series.base_confirm) for series in case.metrics.values()), default=0)
        for case in evidence
    )
    return step.model_copy(update={"cases": cases, "extra_runs": sum(made) + tried})


def _by_its_error(case: CaseDecisionReport) -> CaseDecisionReport:
    """A case that blocks by a constant error: no test says so, it is no longer suspected, and needs no more runs."""
    if case.metric != PASS or case.word != "suspicious":
        return case
    return case.model_copy(update={"word": "broken", "lacks": None, "p_value": None, "p_adjusted": None})


def _compare(
    evidence: Sequence[stats.CaseEvidence], rules: stats.Rules, budget: stats.Budget, constant: frozenset[str]
) -> Runs | DecisionReport:
    """Decides from the comparison; `constant` are cases that block by a constant error of the agent."""
    families = _families(evidence, rules, budget)
    if missing := _base_runs_of_constant(evidence, rules, budget, constant):
        return Runs(head={}, base=missing, why="base-error")
    step = _step(evidence, families, budget, constant, rules.alpha)
    if isinstance(step, Runs) or rules.confirm_on_base != "auto" or not budget.can_run_base:
        return step
    # A regression by stored runs: before it blocks, the base has to show that today is no bad day.
    # A case that lost half of its passes on the base passes two runs there in every fourth pull request, and this comes
    # due only when something is about to block: ten cost little. What differs from the stored runs for a while differs
    # in each attempt, and all of them count: from the second one on, two are too few for anything.
    again = any(case.earlier for case in evidence)
    for each in (stats.FULL_BASE, stats.CHECK_RUNS):
        missing = runs_to_check(families, each, again=again)
        if missing and (budget.extra_runs is None or budget.extra_runs >= sum(missing.values())):
            return Runs(head={}, base=missing, why="base-stored")
    # Without the runs for that check the stored ones decide, as they would with `never`.
    if missing or not differs(families):
        return step
    families = _families(evidence, rules, budget, today_only=True)
    step = _step(evidence, families, budget, constant, rules.alpha)
    if not isinstance(step, Runs):
        step.reasons.append(DecisionReasonReport(code=_BASE_DIFFERS, blocking=False))
    return step


def base_differs(decision: DecisionReport) -> bool:
    """Whether the base branch fails more often today than in its stored runs."""
    broken = any(case.broken_on_base for case in decision.cases)
    return broken or any(reason.code == _BASE_DIFFERS for reason in decision.reasons)


def _base_runs_of_constant(
    evidence: Sequence[stats.CaseEvidence], rules: stats.Rules, budget: stats.Budget, constant: frozenset[str]
) -> dict[str, int]:
    """Base runs of today that distinguish an outage from an error of the pull request; a few cases represent all."""
    if not budget.can_run_base or rules.confirm_on_base == "never":
        return {}
    cases = [case for case in evidence if case.case_id in constant]
    missing = {case.case_id: stats.CHECK_RUNS - len(case.metrics[PASS].base_confirm) for case in cases[:CHECKED_CASES]}
    missing = {case_id: count for case_id, count in missing.items() if count > 0}
    too_many = budget.extra_runs is not None and budget.extra_runs < sum(missing.values())
    return {} if too_many else missing


def _step(
    evidence: Sequence[stats.CaseEvidence],
    families: Sequence[stats.Family],
    budget: stats.Budget,
    constant: frozenset[str],
    alpha: float,
) -> Runs | DecisionReport:
    # An error that is always the same has been seen again by its retrials.
    requests = {} if constant else _runs_to_see_it_again(families, budget)
    is_decided = not requests and (bool(constant) or any(map(_blocks, families)))
    if not requests and not is_decided:
        if runs := _runs_of_the_suite(families, budget):
            return runs
        requests = _runs_of_suspects(families)
    why = "decided" if is_decided else budget.no_more
    unpaid = Unpaid(case_ids=frozenset(requests), why=why)
    return _afforded(requests, budget) or decide(evidence, families, unpaid, alpha)


def _blocks(family: stats.Family) -> bool:
    """Whether the verdict is clear: this metric got worse, or a case with a short history always fails."""
    return family.rule.blocking and (family.rejected or any(suspect.always_fails for suspect in family.suspects))


_Rank = tuple[bool, float]
_Requests = dict[str, tuple[_Rank, int, int]]
"""By case id: its priority, and its next runs of head and base."""


def _runs_to_see_it_again(families: Sequence[stats.Family], budget: stats.Budget) -> _Requests:
    """One run of each case that the bets are won by, if all its fresh runs were made at one moment.

    The base runs beside it, so that a bad moment shows on both sides.
    """
    requests: _Requests = {}
    for family in families:
        won = family.binary and family.confirm_p is not None and family.confirm_p <= family.level
        for suspect in family.suspects if won and family.rule.blocking else ():
            if suspect.e_value() > 1 and len(set(suspect.rounds)) == 1 and suspect.made < suspect.planned:
                beside = budget.can_run_base and family.rules.confirm_on_base == "auto" and not family.today_only
                base = missing_runs(family, suspect.index) if beside else 0
                requests[family.case_ids[suspect.index]] = (True, suspect.worth), 1, base
    return requests


def _runs_of_the_suite(families: Sequence[stats.Family], budget: stats.Budget) -> Runs | None:
    """A fresh run of half of the cases, if the suite as a whole looks worse.

    Two halves, since a cause that many cases share is often gone a moment later.
    """
    missing: dict[str, tuple[int, int]] = {}
    for family in families:
        columns = _columns_due(family)
        for case_id, (head, base) in family.missing(columns).items() if columns else ():
            before = missing.get(case_id, (0, 0))
            missing[case_id] = max(head, before[0]), max(base, before[1])
    count = sum(head + base for head, base in missing.values())
    if not count or (budget.extra_runs is not None and budget.extra_runs < count):
        return None
    # By a hash of the name: the halves must be the same in each call, whatever the order of cases.
    half = {case_id: runs for case_id, runs in missing.items() if crc32(case_id.encode()) % 2} or missing
    return Runs(
        head={case_id: head for case_id, (head, _) in half.items() if head},
        base={case_id: base for case_id, (_, base) in half.items() if base},
        why="suite",
    )


def _columns_due(family: stats.Family) -> int:
    """How many fresh columns a metric needs next; 0 if none is missing."""
    if not family.rule.blocking or family.trigger is None or family.trigger > _SUITE_TRIGGER * family.level:
        return 0
    if any(suspect.active and suspect.made < min(_BATCHES[0], suspect.planned) for suspect in family.suspects):
        return 0  # Their own runs come first: they count here, too.
    if family.fresh_p is None:
        return 1
    looks_worse = family.rules.careful or family.fresh_p <= _ANOTHER_COLUMN
    return family.most_columns if looks_worse and family.columns < family.most_columns else 0


def _runs_of_suspects(families: Sequence[stats.Family]) -> _Requests:
    """The next runs of each suspected regression.

    Pass or fail has priority over scores, which have no measured payoff; then the higher payoff.
    """
    requests: _Requests = {}
    for family in families:
        for suspect in family.suspects if family.rule.blocking else ():
            unseen = family.unseen_today(suspect.index)
            if suspect.active or unseen:
                case_id = family.case_ids[suspect.index]
                head, base = (0, unseen) if unseen else _batch(suspect, today_only=family.fresh_only)
                previous = requests.get(case_id, ((False, 0.0), 0, 0))
                requests[case_id] = (
                    max(previous[0], (family.metric == PASS, suspect.worth)),
                    max(previous[1], head),
                    max(previous[2], base),
                )
    return requests


def _batch(suspect: stats.Suspect, *, today_only: bool) -> tuple[int, int]:
    """The next runs of head and base."""
    missing_base = 0 if suspect.base_underpowered else max(suspect.base_planned - suspect.base_made, 0)
    if not suspect.is_binary:
        head = min(stats.ROUND - suspect.made % stats.ROUND, suspect.planned - suspect.made)
        return head, min(stats.ROUND, missing_base)
    target = next((runs for runs in _BATCHES if runs > suspect.made), suspect.planned)
    # Most suspected cases pass their first fresh runs: with stored runs, the base is not run for them.
    base = min(missing_base, _BASE_BATCH) if suspect.made or today_only else 0
    return min(target, suspect.planned) - suspect.made, base


def _families(
    evidence: Sequence[stats.CaseEvidence], rules: stats.Rules, budget: stats.Budget, *, today_only: bool = False
) -> list[stats.Family]:
    defaults = rules.metrics or {PASS: stats.MetricRule()}
    families: dict[tuple[str, float | None, bool, str], stats.Family] = {}
    for case in evidence:
        own = rules.cases.get(case.case_id, {})
        for metric, series in case.metrics.items():
            rule = own.get(metric) or defaults.get(metric)
            if rule is None:
                continue
            # Cases under different rules can't be one test; each test has its share of the error rate.
            key = (metric, rule.alpha, rule.blocking, rule.direction)
            family = stats.Family(metric=metric, rule=rule, rules=rules, budget=budget, today_only=today_only)
            families.setdefault(key, family).add(case.case_id, series, rule.max_drop)
    # Pass or fail first, then by name.
    order = sorted(families, key=lambda key: (key[0] != PASS, key[0], key[1] or 0, *key[2:]))
    for family in families.values():
        family.peers = [other.p_value for other in families.values() if other.pool == family.pool]
    return [families[key] for key in order]


def _afforded(requests: _Requests, budget: stats.Budget) -> Runs | None:
    remaining = budget.extra_runs
    head: dict[str, int] = {}
    base: dict[str, int] = {}
    by_name = sorted(requests.items())
    for case_id, (_, head_runs, base_runs) in sorted(by_name, key=lambda item: item[1][0], reverse=True):
        if remaining is not None:
            # A case that needs fewer runs may still fit.
            if remaining < head_runs + base_runs:
                continue
            remaining -= head_runs + base_runs
        if head_runs:
            head[case_id] = head_runs
        if base_runs:
            base[case_id] = base_runs
    if not head and not base:
        return None
    return Runs(head=head, base=base, why="suspects")
