"""Failures that no run of the base can be compared with: they run again before they block. Pure.

A new or changed case, one that fails by a new metric, and an error of the agent that the base does not have are held
to their thresholds. But a case that passes in most of its runs fails now and then, and with nine new cases every other
pull request would be red. So such a failure must show again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from agent_eval.gate.stats import THRESHOLD_RUNS

RUNS, FAILURES = 15, 11
"""A case that failed blocks if it fails so many of so many further runs, or its first 6. One that passes every other
run does so in 7 of 100 pull requests in which it failed."""
ERROR_RUNS = 6
"""An error of the agent blocks if it shows again in so many further runs. A quarantined case that fails them all is
broken."""
_ROUND = 3

Outcome = Literal["again", "gone", "open"]
"""Whether the failure showed again, didn't, or needs more runs to tell."""


@dataclass(frozen=True, kw_only=True)
class Retrial:
    """A failure that is tried again."""

    case_id: str
    kind: Literal["case", "error", "quarantined"]
    """A case that is held to its thresholds; an error of the agent; a quarantined case, which never blocks."""
    failed: tuple[bool, ...] = ()
    """The further runs of the head in their order: whether it showed again."""
    min_pass_rate: float = 1.0
    """The share of runs that a case must pass, 0 to 1."""

    @property
    def outcome(self) -> Outcome:
        """What its runs so far say, whatever further ones would."""
        if self.kind == "error":
            return "again" if any(self.failed) else "gone" if len(self.failed) >= ERROR_RUNS else "open"
        passed = self.failed.count(False)
        if self.kind == "quarantined":
            return "gone" if passed else "again" if len(self.failed) >= ERROR_RUNS else "open"
        if passed > min(RUNS - FAILURES, ceil(self.min_pass_rate * RUNS) - 1):
            return "gone"
        return "again" if len(self.failed) >= (RUNS if passed else THRESHOLD_RUNS) else "open"


def outcomes(retrials: Sequence[Retrial]) -> dict[str, Outcome]:
    """By case id. Where one case blocks already, no other is tried further: it counts as it looks so far."""
    found = {one.case_id: one.outcome for one in retrials}
    if any(one.outcome == "again" and one.kind == "case" for one in retrials):
        found |= {
            one.case_id: "again" if all(one.failed) else "gone"
            for one in retrials
            if one.outcome == "open" and one.kind == "case"
        }
    return found


def wanted_runs(retrials: Sequence[Retrial], most: int | None) -> dict[str, int]:
    """How many more runs of the head each should get now.

    Args:
        retrials: All of them.
        most: Runs that may be made; None: no limit.
    """
    by_id = outcomes(retrials)
    wanted: dict[str, int] = {}
    for one in _weightiest_first(retrials):
        count = _ROUND - len(one.failed) % _ROUND
        if by_id[one.case_id] == "open" and (most is None or sum(wanted.values()) + count <= most):
            wanted[one.case_id] = count
    return wanted


def _weightiest_first(retrials: Iterable[Retrial]) -> list[Retrial]:
    return sorted(retrials, key=lambda one: (one.kind == "quarantined", one.case_id))
