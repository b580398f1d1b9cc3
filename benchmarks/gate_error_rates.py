"""How often the gate fails pull requests: when nothing changed, and when something did.

    python benchmarks/gate_error_rates.py                    # all cells, writes the tables into docs/statistics.md
    python benchmarks/gate_error_rates.py --trials 200 --print
    python benchmarks/gate_error_rates.py --only default --print

Every trial is a pull request that exists only as pass rates: runs are drawn, and the gate's own `next_step` decides on
them and asks for more, exactly as in a real run. Nothing of the gate is written again here. Every trial has a seed of
its own, so a cell gives the same numbers whatever runs beside it.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget, Decision, MetricRule, Rules
from agent_eval.gate.stats.evidence import PASS, CaseEvidence, Series
from agent_eval.gate.stats.exact_tests import wilson

DOCS = Path(__file__).parents[1] / "docs" / "statistics.md"
CHUNK = 250
SEED = 20_260
Rng = np.random.Generator
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]

MIXES: Mapping[str, tuple[tuple[float, float], ...]] = {
    "mixed": ((1.0, 0.60), (0.95, 0.20), (0.8, 0.15), (0.5, 0.05)),
    "steady": ((1.0, 0.90), (0.95, 0.10)),
    "flaky": ((1.0, 0.30), (0.9, 0.30), (0.7, 0.25), (0.5, 0.15)),
    "red": ((1.0, 0.60), (0.9, 0.20), (0.2, 0.10), (0.0, 0.10)),
}
"""Pass rates of cases, and their shares."""


@dataclass(frozen=True, kw_only=True)
class World:
    """What the pull requests of a cell are drawn from."""

    cases: int = 30
    mix: str = "mixed"
    depth: int = 10
    """Stored runs of the base."""
    num_runs: int = 1
    rerun: bool = False
    """The base is run today, every case as often as the head."""
    base_can_run: bool = False
    """There is a worktree of the base for suspicious cases."""
    day_sd: float = 0.0
    """Of a shift of all pass rates of a day, in logits."""
    drift: float = 0.0
    """By how much the base's pass rates were higher per record of age, in logits."""
    flips: float = 0.0
    """How often the judge says the opposite."""
    scores: bool = False
    """The cases have scores (mean 0.65 to 0.95, noise 0.08) instead of passing or failing."""
    judge_sd: float = 0.0
    """Noise of the judge, in points of the score."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A row of the table."""

    group: str
    name: str
    world: World = field(default_factory=World)
    change: str = "nothing"
    rules: Rules = field(default_factory=Rules)
    extra_runs: int | None = None


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
    """One trial: where runs come from."""

    def __init__(self, world: World, change: str, rng: Rng) -> None:
        self.world, self.rng = world, rng
        if world.scores:
            rates = rng.uniform(0.65, 0.95, world.cases)
        else:
            values, shares = zip(*MIXES[world.mix], strict=True)
            rates = rng.choice(values, size=world.cases, p=shares)
        self.base, self.head = changed(rates, change)
        self.today = rng.normal(0, world.day_sd) if world.day_sd else 0.0

    def draw(self, rates: Floats, shift: float, runs: int) -> Floats:
        """Runs of some cases: rows are cases."""
        world = self.world
        if world.scores:
            noise = math.hypot(0.08, world.judge_sd)
            return np.clip(self.rng.normal(rates[:, None] + shift, noise, (len(rates), runs)), 0, 1)
        if shift:
            odds = np.exp(shift) * rates / np.maximum(1 - rates, 1e-300)
            rates = np.where(rates < 1, odds / (1 + odds), 1.0)
        if world.flips:
            rates = rates * (1 - world.flips) + (1 - rates) * world.flips
        return np.asarray(self.rng.random((len(rates), runs)) < rates[:, None], dtype=np.float64)

    def stored(self) -> Floats:
        """The base's history, a record a day, newest last."""
        world = self.world
        if not world.depth:
            return np.zeros((world.cases, 0))
        days = [
            self.draw(self.base, world.drift * age + (self.rng.normal(0, world.day_sd) if world.day_sd else 0.0), 1)
            for age in range(world.depth - 1, -1, -1)
        ]
        return np.hstack(days)


def our_gate(pull: PullRequest, cell: Cell, head: Floats, base: Floats) -> tuple[str, float]:
    """The outcome, and runs paid relative to one run of everything."""
    world, metric = cell.world, "score" if cell.world.scores else PASS
    threshold = 0.7 if world.scores else None
    again = pull.draw(pull.base, pull.today, world.num_runs if world.rerun else 0)
    evidence = [
        CaseEvidence(
            case_id=str(index),
            metrics={
                metric: Series(
                    head_screen=tuple(head[index].tolist()),
                    base=tuple(base[index].tolist()),
                    base_screen=tuple(again[index].tolist()),
                    base_days=tuple(str(day) for day in range(world.depth)),
                    threshold=threshold,
                )
            },
        )
        for index in range(world.cases)
    ]
    budget = Budget(extra_runs=cell.extra_runs, can_run_base=world.rerun or world.base_can_run)
    extra = 0
    while not isinstance(step := next_step(evidence, cell.rules, budget), Decision):
        for case_id in sorted({*step.head, *step.base}):  # A set has another order in every process.
            index = int(case_id)
            series = evidence[index].metrics[metric]
            at = slice(index, index + 1)
            now = pull.draw(pull.head[at], pull.today, step.head.get(case_id, 0))[0]
            then = pull.draw(pull.base[at], pull.today, step.base.get(case_id, 0))[0]
            extra += len(now) + len(then)
            series = replace(
                series,
                head_confirm=(*series.head_confirm, *now.tolist()),
                base_confirm=(*series.base_confirm, *then.tolist()),
            )
            evidence[index] = CaseEvidence(case_id=case_id, metrics={metric: series})
        if cell.extra_runs is not None:
            budget = replace(budget, extra_runs=cell.extra_runs - extra)
    return step.outcome, (head.size + again.size + extra) / world.cases


def mcnemar(head: Floats, base: Floats) -> float:
    """One-sided and exact: of the cases that differ, how many are worse (Q. McNemar, 1947)."""
    worse, better = int((base > head).sum()), int((head > base).sum())
    count = worse + better
    return math.fsum(math.comb(count, k) / 2.0**count for k in range(worse, count + 1))


def wilcoxon(head: Floats, base: Floats) -> float:
    """Signed ranks, two-sided, normal with continuity correction and without one for ties, as adk-rust has it."""
    differences = (base - head)[base != head]
    count = len(differences)
    if not count:
        return 1.0
    sizes = np.abs(differences)
    ranks = np.array([(sizes < size).sum() + ((sizes == size).sum() + 1) / 2 for size in sizes])
    mean, sd = count * (count + 1) / 4, math.sqrt(count * (count + 1) * (2 * count + 1) / 24)
    distance = max(0.0, abs(float(ranks[differences > 0].sum()) - mean) - 0.5)
    return math.erfc(distance / sd / math.sqrt(2))


Rule = Callable[[Floats, Floats, Floats], bool]
OTHERS: Sequence[tuple[str, str, float, Rule]] = (
    (
        "every case must pass, once",
        "`adk eval` (google-adk 2.13.0) runs each case once and compares with the thresholds",
        1.0,
        lambda head, more, base: bool((head < 1).any()),
    ),
    (
        "every case must pass, mean of 2 runs",
        "`AgentEvaluator.evaluate` (google-adk 2.13.0): `num_runs=2`, the mean must reach the threshold",
        2.0,
        lambda head, more, base: bool((head < 1).any() or (more < 1).any()),
    ),
    (
        "a case that passed on base fails",
        "adk-rust's `BaselineStore`: any score that is lower by more than 0.05",
        1.0,
        lambda head, more, base: bool((base > head).any()),
    ),
    (
        "the suite's mean is more than 5 points lower",
        "a tolerance on the average, as many dashboards have it",
        1.0,
        lambda head, more, base: bool(base.mean() - head.mean() > 0.05),
    ),
    (
        "exact McNemar, p < .05",
        "the textbook's test for pairs",
        1.0,
        lambda head, more, base: mcnemar(head, base) < 0.05,
    ),
    (
        "Wilcoxon, p < .05 and lower",
        "adk-rust's A/B comparison",
        1.0,
        lambda head, more, base: wilcoxon(head, base) < 0.05 and bool(base.mean() > head.mean()),
    ),
)
"""Rules of others: name, source, runs paid, and when they fail a run. `more` is a second run of the head, `base` the
newest of the base."""

CHANGES = (
    ("nothing changed", "nothing"),
    ("one case broken, 1 to 0", "one 1 0"),
    ("one case 1 to .3", "one 1 .3"),
    ("three cases -.5", "three -.5"),
    ("all cases -.15", "all -.15"),
)
ALWAYS = Rules(confirm_on_base="always")
SCORE = Rules(metrics={"score": MetricRule()})


def cells() -> Iterator[Cell]:
    """The rows of the first table, in order."""
    for name, change in CHANGES:
        yield Cell(group="default", name=name, change=change)
    for cases in (5, 300):
        world = World(cases=cases)
        yield Cell(group=f"{cases} cases", name="nothing changed", world=world)
        yield Cell(group=f"{cases} cases", name="one case broken, 1 to 0", world=world, change="one 1 0")
    yield Cell(group="300 cases", name="all cases -.05", world=World(cases=300), change="all -.05")
    for mix in ("steady", "flaky", "red"):
        world = World(mix=mix)
        yield Cell(group=f"{mix} cases", name="nothing changed", world=world)
        yield Cell(group=f"{mix} cases", name="one case broken, 1 to 0", world=world, change="one 1 0")
    for depth, can, label in (
        (0, True, "no history, base can be run"),
        (1, True, "1 base run, base can be run"),
        (1, False, "1 base run, base can't be run"),
        (3, True, "3 base runs, base can be run"),
        (3, False, "3 base runs, base can't be run"),
    ):
        world = World(depth=depth, base_can_run=can)
        for name, change in (CHANGES[0], CHANGES[1], CHANGES[3]):
            yield Cell(group=label, name=name, world=world, change=change)
    rerun = World(rerun=True, depth=0)
    yield Cell(group="`baseline: rerun`", name="nothing changed", world=rerun, rules=ALWAYS)
    yield Cell(group="`baseline: rerun`", name="all cases -.15", world=rerun, rules=ALWAYS, change="all -.15")
    day = "a day effect"
    for sd in (0.5, 1.0):
        name = f"nothing changed, stored base only, sd {sd}"
        yield Cell(group=day, name=name, world=World(day_sd=sd))
    world = World(cases=300, day_sd=0.5)
    yield Cell(group=day, name="nothing changed, stored base only, sd 0.5, 300 cases", world=world)
    for name, change in CHANGES[:2]:
        world = World(day_sd=0.5, base_can_run=True)
        yield Cell(
            group=day, name=f"{name}, sd 0.5, `confirm-on-base: always`", world=world, change=change, rules=ALWAYS
        )
    world = World(day_sd=0.5, base_can_run=True)
    name = "all cases -.15, sd 0.5, `confirm-on-base: always`"
    yield Cell(group=day, name=name, world=world, rules=ALWAYS, change="all -.15")
    world = World(day_sd=0.5, rerun=True)
    yield Cell(group=day, name="nothing changed, sd 0.5, `baseline: rerun`", world=world, rules=ALWAYS)
    yield Cell(group="a drifting base", name="nothing changed, .05 logit worse a record", world=World(drift=0.05))
    yield Cell(group="a drifting base", name="nothing changed, .05 logit better a record", world=World(drift=-0.05))
    yield Cell(group="a judge that errs in 3%", name="nothing changed", world=World(flips=0.03))
    yield Cell(
        group="a judge that errs in 3%", name="one case broken, 1 to 0", world=World(flips=0.03), change="one 1 0"
    )
    for noise, label in ((0.0, "scores"), (0.1, "scores, judge's noise .1")):
        world = World(scores=True, judge_sd=noise)
        yield Cell(group=label, name="nothing changed", world=world, rules=SCORE)
        yield Cell(group=label, name="one case -.4", world=world, rules=SCORE, change="first -.4")
        yield Cell(group=label, name="all cases -.05", world=world, rules=SCORE, change="all -.05")


SETTINGS: Sequence[tuple[str, World, Rules, int | None]] = (
    ("default", World(), Rules(), None),
    ("no extra runs (`max-extra-runs: 0`)", World(), Rules(), 0),
    ("at most 15 extra runs", World(), Rules(), 15),
    ("9 confirmation runs a case", World(), Rules(confirm_runs=9), None),
    ("24 confirmation runs a case", World(), Rules(confirm_runs=24), None),
    ("`num-runs: 2`", World(num_runs=2), Rules(), None),
    ("`num-runs: 3`", World(num_runs=3), Rules(), None),
    ("alpha .01", World(), Rules(alpha=0.01), None),
    ("alpha .1", World(), Rules(alpha=0.1), None),
    ("20 base runs kept", World(depth=20), Rules(), None),
    ("`confirm-on-base: always`", World(base_can_run=True), ALWAYS, None),
)


@dataclass(frozen=True, kw_only=True)
class Count:
    """What came of the trials of a cell."""

    trials: int
    failed: int
    inconclusive: int
    paid: float
    """Sum over the trials."""
    others: tuple[int, ...]

    def __add__(self, other: Count) -> Count:
        return Count(
            trials=self.trials + other.trials,
            failed=self.failed + other.failed,
            inconclusive=self.inconclusive + other.inconclusive,
            paid=self.paid + other.paid,
            others=tuple(one + two for one, two in zip(self.others, other.others, strict=True)),
        )


def seed_of(cell: Cell) -> list[int]:
    """Worlds with the same change share their pull requests, so that settings are compared on the same ones."""
    return [SEED, *repr((cell.world.cases, cell.world.mix, cell.world.scores, cell.change)).encode()]


def run_chunk(cell: Cell, first: int, count: int, *, others: bool) -> Count:
    """Some trials of a cell."""
    failed = inconclusive = 0
    paid = 0.0
    found = [0] * len(OTHERS)
    for trial in range(first, first + count):
        pull = PullRequest(cell.world, cell.change, np.random.default_rng([*seed_of(cell), trial]))
        base = pull.stored()
        head = pull.draw(pull.head, pull.today, cell.world.num_runs)
        if others:
            more = pull.draw(pull.head, pull.today, 1)[:, 0]
            for index, (_, _, _, rule) in enumerate(OTHERS):
                found[index] += rule(head[:, 0], more, base[:, -1])
        outcome, cost = our_gate(pull, cell, head, base)
        failed += outcome == "failed"
        inconclusive += outcome == "inconclusive"
        paid += cost
    return Count(trials=count, failed=failed, inconclusive=inconclusive, paid=paid, others=tuple(found))


def measure(rows: Sequence[Cell], trials: int, workers: int, *, others: bool) -> list[Count]:
    """All cells, in parallel by chunks."""
    jobs = [
        (index, first, min(CHUNK, trials - first)) for index in range(len(rows)) for first in range(0, trials, CHUNK)
    ]
    totals: list[Count | None] = [None] * len(rows)
    begun = time.monotonic()
    with ProcessPoolExecutor(workers) as pool:
        futures = [
            pool.submit(run_chunk, rows[index], first, count, others=others and rows[index].group == "default")
            for index, first, count in jobs
        ]
        for (index, first, count), future in zip(jobs, futures, strict=True):
            before = totals[index]
            totals[index] = future.result() if before is None else before + future.result()
            if first + count >= trials:
                print(f"{time.monotonic() - begun:6.0f} s  {rows[index].group}: {rows[index].name}", file=sys.stderr)
    return [total for total in totals if total is not None]


def share(count: int, trials: int) -> str:
    """A share with its 95% interval."""
    low, high = wilson(count, trials)
    return f"{count / trials:.3f} ({low:.3f} to {high:.3f})"


def table_of_cells(rows: Sequence[Cell], counts: Sequence[Count]) -> str:
    """The gate alone, over all worlds."""
    lines = ["| world | what changed | failed (95% interval) | inconclusive | runs paid |", "|---|---|---|---|---|"]
    for cell, count in zip(rows, counts, strict=True):
        open_ = f"{count.inconclusive / count.trials:.3f}" if count.inconclusive else "0"
        paid = f"{count.paid / count.trials:.2f}"
        lines.append(f"| {cell.group} | {cell.name} | {share(count.failed, count.trials)} | {open_} | {paid} |")
    return "\n".join(lines)


def table_of_rules(rows: Sequence[Cell], counts: Sequence[Count]) -> str:
    """The gate beside the rules of others, on the same pull requests."""
    picked = [(cell, count) for cell, count in zip(rows, counts, strict=True) if cell.group == "default"]
    lines = [
        "| rule | " + " | ".join(cell.name for cell, _ in picked) + " | runs paid | source |",
        "|---" * (len(picked) + 3) + "|",
    ]
    for index, (name, source, paid, _) in enumerate(OTHERS):
        shares = " | ".join(f"{count.others[index] / count.trials:.3f}" for _, count in picked)
        lines.append(f"| {name} | {shares} | {paid:.1f} | {source} |")
    shares = " | ".join(f"**{count.failed / count.trials:.3f}**" for _, count in picked)
    costs = [count.paid / count.trials for _, count in picked]
    lines.append(
        f"| **this gate** | {shares} | {costs[0]:.2f}, at most {max(costs):.2f} | `gate/regression/sequential.py` |"
    )
    return "\n".join(lines)


def frontier_cells() -> list[Cell]:
    """Other settings, over the changes of the default world."""
    return [
        Cell(group=label, name=name, world=world, change=change, rules=rules, extra_runs=extra)
        for label, world, rules, extra in SETTINGS
        for name, change in CHANGES
    ]


def table_of_settings(counts: Sequence[Count]) -> str:
    """Power against runs paid."""
    lines = ["| setting | " + " | ".join(name for name, _ in CHANGES) + " |", "|---" * (len(CHANGES) + 1) + "|"]
    for index, (label, *_) in enumerate(SETTINGS):
        row = counts[index * len(CHANGES) : (index + 1) * len(CHANGES)]
        lines.append(
            f"| {label} | "
            + " | ".join(f"{one.failed / one.trials:.3f}{_open(one)} ({one.paid / one.trials:.2f})" for one in row)
            + " |"
        )
    return "\n".join(lines)


def _open(count: Count) -> str:
    return f" + {count.inconclusive / count.trials:.2f}?" if count.inconclusive else ""


def insert(text: str, name: str, table: str) -> str:
    """Puts a table between its marks."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"


def main() -> int:
    """Measures, and writes or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=4000, help="pull requests of each cell (4000)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", help="cells whose group contains this text")
    parser.add_argument("--print", action="store_true", help="print the tables instead of writing them into the docs")
    arguments = parser.parse_args()
    rows = [cell for cell in cells() if not arguments.only or arguments.only in cell.group]
    begun = time.monotonic()
    counts = measure(rows, arguments.trials, arguments.workers, others=True)
    tables = {"error rates": table_of_cells(rows, counts)}
    if any(cell.group == "default" for cell in rows):
        tables["other rules"] = table_of_rules(rows, counts)
    if not arguments.only:
        less = max(1, arguments.trials // 4)
        tables["settings"] = table_of_settings(measure(frontier_cells(), less, arguments.workers, others=False))
    print(f"{time.monotonic() - begun:.0f} s on {arguments.workers} cores", file=sys.stderr)
    if arguments.print or arguments.only:
        print("\n\n".join(tables.values()))
        return 0
    text = DOCS.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = insert(text, name, table)
    DOCS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
