"""What is known of earlier runs of the same pull request: attempts at the same commit, or the previous push."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_eval.forge import ForgeError
from agent_eval_scoring.core.text import plural

if TYPE_CHECKING:
    from agent_eval.pipeline.ci_context import CIContext
    from agent_eval_results import RunReport


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """Results of earlier runs of the pull request."""

    attempts: Sequence[RunReport] = ()
    """Of the same commit, oldest first."""
    before: Collection[str] = ()
    """Cases that the previous push is held against; empty after an attempt of the same commit."""
    missing: str | None = None
    """Why the results of earlier attempts are unavailable, if there were some; "" if there are simply none."""
    unknown: bool = False
    """Whether it is not known that there were some: `missing` says why."""


def find_earlier(ci: CIContext, log: Callable[[str], None]) -> Earlier:
    """Looks for results of earlier runs of the pull request; where they are unavailable, a line of the log says so.

    Args:
        ci: Of this run.
        log: Receives a line for what was found.
    """
    from agent_eval.baseline.artifact import earlier_attempts
    from agent_eval.gate.regression import held_against

    pull_request, forge = ci.activity.pull_request, ci.forge
    if pull_request is None or ci.baseline_request is None:
        return Earlier()
    artifact, why = ci.baseline_request.artifact, "artifacts of forks are not read" if pull_request.is_fork else ""
    attempt = ci.origin.run_attempt or 1
    # On GitLab an attempt has the job's id, which says nothing of the jobs before it: the forge has to know.
    is_retry: bool | None = forge is None and attempt > 1
    try:
        if forge is not None and ci.origin.run_id is not None:
            is_retry = None
            is_retry = forge.is_retry(ci.origin.run_id, attempt)
        reports = earlier_attempts(forge, ci.origin, pull_request, artifact) if forge and forge.has_token else []
    except ForgeError as error:
        reports, why = [], error.message
        log(f"agent-eval: The results of earlier runs are unavailable: {why}")
    attempts = [report for report in reports if report.origin and report.origin.commit == ci.origin.commit]
    if attempts or is_retry is not False:
        return Earlier(attempts=attempts, missing=None if attempts else why, unknown=is_retry is None)
    before = held_against(case for report in reports if report.decision for case in report.decision.cases)
    if before:
        log(f"agent-eval: {plural(len(before), 'case')} of the previous push will be checked again")
    return Earlier(before=before)
