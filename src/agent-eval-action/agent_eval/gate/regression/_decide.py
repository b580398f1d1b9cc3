"""Decides the outcome: a classification and one line of numbers for each case, reasons for the verdict. Pure.

The tests assume that a run of today is exchangeable with a run of last week. This assumption fails on a day on which a
tool or the provider is down: every case that depends on it looks like a regression. Before a result based on stored
runs blocks, its cases therefore run a few times on the base branch. If these runs are lower than the stored ones, only
runs of today are compared.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Unpack

from agent_eval.gate import stats
from agent_eval_results import (
    CaseDecisionReport,
    DecisionReasonReport,
    DecisionReport,
    Facts,
    NoMoreRuns,
    SuiteTestReport,
)
from agent_eval_results.data.origin import CaseWord

_MOST_NAMES = 5
"""Cases of a reason whose numbers it has."""
_MOST_MISSING = 2**30
Lacks = int | NoMoreRuns | None
OUTAGE = "provider-unavailable"
"""Code of the reason that nothing is decided, if the fresh runs met an outage."""


@dataclass(frozen=True, kw_only=True)
class Unpaid:
    """Cases that need more runs and can't have them."""

    case_ids: frozenset[str]
    why: NoMoreRuns

    @property
    def code(self) -> str:
        """Of the reason that it is undecided."""
        return {"outage": OUTAGE, "recorded": "recorded-answers"}.get(self.why, "budget")


def decide(
    evidence: Sequence[stats.CaseEvidence], families: Sequence[stats.Family], unpaid: Unpaid, alpha: float
) -> DecisionReport:
    """Decides the outcome and classifies every case.

    Args:
        evidence: All cases.
        families: The metrics under their rules.
        unpaid: The cases that need more runs than the budget allows.
        alpha: The family-wise error rate.
    """
    cases: dict[tuple[str, str], CaseDecisionReport] = {}
    reasons: list[DecisionReasonReport] = []
    for family in families:
        decisions = _cases(family, unpaid)
        reasons += _reasons(family, decisions, unpaid)
        cases.update(((case.case_id, case.metric), case) for case in decisions)
    # The first reason is what a headline says: what blocks, and of that the most specific one.
    reasons.sort(key=lambda reason: (not reason.blocking, _WEIGHT[reason.code]))
    outcome: stats.Outcome = "passed"
    # What only lacks runs can't fail the gate: those runs may pass.
    if any(reason.blocking and reason.code not in _UNDECIDED for reason in reasons):
        outcome = "failed"
    elif any(reason.blocking for reason in reasons):
        outcome = "inconclusive"
    keys = [(case.case_id, metric) for case in evidence for metric in case.metrics]
    return DecisionReport(
        outcome=outcome,
        reasons=reasons,
        cases=[cases[key] for key in keys if key in cases],
        suites=[_suite(family) for family in families],
        alpha=alpha,
    )


_WEIGHT = {
    "case-worse": 0,
    "broken-case": 1,
    "cases-worse-together": 2,
    "suite-worse": 3,
    "thin-base": 4,
    "budget": 5,
    "recorded-answers": 5,
    "provider-unavailable": 5,
}
_UNDECIDED = {"thin-base", "budget", "recorded-answers", OUTAGE}


def _cases(family: stats.Family, unpaid: Unpaid) -> list[CaseDecisionReport]:
    suspects = {suspect.index: suspect for suspect in family.suspects}
    better = _better(family, suspects)
    # A case is named only within a metric that got worse as a whole: the error rate is the metric's.
    named = set(family.named) if family.rejected else set()
    decisions = []
    for index, (case_id, series) in enumerate(zip(family.case_ids, family.series, strict=True)):
        suspect = suspects.get(index)
        # The screening selected the case, so its later runs say more about it, where there are any.
        head, base = series.head_confirm or series.head_screen, family.base_of(series) or series.base
        threshold = _by_threshold(suspect, named)
        lacks = _lacks(family, suspect, unpaid) if index not in named else None
        fails_on_base = suspect is not None and family.fails_on_base(series)
        word: CaseWord
        if threshold or index in named:
            word = "broken" if family.binary and not any(head) else "worse"
        elif suspect is not None:
            on_base = suspect.always_fails_on_base or fails_on_base
            never_failed = all(base) and not all(head)
            word = "unchanged" if on_base else _suspect_word(family, suspect, lacks, never_failed=never_failed)
        elif family.binary and _is_fixed(head, base, family.alpha):
            word = "fixed"
        elif index in better:
            word = "better"
        elif family.binary and any(base) and not all(base) and head and not all(head):
            word = "flaky as before"
        else:
            word = "unchanged"
        decisions.append(
            CaseDecisionReport(
                case_id=case_id,
                metric=family.metric,
                word=word,
                blocking=family.rule.blocking and (threshold or index in named),
                head_mean=_signed_mean(family, head),
                head_runs=len(head),
                base_mean=_signed_mean(family, base),
                base_runs=len(base),
                # Said also of a case that was not excluded for it, as its base runs were few.
                broken_on_base=fails_on_base
                or (suspect is not None and lacks is None and family.newest_failed(series)),
                again=word not in _SHOWN and bool(series.head_confirm),
                p_value=suspect.p_value if suspect is not None and index in family.case_p else better.get(index),
                p_adjusted=family.case_p.get(index),
                lacks=lacks,
            )
        )
    return decisions


def _by_threshold(suspect: stats.Suspect | None, named: Collection[int]) -> bool:
    """Whether the head's runs alone decide about a case, since the base has too few runs for a comparison."""
    return suspect is not None and suspect.always_fails and suspect.index not in named


def _is_fixed(head: Sequence[float], base: Sequence[float], alpha: float) -> bool:
    """Whether no run of the base passed, every run of the head passes, and the difference is significant.

    One passed run after one failed run is typical of a flaky case: without the test, nine of ten pull requests without
    any effect had a "fixed" case if one run of the base is stored.
    """
    return (
        stats.is_red(base) and bool(head) and all(head) and stats.exact_p(len(base), len(base), 0, len(head)) <= alpha
    )


def _suspect_word(family: stats.Family, suspect: stats.Suspect, lacks: Lacks, *, never_failed: bool) -> CaseWord:
    """The classification of a case that looked worse without a significant difference.

    Args:
        family: Its family.
        suspect: The case.
        lacks: The runs that are missing for a decision.
        never_failed: Whether the case never failed on the base and failed a confirmation run. This may be chance, but
            it is not "flaky as before".
    """
    if lacks is not None or never_failed or (suspect.worth >= stats.WORTH_MORE and not suspect.base_underpowered):
        return "suspicious"
    return "flaky as before" if family.binary else "unchanged"


def _lacks(family: stats.Family, suspect: stats.Suspect | None, unpaid: Unpaid) -> Lacks:
    """What is missing, for a case that fails most runs without a decision; otherwise None."""
    if suspect is None or suspect.always_fails_on_base or not suspect.is_binary:
        return None
    if suspect.active and family.case_ids[suspect.index] in unpaid.case_ids:
        return unpaid.why
    return _missing_base_runs(family, suspect) if suspect.undecided else None


def _missing_base_runs(family: stats.Family, suspect: stats.Suspect) -> int:
    """How many more base runs make the case significantly worse if all of them pass and the head's rate stays."""
    # The head's rate is taken as it is now: only a longer history could change the result.
    failures = round(suspect.planned * suspect.failures / suspect.made)

    def decide_it(more: int) -> bool:
        worth = stats.case_e(failures, suspect.planned, 0, suspect.base_planned + more)
        return stats.p_of(stats.joint_e([worth])) <= family.level

    # Each run is worth more than nothing: no level is out of reach, but some are far away.
    enough = 1
    while enough < _MOST_MISSING and not decide_it(enough):
        enough *= 2
    return bisect_left(range(enough), True, 1, key=decide_it)


def _better(family: stats.Family, suspects: dict[int, stats.Suspect]) -> dict[int, float]:
    """P-values of the cases that are significantly better, by index; empty for scores."""
    if not family.binary:
        return {}
    p_values: dict[int, float] = {}
    for index, series in enumerate(family.series):
        base = family.base_of(series)
        # What never failed there can't become better, and what is suspected has not.
        if index not in suspects and not all(base) and series.head_screen:
            head = (*series.head_screen, *series.head_confirm)
            p_values[index] = stats.exact_p(stats.failed(base), len(base), stats.failed(head), len(head))
    adjusted = stats.holm(list(p_values.values()))
    return {
        index: value
        for (index, value), p_value in zip(p_values.items(), adjusted, strict=True)
        if p_value <= family.alpha
    }


_SHOWN: tuple[CaseWord, ...] = ("broken", "worse", "better", "fixed")


def _signed_mean(family: stats.Family, values: Sequence[float]) -> float | None:
    """The mean with its original sign. Values are negated where lower is better."""
    if not values:
        return None
    mean = fsum(values) / len(values)
    return -mean if family.rule.direction == "lower" else mean


def _reasons(family: stats.Family, cases: Sequence[CaseDecisionReport], unpaid: Unpaid) -> list[DecisionReasonReport]:
    blocking = family.rule.blocking
    reasons: list[DecisionReasonReport] = []

    def add(code: str, decisions: Sequence[CaseDecisionReport] = (), **facts: Unpack[Facts]) -> None:
        facts["metric"], facts["count"] = family.metric, len(decisions)
        facts["numbers"] = [case.numbers for case in decisions[:_MOST_NAMES]]
        reason = DecisionReasonReport.of(code, **facts)
        ids = [case.case_id for case in decisions]
        reasons.append(reason.model_copy(update={"metric": family.metric, "case_ids": ids, "blocking": blocking}))

    named = family.named if family.rejected else ()
    if named:
        add("case-worse", [cases[index] for index in named])
    thin = sorted(suspect.index for suspect in family.suspects if _by_threshold(suspect, named))
    if thin:
        add("broken-case", [cases[index] for index in thin])
    # The metric got worse, but no case alone did: several of them together, or a little of all.
    if family.rejected and not named:
        together = [cases[index] for index in got_worse(family) if family.drop_of(index) > family.drops[index]]
        if together and family.seen_twice and family.confirm_p is not None and family.confirm_p <= family.level:
            add("cases-worse-together", together)
        suite = _suite(family)
        if family.suite_p is not None and family.suite_p <= family.level and _beyond(family, suite):
            series = zip(cases, family.series, strict=True)
            add("suite-worse", [case for case, own in series if _failed_again(family, case, own)], **_moved(suite))
    elif blocking and not family.rejected and family.columns == 0 and _looks_worse(family):
        facts = _moved(_suite(family))
        facts["phrase"], facts["remedy"] = "suite-undecided", unpaid.why
        add(unpaid.code, **facts)
    history = [(case, case.lacks) for case in cases if isinstance(case.lacks, int)]
    if history:
        add("thin-base", [case for case, _ in history], base_runs=max(runs for _, runs in history))
    if short := [case for case in cases if case.lacks is not None and not isinstance(case.lacks, int)]:
        add(unpaid.code, short, phrase="suspects-undecided", remedy=unpaid.why)
    return reasons


def _moved(suite: SuiteTestReport) -> Facts:
    return {"drop": suite.drop or 0.0, "rises": suite.direction == "lower", "total": suite.cases}


def _failed_again(family: stats.Family, case: CaseDecisionReport, series: stats.Series) -> bool:
    """Whether a suspected case failed an extra run; of scores, whether it had one."""
    again = not all(series.head_confirm) if family.binary else bool(series.head_confirm)
    return case.word == "suspicious" and again


def _looks_worse(family: stats.Family) -> bool:
    """Whether the screening runs alone would be enough, had the fresh runs of every case been possible."""
    p_value = family.screening_p if family.trigger is not None else None
    return p_value is not None and p_value <= stats.BOTH_LEVEL * family.level and _beyond(family, _suite(family))


def _beyond(family: stats.Family, suite: SuiteTestReport) -> bool:
    drops = family.drops
    return suite.drop is not None and suite.drop > fsum(drops) / len(drops)


def _suite(family: stats.Family) -> SuiteTestReport:
    looks = zip(family.series, family.fresh_columns, strict=True)
    pairs = [stats.look(series, columns, fresh_only=family.fresh_only) for series, columns in looks]
    pairs = [(head, base) for head, base in pairs if head and base]
    drops = [fsum(base) / len(base) - fsum(head) / len(head) for head, base in pairs]
    return SuiteTestReport(
        metric=family.metric,
        cases=len(pairs),
        drop=fsum(drops) / len(drops) if drops else None,
        p_value=family.screening_p,
        p_again=family.fresh_p,
        p_confirm=family.confirm_p,
        p_adjusted=family.adjusted,
        minimum_detectable_drop=_detectable(family, pairs),
        blocking=family.rule.blocking,
        direction=family.rule.direction,
    )


def _detectable(family: stats.Family, pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    level = family.level * stats.BOTH_LEVEL
    if not pairs:
        return None
    if family.binary:
        groups = []
        for head, base in pairs:
            # Never 0 or 1: runs that all agree would seem to have no variance, and nothing to be missed.
            rate = (stats.failed(head) + stats.failed(base) + 0.3) / (len(head) + len(base) + 0.6)
            groups.append((rate, len(head), len(base)))
        return stats.detectable_drop(groups, level)
    variances = []
    for head, base in pairs:
        pool = (*head, *base)
        mean = fsum(pool) / len(pool)
        spread = fsum((value - mean) ** 2 for value in pool) / (len(pool) - 1)
        variances.append(spread * (1 / len(head) + 1 / len(base)))
    return stats.detectable_shift(sqrt(fsum(variances)) / len(pairs), level)


DIFFERS = 0.02
"""Significance level of the check. A false alarm costs runs and some power, never a wrong verdict."""
CHECKED_CASES = 8
"""Most cases of a check of a constant error."""

_OF_ALL = 2 * stats.FULL_BASE
"""About so many base runs check all cases that got worse."""


def runs_to_check(families: Sequence[stats.Family], each: int, *, again: bool) -> dict[str, int]:
    """Base runs that the check still needs, by case id.

    Args:
        families: All metrics.
        each: So many of each case that got worse.
        again: Whether there were earlier attempts of the same commit.
    """
    few = min(each, stats.CHECK_RUNS * (2 if again else 1))
    missing: dict[str, int] = {}
    for family in _findings(families):
        suite = family.suite_p is not None and family.suite_p <= family.level
        worse = family.named or (() if suite else got_worse(family))
        # What fails every time here would hardly pass twice on a base that has the fault as well. If it fails there,
        # too, two runs say too little beside stored ones of which few failed.
        always = {suspect.index for suspect in family.suspects if suspect.failures == suspect.made and not again}
        # Many cases show together what one shows by many runs; in an outage there are a dozen.
        own = max(few, min(each, _OF_ALL // max(len(worse), 1)))
        for index in worse or range(len(family.series)):
            made = family.series[index].base_confirm
            due = few if not worse or (index in always and all(made)) else own
            if worse and stats.is_red(made):
                due = min(own, stats.RED_TODAY)
            if count := missing_runs(family, index, due):
                missing[family.case_ids[index]] = max(count, missing.get(family.case_ids[index], 0))
    return missing


def missing_runs(family: stats.Family, index: int, each: int = stats.CHECK_RUNS) -> int:
    """Base runs of today that the check of one case still needs."""
    series = family.series[index]
    return max(each - len(series.base_confirm), 0) if series.base else 0


def got_worse(family: stats.Family) -> list[int]:
    """The suspected regressions that a metric got worse by: the indices of those whose fresh runs say so."""
    return [suspect.index for suspect in family.suspects if not family.binary or suspect.e_value() > 1]


def differs(families: Sequence[stats.Family]) -> bool:
    """Whether the base runs of today are lower than the stored ones in what got worse."""
    for family in _findings(families):
        # Every case with base runs, so that naming another case does not change the result; but for those that broke on
        # the base: they are compared with what it is now, and say nothing about the others' day.
        fresh = [() if family.fails_on_base(case) else case.base_confirm[: stats.FULL_BASE] for case in family.series]
        stored = [series.base for series in family.series]
        p_value = family.suite_test(list(zip(fresh, stored, strict=True)))
        if p_value is not None and p_value <= DIFFERS:
            return True
    return False


def _findings(families: Sequence[stats.Family]) -> list[stats.Family]:
    return [family for family in families if family.rejected and family.rule.blocking]
