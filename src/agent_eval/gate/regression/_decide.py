"""Decides the outcome: a classification and one line of numbers for each case, reasons for the verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, sqrt

from agent_eval.core.text import listed, plural, short_name
from agent_eval.gate.regression import _base_today as base_today
from agent_eval.gate.stats import (
    BOTH_LEVEL,
    PASS,
    WORTH_MORE,
    CaseDecision,
    CaseEvidence,
    Decision,
    Family,
    FamilyResult,
    NoMoreRuns,
    Outcome,
    Suspect,
    both_looks,
    case_e,
    detectable_drop,
    detectable_shift,
    drop_of,
    exact_p,
    failed,
    holm,
    is_red,
    joint_e,
    mean_interval,
    p_of,
)
from agent_eval.results import DecisionReasonReport, SuiteTestReport
from agent_eval.results.origin import CaseWord

_MOST_NAMES = 5
OUTAGE = "provider-unavailable"
"""Code of the reason that nothing is decided, if the fresh runs met an outage."""
_REMEDIES: Mapping[NoMoreRuns, str] = {
    "limit": "More runs may decide it, but no more could be made: raise `max-extra-runs` or `run-timeout`, or start "
    "the job again",
    "outage": "Its fresh runs have no result, since a service that they need failed: start the job again",
    "recorded": "A recorded answer can't be run again: record the answers again, or use `gate: thresholds`",
    "thresholds": "Nothing is run again, since the thresholds decide",
}


@dataclass(frozen=True, kw_only=True)
class Unpaid:
    """Cases that need more runs and can't have them."""

    case_ids: frozenset[str]
    why: NoMoreRuns

    @property
    def remedy(self) -> str:
        """What can be done instead."""
        return _REMEDIES[self.why]

    @property
    def code(self) -> str:
        """Of the reason that it is undecided."""
        return {"outage": OUTAGE, "recorded": "recorded-answers"}.get(self.why, "budget")


def decide(evidence: Sequence[CaseEvidence], results: Sequence[FamilyResult], unpaid: Unpaid) -> Decision:
    """Decides the outcome and classifies every case.

    Args:
        evidence: All cases.
        results: The results of all families.
        unpaid: The cases that need more runs than the budget allows.
    """
    cases: dict[tuple[str, str], CaseDecision] = {}
    reasons: list[DecisionReasonReport] = []
    for result in results:
        decisions = _cases(result, unpaid)
        reasons += _reasons(result, decisions, unpaid)
        cases.update(((case.case_id, case.metric), case) for case in decisions)
    reasons.sort(key=lambda reason: (not reason.blocking, _WEIGHT[reason.code]))
    outcome: Outcome = "passed"
    if any(reason.blocking and reason.code not in _UNDECIDED for reason in reasons):
        outcome = "failed"
    elif any(reason.blocking for reason in reasons):
        outcome = "inconclusive"
    return Decision(
        outcome=outcome,
        reasons=tuple(reasons),
        cases=tuple(
            cases[case.case_id, metric]
            for case in evidence
            for metric in case.metrics
            if (case.case_id, metric) in cases
        ),
        suites=tuple(_suite(result) for result in results),
        extra_runs=sum(
            max((len(series.head_confirm) + len(series.base_confirm) for series in case.metrics.values()), default=0)
            for case in evidence
        ),
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


def _cases(result: FamilyResult, unpaid: Unpaid) -> list[CaseDecision]:
    family = result.family
    suspects = {suspect.index: suspect for suspect in family.suspects}
    better = _better(result, suspects)
    named = set(result.named) if result.rejected else set()
    decisions = []
    for index, (case_id, series) in enumerate(zip(family.case_ids, family.series, strict=True)):
        suspect = suspects.get(index)
        head, base = series.head_confirm or series.head_screen, family.base_of(series) or series.base
        threshold = suspect is not None and suspect.always_fails and index not in named
        undecided = _undecided(family, suspect, unpaid) if index not in named else None
        word: CaseWord
        if threshold or index in named:
            word = "broken" if family.binary and not any(head) else "worse"
        elif suspect is not None:
            word = _suspect_word(family, suspect, undecided, never_failed=all(base) and not all(head))
        elif family.binary and _is_fixed(head, base, result.alpha):
            word = "fixed"
        elif index in better:
            word = "better"
        elif family.binary and any(base) and not all(base) and head and not all(head):
            word = "flaky as before"
        else:
            word = "unchanged"
        decisions.append(
            CaseDecision(
                case_id=case_id,
                metric=family.metric,
                word=word,
                blocking=family.rule.blocking and (threshold or index in named),
                evidence=_evidence(family, head, base, again=word not in _SHOWN and bool(series.head_confirm)),
                head_mean=_told_mean(family, head),
                base_mean=_told_mean(family, base),
                p_value=suspect.p_value if suspect is not None and index in result.case_p else better.get(index),
                p_adjusted=result.case_p.get(index),
                by="threshold" if threshold else "comparison",
                undecided=undecided is not None,
                would_decide=undecided,
                failed_again=not all(series.head_confirm) if family.binary else bool(series.head_confirm),
            )
        )
    return decisions


def _is_fixed(head: Sequence[float], base: Sequence[float], alpha: float) -> bool:
    """Whether no run of the base passed, every run of the head passes, and the difference is significant.

    One passed run after one failed run is typical of a flaky case: without the test, nine of ten pull requests without
    any effect had a "fixed" case if one run of the base is stored.
    """
    return is_red(base) and bool(head) and all(head) and exact_p(len(base), len(base), 0, len(head)) <= alpha


def _suspect_word(family: Family, suspect: Suspect, undecided: str | None, *, never_failed: bool) -> CaseWord:
    """The classification of a case that looked worse without a significant difference.

    Args:
        family: Its family.
        suspect: The case.
        undecided: Which runs would decide, if any are missing.
        never_failed: Whether the case never failed on the base and failed a confirmation run. This may be chance, but
            it is not "flaky as before".
    """
    if suspect.always_fails_on_base:
        return "unchanged"
    if undecided is not None or never_failed or (suspect.worth >= WORTH_MORE and not suspect.base_underpowered):
        return "suspicious"
    return "flaky as before" if family.binary else "unchanged"


def _undecided(family: Family, suspect: Suspect | None, unpaid: Unpaid) -> str | None:
    """Which runs would decide, for a case that fails most runs without a decision; otherwise None."""
    if suspect is None or suspect.always_fails_on_base or not suspect.is_binary:
        return None
    if suspect.active and family.case_ids[suspect.index] in unpaid.case_ids:
        return unpaid.remedy
    return _would_decide(family, _missing_base_runs(family, suspect)) if suspect.undecided else None


def _missing_base_runs(family: Family, suspect: Suspect) -> int:
    """How many more base runs make the case significantly worse if all of them pass and the head's rate stays."""
    failures = round(suspect.planned * suspect.failures / suspect.made)
    more = range(suspect.base_planned + 1, 1000)
    enough = (runs for runs in more if p_of(joint_e([case_e(failures, suspect.planned, 0, runs)])) <= family.level)
    return next(enough) - suspect.base_planned


def _would_decide(family: Family, base_runs: int) -> str:
    passes = "it passes" if base_runs == 1 else "all of them pass"
    return f"{plural(base_runs, 'more run')} of {family.rules.base_name} would decide if {passes}"


def _better(result: FamilyResult, suspects: dict[int, Suspect]) -> dict[int, float]:
    """P-values of the cases that are significantly better, by index; empty for scores."""
    family = result.family
    if not family.binary:
        return {}
    p_values: dict[int, float] = {}
    for index, series in enumerate(family.series):
        base = family.base_of(series)
        if index not in suspects and not all(base) and series.head_screen:
            head = (*series.head_screen, *series.head_confirm)
            p_values[index] = exact_p(failed(base), len(base), failed(head), len(head))
    adjusted = holm(list(p_values.values()))
    return {
        index: value
        for (index, value), p_value in zip(p_values.items(), adjusted, strict=True)
        if p_value <= result.alpha
    }


_SHOWN: tuple[CaseWord, ...] = ("broken", "worse", "better", "fixed")


def _evidence(family: Family, head: Sequence[float], base: Sequence[float], *, again: bool) -> str:
    """The numbers of both sides; `again` means that the head's numbers are from confirmation runs."""
    there = family.rules.base_name
    if family.binary:
        now = f"{len(head) - failed(head)} of {len(head)} {'when run again' if again else 'now'}"
        return f"{now}, {f'{len(base) - failed(base)} of {len(base)}' if base else 'no run'} on {there}"
    now = f"{_score(_told_mean(family, head) or 0.0)} now ({plural(len(head), 'run')})"
    if not base:
        return f"{now}, no run on {there}"
    return f"{now}, {_score(_told_mean(family, base) or 0.0)} on {there} ({plural(len(base), 'run')})"


def _told_mean(family: Family, values: Sequence[float]) -> float | None:
    """The mean with its original sign. Values are negated where lower is better."""
    if not values:
        return None
    mean = fsum(values) / len(values)
    return -mean if family.rule.direction == "lower" else mean


def _score(value: float) -> str:
    """`0.83`, `4.20`; without decimals from 100: `1,500`."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def _reasons(result: FamilyResult, cases: Sequence[CaseDecision], unpaid: Unpaid) -> list[DecisionReasonReport]:
    family, blocking = result.family, result.family.rule.blocking
    reasons: list[DecisionReasonReport] = []

    def add(code: str, message: str, decided: Sequence[CaseDecision], *, blocks: bool = blocking) -> None:
        ids = [case.case_id for case in decided]
        reasons.append(
            DecisionReasonReport(code=code, message=message, metric=family.metric, case_ids=ids, blocking=blocks)
        )

    there = family.rules.base_name
    of = "" if family.metric == PASS else f" in {family.metric}"
    named = [cases[index] for index in result.named] if result.rejected else []
    if named:
        verb = "is" if len(named) == 1 else "are"
        add("case-worse", f"{plural(len(named), 'case')} {verb} worse than on {there}{of}: {_names(named)}", named)
    thin = [case for case in cases if case.by == "threshold"]
    if thin:
        message = f"{plural(len(thin), 'case')} with too few runs on {there} failed every run: {_names(thin)}"
        add("broken-case", message, thin)
    if result.rejected and not named:
        together = [
            cases[index] for index in base_today.got_worse(result) if drop_of(family, index) > family.drops[index]
        ]
        if together and family.seen_twice and family.confirm_p is not None and family.confirm_p <= result.level:
            message = f"Taken together, these cases got worse by more than chance{of}: {_names(together)}"
            add("cases-worse-together", message, together)
        suite = _suite(result)
        if family.suite_p is not None and family.suite_p <= result.level and _beyond(result, suite):
            low = [case for case in cases if case.word == "suspicious" and case.failed_again]
            add("suite-worse", f"The suite as a whole got worse{of}: {_suite_words(suite)}", low)
    elif blocking and not result.rejected and family.columns == 0 and _looks_worse(result):
        suite = _suite(result)
        message = f"The suite as a whole looks worse{of}: {_suite_words(suite)}. {unpaid.remedy}"
        add(unpaid.code, message, [])
    undecided = [case for case in cases if case.undecided]
    short = [case for case in undecided if case.would_decide == unpaid.remedy]
    history = [case for case in undecided if case not in short]
    if history:
        these = {case.case_id for case in history}
        undecided_suspects = [suspect for suspect in family.suspects if family.case_ids[suspect.index] in these]
        most = _would_decide(family, max(_missing_base_runs(family, suspect) for suspect in undecided_suspects))
        fails = "fails" if len(history) == 1 else "fail"
        message = (
            f"{plural(len(history), 'case')} {fails} most runs, and {there} has too few to tell whether that is new: "
            f"{_names(history)}. {most}"
        )
        add("thin-base", message, history)
    if short:
        message = (
            f"{plural(len(short), 'suspected regression is', 'suspected regressions are')} undecided: {_names(short)}. "
            f"{unpaid.remedy}"
        )
        add(unpaid.code, message, short)
    return reasons


def _looks_worse(result: FamilyResult) -> bool:
    """Whether the screening runs alone would be enough, had the fresh runs of every case been possible."""
    p_value = result.family.screening_p if result.family.trigger is not None else None
    return p_value is not None and p_value <= BOTH_LEVEL * result.level and _beyond(result, _suite(result))


def _beyond(result: FamilyResult, suite: SuiteTestReport) -> bool:
    drops = result.family.drops
    return suite.drop is not None and suite.drop > fsum(drops) / len(drops)


def _suite_words(suite: SuiteTestReport) -> str:
    """E.g. "7.3 points lower over 30 cases"; scores in their own unit."""
    drop = suite.drop or 0.0
    much = f"{100 * drop:.1f} points" if suite.metric == PASS else _score(drop) if drop >= 0.01 else f"{drop:.2g}"
    way = "higher" if suite.direction == "lower" else "lower"
    return f"{much} {way} over {plural(suite.cases, 'case')}"


def _names(cases: Sequence[CaseDecision]) -> str:
    return listed([f"{short_name(case.case_id)} ({case.evidence})" for case in cases], _MOST_NAMES)


def _suite(result: FamilyResult) -> SuiteTestReport:
    family = result.family
    looks = zip(family.series, family.fresh_columns, strict=True)
    pairs = [both_looks(series, columns, fresh_only=family.fresh_only) for series, columns in looks]
    pairs = [(head, base) for head, base in pairs if head and base]
    drops = [fsum(base) / len(base) - fsum(head) / len(head) for head, base in pairs]
    return SuiteTestReport(
        metric=family.metric,
        cases=len(pairs),
        drop=fsum(drops) / len(drops) if drops else None,
        interval=mean_interval(drops),
        p_value=family.screening_p,
        p_again=family.fresh_p,
        p_confirm=family.confirm_p,
        p_adjusted=result.adjusted,
        minimum_detectable_drop=_detectable(result, pairs),
        blocking=family.rule.blocking,
        direction=family.rule.direction,
    )


def _detectable(result: FamilyResult, pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float | None:
    level = result.level * BOTH_LEVEL
    if not pairs:
        return None
    if result.family.binary:
        groups = []
        for head, base in pairs:
            rate = (failed(head) + failed(base) + 0.3) / (len(head) + len(base) + 0.6)
            groups.append((rate, len(head), len(base)))
        return detectable_drop(groups, level)
    variances = []
    for head, base in pairs:
        pool = (*head, *base)
        mean = fsum(pool) / len(pool)
        spread = fsum((value - mean) ** 2 for value in pool) / (len(pool) - 1)
        variances.append(spread * (1 / len(head) + 1 / len(base)))
    return detectable_shift(sqrt(fsum(variances)) / len(pairs), level)
