"""What the gate makes of each case, decided once: every text prints it."""

from __future__ import annotations

from typing import Literal

from agent_eval.results.origin import CaseWord, ReportModel

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
threshold alone. `fails-as-before`: it fails there, too. `flaky`: it failed in some runs, no more often than there.
`improved`: it is better than there. `passed`: as there, or without a comparison."""
Trend = Literal["regression", "suspected regression", "better", "flaky", "passed again", ""]
"""How a case compares with the base branch by the statistics, whatever its status is. `flaky`: it also fails sometimes
there. `passed again`: it failed once, passed when run again, and never failed there. Empty: unchanged, or without
statistics."""


class CaseOutcome(ReportModel):
    """What a case is to the gate."""

    standing: Standing
    blocks: bool
    """Whether it fails the gate by itself."""
    would_block: bool
    """The same, or that it would if the gate were not advisory."""
    excused: bool
    """Whether it did not pass but does not block, e.g. because it fails on the base branch too.

    A test report skips it: a single failure makes a build of Jenkins unstable, and a session of pytest red. If the gate
    did not decide by case (an inconclusive run that `on-inconclusive` does not let pass, or one that fails for another
    reason), every failure counts.
    """
    counts: bool
    """Whether a test report counts it as a failure: it blocks, or it did not pass and is not excused."""
    rank: int
    """Its place in the order of what needs attention: 0 comes first; cases of equal rank are in the report's order."""
    word: CaseWord
    """Of its most significant metric."""
    trend: Trend
    as_before: bool
    """Whether it fails on the base branch too, and no less often."""
    always_fails: bool
    """Whether the statistics name it and no run of it passed."""

    @property
    def is_flaky(self) -> bool:
        """Whether it failed in some runs, no more often than on the base branch."""
        return self.trend in {"flaky", "passed again"}
