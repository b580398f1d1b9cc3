"""Which commit's results are request: the one that the tested state was put on top of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BaselineRequest:
    """The baseline to look for."""

    repository: str
    """`owner/name`; "" outside GitHub."""
    base_ref: str
    """The base branch's name, e.g. `main`."""
    commit: str
    """The full sha to compare with; a source may return an earlier one along first parents, and reports it."""
    how: str
    """How that commit was determined, e.g. "the first parent of the tested merge commit"."""
    is_pull_request: bool
    """Whether the checkout is a pull request; a committed file is then read from the base branch."""
    tip: str = ""
    """The tip of the branch that `base-ref` names, or that name where the clone lacks it; "" without `base-ref`."""
    workflow: str = ""
    """Path of the workflow file, e.g. `.github/workflows/evals.yml`; only its runs are considered."""
    artifact: str = "agent-eval-results"
    own_run: int | None = None
    """Id of this run, which is never its own baseline."""
