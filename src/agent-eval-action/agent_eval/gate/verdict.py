"""From scored cases to one verdict and its exit code. Pure.

The caveats are of a verdict without evidence: nothing was scored, nothing is gated, no case passes, no secrets. Where
explicit settings make a gate green that gates nothing, it stays green, and the headline says so instead of "Passed".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import agent_eval_results as results
from agent_eval_results.data.answers import is_scored
from agent_eval_scoring.evalset.models import METRICS

EXIT_CODES: Mapping[results.VerdictValue, int] = {"passed": 0, "failed": 1, "invalid": 2, "inconclusive": 3}


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The gate's decision."""

    value: results.VerdictValue
    reasons: tuple[results.Reason, ...]
    """Most important first. A `passed` verdict has a reason only where it doesn't show that the agent works: nothing is
    gated, no case passes, or the gate only advises."""
    mode: results.GateMode = "thresholds"
    """The mode that decided."""
    blocking: tuple[str, ...] = ()
    """Ids of the cases that fail the gate, each by itself, in the order of the report. A verdict can also be `failed`
    because of all cases together."""
    notes: tuple[results.Reason, ...] = ()
    """Failures that don't block, and why."""
    warnings: tuple[results.Reason, ...] = ()
    """Those of them that somebody has to look at."""

    @property
    def is_inconclusive(self) -> bool:
        """Whether too little is known to decide."""
        return self.value == "inconclusive"


def decide(cases: Sequence[results.CaseReport]) -> Verdict:
    """The verdict on the cases of a run: a failed case outweighs one that could not be scored.

    Invalid files and settings end before this: nothing runs.
    """
    counts = Counter(case.status for case in cases)
    reasons = []
    if counts["failed"]:
        reasons.append(results.Reason.of("failed", count=counts["failed"], total=len(cases)))
    unjudged = [case for case in cases if case.lacks_result]
    without_key = [case for case in unjudged if case.did_not_run and code_of(case) == results.WITHOUT_KEY]
    if len(without_key) < len(cases):
        # `without-keys` allows to leave them out, unless every case would be left out.
        unjudged = [case for case in unjudged if case not in without_key]
    causes = Counter((case.status, code_of(case)) for case in unjudged)
    for (status, code), count in sorted(causes.items(), key=lambda item: (-item[1], item[0])):
        phrase = "cases-errored" if status == "errored" else "cases-not-run"
        reasons.append(results.Reason.of(code, phrase=phrase, kind=code, count=count))
    if counts["failed"]:
        return Verdict(value="failed", reasons=tuple(reasons))
    if unjudged or not cases:
        reasons = reasons or [results.Reason.of("no-cases")]
        return Verdict(value="inconclusive", reasons=tuple(reasons))
    return Verdict(value="passed", reasons=())


def code_of(case: results.CaseReport) -> str:
    """Why a case is not `passed`, as a code that cases with one cause share: of judges rather than "not evaluated"."""
    causes = (metric.reason.code for metric in case.metrics if metric.lacks_result and metric.reason)
    own = case.reason.code if case.reason is not None else case.status
    return next(causes, own) if own == "not-evaluated" else own


def unjudged_runs(cases: Iterable[results.CaseReport]) -> int:
    """Number of runs without a result, except those that `without-keys` leaves out."""
    return sum(
        run.lacks_result and (run.error is None or run.error.kind != results.WITHOUT_KEY)
        for case in cases
        for run in case.runs
    )


def unfinished(verdict: Verdict, reason: results.Reason) -> Verdict:
    """The verdict on what was seen, where that is not all: never `passed`; a failure stays one.

    Args:
        verdict: The verdict on the cases. Those that did not run are `not_run`.
        reason: What is missing.
    """
    others = tuple(other for other in verdict.reasons if other.code not in {reason.code, "advisory"})
    if verdict.value == "failed":
        return replace(verdict, reasons=(*others, reason))
    return replace(verdict, value="inconclusive", reasons=(reason, *others))


NOT_EXCUSED = frozenset({"base-not-fetched", "base-not-run-today"})
"""Phrases of reasons that are an outage, but not one that kept cases from being scored."""


def exit_code(verdict: results.VerdictValue, on_inconclusive: Literal["fail", "pass"], *, not_run: int) -> int:
    """0 passed, 1 failed, 2 invalid, 3 inconclusive.

    Args:
        verdict: The decision.
        on_inconclusive: `pass` makes it 0 when outages kept cases from being scored.
        not_run: Number of cases that did not run, whose recorded tools can't be used, or that failed while an outage
            hid the base branch (`NOT_EXCUSED`). A run that was stopped early never exits with 0.
    """
    if verdict == "inconclusive" and on_inconclusive == "pass" and not not_run:
        return 0
    return EXIT_CODES[verdict]


NOTHING_GATED = "nothing-gated"
NO_CASE_PASSES = "no-case-passes"


def caveat_of(
    value: results.VerdictValue, cases: Sequence[results.CaseReport], blocks: Collection[str], by_scores: bool
) -> results.Reason | None:
    """The caveat of a verdict that doesn't show that the agent works.

    Args:
        value: The verdict.
        cases: The head's, with the policy applied.
        blocks: Ids of the cases that may fail the gate.
        by_scores: Whether falling scores may fail the gate, of live cases together or of a replayed one.

    Returns:
        A reason with one of the codes of this module; None for no caveat.
    """
    gating = [case for case in cases if case.case_id in blocks and not case.is_quarantined]
    if not cases:
        return None  # `decide` has a reason for this.
    if not any(map(is_scored, gating or cases)):
        causes = Counter(map(code_of, gating or cases))
        ordered = dict(sorted(causes.items(), key=lambda entry: (-entry[1], entry[0])))
        return results.Reason.of(results.NOTHING_SCORED, total=len(gating or cases), causes=ordered)
    if value != "passed":
        return None
    if not gating:
        quarantined = sum(case.is_quarantined for case in cases)
        return results.Reason.of(NOTHING_GATED, quarantined=quarantined, informing=len(cases) - quarantined)
    if not by_scores and not any(_can_fail(metric) for case in gating for metric in case.metrics):
        return results.Reason.of(NOTHING_GATED)
    if not any(case.passed for case in gating):
        return results.Reason.of(NO_CASE_PASSES, total=len(gating))
    return None


def _can_fail(metric: results.MetricReport) -> bool:
    """Whether some score of a metric would fail its case. The range of custom metrics is unknown."""
    if metric.threshold is None or not metric.blocking:
        return False
    spec = METRICS.get(metric.name)
    if spec is None:
        return True
    return metric.threshold < spec.high if metric.lower_is_better else metric.threshold > spec.low


_WITHOUT_KEY = frozenset({results.WITHOUT_KEY, "judge-no-credentials", "simulator-no-credentials"})


def no_secrets(cases: Sequence[results.CaseReport], *, is_fork: bool) -> results.Reason | None:
    """The reason of an inconclusive run that got no secrets; None if something else is missing too.

    Args:
        cases: The head's.
        is_fork: Whether a fork's pull request started it, and not Dependabot.
    """
    unjudged = [case for case in cases if case.lacks_result]
    if not unjudged or not all(map(_lacks_key, unjudged)):
        return None
    return results.Reason.of(results.NO_SECRETS, is_fork=is_fork)


def _lacks_key(case: results.CaseReport) -> bool:
    errors = [run.error for run in case.runs if run.error is not None]
    if errors:
        return all(error.kind in _WITHOUT_KEY or error.no_key for error in errors)
    missing = [metric.reason for metric in case.metrics if metric.lacks_result]
    return bool(missing) and all(reason is not None and reason.code in _WITHOUT_KEY for reason in missing)
