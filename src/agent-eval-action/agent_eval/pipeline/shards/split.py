"""Splits the cases of a suite into parts of about equal duration. Pure: every part of a run computes the same split.

A case is never split: its runs belong together for `results.merge` and for sessions that the case names. The split
is greedy: the heaviest case goes to the lightest part (longest processing time first; Graham, 1969), which is at most
a third longer than the best split.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field
from pydantic_core import from_json

from agent_eval.pipeline.features import Feature, Run
from agent_eval_scoring.core.files import MAX_RESULTS, read_regular
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.wire import WireModel

if TYPE_CHECKING:
    from agent_eval.runner import Plan
    from agent_eval_results import RunReport


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


def units_of(plan: Plan) -> list[Unit]:
    """The cases of a plan as the split sees them."""
    return [Unit(case_id=case.case_id, fingerprint=case.content, turns=case.turns) for case in plan.cases]


def hashes_of(plan: Plan) -> dict[str, str]:
    """Hashes of the cases, their criteria and their agents: equal in all parts of a run."""
    facts: dict[str, object] = {
        "cases": [(case.case_id, case.content) for case in plan.cases],
        "criteria": [
            (
                [(criterion.name, criterion.threshold) for criterion in case.criteria],
                [(name, identity.fingerprint) for name, identity in case.identities.items()],
            )
            for case in plan.cases
        ],
        "agents": [case.agent for case in plan.cases],
    }
    return {name: hashlib.sha256(json.dumps(value).encode()).hexdigest()[:12] for name, value in facts.items()}


def read_shard_plan(path: Path, root: Path) -> tuple[RecordedSeconds | None, list[Problem]]:
    """Reads the durations that `--shard-plan` names.

    Args:
        path: The file, relative to the root.
        root: The repository.

    Returns:
        The durations, None without a usable file; and the problem of an unusable file.
    """
    try:
        content = from_json(read_regular(root / path, MAX_RESULTS), allow_inf_nan=False)
        return RecordedSeconds.model_validate(content["split"]["recorded"]), []
    except OSError as error:
        why = error.strerror or str(error)
    except (ValueError, KeyError, TypeError):
        why = "It is not the output of `agent-eval validate --plan --durations ... --format json`"
    problem = Problem(
        code="shard-plan-invalid",
        message=f"shard-plan: {path} can't be used. {why}.",
        hint="Write it with `agent-eval validate --plan --durations RESULTS --format json > FILE`.",
    )
    return None, [problem]


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
            runs = [run for run in case.runs if run.is_judged and run.duration > 0]
            if not runs:
                continue
            seconds.setdefault(case.case_id, []).append(statistics.fmean(run.duration for run in runs))
            per_turn += [run.duration / run.turns for run in runs if run.turns]
    return RecordedSeconds(
        per_run={case_id: round(statistics.median(values), 3) for case_id, values in sorted(seconds.items())},
        per_turn=round(statistics.median(per_turn), 3) if per_turn else 0.0,
    )


class Weighed(Feature):
    """Gives the cases the durations of `shard-plan` as weights, if it is set: the heaviest begin first."""

    by_durations = False
    _unusable: Sequence[Problem] = ()

    def plan(self, run: Run) -> None:
        """Weighs the cases."""
        if run.settings.shard_plan is None:
            return
        recorded, self._unusable = read_shard_plan(run.settings.shard_plan, run.settings.root)
        if recorded is not None:
            self.by_durations = True
            run.plan = dataclasses.replace(run.plan, weights=weigh(units_of(run.plan), recorded))

    def problems(self, run: Run) -> Sequence[Problem]:
        """Whether the file of durations is unusable."""
        return self._unusable
