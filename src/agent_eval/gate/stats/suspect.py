"""A suspected regression: the runs that it needs, and whether its base has enough runs for a decision. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.gate.stats._confirmation import Trial

THIN_BASE = 5
"""With fewer base runs, the history is too short for a comparison alone."""
THRESHOLD_RUNS = 6
"""A case is broken if it fails screening and then this many runs in a row, while all of its few base runs passed. With
one base run, 1 in 256 of the cases with a pass rate of 50% does so."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A case whose screening runs look worse."""

    index: int
    """The case's index in the family."""
    trial: Trial
    """For scores, only the numbers of runs are meaningful."""
    likelihood_ratio: float
    """Likelihood ratio of "worse" to "unchanged"; at least 1: worth more runs."""
    always_fails_on_base: bool
    """The base has runs and none of them passed."""
    is_binary: bool
    """Whether all values are zeros and ones."""
    base_underpowered: bool
    """The base has too few runs for a significant comparison, whatever the head's further runs."""
    p_value: float
    """p-value of the confirmation runs alone, valid at any time."""
    weight: float
    """The case's share of the error rate of all suspected regressions."""

    @property
    def active(self) -> bool:
        """Whether more runs are useful."""
        trial = self.trial
        if self.always_fails:
            return False
        may_fail_most = 3 * (trial.failures + trial.planned - trial.made) >= 2 * trial.planned
        if self.history_too_short and trial.made < trial.planned and may_fail_most and 2 * trial.failures >= trial.made:
            return True
        unfinished = trial.made < trial.planned or trial.base_made < trial.base_planned
        return not self.base_underpowered and self.likelihood_ratio >= 1.0 and unfinished

    @property
    def history_too_short(self) -> bool:
        """Whether the base has too few runs for a decision, unless every run of the head fails."""
        few = self.trial.base_planned < THIN_BASE and not self.trial.base_failures
        return self.is_binary and not self.always_fails_on_base and (self.base_underpowered or few)

    @property
    def undecided(self) -> bool:
        """Whether at least 2/3 of the confirmation runs failed and the base history is too short for a decision."""
        trial = self.trial
        return self.history_too_short and not self.always_fails and 0 < 2 * trial.made <= 3 * trial.failures

    @property
    def always_fails(self) -> bool:
        """Whether the case failed so many runs in a row that it must not pass for lack of history."""
        trial = self.trial
        if (
            not self.is_binary
            or self.always_fails_on_base
            or trial.base_planned >= THIN_BASE
            or 2 * trial.base_failures > trial.base_made
        ):
            return False
        enough = trial.planned if trial.base_failures else THRESHOLD_RUNS
        return trial.failures == trial.made >= enough
