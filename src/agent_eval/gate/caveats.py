"""Caveats of a verdict without evidence: nothing was scored, nothing is gated, no case passes, no secrets. Pure.

Where explicit settings make a gate green that gates nothing, it stays green, and the headline says so instead of
"Passed".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from agent_eval.evalset.models import METRICS
from agent_eval.gate.history import is_scored
from agent_eval.gate.stats import PASS
from agent_eval.gate.verdict import code_of
from agent_eval.results import WITHOUT_KEY, CaseReport, MetricReport, Reason, SuiteTestReport, VerdictValue

NOTHING_SCORED = "nothing-scored"
"""The code of a run in which no case that gates has a score: it is never `passed`."""
NOTHING_GATED = "nothing-gated"
NO_CASE_PASSES = "no-case-passes"


def caveat_of(
    value: VerdictValue, cases: Sequence[CaseReport], blocks: Collection[str], suites: Sequence[SuiteTestReport]
) -> Reason | None:
    """The caveat of a verdict that doesn't show that the agent works.

    Args:
        value: The verdict.
        cases: The head's, with the policy applied.
        blocks: Ids of the cases that may fail the gate.
        suites: The suite tests, where the statistics decide.

    Returns:
        A reason with one of the codes of this module; None for no caveat.
    """
    gating = [case for case in cases if case.case_id in blocks and case.status != "quarantined"]
    if not cases:
        return None  # `decide` has a reason for this.
    if not any(map(is_scored, gating or cases)):
        causes = Counter(map(code_of, gating or cases))
        ordered = dict(sorted(causes.items(), key=lambda entry: (-entry[1], entry[0])))
        return Reason.of(NOTHING_SCORED, total=len(gating or cases), causes=ordered)
    if value != "passed":
        return None
    if not gating:
        quarantined = sum(case.status == "quarantined" for case in cases)
        return Reason.of(NOTHING_GATED, quarantined=quarantined, informing=len(cases) - quarantined)
    by_scores = any(suite.blocking and suite.metric != PASS for suite in suites)
    if not by_scores and not any(_can_fail(metric) for case in gating for metric in case.metrics):
        return Reason.of(NOTHING_GATED)
    if not any(case.status == "passed" for case in gating):
        return Reason.of(NO_CASE_PASSES, total=len(gating))
    return None


def _can_fail(metric: MetricReport) -> bool:
    """Whether some score of a metric would fail its case. The range of custom metrics is unknown."""
    if metric.threshold is None or not metric.blocking:
        return False
    spec = METRICS.get(metric.name)
    if spec is None:
        return True
    return metric.threshold < spec.high if metric.direction == "lower" else metric.threshold > spec.low


NO_SECRETS = "no-secrets"
"""The code of the reason."""
_WITHOUT_KEY = frozenset({WITHOUT_KEY, "judge-no-credentials", "simulator-no-credentials"})


def no_secrets(cases: Sequence[CaseReport], *, is_fork: bool) -> Reason | None:
    """The reason of an inconclusive run that got no secrets; None if something else is missing too.

    Args:
        cases: The head's.
        is_fork: Whether a fork's pull request started it, and not Dependabot.
    """
    unjudged = [case for case in cases if case.status in {"errored", "not_run"}]
    if not unjudged or not all(map(_lacks_key, unjudged)):
        return None
    return Reason.of(NO_SECRETS, is_fork=is_fork)


def _lacks_key(case: CaseReport) -> bool:
    errors = [run.error for run in case.runs if run.error is not None]
    if errors:
        return all(error.kind in _WITHOUT_KEY or error.no_key for error in errors)
    missing = [metric.reason for metric in case.metrics if metric.status == "not_evaluated"]
    return bool(missing) and all(reason is not None and reason.code in _WITHOUT_KEY for reason in missing)
