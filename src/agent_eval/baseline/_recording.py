"""Whose results may become a baseline: those of the base branch itself, never a proposal's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from agent_eval.core.text import harmless
from agent_eval.results import Origin

BASE_EVENTS: frozenset[str] = frozenset({"push", "schedule", "workflow_dispatch"})
"""Events in which GitHub runs a branch of the repository itself, started by somebody who may push or by the clock.

A nightly run is how a repository keeps a baseline whose evals are too dear for every push, and a dispatch is how one is
made anew. `merge_group` is not among them: its commit is not on the branch yet and may never get there.
"""


@dataclass(frozen=True, kw_only=True)
class Permission:
    """Whether a run may record a baseline."""

    allowed: bool
    why: str
    """One plain sentence."""


def may_record(origin: Origin | None, *, branches: Collection[str]) -> Permission:
    """Whether the results of a run may serve as a baseline for later ones.

    Args:
        origin: What was tested, and by what.
        branches: Names of the branches that record, e.g. the default branch.
    """
    if origin is None or not origin.repository:
        return Permission(allowed=False, why="Nobody knows which branch was tested, so no baseline is recorded.")
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
