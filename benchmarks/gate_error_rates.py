"""How often the gate fails pull requests: when nothing changed, and when something did.

    python benchmarks/gate_error_rates.py                    # everything; about 18 minutes on one core
    python benchmarks/gate_error_rates.py --trials 200 --only default --print
    python benchmarks/gate_error_rates.py --docs             # only writes RESULTS.md from what was measured last

What was measured is written to gate_error_rates.json, and from there into the tables of RESULTS.md. Every pull
request has a seed of its own, so a row gives the same numbers whatever runs beside it. The seed is another one than
those with which the gate's constants were chosen.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import accumulate, groupby, pairwise, product, zip_longest
from pathlib import Path
from typing import Any

# Several processes share the cores: numpy's own threads would only be in their way.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from simulated_pulls import MIXES, Cell, Floats, World, play

from agent_eval.gate.history import KEEP, KEEP_ROWS
from agent_eval_results.data.exact_tests import wilson
from agent_eval_results.data.history import CaseHistory, HistoryRecord, HistoryReport, TrendRow
from agent_eval_results.data.trend import drift

DOCS = Path(__file__).with_name("RESULTS.md")
MEASURED = Path(__file__).with_suffix(".json")
CHUNK = 40
SEED = 589_793
TRIALS = 1000
"""Pull requests of a row that says nothing else."""
MANY = 2000
"""Of a row with a goal that the rule was chosen for."""


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


OtherRule = Callable[[Floats, Floats, Floats], bool]
OTHERS: Sequence[tuple[str, str, float, OtherRule]] = (
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
    ("nothing changed", "nothing", "at most .05"),
    ("one case broken, 1 to 0", "one 1 0", "at least .99"),
    ("one case 1 to .3", "one 1 .3", "at least .70"),
    ("three cases -.5", "three -.5", "at least .85"),
    ("all cases -.15", "all -.15", "at least .92"),
)
NOTHING, BROKEN, ONE, THREE, ALL = CHANGES
HALF = ("one case 1 to .5", "one 1 .5", "")


def row(group: str, change: tuple[str, str, str], world: World | None = None, note: str = "", **more: Any) -> Cell:
    """A row; its goal is that of the change unless it has one of its own."""
    name, how, goal = change
    cell = Cell(group=group, name=f"{name}{note}", change=how, goal=goal, world=world or World())
    return replace(cell, **more)


def cells() -> Iterator[Cell]:
    """The rows of the table, in order."""
    yield row("default", NOTHING, goal="at most .03", trials=MANY)
    for change in (BROKEN, ONE, THREE, ALL):
        yield row("default", change, trials=MANY)
    moment = "a bad moment in the screening"
    for hiccup in (2, 3, 4, 6):
        note = f": {hiccup} of 30 cases fail once"
        yield row(moment, NOTHING, World(hiccup=hiccup), note=note, goal="at most .10", trials=MANY)
    for hiccup in (2, 4):
        world = World(hiccup=hiccup, hiccup_runs=2)
        yield row(
            moment, NOTHING, world, note=f": {hiccup} cases fail, and twice again", goal="at most .10", trials=MANY
        )
    shared = "a shared cause"
    for away in (0.02, 0.05):
        note = f": each of 5 files' dependency is away in {away:.0%} of the runs"
        yield row(shared, NOTHING, World(away=away), note=note, trials=MANY)
    world = World(away=0.02, files=1, mix="steady")
    yield row(shared, NOTHING, world, note=": one dependency of steady cases is away in 2%", trials=MANY)
    yield row(shared, NOTHING, World(copula=0.9, files=1), note=": copula .9, one file", trials=MANY)
    yield row(shared, NOTHING, World(copula=0.9), note=": copula .9, 5 files", trials=MANY)
    yield row("1 stored run", NOTHING, World(depth=1))
    yield row("1 stored run", BROKEN, World(depth=1))
    yield row("1 stored run", THREE, World(depth=1), goal="")
    yield row("5 stored runs", NOTHING, World(depth=5))
    # Not less than with one stored run, where an independent simulator saw .61 to .69.
    yield row("5 stored runs", THREE, World(depth=5), goal="at least .61")
    yield row("10 stored runs", NOTHING, World(depth=10))
    yield row("10 stored runs", THREE, World(depth=10), goal="")
    for depth, group in ((1, "1 stored run, base can't be run"), (3, "3 stored runs, base can't be run")):
        world = World(depth=depth, base_can_run=False)
        yield row(group, NOTHING, world)
        yield row(group, BROKEN, world)
        yield row(group, THREE, world, goal="")
    yield row("5 cases", NOTHING, World(cases=5))
    yield row("5 cases", BROKEN, World(cases=5), trials=MANY)
    yield row("5 cases", ONE, World(cases=5), goal="")
    yield row("5 cases", ALL, World(cases=5), goal="")
    yield row("300 cases", NOTHING, World(cases=300), trials=150)
    yield row("300 cases", BROKEN, World(cases=300), trials=100, goal="")
    yield row("300 cases", ("all cases -.05", "all -.05", ""), World(cases=300), trials=80)
    yield row("500 cases", THREE, World(cases=500), goal="at least .70", trials=350)
    for mix in ("steady", "flaky", "red"):
        yield row(f"{mix} cases", NOTHING, World(mix=mix), trials=600)
        yield row(f"{mix} cases", BROKEN, World(mix=mix), trials=400)
    yield row("9 of 30 cases changed", NOTHING, World(touched=9), trials=2500)
    yield row("all 30 cases new or changed", NOTHING, World(touched=30))
    yield row("all 30 cases new or changed", BROKEN, World(touched=30))
    yield row("all 30 cases new or changed", THREE, World(touched=30), goal="at least .50")
    pushes = "five pushes of the same pull request"
    yield row(pushes, NOTHING, note=": the fifth fails", pushes=5, trials=600)
    green = "a green push"
    yield row(pushes, ONE, note=": one passes", pushes=5, trials=600, counts=green, goal="at most .35")
    repaired = ("one case broken, repaired in the fifth: it fails", "one 1 0", "at most .05")
    yield row(pushes, repaired, pushes=5, repaired=True, trials=600)
    for again, most, all_ in (
        ("with artifacts", "at most .03", "at most .05"),
        ("without artifacts", "at most .10", ""),
    ):
        tries = f"three attempts of one commit, {again}"
        more: dict[str, Any] = {"pushes": 3, "again": again, "trials": MANY}
        for change, goal in ((NOTHING, "at most .05"), (HALF, most), (THREE, most), (ALL, all_)):
            is_same = change is NOTHING
            counts = "ever red" if is_same else "a later green push"
            note = ": one fails, all are made" if is_same else ": red, and later green"
            yield row(tries, change, note=note, goal=goal, counts=counts, **more)
        yield row(tries, NOTHING, note=": all fail", goal="at most .01", counts="red", **more)
    outage = "a tool of 40% of the cases is down"
    yield row(outage, NOTHING, World(outage=0.4), note=": red", counts="red", goal="at most .10")
    yield row(
        outage,
        NOTHING,
        World(outage=0.4),
        note=", `confirm-on-base: always`: red",
        confirm_on_base="always",
        counts="red",
        goal="at most .10",
    )
    many = World(cases=50, scores=5)
    yield row("6 compared metrics, 50 cases", NOTHING, many, note=": red", counts="red", trials=240)
    day = "a case broke on the base"
    for broke in (1, 2, 3, 5, 8, 12):
        yield row(day, NOTHING, World(broke=broke), note=f", {broke} record{'s' * (broke > 1)} ago", trials=500)
    # A young history: few stored runs that passed, and fewer that failed.
    for depth, broke in product((7, 10, 13), (1, 2)):
        note = f", {broke} record{'s' * (broke > 1)} ago, {depth} stored runs"
        yield row(day, NOTHING, World(depth=depth, broke=broke), note=note, trials=500)
    yield row(day, BROKEN, World(broke=5), note=", another one 5 records ago", trials=500)
    yield row(day, ("one case .5 to 0", "one .5 0", ""), trials=500)
    day = "today's judge is stricter on both sides"
    for stricter, goal in ((0.03, "at most .06"), (0.06, "at most .12")):
        note = f", {stricter:.0%} of what passed fails"
        yield row(day, NOTHING, World(stricter=stricter), note=note, goal=goal)
    yield row(day, NOTHING, World(stricter=0.03, base_can_run=False), note=", 3%, base can't be run", goal="")
    day = "days differ"
    yield row(day, NOTHING, World(day_sd=0.5), note=", sd 0.5", trials=2000)
    yield row(day, NOTHING, World(day_sd=1.0), note=", sd 1.0")
    world = World(day_sd=0.5, base_can_run=False)
    yield row(day, NOTHING, world, note=", sd 0.5, base can't be run")
    world = World(day_sd=1.0, base_can_run=False)
    yield row(day, NOTHING, world, note=", sd 1.0, base can't be run")
    world = World(day_sd=0.5)
    for change, goal in ((NOTHING, "at most .05"), (BROKEN, "at least .99"), (ALL, "")):
        note = ", sd 0.5, `confirm-on-base: always`"
        yield row(day, change, world, note=note, goal=goal, confirm_on_base="always", trials=400)
    rerun = "`baseline: rerun`"
    yield row(rerun, NOTHING, World(rerun=True, depth=0), confirm_on_base="always", trials=400)
    yield row(rerun, ALL, World(rerun=True, depth=0), goal="", confirm_on_base="always", trials=400)
    drifting = "a drifting base"
    yield row(drifting, NOTHING, World(drift=0.05), note=", .05 logit worse a record")
    yield row(drifting, NOTHING, World(drift=-0.05), note=", .05 logit better a record")
    yield row("a judge that errs in 3%", NOTHING, World(flips=0.03))
    yield row("a judge that errs in 3%", BROKEN, World(flips=0.03), goal="")
    for noise, group in ((0.0, "scores"), (0.1, "scores, judge's noise .1")):
        world = World(scores=1, passes=False, judge_sd=noise)
        yield row(group, NOTHING, world, trials=1000)
        yield row(group, ("one case -.4", "first -.4", ""), world)
        yield row(group, ("all cases -.05", "all -.05", ""), world)
    better = '"better" or "fixed" is said of a case'
    yield row(better, NOTHING, counts="better")
    world = World(depth=1, base_can_run=False)
    yield row(better, NOTHING, world, note=", 1 stored run", counts="better")
    world = World(depth=10, mix="red")
    yield row(better, NOTHING, world, note=", red cases, 10 stored runs", counts="better")


SETTINGS: Sequence[tuple[str, World, Mapping[str, Any]]] = (
    ("no extra runs (`max-extra-runs: 0`)", World(), {"extra_runs": 0}),
    ("9 confirmation runs a case", World(), {"confirm_runs": 9}),
    ("24 confirmation runs a case", World(), {"confirm_runs": 24}),
    ("`num-runs: 2`", World(num_runs=2), {}),
    ("`num-runs: 3`", World(num_runs=3), {}),
    ("alpha .01", World(), {"alpha": 0.01}),
    ("alpha .1", World(), {"alpha": 0.1}),
    ("10 base runs kept", World(depth=10), {}),
    ("`confirm-on-base: always`", World(), {"confirm_on_base": "always"}),
)
SETTINGS_TRIALS = 500


def settings_cells() -> list[Cell]:
    """Other settings, over the changes of the default world."""
    return [
        Cell(group=label, name=name, world=world, change=change, trials=SETTINGS_TRIALS, **more)
        for label, world, more in SETTINGS
        for name, change, _ in CHANGES
    ]


@dataclass(frozen=True, kw_only=True)
class Count:
    """What came of the trials of a row."""

    trials: int
    hits: int
    inconclusive: int = 0
    paid: float = 0.0
    """Sum over the trials. In the table of drift: points that were lost when it was said, of those where it was."""
    rounds: tuple[int, ...] = ()
    """Trials by how often the gate waited for extra runs."""
    others: tuple[int, ...] = ()
    """What other rules would have failed. In the table of drift: how often a notice began."""

    def __add__(self, other: Count) -> Count:
        return Count(
            trials=self.trials + other.trials,
            hits=self.hits + other.hits,
            inconclusive=self.inconclusive + other.inconclusive,
            paid=self.paid + other.paid,
            rounds=tuple(map(sum, zip_longest(self.rounds, other.rounds, fillvalue=0))),
            others=tuple(left + right for left, right in zip(self.others, other.others, strict=True)),
        )

    def waited(self, share: float) -> int:
        """How often this share of the trials waited at most."""
        return next((number for number, upto in enumerate(accumulate(self.rounds)) if upto >= share * self.trials), 0)


def seed_of(cell: Cell, seed: int) -> list[int]:
    """Worlds with the same change share their pull requests, so that settings are compared on the same ones."""
    return [seed, *repr((cell.world.cases, cell.world.mix, cell.world.scores, cell.change)).encode()]


def run_chunk(cell: Cell, first: int, count: int, *, others: bool = False, seed: int = SEED) -> Count:
    """Some trials of a row."""
    hits = inconclusive = 0
    paid = 0.0
    rounds: Counter[int] = Counter()
    totals = [0] * (len(OTHERS) if others else 0)
    for trial in range(first, first + count):
        rng = np.random.default_rng([*seed_of(cell, seed), trial])
        done = play(cell, rng)
        hits += done.hit
        inconclusive += done.inconclusive
        paid += done.paid
        rounds[done.rounds] += 1
        for index in range(len(totals)):
            totals[index] += OTHERS[index][3](done.first[:, 0], done.second, done.stored[:, -1])
    return Count(
        trials=count,
        hits=hits,
        inconclusive=inconclusive,
        paid=paid,
        rounds=tuple(rounds[number] for number in range(max(rounds, default=0) + 1)),
        others=tuple(totals),
    )


# Whether the base itself got worse: a repository has 20 records, and more come, one a merge.


@dataclass(frozen=True, kw_only=True)
class DriftCell:
    """A row of the table of drift."""

    name: str
    num_runs: int
    drop: float = 0.0
    """Of all pass rates, at each merge."""
    merges: int = 20
    trials: int = 250


def drift_cells() -> Iterator[DriftCell]:
    """The rows, in order."""
    for num_runs in (1, 2, 3):
        yield DriftCell(name="nothing changes in 20 merges", num_runs=num_runs)
    yield DriftCell(name="nothing changes in 150 merges", num_runs=1, merges=150, trials=200)
    for num_runs in (1, 2, 3):
        yield DriftCell(name="each of 10 merges takes 3 points", num_runs=num_runs, drop=0.03, merges=10, trials=25)
    yield DriftCell(name="each of 60 merges takes .2 points", num_runs=1, drop=0.002, merges=60, trials=100)
    yield DriftCell(name="each of 100 merges takes .1 points", num_runs=1, drop=0.001, merges=100, trials=100)


def drift_chunk(cell: DriftCell, first: int, count: int, seed: int = SEED) -> Count:
    """In how many repositories the base is said to get worse at least once, by when, and how often that began."""
    said = [_is_said(cell, seed, trial) for trial in range(first, first + count)]
    lost = [100 * cell.drop * (merges.index(True) + 1) for merges in said if any(merges)]
    began = sum(now and not before for merges in said for before, now in pairwise((False, *merges)))
    return Count(trials=count, hits=len(lost), paid=sum(lost), others=(began,))


def _is_said(cell: DriftCell, seed: int, trial: int) -> list[bool]:
    """After each merge; where the base gets worse, until it is said."""
    rng = np.random.default_rng([seed, *cell.name.encode(), trial])
    values, shares = zip(*MIXES["mixed"], strict=True)
    rates = rng.choice(values, size=30, p=shares)
    drops = cell.drop * np.maximum(np.arange(KEEP + cell.merges) - KEEP + 1, 0)
    now = np.maximum(rates[:, None] - drops, 0.0)
    passed = np.asarray(rng.random((cell.num_runs, *now.shape)) < now, dtype=np.float64)
    counts = [int(cases) for cases in passed.all(axis=0).sum(axis=0)]
    suite = {"scoring_version": 1, "cases": len(rates), "suite": "30"}
    rows = [
        TrendRow(recorded_at=86_400.0 * day, passed=count, failed=len(rates) - count, **suite)
        for day, count in enumerate(counts)
    ]
    said: list[bool] = []
    for merge in range(1, cell.merges + 1):
        trend = rows[max(merge + KEEP - KEEP_ROWS, 0) : merge + KEEP]
        found = drift(_history(passed[:, :, merge : merge + KEEP]).model_copy(update={"trend": trend}))
        said.append(found.worse or found.erosion is not None)
        if said[-1] and cell.drop:
            break
    return said


def _history(passed: Floats) -> HistoryReport:
    num_runs, cases, records = passed.shape
    return HistoryReport(
        scoring_version=1,
        keep=KEEP,
        records=[HistoryRecord(recorded_at=float(record)) for record in range(records)],
        cases=[
            CaseHistory(
                case_id=str(index),
                outcomes="".join("01"[int(value)] for value in passed[:, index].T.flat),
                records=" ".join(str(record) for record in range(records) for _ in range(num_runs)),
            )
            for index in range(cases)
        ],
    )


Job = Callable[[int, int], Count]


def measure(jobs: Mapping[str, tuple[int, Job]], workers: int) -> Iterator[tuple[str, Count]]:
    """All rows, in parallel by chunks; each is given as soon as it and those before it are done.

    Args:
        jobs: By key: how many trials, and what makes some of them.
        workers: Processes.
    """
    with ProcessPoolExecutor(workers) as pool:
        futures = {
            key: [pool.submit(job, first, min(CHUNK, trials - first)) for first in range(0, trials, CHUNK)]
            for key, (trials, job) in jobs.items()
        }
        for key, parts in futures.items():
            total, *more = (part.result() for part in parts)
            for count in more:
                total += count
            yield key, total


def key_of(cell: Cell | DriftCell) -> str:
    """The name of a row in gate_error_rates.json."""
    return f"{cell.group}: {cell.name}" if isinstance(cell, Cell) else f"{cell.name}, num-runs {cell.num_runs}"


def jobs(only: str, most: int | None, seed: int) -> dict[str, dict[str, tuple[int, Job]]]:
    """What to measure, by table and row."""

    def trials(cell: Cell | DriftCell) -> int:
        return min(cell.trials or TRIALS, most or 1_000_000)

    def made(rows: Iterable[Cell]) -> dict[str, tuple[int, Job]]:
        return {
            key_of(cell): (
                trials(cell),
                partial(run_chunk, cell, others=cell in default, seed=seed),
            )
            for cell in rows
            if only in key_of(cell)
        }

    default = [cell for cell in cells() if cell.group == "default"]
    drifts: dict[str, tuple[int, Job]] = {
        key_of(cell): (trials(cell), partial(drift_chunk, cell, seed=seed))
        for cell in drift_cells()
        if only in key_of(cell)
    }
    return {"gate": made(cells()), "drift": drifts, "settings": {} if only else made(settings_cells())}


@dataclass(frozen=True, kw_only=True)
class Goal:
    """What a row should reach."""

    bound: float
    most: bool

    @classmethod
    def of(cls, text: str) -> Goal | None:
        """From `at most .05` or `at least .99`."""
        return cls(bound=float(text.split()[-1]), most="most" in text) if text else None

    def kept(self, count: Count) -> bool:
        """Whether the share keeps the bound."""
        share = count.hits / count.trials
        return share <= self.bound if self.most else share >= self.bound

    def verdict(self, count: Count) -> str:
        """`met` where the whole interval keeps the bound; `missed` where the share itself doesn't."""
        low, high = wilson(count.hits, count.trials)
        if not self.kept(count):
            return "**missed**"
        return "met" if ((high <= self.bound) if self.most else (low >= self.bound)) else "met, not certain"


Counts = Mapping[str, Mapping[str, Count]]


def share(count: int, trials: int) -> str:
    """A share with its 95% interval."""
    low, high = wilson(count, trials)
    return f"{count / trials:.3f} ({low:.3f} to {high:.3f})"


def table_of_cells(counts: Mapping[str, Count]) -> str:
    """The gate alone, over all worlds."""
    lines = [
        "| world | what changed | goal | share (95% limits) | | inconclusive | runs paid | rounds (p50, p95) "
        "| pull requests |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for cell in cells():
        count, goal = counts[key_of(cell)], Goal.of(cell.goal)
        open_ = f"{count.inconclusive / count.trials:.3f}" if count.inconclusive else "0"
        columns = (
            cell.group,
            cell.name,
            cell.goal or "-",
            share(count.hits, count.trials),
            goal.verdict(count) if goal else "-",
            open_,
            f"{count.paid / count.trials:.2f}",
            f"{count.waited(0.5)}, {count.waited(0.95)}",
            f"{count.trials:,}",
        )
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def table_of_drift(counts: Mapping[str, Count]) -> str:
    """How often the base is said to get worse."""
    names = (
        "what happens",
        "`num-runs`",
        "said (95% limits)",
        "in 1,000 merges",
        "points lost by then",
        "repositories",
    )
    lines = [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
    for cell in drift_cells():
        count = counts[key_of(cell)]
        began = "" if cell.drop else f"{1000 * count.others[0] / (count.trials * cell.merges):.1f}"
        lost = f"{count.paid / count.hits:.1f}" if cell.drop and count.hits else ""
        columns = (cell.name, str(cell.num_runs), share(count.hits, count.trials), began, lost, f"{count.trials:,}")
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def table_of_rules(counts: Mapping[str, Count]) -> str:
    """The gate beside the rules of others, on the same pull requests."""
    picked = [counts[f"default: {name}"] for name, *_ in CHANGES]
    names = " | ".join(name for name, *_ in CHANGES)
    lines = [f"| rule | {names} | runs paid | source |", "|---" * (len(CHANGES) + 3) + "|"]
    for index, (name, source, paid, _) in enumerate(OTHERS):
        shares = " | ".join(f"{count.others[index] / count.trials:.3f}" for count in picked)
        lines.append(f"| {name} | {shares} | {paid:.1f} | {source} |")
    shares = " | ".join(f"**{count.hits / count.trials:.3f}**" for count in picked)
    costs = [count.paid / count.trials for count in picked]
    lines.append(
        f"| **this gate** | {shares} | {costs[0]:.2f}, at most {max(costs):.2f} | `gate/regression/sequential.py` |"
    )
    return "\n".join(lines)


def table_of_settings(counts: Mapping[str, Count]) -> str:
    """Power against runs paid."""
    names = " | ".join(name for name, *_ in CHANGES)
    lines = [f"| setting | {names} |", "|---" * (len(CHANGES) + 1) + "|"]
    default = [cell for cell in cells() if cell.group == "default"]
    for label, cells_ in groupby([*default, *settings_cells()], key=lambda cell: cell.group):
        row = [counts[key_of(cell)] for cell in cells_]
        shares = (f"{count.hits / count.trials:.3f}{_open(count)} ({count.paid / count.trials:.2f})" for count in row)
        lines.append(f"| {label} | {' | '.join(shares)} |")
    return "\n".join(lines)


def _open(count: Count) -> str:
    return f" + {count.inconclusive / count.trials:.2f}?" if count.inconclusive else ""


def tables(counts: Counts) -> dict[str, str]:
    """All tables of the docs, by the name of their marks."""
    return {
        "error rates": table_of_cells(counts["gate"]),
        "drift": table_of_drift(counts["drift"]),
        "other rules": table_of_rules(counts["gate"]),
        "settings": table_of_settings({**counts["gate"], **counts["settings"]}),
    }


def insert(text: str, name: str, table: str) -> str:
    """Puts a table between its marks."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"


def measured() -> dict[str, dict[str, Count]]:
    """What was measured last, by table and row."""
    if not MEASURED.exists():
        return {}
    document = json.loads(MEASURED.read_text(encoding="utf-8"))
    return {
        table: {
            key: Count(**{**count, "rounds": tuple(count.get("rounds", ())), "others": tuple(count["others"])})
            for key, count in rows.items()
        }
        for table, rows in document["tables"].items()
    }


def save(counts: Counts, seed: int) -> None:
    """Writes what was measured."""
    lines = {table: {key: asdict(count) for key, count in rows.items()} for table, rows in counts.items()}
    MEASURED.write_text(json.dumps({"seed": seed, "tables": lines}, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Measures, and writes or prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, help="at most so many pull requests of each row")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--only", default="", help="rows whose world or name contains this text")
    parser.add_argument("--resume", action="store_true", help="keep the rows that were measured already")
    parser.add_argument("--print", action="store_true", help="print what was counted and write nothing")
    parser.add_argument("--docs", action="store_true", help="measure nothing, only update the tables")
    arguments = parser.parse_args()
    counts = measured()
    begun = time.monotonic()
    todo = {} if arguments.docs else jobs(arguments.only, arguments.trials, arguments.seed)
    for table, rows in todo.items():
        stored = counts.get(table, {}) if arguments.resume else {}
        left = {key: job for key, job in rows.items() if key not in stored or stored[key].trials != job[0]}
        for key, count in measure(left, arguments.workers):
            summary = f"{share(count.hits, count.trials)} + {count.inconclusive}? {count.paid / count.trials:.2f} runs"
            print(f"{time.monotonic() - begun:6.0f} s  {key}: {summary}", file=sys.stderr)
            counts.setdefault(table, {})[key] = count
            if not arguments.print:
                save(counts, arguments.seed)
    if arguments.print:
        return 0
    text = DOCS.read_text(encoding="utf-8")
    for name, table in tables(counts).items():
        text = insert(text, name, table)
    DOCS.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
