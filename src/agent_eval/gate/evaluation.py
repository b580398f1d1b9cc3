"""From judged cases, the statistical decision and the policy to one verdict. Pure.

`thresholds` holds every case to its thresholds. `regressions` holds the pull request to the base: what was red there
doesn't block, what got significantly worse does, and what can't be compared (a new case, a new metric, an error of the
agent that the base doesn't have) is held to its thresholds. A broken case never passes for want of history.

An error of the agent is repeated like any other failure. If it shows again, and the base's history has no error of the
agent in any case, it blocks without a test: an agent that never broke and now does has no rate to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_eval.core.text import plural
from agent_eval.gate.decision import CaseDecision, Decision, DecisionReason
from agent_eval.gate.evidence import PASS
from agent_eval.gate.gathering import Gathered
from agent_eval.gate.policy import Gate, Policy, PolicyReader
from agent_eval.gate.rejudging import quarantine_notices
from agent_eval.gate.verdict import Verdict, decide
from agent_eval.results.history import BROKE, HistoryReport
from agent_eval.results.report import CaseReport, Reason
from agent_eval.results.status import GateMode, VerdictValue

_MOST_NAMES = 3


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What is known of the base, once it is decided."""

    decision: Decision
    gathered: Gathered
    base: HistoryReport
    confirmations: Sequence[CaseReport] = ()
    """The head's extra runs."""


def choose_mode(gate: Gate, *, pull_request: bool, compared: Compared | None) -> tuple[GateMode, Reason | None]:
    """What decides, and what to say if it is not what was asked for."""
    usable = compared is not None and bool(compared.gathered.evidence)
    if gate == "auto":
        return ("regressions" if pull_request and usable else "thresholds"), None
    if gate in {"regressions", "both"} and not usable:
        why = "nothing of the base can be compared" if compared is not None else "there is no baseline"
        return "thresholds", Reason(code="no-baseline", message=f"The thresholds decide, since {why}")
    return gate, None


def evaluate(
    cases: Sequence[CaseReport],
    policy: Policy,
    *,
    gate: Gate,
    pull_request: bool,
    compared: Compared | None = None,
) -> Verdict:
    """Decides.

    Args:
        cases: The head's, with the policy applied (`rejudging.apply_policy`), without confirmation runs.
        policy: What the repository wants.
        gate: What should decide.
        pull_request: Whether this is a pull request's run; `auto` looks at it.
        compared: With the base; None if there is no usable baseline.

    Returns:
        The verdict with its reasons, and what is wrong without blocking as notes.
    """
    mode, note = choose_mode(gate, pull_request=pull_request, compared=compared)
    reader = PolicyReader(policy)
    blocks = {case.case_id for case in cases if reader.blocks(reader.of_case(case.file, case.eval_id))}
    by = mode
    if mode == "advisory":
        by = "regressions" if compared is not None and compared.gathered.evidence else "thresholds"
    parts = []
    if by in {"regressions", "both"} and compared is not None:
        parts.append(_by_regressions(cases, blocks, compared))
    if by in {"thresholds", "both"}:
        parts.append(_by_thresholds(cases, blocks))
    verdict = _worst(parts, mode)
    notes = [*([note] if note else []), *verdict.notes, *_informing(cases, blocks)]
    notes += [Reason(code="quarantined", message=message) for message in quarantine_notices(cases)]
    verdict = Verdict(
        value=verdict.value, reasons=verdict.reasons, mode=mode, blocking=verdict.blocking, notes=tuple(notes)
    )
    return _advisory(verdict, cases) if mode == "advisory" else verdict


def _by_thresholds(cases: Sequence[CaseReport], blocks: set[str]) -> Verdict:
    gating = [case for case in cases if case.case_id in blocks or case.status not in {"failed", "errored"}]
    if cases and not gating:
        return Verdict(value="passed", reasons=())
    verdict = decide(gating)
    failed = tuple(case.case_id for case in gating if case.status == "failed")
    return Verdict(value=verdict.value, reasons=verdict.reasons, blocking=failed)


def _by_regressions(cases: Sequence[CaseReport], blocks: set[str], compared: Compared) -> Verdict:
    decision = compared.decision
    words = {one.case_id: one for one in decision.cases if one.metric == PASS}
    sorted_out = _SortedOut()
    again = _errors_again(compared.confirmations)
    breaks_there = any(BROKE in case.outcomes for case in compared.base.cases)
    for case in cases:
        if case.status == "failed" and case.case_id in blocks:
            _sort(case, words.get(case.case_id), compared, again, breaks_there, sorted_out)
    own = [
        _reason("agent-error", sorted_out.agent_errors, "broken by an error of the agent that the base does not have"),
        _reason("not-comparable", sorted_out.not_comparable, "failed that can't be compared with the base"),
        _reason("metric-not-comparable", sorted_out.new_metrics, "failed by a metric that the base has no score of"),
    ]
    reasons = [reason for reason in own if reason is not None]
    by_comparison = {one.case_id for one in decision.cases if one.blocking}
    blocking = by_comparison | {case.case_id for case in sorted_out.blocking}
    failed = bool(reasons) or decision.outcome == "failed"
    reasons += [_told(one) for one in decision.reasons if one.blocking]
    # What could not be judged says nothing, as ever.
    unjudged = _by_thresholds([_forgiven(case) if case.status == "failed" else case for case in cases], blocks)
    reasons += unjudged.reasons
    value: VerdictValue = "passed"
    if failed:
        value = "failed"
    elif decision.outcome == "inconclusive" or unjudged.value == "inconclusive":
        value = "inconclusive"
    told = {case_id for one in decision.reasons if one.blocking for case_id in one.case_ids}
    sorted_out.as_before = [(case, word) for case, word in sorted_out.as_before if case.case_id not in told]
    notes = [*_not_held_against(sorted_out), *(_told(one) for one in decision.reasons if not one.blocking)]
    return Verdict(
        value=value,
        reasons=tuple(reasons),
        blocking=tuple(case.case_id for case in cases if case.case_id in blocking),
        notes=tuple(notes),
    )


def _forgiven(case: CaseReport) -> CaseReport:
    return case.model_copy(update={"status": "passed", "reason": None})


@dataclass(kw_only=True)
class _SortedOut:
    """Failed cases by what they mean in a comparison."""

    agent_errors: list[CaseReport] = field(default_factory=list)
    not_comparable: list[CaseReport] = field(default_factory=list)
    new_metrics: list[CaseReport] = field(default_factory=list)
    error_once: list[tuple[CaseReport, int]] = field(default_factory=list)
    """With how many runs did not show it again."""
    as_before: list[tuple[CaseReport, CaseDecision]] = field(default_factory=list)

    @property
    def blocking(self) -> list[CaseReport]:
        return [*self.agent_errors, *self.not_comparable, *self.new_metrics]


def _sort(
    case: CaseReport,
    word: CaseDecision | None,
    compared: Compared,
    again: Mapping[str, tuple[int, int]],
    breaks_there: bool,
    into: _SortedOut,
) -> None:
    known = compared.gathered.comparable.get(case.case_id)
    broke = any(run.error is not None and run.error.owner == "agent" for run in case.runs)
    if known is None or word is None:
        into.not_comparable.append(case)
    elif any(one.status != "passed" and one.blocking and one.name in known.missing for one in case.metrics):
        into.new_metrics.append(case)
    elif word.blocking:
        return  # The decision has its own reason for it.
    elif broke and again.get(case.case_id, (0, 0))[1] and not again[case.case_id][0]:
        into.error_once.append((case, again[case.case_id][1]))
    elif broke and not breaks_there:
        into.agent_errors.append(case)
    else:
        # An agent that breaks now and then on the base too is noise like any other: the statistics have spoken.
        into.as_before.append((case, word))


def _errors_again(confirmations: Iterable[CaseReport]) -> dict[str, tuple[int, int]]:
    """By case, how many of its extra runs ended with an error of the agent, and how many were judged."""
    found: dict[str, tuple[int, int]] = {}
    for case in confirmations:
        errors, runs = found.get(case.case_id, (0, 0))
        for run in case.runs:
            errors += run.error is not None and run.error.owner == "agent"
            runs += run.status in {"passed", "failed"}
        found[case.case_id] = errors, runs
    return found


def _reason(code: str, cases: Sequence[CaseReport], what: str) -> Reason | None:
    return Reason(code=code, message=f"{plural(len(cases), 'case')} {what}: {_names(cases)}") if cases else None


def _not_held_against(found: _SortedOut) -> list[Reason]:
    notes = []
    for case, runs in found.error_once:
        message = f"{case.case_id}: the agent broke once and not again in {plural(runs, 'more run')}"
        notes.append(Reason(code="agent-error-once", message=message))
    groups: dict[str, list[tuple[CaseReport, CaseDecision]]] = {}
    for case, word in found.as_before:
        groups.setdefault(_why_not(word), []).append((case, word))
    for code, members in sorted(groups.items(), key=lambda group: list(_NOT_HELD_AGAINST).index(group[0])):
        shown = "; ".join(f"{case.case_id}: {word.evidence}" for case, word in members[:_MOST_NAMES])
        more = f"; and {len(members) - _MOST_NAMES:,} more" if len(members) > _MOST_NAMES else ""
        what = _NOT_HELD_AGAINST[code]
        notes.append(Reason(code=code, message=f"{plural(len(members), 'case')} {what} ({shown}{more})"))
    return notes


def _why_not(word: CaseDecision) -> str:
    """Why a failed case doesn't block. A base that never failed is never called flaky."""
    if word.word == "suspicious" or (word.base_mean == 1.0 and (word.head_mean or 0.0) < 1.0):
        return "suspicious"
    if word.base_mean == 1.0:
        return "failed-at-first"
    return "flaky-as-before" if word.word == "flaky as before" else "red-on-base"


_NOT_HELD_AGAINST = {
    "suspicious": "failed more often than on the base, which may be chance",
    "failed-at-first": "failed at first and not again",
    "flaky-as-before": "failed as now and then on the base",
    "red-on-base": "failed as on the base",
}


def _told(reason: DecisionReason) -> Reason:
    return Reason(code=reason.code, message=reason.message)


def _informing(cases: Sequence[CaseReport], blocks: set[str]) -> list[Reason]:
    failed = [case for case in cases if case.status == "failed" and case.case_id not in blocks]
    if not failed:
        return []
    what = "that only informs failed" if len(failed) == 1 else "that only inform failed"
    return [Reason(code="informing", message=f"{plural(len(failed), 'case')} {what}: {_names(failed)}")]


def _names(cases: Sequence[CaseReport]) -> str:
    names = [case.case_id for case in cases[:_MOST_NAMES]]
    left = len(cases) - len(names)
    return ", ".join(names) + (f" and {left:,} more" if left else "")


_WEIGHT: Mapping[VerdictValue, int] = {"passed": 0, "inconclusive": 1, "failed": 2, "invalid": 3}


def _worst(parts: Sequence[Verdict], mode: GateMode) -> Verdict:
    """Several verdicts as one: the worst, with the reasons of all."""
    value = max((part.value for part in parts), key=lambda value: _WEIGHT[value])
    reasons = dict.fromkeys((reason.code, reason.message) for part in parts for reason in part.reasons)
    blocking = dict.fromkeys(case_id for part in parts for case_id in part.blocking)
    return Verdict(
        value=value,
        reasons=tuple(Reason(code=code, message=message) for code, message in reasons),
        mode=mode,
        blocking=tuple(blocking),
        notes=tuple(note for part in parts for note in part.notes),
    )


def _advisory(verdict: Verdict, cases: Sequence[CaseReport]) -> Verdict:
    """What would have been decided becomes a note. But a gate that was broken off has nothing to advise."""
    if verdict.value == "inconclusive" and any(case.status == "not_run" for case in cases):
        return verdict
    would = {"failed": "Would fail: ", "inconclusive": "Would be inconclusive: "}.get(verdict.value, "")
    told = [Reason(code=reason.code, message=would + reason.message) for reason in verdict.reasons]
    return Verdict(value="passed", reasons=(), mode="advisory", notes=(*told, *verdict.notes))
