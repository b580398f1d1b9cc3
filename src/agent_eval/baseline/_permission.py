"""Decides which runs may record a baseline: runs of the base branch, never of a pull request."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent_eval.core.text import harmless
from agent_eval.results import Origin

BASE_EVENTS: frozenset[str] = frozenset({"push", "schedule", "workflow_dispatch"})
"""Events that run a branch of the repository itself, started by someone with write access or by a schedule.

Nightly runs suit evals that are too expensive for every push; a dispatch records a baseline again. `merge_group` is
missing: its commit is not on the branch yet, and may never be.
"""


@dataclass(frozen=True, kw_only=True)
class Permission:
    """Whether a run may record a baseline."""

    allowed: bool
    why: str
    """A sentence."""


def may_record(origin: Origin | None, *, branches: Collection[str]) -> Permission:
    """Decides whether a run's results may be the baseline of later runs.

    Args:
        origin: The origin of the run.
        branches: Names of the branches that record baselines, e.g. the default branch.
    """
    if origin is None or not origin.repository:
        return Permission(allowed=False, why="The tested branch is unknown, so no baseline is recorded.")
    if origin.event not in BASE_EVENTS or origin.pull_request is not None:
        event = harmless(origin.event) or "a run outside of CI"
        return Permission(
            allowed=False,
            why=f"Only a push, a schedule or a dispatch on the base branch records a baseline; this is {event}.",
        )
    branch = origin.ref.removeprefix("refs/heads/")
    if not origin.ref.startswith("refs/heads/") or branch not in branches:
        return Permission(
            allowed=False,
            why=f"Baselines are recorded on {' and '.join(sorted(branches)) or 'the base branch'} only; "
            f"this is {harmless(branch) or 'no branch'}.",
        )
    return Permission(allowed=True, why=f"A run of {branch} records the baseline for pull requests to it.")
