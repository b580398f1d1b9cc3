"""From scored cases, the statistical decision and the policy to one verdict. Pure.

In mode `thresholds` every case must reach its thresholds. In mode `regressions` a case blocks if it got significantly
worse than on the base branch; a case that failed there too does not. What can't be compared (a new case, a new metric,
an error of the agent that the base branch doesn't have) must reach its thresholds: a failing case never passes because
history is missing.

An error of the agent is repeated like any other failure. If it occurs again, and the base branch has no such error, it
blocks without a statistical test: an agent that never broke there has no error rate to compare with.

A case that was not evaluated (`data.answers`) never passes by comparison, and a run in which no case was
scored is never `passed` (`gate.verdict`), unless the gate only advises.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Unpack

import agent_eval_results as results
from agent_eval.gate.policy import Gate, Policy, PolicyReader
from agent_eval.gate.regression import OUTAGE, Gathered, base_differs, quarantine_notes, replayed_scores
from agent_eval.gate.verdict import NO_CASE_PASSES, NOTHING_GATED, Verdict, caveat_of, code_of, decide
from agent_eval_results.data.answers import unevaluated
from agent_eval_results.data.pairing import Pairing
from agent_eval_results.data.trend import flakiness

_MOST_NAMES = 3
"""Cases of a note whose numbers it has."""
_OF_A_SERVICE = frozenset(
    f"judge-{what}" for what in ("unavailable", "deadline", "malformed", "invalid-request", "no-credentials")
)
"""Codes of metrics whose model failed."""
ONLY_COMPARED = "only-compared"
"""The code of the note about metrics without a threshold that could not be compared with the base branch."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """The comparison with the base branch after the decision."""

    decision: results.DecisionReport
    """On all cases, also those that are `unchanged`."""
    gathered: Gathered
    base: results.HistoryReport
    pairing: Pairing
    confirmations: Sequence[results.CaseReport] = ()
    """The head's extra runs."""
    base_runs: Sequence[results.CaseReport] = ()
    """The base branch's runs of today."""
    same_day: bool = False
    """Whether `base` was run beside the head (`baseline: rerun`), so that an outage met both."""
    agents: Mapping[str, str] = field(default_factory=dict)
    """The head's agents by eval file."""
    facts: Verdict | None = None
    """On the cases that may not answer otherwise than on the base branch; None if none does."""


def choose_mode(
    gate: Gate, cases: Sequence[results.CaseReport], *, pull_request: bool, compared: Compared | None
) -> tuple[results.GateMode, results.Reason | None]:
    """The mode that decides, and a note if it is not the requested one."""
    usable = compared is not None and bool(
        compared.gathered.evidence or any(case.replayed for case in cases) or _are_broken_alike(cases, compared)
    )
    # Without a base to compare with, or on the base branch itself, only the thresholds can decide.
    if gate == "auto":
        return ("regressions" if pull_request and usable else "thresholds"), None
    if gate in {"regressions", "both"} and not usable:
        return "thresholds", results.Reason.of(
            "no-baseline", phrase="nothing-comparable" if compared is not None else ""
        )
    return gate, None


def evaluate(
    cases: Sequence[results.CaseReport],
    policy: Policy,
    *,
    gate: Gate,
    pull_request: bool,
    compared: Compared | None = None,
    base_outage: results.Reason | None = None,
    rules: Sequence[results.Reason] = (),
) -> Verdict:
    """Decides.

    Args:
        cases: The head's, with the policy applied (`rescoring.apply_policy`), without confirmation runs.
        policy: The repository's policy.
        gate: The setting.
        pull_request: Whether this is a pull request's run; `auto` depends on it.
        compared: None without a usable baseline.
        base_outage: What a service said, if there is none because it failed in the base branch's runs of today; or the
            forge, which could not be asked for its results.
        rules: Reasons to fail whatever the cases did, see `rule_changes`.

    Returns:
        The verdict with its reasons; failures that don't block are notes.
    """
    mode, note = choose_mode(gate, cases, pull_request=pull_request, compared=compared)
    reader = PolicyReader(policy)
    blocks = {case.case_id for case in cases if reader.blocks(reader.of_case(case.file, case.eval_id))}
    by = mode
    # Advice is what `auto` would decide; `_advisory` then lets it pass.
    if mode == "advisory":
        by, _ = choose_mode("auto", cases, pull_request=compared is not None, compared=compared)
    parts, by_scores = [], [False]
    if by in {"regressions", "both"} and compared is not None:
        by_scores = [suite.blocking for suite in compared.decision.suites if suite.metric != results.PASS]
        by_scores += [score.blocking for score in replayed_scores(cases, policy)]
        parts.append(_by_regressions(cases, blocks, compared))
    if by in {"thresholds", "both"}:
        # Thresholds that somebody asked for decide. As a substitute for a base that could not run today they must not
        # fail what may be as low there.
        asked = gate in {"thresholds", "both"} or not pull_request
        parts.append(
            _by_thresholds(cases, blocks) if asked or base_outage is None else _undecided(cases, blocks, base_outage)
        )
    if compared is not None and compared.facts is not None:
        parts.append(compared.facts)
    if rules:
        parts.append(Verdict(value="failed", reasons=tuple(rules)))
    verdict = _worst(parts, mode)
    informing = [case for case in cases if case.failed and case.case_id not in blocks]
    notes = [*([note] if note else []), *verdict.notes, *_reason("informing", informing)]
    if compared is not None:
        again = compared.gathered.reproduced
        broken = [case for case in cases if case.is_quarantined and again.get(case.case_id) == "again"]
        verdict = replace(verdict, warnings=tuple(_reason("quarantined-broken", broken)))
    notes += quarantine_notes(cases)
    tested = compared.gathered.tested if compared is not None and by in {"regressions", "both"} else frozenset()
    alone = _only_compared(cases, blocks)
    by_scores.append(not alone.isdisjoint(tested))
    unjudged = _unjudged(alone - tested, blocks)
    verdict = replace(verdict, mode=mode, notes=tuple(notes))
    # Last, since it depends on the verdict: a green gate has to say what it has not looked at.
    caveat = caveat_of(verdict.value, cases, blocks, any(by_scores))
    if unjudged is not None and caveat is not None and caveat.code == NOTHING_GATED:
        facts = {**unjudged.data, "phrase": "only-errors-fail"}
        caveat = unjudged.changed(code=NOTHING_GATED, data=facts)
    elif unjudged is not None:
        verdict = replace(verdict, notes=(*verdict.notes, unjudged))
    if caveat is not None:
        # On a day on which no case passes on the base branch either, an outage would hide every regression.
        dead = caveat.code == NO_CASE_PASSES and compared is not None and base_differs(compared.decision)
        nothing = verdict.value == "passed" and (caveat.code == results.NOTHING_SCORED or dead)
        value = "inconclusive" if nothing else verdict.value
        verdict = replace(verdict, value=value, reasons=(*verdict.reasons, caveat))
    return _advisory(verdict, cases) if mode == "advisory" else verdict


def _only_compared(cases: Sequence[results.CaseReport], blocks: set[str]) -> frozenset[tuple[str, str]]:
    """The scores without a threshold in the cases that may fail the gate, by case id and metric."""
    mine = (case for case in cases if case.case_id in blocks and not case.is_quarantined)
    return frozenset((case.case_id, metric.name) for case in mine for metric in case.metrics if metric.compared_only)


def _unjudged(scores: Collection[tuple[str, str]], blocks: set[str]) -> results.Reason | None:
    """That nothing has decided about these scores."""
    if not scores:
        return None
    metrics = sorted({metric for _, metric in scores})
    count = len({case_id for case_id, _ in scores})
    return results.Reason.of(ONLY_COMPARED, metrics=metrics, count=count, total=len(blocks))


def _by_thresholds(cases: Sequence[results.CaseReport], blocks: set[str]) -> Verdict:
    gating = [case for case in cases if case.case_id in blocks or not case.went_wrong]
    # That nothing gates is a caveat (`caveat_of`), and no failure.
    if cases and not gating:
        return Verdict(value="passed", reasons=())
    verdict = decide(gating)
    failed = tuple(case.case_id for case in gating if case.failed)
    return Verdict(value=verdict.value, reasons=verdict.reasons, blocking=failed)


def _undecided(cases: Sequence[results.CaseReport], blocks: set[str], base_outage: results.Reason) -> Verdict:
    """By thresholds, but a score that is too low decides nothing: the base branch's may be as low. Errors count."""
    open_cases = [case for case in cases if case.failed and case.case_id in blocks and not case.error_kinds]
    rest = {case.case_id for case in open_cases}
    verdict = _by_thresholds([_forgiven(case) if case.case_id in rest else case for case in cases], blocks)
    if not open_cases:
        return verdict
    value: results.VerdictValue = "failed" if verdict.value == "failed" else "inconclusive"
    phrase = "base-not-fetched" if base_outage.code == results.UNREACHABLE else "base-not-run-today"
    reasons = _reason(OUTAGE, open_cases, phrase=phrase, because=base_outage)
    return replace(verdict, value=value, reasons=(*verdict.reasons, *reasons))


_HELD_AGAINST = ("agent-error", "not-comparable", "metric-not-comparable", "replayed-failed")
"""Codes of the reasons of failed cases that block without a decision of the statistics, in this order."""


def _by_regressions(cases: Sequence[results.CaseReport], blocks: set[str], compared: Compared) -> Verdict:
    decision = compared.decision
    words = {case.case_id: case for case in decision.cases if case.metric == results.PASS}
    lost = unevaluated(cases, compared.confirmations, compared.agents)
    not_evaluated: dict[str, list[results.CaseReport]] = {}
    failed_cases: dict[str, list[results.CaseReport]] = defaultdict(list)
    again = _errors_again(compared.confirmations)
    base_errors = _BaseErrors.of(compared)
    for case in cases:
        if not case.failed or case.case_id not in blocks:
            continue
        if case.case_id in lost:
            not_evaluated.setdefault(lost[case.case_id], []).append(case)
        elif why := _why_failed(case, words.get(case.case_id), compared, again.get(case.case_id, (0, 0)), base_errors):
            failed_cases[why].append(case)
    reasons = [
        reason
        for kind, lost_cases in not_evaluated.items()
        for reason in _reason(kind, lost_cases, phrase="cases-not-evaluated", kind=kind)
    ]
    reasons += [reason for code in _HELD_AGAINST for reason in _reason(code, failed_cases[code])]
    if outage(compared.confirmations):
        undecided = _reason(OUTAGE, failed_cases["open"], phrase="no-fresh-result")
    else:
        undecided = _reason("budget", failed_cases["open"], phrase="not-run-again")
    if lost_there := failed_cases["lost-on-base"]:
        because = _lost_on_base(lost_there[0], compared)
        undecided += _reason(OUTAGE, lost_there, phrase="base-not-run-today", because=because)
    held = [*not_evaluated.values(), *(failed_cases[code] for code in _HELD_AGAINST)]
    blocking = {case.case_id for case in decision.cases if case.blocking}
    blocking |= {case.case_id for group in held for case in group}
    failed = bool(reasons) or decision.outcome == "failed"
    reasons += [_to_reason(reason) for reason in decision.reasons if reason.blocking]
    reasons += undecided
    # A case that could not be scored makes the run inconclusive in every mode.
    unjudged = _by_thresholds([_forgiven(case) if case.failed else case for case in cases], blocks)
    reasons += unjudged.reasons
    value: results.VerdictValue = "passed"
    if failed:
        value = "failed"
    elif decision.is_inconclusive or unjudged.value == "inconclusive" or undecided:
        value = "inconclusive"
    reported = {case_id for reason in decision.reasons if reason.blocking for case_id in reason.case_ids}
    as_before = [words[case.case_id] for case in failed_cases["as-before"] if case.case_id not in reported]
    once = failed_cases["agent-error-once"]
    notes = [
        *(results.Reason.of("agent-error-once", cases=[case.case_id], more=again[case.case_id][1]) for case in once),
        *_reason("failed-at-first", failed_cases["gone"], phrase="failed-rarely-again"),
        *_reason("red-on-base", failed_cases["broken-alike"], phrase="broken-alike"),
        *_reason("red-otherwise", failed_cases["red-otherwise"]),
        *_reason("failed-as-recorded", failed_cases["failed-as-recorded"]),
        *_not_held_against(as_before, compared),
        *(_to_reason(reason) for reason in decision.reasons if not reason.blocking),
    ]
    return Verdict(
        value=value,
        reasons=tuple(reasons),
        blocking=tuple(case.case_id for case in cases if case.case_id in blocking),
        notes=tuple(notes),
    )


def _forgiven(case: results.CaseReport) -> results.CaseReport:
    return case.model_copy(update={"status": "passed", "reason": None})


def _reason(code: str, about: Sequence[results.CaseReport], **facts: Unpack[results.Facts]) -> list[results.Reason]:
    """A reason about cases; none without cases."""
    facts["cases"] = [case.case_id for case in about]
    return [results.Reason.of(code, **facts)] if about else []


def _not_held_against(
    failed_as_before: Sequence[results.CaseDecisionReport], compared: Compared
) -> list[results.Reason]:
    groups: dict[str, list[results.CaseDecisionReport]] = {code: [] for code in _NOT_HELD_AGAINST}
    for word in failed_as_before:
        groups[_why_not(word, compared.gathered.rules.alpha)].append(word)
    return [
        results.Reason.of(
            code,
            count=len(words),
            numbers=[word.numbers for word in words[:_MOST_NAMES]],
            since=[_broke_at(word.case_id, compared) for word in words if word.broken_on_base],
        )
        for code, words in groups.items()
        if words
    ]


def _broke_at(case_id: str, compared: Compared) -> str:
    """The commit whose record is the first of the failures that a case has on the base branch; "" if unknown."""
    pair = compared.gathered.comparable[case_id]
    broke = flakiness(compared.base, pair.history, pair.rules).broke
    return broke.commit[:8] if broke is not None else ""


def _why_not(word: results.CaseDecisionReport, alpha: float) -> str:
    """Why a failed case doesn't block. A case that never failed on the base branch is never called flaky."""
    if word.broken_on_base:
        return "broken-on-base"
    if (word.base_mean == 1.0 and word.head_mean == 0.0) or (word.p_value is not None and word.p_value <= alpha):
        return "likely-regression"
    suspected = word.word == "suspicious" and not word.passed_again
    if suspected or (word.base_mean == 1.0 and (word.head_mean or 0.0) < 1.0):
        return "suspicious"
    if word.base_mean == 1.0:
        return "failed-at-first"
    return "red-on-base" if word.word == "unchanged" else "flaky-as-before"


_NOT_HELD_AGAINST = (
    "likely-regression",
    "suspicious",
    "failed-at-first",
    "flaky-as-before",
    "broken-on-base",
    "red-on-base",
)
"""Codes of the notes about cases that failed and were compared, in this order."""


def _to_reason(reason: results.DecisionReasonReport) -> results.Reason:
    return results.Reason(code=reason.code, data=reason.data)


_WEIGHT: Mapping[results.VerdictValue, int] = {"passed": 0, "inconclusive": 1, "failed": 2, "invalid": 3}


def _worst(parts: Sequence[Verdict], mode: results.GateMode) -> Verdict:
    """Several verdicts as one: the worst, with the reasons of all."""
    value = max((part.value for part in parts), key=lambda value: _WEIGHT[value])
    reasons: list[results.Reason] = []
    for reason in (reason for part in parts for reason in part.reasons):
        # `both` meets the same outage twice.
        if reason not in reasons:
            reasons.append(reason)
    blocking = dict.fromkeys(case_id for part in parts for case_id in part.blocking)
    return Verdict(
        value=value,
        reasons=tuple(reasons),
        mode=mode,
        blocking=tuple(blocking),
        notes=tuple(note for part in parts for note in part.notes),
    )


def _advisory(verdict: Verdict, cases: Sequence[results.CaseReport]) -> Verdict:
    """Turns the decision into a note; `blocking` keeps the cases that would fail the gate.

    A gate that was stopped early has nothing to advise.
    """
    if verdict.is_inconclusive and any(case.did_not_run and code_of(case) != results.WITHOUT_KEY for case in cases):
        return verdict
    if verdict.value not in {"failed", "inconclusive"} or not verdict.reasons:
        return replace(verdict, mode="advisory")
    advice = [
        results.Reason.of(reason.code, phrase="would-be", result=verdict.value, because=reason)
        for reason in verdict.reasons
    ]
    return replace(
        verdict,
        value="passed",
        reasons=(results.Reason.of("advisory", because=advice[0]),),
        notes=(*advice, *verdict.notes),
    )


@dataclass(frozen=True, kw_only=True)
class _BaseErrors:
    """The agent's errors on the base branch."""

    kinds: frozenset[str]
    """Those in the base's results and in its runs of today, in any case."""
    unknown: frozenset[str]
    """Cases, by the base's id, that broke in stored runs: the history doesn't keep the kind of an error."""

    @classmethod
    def of(cls, compared: Compared) -> _BaseErrors:
        """Collects them."""
        there = compared.pairing.counterparts.values()
        kinds = [kind for case in (*there, *compared.base_runs) for kind in case.error_kinds]
        known_errors = {case.case_id: len(case.error_kinds) for case in there}
        unknown = (
            case.case_id
            for case in compared.base.cases
            if case.outcomes.count(results.BROKE) > known_errors.get(case.case_id, 0)
        )
        return cls(kinds=frozenset(kinds), unknown=frozenset(unknown))

    def explain(self, case: results.CaseReport, base_id: str, *, passed_there: bool) -> bool:
        """Whether the base branch has the errors of a case, too.

        If the case sometimes passes on the base branch, the statistics say whether it breaks more often, and an agent
        that sometimes breaks can break in any case. If it never passed there, they can't: it must break in the same
        way.
        """
        if self.kinds.issuperset(case.error_kinds):
            return True
        return bool(self.unknown) if passed_there else base_id in self.unknown


def _why_failed(
    case: results.CaseReport,
    word: results.CaseDecisionReport | None,
    compared: Compared,
    again: tuple[int, int],
    base_errors: _BaseErrors,
) -> str | None:
    """Why a case failed: the code of its reason or note, or `open`, `gone`, `as-before`.

    Args:
        case: A case that may fail the gate.
        word: Its decision; None if its runs were not compared.
        compared: The comparison.
        again: Of `_errors_again`.
        base_errors: The agent's errors on the base branch.

    Returns:
        `lost-on-base`: it can't be compared, since a service failed in its runs there today. `open`: it can't be
        compared, and could not be repeated often enough. `gone`: it can't be compared, and passed
        often enough when repeated. None: the decision has a reason of its own.
    """
    # Whether it failed again, for failures that the statistics can't compare.
    repeated = {"gone": "gone", "open": "open"}.get(compared.gathered.reproduced.get(case.case_id, ""))
    if case.replayed:
        # Nothing varies from run to run: what failed here and not when it was recorded is this pull request's.
        if case.failed_when_recorded:
            return "agent-error" if case.error_kinds else "failed-as-recorded"  # No run with an error is on a tape.
        return repeated or "replayed-failed"
    comparable = compared.gathered.comparable.get(case.case_id)
    counterpart = compared.pairing.counterparts.get(case.case_id)
    broke = bool(case.error_kinds)
    failing = case.failing_metrics
    alike = [metric for metric in failing if not broke and _breaks_alike(metric, counterpart)]
    if alike and len(alike) == len(failing):
        return "broken-alike"
    # Missing history must not hide a failure: it is held to its thresholds, after runs to see it again.
    if comparable is None or word is None:
        return repeated or ("lost-on-base" if _lost_on_base(case, compared) else "not-comparable")
    if any(metric.name in comparable.missing and metric not in alike for metric in failing):
        return repeated or ("lost-on-base" if _lost_on_base(case, compared) else "metric-not-comparable")
    # The decision names it, with its numbers.
    if word.blocking:
        return None
    if broke and again[1] and not again[0]:
        return "agent-error-once"
    if broke and not base_errors.explain(case, comparable.history.case_id, passed_there=bool(word.base_mean)):
        return repeated or "agent-error"
    if not broke and counterpart is not None and counterpart.runs and all(run.broke for run in counterpart.runs):
        return "red-otherwise"
    # An agent that breaks now and then on the base branch too is noise like any other: the statistics decided.
    return "as-before"


def _lost_on_base(case: results.CaseReport, compared: Compared) -> results.Reason | None:
    """What a service said that failed in a case's runs on the base branch today; None if that is not the reason.

    The baseline is found all the same if another case has a result: the outage was short, or met some calls only. An
    error of the agent is the head's own, whatever the base would have done.
    """
    there = compared.pairing.counterparts.get(case.case_id)
    if there is None or case.error_kinds or not compared.same_day:
        return None
    today = (there, *(part for part in compared.base_runs if part.case_id == there.case_id))
    # One result is more than none: with it the case is compared, however many other runs were lost.
    return None if any(run.is_judged for part in today for run in part.runs) else outage(today)


def _are_broken_alike(cases: Sequence[results.CaseReport], compared: Compared) -> bool:
    """Whether a case is comparable only by a metric that breaks on both sides."""
    return any(
        _breaks_alike(metric, there)
        for case in cases
        if case.failed and (there := compared.pairing.counterparts.get(case.case_id)) is not None
        for metric in case.failing_metrics
    )


def _breaks_alike(metric: results.MetricReport, there: results.CaseReport | None) -> bool:
    """Whether a metric has no score on either side, by the same mistake of the same code."""
    kinds = set(metric.error_kinds)
    return bool(kinds) and any(
        other.name == metric.name and other.fingerprint == metric.fingerprint and kinds.issubset(other.error_kinds)
        for other in (there.metrics if there is not None else ())
    )


def _errors_again(confirmations: Iterable[results.CaseReport]) -> dict[str, tuple[int, int]]:
    """By case, how many of its extra runs ended with an error of the agent, and how many were judged."""
    counts: dict[str, tuple[int, int]] = {}
    for case in confirmations:
        errors, runs = counts.get(case.case_id, (0, 0))
        for run in case.runs:
            errors += run.broke
            runs += run.is_judged
        counts[case.case_id] = errors, runs
    return counts


def outage(confirmations: Iterable[results.CaseReport]) -> results.Reason | None:
    """Why most extra runs have no result, if it is a service that failed; None if most were judged."""
    judged, lost = 0, list[results.Reason]()
    for case in confirmations:
        unscored = next((metric.reason for metric in case.metrics if metric.lacks_result), None)
        for run in case.runs:
            judged += run.is_judged
            if run.error is not None and run.error.owner == "provider":
                lost.append(results.Reason(code=run.error.kind, message=run.error.message))
            elif run.error is None and run.errored and unscored and unscored.code in _OF_A_SERVICE:
                lost.append(unscored)
    return lost[0] if len(lost) > judged else None
