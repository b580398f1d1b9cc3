"""How `agent-eval validate --plan` splits a run over machines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from agent_eval.baseline.reader import UnreadableError, read_file
from agent_eval.core.text import harmless, plural
from agent_eval.core.wire import WireModel
from agent_eval.results import RunReport
from agent_eval.runner import Plan, RecordedSeconds, partition, recorded_seconds, weigh
from agent_eval.runner.cost_estimate import Range

Row = tuple[str, str, str]


def between(count: Range, noun: str, many: str | None = None) -> str:
    """`1 call`, `6 to 10 calls`, `6 calls or more`."""
    if count.most is None:
        return f"{plural(count.least, noun, many)} or more"
    if count.most == count.least:
        return plural(count.least, noun, many)
    return f"{count.least:,} to {plural(count.most, noun, many)}"


def dollars(cost: tuple[float, float | None]) -> str:
    """`about $0.0012 to $0.0020`."""
    least, most = cost
    if most is None:
        return f"about ${least:.4f} or more"
    return f"about ${least:.4f}" if least == most else f"about ${least:.4f} to ${most:.4f}"


def columns(rows: Sequence[Row]) -> Iterator[str]:
    """Aligned rows, safe to print to a CI log."""
    first, second = (max((len(row[column]) for row in rows), default=0) for column in (0, 1))
    for row in rows:
        yield harmless(f"  {row[0]:<{first}}  {row[1]:<{second}}  {row[2]}".rstrip())


_MOST_PROPOSED = 20
"""Parts that `--shards auto` proposes: more jobs wait for machines longer than they save."""


class PartPlan(WireModel):
    """One part of the split."""

    index: int
    cases: int
    weight: float
    """Expected seconds of all runs one after another if durations were recorded, else turns of all runs."""


class SplitPlan(WireModel):
    """A split, for `--shard-plan` and for a matrix."""

    total: int
    matrix: list[str]
    """Values of `shard`, e.g. `["1/2", "2/2"]`."""
    unit: Literal["seconds", "turns"]
    """Of the weights."""
    parts: list[PartPlan]
    recorded: RecordedSeconds = Field(default_factory=RecordedSeconds)
    """The durations behind the split, which `--shard-plan` reads."""


def read_durations(paths: Sequence[Path]) -> RecordedSeconds:
    """Durations of the runs in results.json files, and in all of them below directories.

    Raises:
        UnreadableError: A file can't be read, a directory has none, or none has a completed run.
    """
    reports: list[RunReport] = []
    for path in paths:
        files = sorted(path.rglob("results.json")) if path.is_dir() else [path]
        if not files:
            raise UnreadableError(f"There is no results.json in {harmless(str(path))}.", "Name the results of a run.")
        reports += map(read_file, files)
    recorded = recorded_seconds(reports)
    if paths and not recorded.per_turn:
        raise UnreadableError(
            "--durations: no completed run in these results has a duration.", "Name the results of a complete run."
        )
    return recorded


def split(plan: Plan, total: int | None, *, recorded: RecordedSeconds, seconds: float, concurrency: int) -> SplitPlan:
    """Splits a plan.

    Args:
        plan: All cases.
        total: Number of parts; None to choose it by `seconds`.
        recorded: Durations; empty to split by turns.
        seconds: How long a part should take, if `total` is None.
        concurrency: Runs at once in each part.
    """
    weights = {case_id: weight * plan.num_runs for case_id, weight in weigh(plan.units(), recorded).items()}
    if total is None:
        total = min(max(math.ceil(sum(weights.values()) / (concurrency * seconds)), 1), _MOST_PROPOSED)
    assignment = partition(weights, total)
    parts = [PartPlan(index=index, cases=0, weight=0.0) for index in range(1, total + 1)]
    for case_id, index in assignment.items():
        parts[index - 1].cases += 1
        parts[index - 1].weight = round(parts[index - 1].weight + weights[case_id], 3)
    return SplitPlan(
        total=total,
        matrix=[f"{index}/{total}" for index in range(1, total + 1)],
        unit="seconds" if recorded.per_turn else "turns",
        parts=parts,
        recorded=recorded,
    )


def split_lines(plan: SplitPlan) -> list[str]:
    """The split as text."""
    unit = "second" if plan.unit == "seconds" else "turn"
    rows = [
        (f"{part.index}/{plan.total}", plural(part.cases, "case"), f"{part.weight:,.0f} {unit}s") for part in plan.parts
    ]
    by = "recorded seconds of their runs" if plan.unit == "seconds" else "turns of their runs"
    return [f"{plural(plan.total, 'part')}, balanced by the {by}:", *columns(rows)]
