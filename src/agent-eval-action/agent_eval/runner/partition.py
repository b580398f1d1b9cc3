"""Splits the cases of a suite into parts of about equal duration. Pure: every part of a run computes the same split.

A case is never split: its runs belong together for `results.merge` and for sessions that the case names. The split
is greedy: the heaviest case goes to the lightest part (longest processing time first; Graham, 1969), which is at most
a third longer than the best split.
"""

from __future__ import annotations

import hashlib
import json
import re
import statistics
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.evalset.models import EvalCase

if TYPE_CHECKING:
    from agent_eval_results import RunReport

MOST_PARTS = 256
"""The most jobs of a matrix on GitHub (docs.github.com, usage limits of GitHub Actions, 2026)."""
_UNLIMITED = 20
"""Turns of a scenario without a limit: ADK's default limit (google-adk 2.13.0)."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One part of a suite, `I/N`."""

    index: int
    """From 1."""
    total: int

    def __str__(self) -> str:
        return f"{self.index}/{self.total}"


def parse_shard(text: str) -> Shard:
    """Reads `I/N`.

    Raises:
        ValueError: It is not of that form, or not 1 <= I <= N <= 256.
    """
    match = re.fullmatch(r"\s*(\d{1,3})/(\d{1,3})\s*", text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]) <= MOST_PARTS:
        raise ValueError(f"must be I/N with 1 <= I <= N <= {MOST_PARTS}, e.g. 2/5, not `{text}`")
    return Shard(index=int(match[1]), total=int(match[2]))


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A case as the split sees it."""

    case_id: str
    fingerprint: str
    """Hash of its content."""
    turns: int
    """Turns of one run; of a scenario their limit."""


class RecordedSeconds(WireModel):
    """How long runs of cases took; in the output of `agent-eval validate --plan`, which `--shard-plan` reads."""

    per_run: dict[str, Annotated[float, Field(ge=0, le=1e9)]] = Field(default_factory=dict)
    """Seconds of one run, by case id."""
    per_turn: float = Field(default=0.0, ge=0, le=1e9)
    """Seconds of a turn of a case that was not recorded; 0 if nothing was recorded."""


def turns_of(case: EvalCase, limit: int | None) -> int:
    """Turns of one run, at least 1. Of a scenario the limit, since its length is not known in advance."""
    if case.conversation_scenario is None:
        return max(len(case.conversation or ()), 1)
    return max(_UNLIMITED if limit is None else limit, 1)


def weigh(units: Iterable[Unit], recorded: RecordedSeconds | None = None) -> dict[str, float]:
    """The expected duration of one run of each case: seconds if anything was recorded, otherwise turns."""
    if recorded is None or not recorded.per_turn:
        return {unit.case_id: float(unit.turns) for unit in units}
    return {unit.case_id: recorded.per_run.get(unit.case_id, recorded.per_turn * unit.turns) for unit in units}


def partition(weights: Mapping[str, float], total: int) -> dict[str, int]:
    """Assigns each case to a part, from 1 to `total`.

    Args:
        weights: Weights by case id, in any order.
        total: Number of parts, at least 1. Parts beyond the number of cases are empty.
    """
    loads = [0.0] * total
    counts = [0] * total
    assignment = {}
    for case_id in sorted(weights, key=lambda name: (-weights[name], name)):
        # Cases of weight 0 are spread by their number.
        lightest = min(range(total), key=lambda index: (loads[index], counts[index], index))
        loads[lightest] += weights[case_id]
        counts[lightest] += 1
        assignment[case_id] = lightest + 1
    return assignment


def split_hash(assignment: Mapping[str, int], units: Iterable[Unit], *, total: int, num_runs: int) -> str:
    """A hash of a split. It is equal in every part and every attempt of a run, because it contains no time."""
    cases = sorted((unit.case_id, unit.fingerprint, assignment[unit.case_id]) for unit in units)
    return hashlib.sha256(json.dumps([total, num_runs, cases]).encode()).hexdigest()


def recorded_seconds(reports: Collection[RunReport]) -> RecordedSeconds:
    """Durations of completed runs: the mean of a case's runs in each report, then the median over the reports."""
    seconds: dict[str, list[float]] = {}
    per_turn: list[float] = []
    for report in reports:
        for case in report.cases:
            runs = [run for run in case.runs if run.status in {"passed", "failed"} and run.duration > 0]
            if not runs:
                continue
            seconds.setdefault(case.case_id, []).append(statistics.fmean(run.duration for run in runs))
            per_turn += [run.duration / run.turns for run in runs if run.turns]
    return RecordedSeconds(
        per_run={case_id: round(statistics.median(values), 3) for case_id, values in sorted(seconds.items())},
        per_turn=round(statistics.median(per_turn), 3) if per_turn else 0.0,
    )
