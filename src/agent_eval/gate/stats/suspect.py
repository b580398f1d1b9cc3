"""A suspicious case: which runs it still needs, and what its base is too thin to say. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.gate.stats._confirmation import Trial

THIN_BASE = 5
"""With fewer runs of the base, and a worktree to run it in, the suspicious cases get fresh ones."""
THRESHOLD_RUNS = 6
"""A case that fails that often in a row, after it failed in the screening, while all of its few runs on the base
passed, is broken. Of the cases that pass every other time 1 in 256 looks like this, with one run on the base."""


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A case whose screening runs look worse."""

    index: int
    """Of the case in the family."""
    trial: Trial
    """For scores only its numbers of runs mean something."""
    promise: float
    """Above 1: worth more runs."""
    red: bool
    """No run of the base passed, and there were some."""
    counted: bool
    """Its failures are counted: it is a series of zeros and ones."""
    thin: bool
    """Whatever further runs say, a comparison with the base can't show anything."""
    p_value: float
    """Of its confirmation runs alone, valid whenever it is looked at."""
    weight: float
    """Its share of the error rate of all suspicious cases together."""

    @property
    def active(self) -> bool:
        """Whether more runs could tell something."""
        trial = self.trial
        if self.dead:
            return False
        may_fail_most = 3 * (trial.failures + trial.planned - trial.made) >= 2 * trial.planned
        if self.short and trial.made < trial.planned and may_fail_most and 2 * trial.failures >= trial.made:
            return True
        unfinished = trial.made < trial.planned or trial.base_made < trial.base_planned
        return not self.thin and self.promise >= 1.0 and unfinished

    @property
    def short(self) -> bool:
        """Whether its base never failed, and yet has too few runs to show more than that it never passes now."""
        few = self.trial.base_planned < THIN_BASE and not self.trial.base_failures
        return self.counted and not self.red and (self.thin or few)

    @property
    def untold(self) -> bool:
        """Whether it failed at least two of three confirmation runs, and nobody can say whether that is new."""
        trial = self.trial
        return self.short and not self.dead and 0 < 2 * trial.made <= 3 * trial.failures

    @property
    def dead(self) -> bool:
        """Whether it fails so often in a row that it must not pass for want of history."""
        trial = self.trial
        if not self.counted or self.red or trial.base_planned >= THIN_BASE or 2 * trial.base_failures > trial.base_made:
            return False
        enough = trial.planned if trial.base_failures else THRESHOLD_RUNS
        return trial.failures == trial.made >= enough
