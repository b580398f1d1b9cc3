"""From judged cases to one verdict and its exit code. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from agent_eval.core.text import plural
from agent_eval.results import WITHOUT_KEY, CaseReport, GateMode, Reason, VerdictValue

EXIT_CODES: Mapping[VerdictValue, int] = {"passed": 0, "failed": 1, "invalid": 2, "inconclusive": 3}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the gate says."""

    value: VerdictValue
    reasons: tuple[Reason, ...]
    """The weightiest first. A verdict that is `passed` has one only where it doesn't show that the agent works: because
    nothing is gated, no case passes, or the gate only advises."""
    mode: GateMode = "thresholds"
    """What decided."""
    blocking: tuple[str, ...] = ()
    """Ids of the cases that fail the gate, each by itself, in the order of the report. A verdict can also be `failed`
    because of all cases together."""
    notes: tuple[Reason, ...] = ()
    """What is wrong and doesn't block, and why not."""


def decide(cases: Sequence[CaseReport]) -> Verdict:
    """The verdict on cases that were run: a failure weighs more than what could not be judged.

    Invalid files and settings never come this far: for them nothing is run.
    """
    counts = Counter(case.status for case in cases)
    reasons = []
    if counts["failed"]:
        reasons.append(Reason(code="failed", message=f"{counts['failed']:,} of {plural(len(cases), 'case')}"))
    unjudged = [case for case in cases if case.status in {"errored", "not_run"}]
    without_key = [case for case in unjudged if case.status == "not_run" and code_of(case) == WITHOUT_KEY]
    if len(without_key) < len(cases):
        # The gate was told to do without; but when there is nothing else, nobody has looked at the agent at all.
        unjudged = [case for case in unjudged if case not in without_key]
    causes = Counter((case.status, code_of(case)) for case in unjudged)
    for (status, code), count in sorted(causes.items(), key=lambda item: (-item[1], item[0])):
        what = "could not be judged" if status == "errored" else "not run"
        reasons.append(Reason(code=code, message=f"{plural(count, 'case')} {what} ({code})"))
    if counts["failed"]:
        return Verdict(value="failed", reasons=tuple(reasons))
    if unjudged or not cases:
        reasons = reasons or [Reason(code="no-cases", message="There was no case to judge")]
        return Verdict(value="inconclusive", reasons=tuple(reasons))
    return Verdict(value="passed", reasons=())


def code_of(case: CaseReport) -> str:
    """Why a case is not `passed`, as a code that cases with one cause share: of judges rather than "not evaluated"."""
    causes = (metric.reason.code for metric in case.metrics if metric.status == "not_evaluated" and metric.reason)
    own = case.reason.code if case.reason is not None else case.status
    return next(causes, own) if own == "not-evaluated" else own


def exit_code(verdict: VerdictValue, on_inconclusive: Literal["fail", "pass"], *, not_run: int) -> int:
    """0 passed, 1 failed, 2 invalid, 3 inconclusive.

    Args:
        verdict: What the gate says.
        on_inconclusive: `pass` makes it 0 when errors of the world kept cases from being judged.
        not_run: How many cases were not run. A gate that was broken off never says 0: nobody has looked at them.
    """
    if verdict == "inconclusive" and on_inconclusive == "pass" and not not_run:
        return 0
    return EXIT_CODES[verdict]
