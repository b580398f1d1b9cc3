"""The verdict on the cases of a run."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_eval.pipeline._checkout import Checkout
from agent_eval.pipeline.ci_context import CIContext

if TYPE_CHECKING:
    from agent_eval.gate.failures import Compared
    from agent_eval.gate.verdict import Verdict
    from agent_eval.results import Reason, RunReport
    from agent_eval.settings import Settings


def failure_blocks(settings: Settings, ci: CIContext, *, repeatable: bool) -> bool:
    """Whether a failed case blocks whatever the base branch's results: only then does `fail-fast` end the run.

    Args:
        settings: Its `gate` counts.
        ci: Says whether the run is compared with a base branch.
        repeatable: False for recorded answers.
    """
    if not ci.compares or ci.baseline_request is None or settings.gate in {"thresholds", "both"}:
        return True
    return settings.gate == "auto" and not repeatable


def decide_on(
    report: RunReport,
    checkout: Checkout,
    compared: Compared | None,
    rules: Sequence[Reason] = (),
    *,
    repeatable: bool,
    base_outage: Reason | None = None,
) -> Verdict:
    """Decides, and writes the verdict into the report.

    Args:
        report: With its cases, after the policy was applied.
        checkout: The head's.
        compared: Result of `compare_with_base`.
        rules: Reasons to fail whatever the cases did.
        repeatable: False for recorded answers.
        base_outage: See `evaluate`.
    """
    from agent_eval.gate.caveats import no_secrets
    from agent_eval.gate.evaluation import evaluate

    settings, ci = checkout.settings, checkout.context.ci
    verdict = evaluate(
        report.cases,
        settings.policy,
        # Recorded answers don't vary and can't be repeated, so the thresholds alone decide.
        gate="thresholds" if settings.gate == "auto" and not repeatable else settings.gate,
        pull_request=ci.compares,
        compared=compared,
        base_outage=base_outage,
        rules=rules,
    )
    about = ci.activity
    if verdict.value == "inconclusive" and about.secrets_withheld:
        is_fork = about.pull_request is not None and about.pull_request.is_fork
        if (cause := no_secrets(report.cases, is_fork=is_fork)) is not None:
            verdict = dataclasses.replace(verdict, reasons=(cause, *verdict.reasons))
    report.verdict, report.reasons, report.gate = verdict.value, list(verdict.reasons), verdict.mode
    report.blocking = list(verdict.blocking)
    return verdict
