"""What the gate makes of each case and of a run, decided once in `agent_eval_results.outcome`: every text prints
it, and results.json has it.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_eval_results.data.origin import VerdictValue
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.core.wire import ReportModel

Standing = Literal[
    "regression",
    "suspected",
    "failed",
    "fails-as-before",
    "flaky",
    "not-evaluated",
    "not-run",
    "quarantined",
    "improved",
    "passed",
]
"""What a case is; each is one of them. `regression`, `suspected`: it is worse than on the base branch, or may be;
without statistics, it fails only here. `failed`: it fails and can't be compared with the base branch, or blocks by a
threshold alone. `fails-as-before`: it fails there, too. `flaky`: it failed in some runs, about as often as there.
`improved`: it is better than there. `passed`: as there, or without a comparison."""

Actor = Literal["author", "reviewer", "maintainer", "base-owner", "ci-owner", "anyone", ""]
"""Who has to act after a run: the author of the pull request, who reviews it, a maintainer of the repository, the owner
of the base branch, the owner of the CI (keys, quotas, servers, limits), anyone who can start the job, no one."""


class CaseOutcome(ReportModel):
    """What a case is to the gate."""

    standing: Standing
    blocks: bool
    """Whether it fails the gate by itself."""
    counts: bool
    """Whether a test report counts it as a failure.

    A case that did not pass and does not block is skipped there: a single failure makes a build of Jenkins unstable,
    and a session of pytest red. If the gate did not decide by case (an inconclusive run that `on-inconclusive` does not
    let pass, or one that fails for another reason), every failure counts.
    """
    rank: int
    """Its place in the order of what needs attention: 0 comes first; cases of equal rank are in the report's order."""
    evidence: Literal["live", "replayed"]
    """Whether models answered, or the case's tape."""


class RunOutcome(ReportModel):
    """What a run is to a reader: the decision, its cause, and what to do next."""

    verdict: VerdictValue
    exit_code: int | None
    standings: dict[Standing, int]
    """Number of cases by standing, where there are any."""
    blocking: int
    """Cases that fail the gate, each by itself."""
    counting: int
    """Cases that a test report counts as failures."""
    headline: Reason
    """The first line of every text, as its `message`. `parts` of its data are joined, `beside` has further clauses."""
    next: list[Reason] = Field(default_factory=list)
    """What to do next, a step for each sentence."""
    actor: Actor = ""
    """Who takes the first step."""
