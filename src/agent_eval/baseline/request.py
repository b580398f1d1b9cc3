"""Which commit's results are request: the one that the tested state was put on top of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class BaselineRequest:
    """What a source is asked for."""

    repository: str
    """`owner/name`; "" outside of a forge."""
    base_ref: str
    """The base branch's name, e.g. `main`."""
    commit: str
    """The full sha to compare with; a source may give an earlier one along first parents, and says so."""
    how: str
    """How that commit was found, for people, e.g. "the first parent of the tested merge commit"."""
    is_pull_request: bool
    """Whether the checkout holds somebody's proposal; then a committed file is read from the base."""
    workflow: str = ""
    """Path of the workflow's file, e.g. `.github/workflows/evals.yml`; only its runs are looked at."""
    artifact: str = "agent-eval-results"
    own_run: int | None = None
    """The id of the run that asks; never its own baseline."""
