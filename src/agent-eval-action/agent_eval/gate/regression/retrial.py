"""Failures without comparable runs on the base branch: they run again before they block. Pure.

Thresholds decide for new and changed cases, for cases that fail a new metric, and for new errors of the agent. A case
that passes most of its runs still fails occasionally: with nine such cases, every other pull request would fail.
A failure therefore blocks only if it is reproduced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal

from agent_eval.gate.stats import THRESHOLD_RUNS
from agent_eval_results import CaseReport

RUNS, FAILURES = 15, 11
"""A failed case blocks if it fails 11 of 15 additional runs, or the first 6. A case with a pass rate of 50% does so in
7 of 100 pull requests in which it failed."""
ERROR_RUNS = 6
"""An error of the agent blocks if it recurs in any of this many additional runs. A quarantined case that fails all of
them is reported as broken."""
CONSTANT = 3
"""An agent that ends at least this many runs with one and the same error, and no run otherwise, is not run again."""
_ROUND = 3

Outcome = Literal["again", "gone", "open"]
"""Whether the failure was reproduced, was not, or needs more runs."""


@dataclass(frozen=True, kw_only=True)
class Retrial:
    """A failure that runs again."""

    case_id: str
    kind: Literal["case", "error", "quarantined"]
    """A case for which its thresholds decide; an error of the agent; a quarantined case, which never blocks."""
    failed: tuple[bool, ...] = ()
    """The additional runs of the head in order: whether the failure was reproduced."""
    min_pass_rate: float = 1.0
    """The share of runs that a case must pass, 0 to 1."""
    constant_error: bool = False
    """Every run of the head ended with the same error of the agent (`is_constant_error`), and no run of the base branch
    with any."""

    @property
    def outcome(self) -> Outcome:
        """The result of the runs so far; `open` if more runs can change it."""
        if self.kind == "error":
            if any(self.failed) or self.constant_error:
                return "again"
            return "gone" if len(self.failed) >= ERROR_RUNS else "open"
        passed = self.failed.count(False)
        if self.kind == "quarantined":
            return "gone" if passed else "again" if len(self.failed) >= ERROR_RUNS else "open"
        if passed > min(RUNS - FAILURES, ceil(self.min_pass_rate * RUNS) - 1):
            return "gone"
        return "again" if len(self.failed) >= (RUNS if passed else THRESHOLD_RUNS) else "open"


def is_constant_error(parts: Iterable[CaseReport]) -> bool:
    """Whether all runs with a result, three or more, ended with the same error of the agent.

    Errors are the same if kind and message are, apart from addresses, ids and long numbers.

    Args:
        parts: All runs of one case.
    """
    errors = []
    for run in (run for part in parts for run in part.runs):
        if run.error is not None and run.error.by_agent:
            errors.append((run.error.kind, _VARIABLE.sub("#", run.error.message)))
        elif run.error is None and run.is_judged:
            return False
    return len(errors) >= CONSTANT and len(set(errors)) == 1


_VARIABLE = re.compile(r"0x[0-9a-f]+|\b[0-9a-f]{8}(?:-?[0-9a-f]{4,})*\b|\d{4,}", re.IGNORECASE)
"""Addresses, ids (UUIDs, hashes) and numbers such as ports, process ids and times."""


def outcomes(retrials: Sequence[Retrial]) -> dict[str, Outcome]:
    """Outcomes by case id. Once a case blocks, no other case runs again: its runs so far decide."""
    by_id = {retrial.case_id: retrial.outcome for retrial in retrials}
    if any(retrial.outcome == "again" and retrial.kind == "case" for retrial in retrials):
        by_id |= {
            retrial.case_id: "again" if all(retrial.failed) else "gone"
            for retrial in retrials
            if retrial.outcome == "open" and retrial.kind == "case"
        }
    return by_id


def next_runs(retrials: Sequence[Retrial], max_runs: int | None) -> dict[str, int]:
    """How many additional runs of the head each case needs next, by id.

    Args:
        retrials: All retrials.
        max_runs: The limit of all runs together; None for no limit.
    """
    outcome_of = outcomes(retrials)
    runs: dict[str, int] = {}
    # What may block comes first.
    for retrial in sorted(retrials, key=lambda each: (each.kind == "quarantined", each.case_id)):
        count = _ROUND - len(retrial.failed) % _ROUND
        if outcome_of[retrial.case_id] == "open" and (max_runs is None or sum(runs.values()) + count <= max_runs):
            runs[retrial.case_id] = count
    return runs
