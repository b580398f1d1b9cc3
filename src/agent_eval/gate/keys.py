"""Whether a run is inconclusive because GitHub gave it no secrets and so no model key. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.results import WITHOUT_KEY, CaseReport, Reason

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
