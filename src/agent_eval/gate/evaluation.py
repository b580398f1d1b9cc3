"""From scored cases, the statistical decision and the policy to one verdict. Pure.

In mode `thresholds` every case must reach its thresholds. In mode `regressions` a case blocks if it got significantly
worse than on the base branch; a case that failed there too does not. What can't be compared (a new case, a new metric,
an error of the agent that the base branch doesn't have) must reach its thresholds: a failing case never passes because
history is missing.

An error of the agent is repeated like any other failure. If it occurs again, and the base branch has no such error, it
blocks without a statistical test: an agent that never broke there has no error rate to compare with.

A case that was not evaluated (`gate.answers`) never passes by comparison, and a run in which no case was scored is
never `passed` (`gate.caveats`), unless the gate only advises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Unpack

from agent_eval.gate.caveats import NO_CASE_PASSES, NOTHING_SCORED, caveat_of
from agent_eval.gate.failures import (
    BaseErrors,
    Compared,
    FailedCases,
    are_broken_alike,
    errors_again,
    kinds_of,
    outage,
    sort_failed_case,
)
from agent_eval.gate.history import unevaluated
from agent_eval.gate.policy import Gate, Policy, PolicyReader
from agent_eval.gate.regression import OUTAGE, base_differs, quarantine_notes
from agent_eval.gate.stats import PASS, Rules
from agent_eval.gate.verdict import Verdict, code_of, decide
from agent_eval.results import (
    WITHOUT_KEY,
    CaseDecisionReport,
    CaseReport,
    DecisionReasonReport,
    Facts,
    GateMode,
    Reason,
    VerdictValue,
)

_MOST_NAMES = 3
"""Cases of a note whose numbers it has."""
QUARANTINED_BROKEN = "quarantined-broken"
"""The code of the note about quarantined cases that are broken now: it belongs at the top of every report."""


def choose_mode(
    gate: Gate, cases: Sequence[CaseReport], *, pull_request: bool, compared: Compared | None
) -> tuple[GateMode, Reason | None]:
    """The mode that decides, and a note if it is not the requested one."""
    usable = compared is not None and bool(
        compared.gathered.evidence or any(case.replayed for case in cases) or are_broken_alike(cases, compared)
    )
    if gate == "auto":
        return ("regressions" if pull_request and usable else "thresholds"), None
    if gate in {"regressions", "both"} and not usable:
        return "thresholds", Reason.of("no-baseline", phrase="nothing-comparable" if compared is not None else "")
    return gate, None


def evaluate(
    cases: Sequence[CaseReport],
    policy: Policy,
    *,
    gate: Gate,
    pull_request: bool,
    compared: Compared | None = None,
    base_outage: Reason | None = None,
    rules: Sequence[Reason] = (),
) -> Verdict:
    """Decides.

    Args:
        cases: The head's, with the policy applied (`rescoring.apply_policy`), without confirmation runs.
        policy: The repository's policy.
        gate: The setting.
        pull_request: Whether this is a pull request's run; `auto` depends on it.
        compared: None without a usable baseline.
        base_outage: What a service said, if there is none because it failed in the base branch's runs of today.
        rules: Reasons to fail whatever the cases did, see `rule_changes`.

    Returns:
        The verdict with its reasons; failures that don't block are notes.
    """
    mode, note = choose_mode(gate, cases, pull_request=pull_request, compared=compared)
    reader = PolicyReader(policy)
    blocks = {case.case_id for case in cases if reader.blocks(reader.of_case(case.file, case.eval_id))}
    by = mode
    if mode == "advisory":
        by, _ = choose_mode("auto", cases, pull_request=compared is not None, compared=compared)
    parts = []
    if by in {"regressions", "both"} and compared is not None:
        parts.append(_by_regressions(cases, blocks, compared))
    if by in {"thresholds", "both"}:
        asked = gate in {"thresholds", "both"} or not pull_request
        parts.append(
            _by_thresholds(cases, blocks) if asked or base_outage is None else _undecided(cases, blocks, base_outage)
        )
    if rules:
        parts.append(Verdict(value="failed", reasons=tuple(rules)))
    verdict = _worst(parts, mode)
    notes = [*([note] if note else []), *verdict.notes, *_informing(cases, blocks)]
    if compared is not None:
        broken = [case for case in cases if _broke_in_quarantine(case, compared)]
        notes = [*_reason(QUARANTINED_BROKEN, broken), *notes]
    notes += quarantine_notes(cases)
    verdict = replace(verdict, mode=mode, notes=tuple(notes))
    suites = compared.decision.suites if compared is not None and by in {"regressions", "both"} else ()
    caveat = caveat_of(verdict.value, cases, blocks, suites)
    if caveat is not None:
        # On a day on which no case passes on the base branch either, an outage would hide every regression.
        dead = caveat.code == NO_CASE_PASSES and compared is not None and base_differs(compared.decision)
        nothing = verdict.value == "passed" and (caveat.code == NOTHING_SCORED or dead)
        value = "inconclusive" if nothing else verdict.value
        verdict = replace(verdict, value=value, reasons=(*verdict.reasons, caveat))
    return _advisory(verdict, cases) if mode == "advisory" else verdict


def _broke_in_quarantine(case: CaseReport, compared: Compared) -> bool:
    return case.status == "quarantined" and compared.gathered.reproduced.get(case.case_id) == "again"


def _by_thresholds(cases: Sequence[CaseReport], blocks: set[str]) -> Verdict:
    gating = [case for case in cases if case.case_id in blocks or case.status not in {"failed", "errored"}]
    if cases and not gating:
        return Verdict(value="passed", reasons=())
    verdict = decide(gating)
    failed = tuple(case.case_id for case in gating if case.status == "failed")
    return Verdict(value=verdict.value, reasons=verdict.reasons, blocking=failed)


def _undecided(cases: Sequence[CaseReport], blocks: set[str], base_outage: Reason) -> Verdict:
    """By thresholds, but a score that is too low decides nothing: the base branch's may be as low. Errors count."""
    open_cases = [case for case in cases if case.status == "failed" and case.case_id in blocks and not kinds_of(case)]
    rest = {case.case_id for case in open_cases}
    verdict = _by_thresholds([_forgiven(case) if case.case_id in rest else case for case in cases], blocks)
    if not open_cases:
        return verdict
    value: VerdictValue = "failed" if verdict.value == "failed" else "inconclusive"
    return replace(
        verdict,
        value=value,
        reasons=(*verdict.reasons, *_reason(OUTAGE, open_cases, phrase="base-not-run-today", because=base_outage)),
    )


def _by_regressions(cases: Sequence[CaseReport], blocks: set[str], compared: Compared) -> Verdict:
    decision = compared.decision
    words = {case.case_id: case for case in decision.cases if case.metric == PASS}
    lost = unevaluated(cases, compared.confirmations, compared.agents)
    sorted_out = FailedCases()
    again = errors_again(compared.confirmations)
    known_errors = BaseErrors.of(compared)
    for case in cases:
        if case.status != "failed" or case.case_id not in blocks:
            continue
        if case.case_id in lost:
            sorted_out.not_evaluated.setdefault(lost[case.case_id], []).append(case)
        else:
            sort_failed_case(case, words.get(case.case_id), compared, again, known_errors, sorted_out)
    reasons = [
        *(
            reason
            for kind, lost_cases in sorted_out.not_evaluated.items()
            for reason in _reason(kind, lost_cases, phrase="cases-not-evaluated", kind=kind)
        ),
        *_reason("agent-error", sorted_out.agent_errors),
        *_reason("not-comparable", sorted_out.not_comparable),
        *_reason("metric-not-comparable", sorted_out.new_metrics),
        *_reason("replayed-failed", sorted_out.replayed),
    ]
    if outage(compared.confirmations):
        undecided = _reason(OUTAGE, sorted_out.open, phrase="no-fresh-result")
    else:
        undecided = _reason("budget", sorted_out.open, phrase="not-run-again")
    by_comparison = {case.case_id for case in decision.cases if case.blocking}
    blocking = by_comparison | {case.case_id for case in sorted_out.blocking}
    failed = bool(reasons) or decision.outcome == "failed"
    reasons += [_to_reason(reason) for reason in decision.reasons if reason.blocking]
    reasons += undecided
    # A case that could not be scored makes the run inconclusive in every mode.
    unjudged = _by_thresholds([_forgiven(case) if case.status == "failed" else case for case in cases], blocks)
    reasons += unjudged.reasons
    value: VerdictValue = "passed"
    if failed:
        value = "failed"
    elif decision.outcome == "inconclusive" or unjudged.value == "inconclusive" or undecided:
        value = "inconclusive"
    reported = {case_id for reason in decision.reasons if reason.blocking for case_id in reason.case_ids}
    sorted_out.as_before = [(case, word) for case, word in sorted_out.as_before if case.case_id not in reported]
    notes = [
        *_not_held_against(sorted_out, compared.gathered.rules),
        *(_to_reason(reason) for reason in decision.reasons if not reason.blocking),
    ]
    return Verdict(
        value=value,
        reasons=tuple(reasons),
        blocking=tuple(case.case_id for case in cases if case.case_id in blocking),
        notes=tuple(notes),
    )


def _forgiven(case: CaseReport) -> CaseReport:
    return case.model_copy(update={"status": "passed", "reason": None})


def _reason(code: str, about: Sequence[CaseReport], **facts: Unpack[Facts]) -> list[Reason]:
    """A reason about cases; none without cases."""
    facts["cases"] = [case.case_id for case in about]
    return [Reason.of(code, **facts)] if about else []


def _not_held_against(sorted_out: FailedCases, rules: Rules) -> list[Reason]:
    notes = [Reason.of("agent-error-once", cases=[case.case_id], more=runs) for case, runs in sorted_out.error_once]
    notes += _reason("failed-at-first", sorted_out.gone, phrase="failed-rarely-again")
    notes += _reason("red-on-base", sorted_out.broken_alike, phrase="broken-alike")
    notes += _reason("red-otherwise", sorted_out.otherwise)
    notes += _reason("failed-as-recorded", sorted_out.as_recorded)
    groups: dict[str, list[CaseDecisionReport]] = {code: [] for code in _NOT_HELD_AGAINST}
    for _, word in sorted_out.as_before:
        groups[_why_not(word, rules.alpha)].append(word)
    notes += [
        Reason.of(code, count=len(words), numbers=[word.numbers for word in words[:_MOST_NAMES]])
        for code, words in groups.items()
        if words
    ]
    return notes


def _why_not(word: CaseDecisionReport, alpha: float) -> str:
    """Why a failed case doesn't block. A case that never failed on the base branch is never called flaky."""
    if (word.base_mean == 1.0 and word.head_mean == 0.0) or (word.p_value is not None and word.p_value <= alpha):
        return "likely-regression"
    suspected = word.word == "suspicious" and not word.passed_again
    if suspected or (word.base_mean == 1.0 and (word.head_mean or 0.0) < 1.0):
        return "suspicious"
    if word.base_mean == 1.0:
        return "failed-at-first"
    return "red-on-base" if word.word == "unchanged" else "flaky-as-before"


_NOT_HELD_AGAINST = ("likely-regression", "suspicious", "failed-at-first", "flaky-as-before", "red-on-base")
"""Codes of the notes about cases that failed and were compared, in this order."""


def _to_reason(reason: DecisionReasonReport) -> Reason:
    return Reason(code=reason.code, data=reason.data)


def _informing(cases: Sequence[CaseReport], blocks: set[str]) -> list[Reason]:
    return _reason("informing", [case for case in cases if case.status == "failed" and case.case_id not in blocks])


_WEIGHT: Mapping[VerdictValue, int] = {"passed": 0, "inconclusive": 1, "failed": 2, "invalid": 3}


def _worst(parts: Sequence[Verdict], mode: GateMode) -> Verdict:
    """Several verdicts as one: the worst, with the reasons of all."""
    value = max((part.value for part in parts), key=lambda value: _WEIGHT[value])
    reasons: list[Reason] = []
    for reason in (reason for part in parts for reason in part.reasons):
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


def _advisory(verdict: Verdict, cases: Sequence[CaseReport]) -> Verdict:
    """Turns the decision into a note; `blocking` keeps the cases that would fail the gate.

    A gate that was stopped early has nothing to advise.
    """
    if verdict.value == "inconclusive" and any(
        case.status == "not_run" and code_of(case) != WITHOUT_KEY for case in cases
    ):
        return verdict
    if verdict.value not in {"failed", "inconclusive"} or not verdict.reasons:
        return replace(verdict, mode="advisory")
    advice = [
        Reason.of(reason.code, phrase="would-be", result=verdict.value, because=reason) for reason in verdict.reasons
    ]
    return replace(
        verdict,
        value="passed",
        reasons=(Reason.of("advisory", because=advice[0]),),
        notes=(*advice, *verdict.notes),
    )
