"""Pull requests that exist only as pass rates, and how the gate decides on them. For gate_error_rates.py.

Runs are drawn, and the gate's own `next_step` decides on them and asks for more within the extra runs that a real run
is allowed. Nothing of the gate is written again here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from agent_eval.gate.regression.gathering import held_against
from agent_eval.gate.regression.retrial import Retrial, outcomes
from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget, MetricRule, Outcome, Rules, usual_extra_runs
from agent_eval.gate.stats.samples import CaseEvidence, Series
from agent_eval_results import PASS
from agent_eval_results.data.decision import DecisionReport

Rng = np.random.Generator
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

MIXES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "mixed": ((1.0, 0.60), (0.95, 0.20), (0.8, 0.15), (0.5, 0.05)),
    "steady": ((1.0, 0.90), (0.95, 0.10)),
    "flaky": ((1.0, 0.30), (0.9, 0.30), (0.7, 0.25), (0.5, 0.15)),
    "red": ((1.0, 0.60), (0.9, 0.20), (0.2, 0.10), (0.0, 0.10)),
}
"""Pass rates of cases, and their shares."""
THRESHOLD = 0.7
"""Of scores."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What the pull requests of a row are drawn from. The defaults are those of a gate that has run for a while."""

    cases: int = 30
    mix: str = "mixed"
    depth: int = 20
    """Stored runs of the base, one a record."""
    num_runs: int = 1
    rerun: bool = False
    """The base is run today, every case as often as the head."""
    base_can_run: bool = True
    """There is a worktree of the base for suspicious cases."""
    day_sd: float = 0.0
    """Of a shift of all pass rates of a day, in logits."""
    drift: float = 0.0
    """By how much the base's pass rates were higher per record of age, in logits."""
    flips: float = 0.0
    """How often the judge says the opposite."""
    scores: int = 0
    """Compared score metrics (mean 0.65 to 0.95, noise 0.08)."""
    passes: bool = True
    """Whether pass or fail is compared as well."""
    judge_sd: float = 0.0
    """Noise of the judge, in points of the score."""
    touched: int = 0
    """Cases that the pull request changed, so that they have no stored runs."""
    outage: float = 0.0
    """Share of the cases whose pass rate falls to three tenths today, on both sides, since a tool is down."""
    stricter: float = 0.0
    """Share of what passes that today's judge or model fails, on both sides, and that of the stored runs did not."""
    broke: int = 0
    """The last case fails since so many records of the base, on both sides; before it always passed."""
    files: int = 5
    """Eval files: what the cases of one share, where cases share something."""
    away: float = 0.0
    """Share of all columns, of either side, in which the dependency of a file is away: all of its cases fail."""
    copula: float = 0.0
    """Correlation of the cases of a file in one column (of normal variables that decide who passes)."""
    hiccup: int = 0
    """Random cases that fail in the first screening run of the head, whatever their rate."""
    hiccup_runs: int = 0
    """How many fresh runs of these cases the same moment takes as well."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A row of a table."""

    group: str
    name: str
    goal: str = ""
    """E.g. `at most .05`; "" where none was set."""
    world: World = field(default_factory=World)
    change: str = "nothing"
    confirm_on_base: Literal["auto", "always", "never"] = "auto"
    alpha: float = 0.05
    confirm_runs: int = 15
    extra_runs: int | None = None
    """`max-extra-runs`; None: what a real run is allowed by default."""
    counts: Literal["failed", "red", "ever red", "a green push", "a later green push", "better"] = "failed"
    """What is counted: pull requests that fail; that fail or are inconclusive; of which one of the pushes does; passes;
    passes after the first did not; in which the statistics call a case better than on the base."""
    pushes: int = 1
    """How often the same pull request is pushed. Where nothing else is counted, the last one is."""
    again: Literal["", "with artifacts", "without artifacts"] = ""
    """Not pushes: the same job is run again until it is green, and can or can't read the results of the others."""
    repaired: bool = False
    """The last push takes the change back."""
    trials: int | None = None
    """Fewer than usual, where a pull request takes long to simulate."""

    @property
    def rules(self) -> Rules:
        """What the gate is asked to keep."""
        world = self.world
        metrics = {name: MetricRule() for name in metric_names(world)} if world.scores else {}
        return Rules(
            alpha=self.alpha, confirm_on_base=self.confirm_on_base, confirm_runs=self.confirm_runs, metrics=metrics
        )

    @property
    def allowed(self) -> int:
        """Extra runs that a push may use, as in `against_base`."""
        if self.extra_runs is not None:
            return self.extra_runs
        return usual_extra_runs(
            self.world.cases,
            self.world.num_runs,
            metrics=self.rules.blocking_metrics,
            confirm_on_base=self.confirm_on_base if self.world.base_can_run else "never",
        )


def metric_names(world: World) -> list[str]:
    """The compared metrics."""
    return [*([PASS] if world.passes else []), *(f"score{index}" for index in range(world.scores))]


def changed(rates: Floats, change: str) -> tuple[Floats, Floats]:
    """Rates (or mean scores) of base and head."""
    base, head = rates.copy(), rates.copy()
    match change.split():
        case ["nothing"]:
            pass
        case ["one", before, after]:
            base[0], head[0] = float(before), float(after)
        case ["three", drop]:
            head[:3] = np.maximum(head[:3] + float(drop), 0)
        case ["all", drop]:
            head = np.maximum(head + float(drop), 0)
        case ["first", drop]:
            head[0] = max(head[0] + float(drop), 0)
        case _:
            raise ValueError(change)
    return base, head


class PullRequest:
    """One trial: where runs come from. Runs are tables: a row for each case, a column for each run."""

    def __init__(self, cell: Cell, rng: Rng) -> None:
        self.world, self.rng = cell.world, rng
        world = cell.world
        self.base: dict[str, Floats] = {}
        self.head: dict[str, Floats] = {}
        for name in metric_names(world):
            if name == PASS:
                values, shares = zip(*MIXES[world.mix], strict=True)
                rates = rng.choice(values, size=world.cases, p=shares)
            else:
                rates = rng.uniform(0.65, 0.95, world.cases)
            self.base[name], self.head[name] = changed(rates, cell.change)
        self.today = rng.normal(0, world.day_sd) if world.day_sd else 0.0
        self.down = rng.permutation(world.cases) < round(world.outage * world.cases)
        self.file_of = np.arange(world.cases) * world.files // world.cases
        self.hiccups = rng.permutation(world.cases) < world.hiccup

    def draw(self, name: str, rates: Floats, shift: float, runs: int) -> Floats:
        """Columns: runs of all cases."""
        world = self.world
        if name != PASS:
            noise = math.hypot(0.08, world.judge_sd)
            return np.clip(self.rng.normal(rates[:, None] + shift, noise, (len(rates), runs)), 0, 1)
        if shift:
            odds = np.exp(shift) * rates / np.maximum(1 - rates, 1e-300)
            rates = np.where(rates < 1, odds / (1 + odds), 1.0)
        if world.flips:
            rates = rates * (1 - world.flips) + (1 - rates) * world.flips
        if world.copula:
            shared = self.rng.normal(size=(world.files, runs))[self.file_of]
            own = self.rng.normal(size=(len(rates), runs))
            mixed = math.sqrt(world.copula) * shared + math.sqrt(1 - world.copula) * own
            luck = 0.5 * (1 + np.vectorize(math.erf, otypes=[float])(mixed / math.sqrt(2)))
        else:
            luck = self.rng.random((len(rates), runs))
        passed = luck < rates[:, None]
        if world.away:
            passed &= (self.rng.random((world.files, runs)) >= world.away)[self.file_of]
        return np.asarray(passed, dtype=np.float64)

    def runs(self, side: Mapping[str, Floats], runs: int) -> dict[str, Floats]:
        """Runs of today, by metric. Those of one column share what the cases of a file share."""
        drawn = {
            name: self.draw(name, np.where(self.down, 0.3, 1.0) * (1 - self.world.stricter) * rates, self.today, runs)
            for name, rates in side.items()
        }
        if self.world.broke:
            drawn[PASS][-1] = 0.0
        return drawn

    def screening(self, runs: int) -> dict[str, Floats]:
        """The head's first runs of today, by metric."""
        drawn = self.runs(self.head, runs)
        if PASS in drawn and self.world.hiccup:
            drawn[PASS][self.hiccups, :1] = 0.0
        return drawn

    def stored(self) -> dict[str, Floats]:
        """The base's history by metric: a column a record, each of another day, the newest last."""
        world = self.world
        if not world.depth:
            return {name: np.zeros((world.cases, 0)) for name in self.base}
        shifts = [
            world.drift * age + (self.rng.normal(0, world.day_sd) if world.day_sd else 0.0)
            for age in range(world.depth - 1, -1, -1)
        ]
        drawn = {
            name: np.hstack([self.draw(name, rates, shift, 1) for shift in shifts]) for name, rates in self.base.items()
        }
        if world.broke:
            drawn[PASS][-1] = np.arange(world.depth) < world.depth - world.broke
        return drawn


@dataclass(frozen=True, kw_only=True)
class Push:
    """What came of one push."""

    outcome: Outcome
    extra: int
    """Runs beyond the screening."""
    before: Collection[str]
    """Ids of the cases that the next push looks at again."""
    rounds: int = 0
    """How often the gate waited for extra runs."""
    better: bool = False
    """Whether a case is called better than on the base."""
    evidence: Mapping[str, CaseEvidence] = field(default_factory=dict)
    """All runs of the compared cases, by case id."""


def our_gate(
    pull: PullRequest,
    cell: Cell,
    *,
    head: Mapping[str, Floats],
    stored: Mapping[str, Floats],
    again: Mapping[str, Floats],
    before: Collection[str],
    earlier: Sequence[Push] = (),
    careful: bool = False,
) -> Push:
    """What the gate makes of it.

    Args:
        pull: Where further runs come from.
        cell: The settings.
        head: The screening runs, by metric.
        stored: Those of the base.
        again: The base's of today (`baseline: rerun`); no columns otherwise.
        before: What the previous push held against a case.
        earlier: Earlier attempts of the same commit that were red.
        careful: Whether there were some, whose results are missing.
    """
    world = cell.world
    evidence = {
        str(index): CaseEvidence(
            case_id=str(index),
            earlier=tuple(each.evidence[str(index)].metrics[PASS] for each in earlier),
            metrics={
                name: Series(
                    head_screen=tuple(head[name][index].tolist()),
                    base=tuple(stored[name][index].tolist()),
                    base_screen=tuple(again[name][index].tolist()),
                    base_days=tuple(str(day) for day in range(world.depth)),
                    before=name == PASS and str(index) in before,
                    threshold=None if name == PASS else THRESHOLD,
                )
                for name in head
            },
        )
        for index in range(world.touched, world.cases)
    }
    retrials = {
        str(index): Retrial(case_id=str(index), kind="case")
        for index in range(world.touched)
        if not head[PASS][index].all()
    }

    def draw(head_runs: int, base_runs: int) -> tuple[dict[str, Floats], dict[str, Floats]]:
        now, then = pull.runs(pull.head, head_runs), pull.runs(pull.base, base_runs)
        for index in pull.hiccups.nonzero()[0].tolist() if world.hiccup_runs else ():
            made = len(evidence[str(index)].metrics[PASS].head_confirm)
            now[PASS][index, : max(world.hiccup_runs - made, 0)] = 0.0
        return now, then

    rules = replace(cell.rules, careful=careful)
    return settle(evidence, retrials, rules, draw, allowed=cell.allowed, can_run_base=world.rerun or world.base_can_run)


Draw = Callable[[int, int], tuple[Mapping[str, Floats], Mapping[str, Floats]]]
"""Makes so many runs of every case of head and base, by metric."""


def settle(
    evidence: dict[str, CaseEvidence],
    retrials: dict[str, Retrial],
    rules: Rules,
    draw: Draw,
    *,
    allowed: int,
    can_run_base: bool,
) -> Push:
    """Makes the runs that the gate asks for, until it has decided.

    Args:
        evidence: The compared cases by id, the index of each in the tables that are drawn. Receives the runs.
        retrials: The failed cases that can't be compared. Receives the runs.
        rules: What the gate is asked to keep.
        draw: Makes the runs.
        allowed: Extra runs of both sides together.
        can_run_base: Whether there is a worktree of the base.
    """
    budget = Budget(extra_runs=allowed, can_run_base=can_run_base)
    extra = rounds = 0
    while not isinstance(
        step := next_step(list(evidence.values()), rules, budget, list(retrials.values())), DecisionReport
    ):
        now, then = draw(max(step.head.values(), default=0), max(step.base.values(), default=0))
        for case_id in sorted({*step.head, *step.base}):  # A set has another order in every process.
            index, made, base_made = int(case_id), step.head.get(case_id, 0), step.base.get(case_id, 0)
            extra += made + base_made
            if case_id in retrials:
                retrial = retrials[case_id]
                failures = (not value for value in now[PASS][index, :made].tolist())
                retrials[case_id] = replace(retrial, failed=(*retrial.failed, *failures))
                continue
            series = {
                name: replace(
                    values,
                    head_confirm=(*values.head_confirm, *now[name][index, :made].tolist()),
                    head_rounds=(*values.head_rounds, *[rounds] * made),
                    base_confirm=(*values.base_confirm, *then[name][index, :base_made].tolist()),
                )
                for name, values in evidence[case_id].metrics.items()
            }
            evidence[case_id] = replace(evidence[case_id], metrics=series)
        rounds += 1
        budget = replace(budget, extra_runs=allowed - extra)
    outcome: Outcome = step.outcome
    reproduced = set(outcomes(list(retrials.values())).values())
    if "again" in reproduced:
        outcome = "failed"
    elif outcome == "passed" and "open" in reproduced:
        outcome = "inconclusive"
    return Push(
        outcome=outcome,
        extra=extra,
        rounds=rounds,
        before=held_against(step.cases),
        better=any(case.word in {"better", "fixed"} for case in step.cases),
        evidence=evidence,
    )


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What came of one pull request."""

    hit: bool
    """Whether what the row counts came about."""
    inconclusive: bool
    paid: float
    """Runs of the last push, relative to one run of everything."""
    rounds: int
    """How often the last push waited for extra runs."""
    first: Floats
    """The screening runs of the first push, pass or fail or the first metric."""
    second: Floats
    """Another run of the head."""
    stored: Floats
    """The base's runs, of the same."""


def play(cell: Cell, rng: Rng) -> Trial:
    """One pull request, with all its pushes."""
    pull = PullRequest(cell, rng)
    stored = pull.stored()
    first: Floats | None = None
    before: Collection[str] = ()
    red: list[Push] = []
    for push in range(cell.pushes):
        if cell.repaired and push == cell.pushes - 1:
            pull.head = pull.base
        head = pull.screening(cell.world.num_runs)
        again = pull.runs(pull.base, cell.world.num_runs if cell.world.rerun else 0)
        first = next(iter(head.values())) if first is None else first
        done = our_gate(
            pull,
            cell,
            head=head,
            stored=stored,
            again=again,
            before=before,
            earlier=red if cell.again == "with artifacts" else (),
            careful=push > 0 and cell.again == "without artifacts",
        )
        before = () if cell.again else done.before
        if done.outcome != "passed":
            red.append(done)
        elif "green" in cell.counts or (cell.again and cell.counts == "red"):
            break
    hit = {
        "failed": done.outcome == "failed",
        "red": done.outcome != "passed",
        "ever red": bool(red),
        "a green push": done.outcome == "passed",
        "a later green push": bool(red) and done.outcome == "passed",
        "better": done.better,
    }[cell.counts]
    screened = cell.world.num_runs * (2 if cell.world.rerun else 1)
    assert first is not None
    second = next(iter(pull.runs(pull.head, 1).values()))[:, 0]
    return Trial(
        hit=hit,
        inconclusive=done.outcome == "inconclusive",
        paid=screened + done.extra / cell.world.cases,
        rounds=done.rounds,
        first=first,
        second=second,
        stored=next(iter(stored.values())),
    )
