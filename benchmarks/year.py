"""A year of main: what a team lives with, over half years of 500 pull requests, under the gate and under other rules.

    python benchmarks/year.py             # everything; about an hour on one core
    python benchmarks/year.py --quick     # 2 half years of each row, printed only; five minutes
    python benchmarks/year.py --only "main breaks" --print
    python benchmarks/year.py --docs      # only writes RESULTS.md from what was measured last

Pull requests come one after another, with authors who repair, start the job again or override it, and what is merged is
what the next one is compared with. The gate's own code decides. Every half year has a seed of its own, the same for all
rules of a world, and is added to year.jsonl as soon as it is done: a run that was broken off continues there.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # Several processes share the cores.

import numpy as np
from gate_error_rates import insert, share
from simulated_pulls import MIXES, Floats, Push, Rng, settle

from agent_eval.gate.history import KEEP
from agent_eval.gate.regression.retrial import Retrial
from agent_eval.gate.stats.decision import Rules, usual_extra_runs
from agent_eval.gate.stats.samples import CaseEvidence, Series
from agent_eval_results import PASS

DOCS = Path(__file__).with_name("RESULTS.md")
MEASURED = Path(__file__).with_suffix(".jsonl")
SEED = 20_261
"""Another one than those with which the gate's constants were chosen."""
HALF_YEARS = 20
PULLS = 500
"""Pull requests of a half year."""
A_DAY = 4
SOON = 20
"""Merges after a broken or halved case was merged that count as "after a slip"."""
LASTS = 15
"""Pull requests for which a case stays broken that broke from outside."""
PUSHES = (0.40, 0.25, 0.15, 0.10, 0.06, 0.04)
"""Shares of the pull requests with 1 to 6 pushes."""
KINDS: Mapping[str, float] = {"harmless": 0.85, "small": 0.05, "broken": 0.025, "halved": 0.025, "improvement": 0.05}
"""What pull requests do, and how often. Small: 2 to 6 cases lose 5 to 15 points. Improvement: the case that lost most
is as intended."""
BAD = ("small", "broken", "halved")
MISTRUST = 40
"""Failed runs that an author remembers: a failure is believed as often as these were right."""


@dataclass(frozen=True, kw_only=True)
class World:
    """Where a repository lives. The defaults are a lively place."""

    cases: int = 30
    num_runs: int = 1
    day_sd: float = 0.2
    """Of a shift of all pass rates of a day, in logits."""
    walk: float = 0.02
    """Of the provider's slow walk, a day, in logits."""
    versions: float = 3.0
    """New versions of the model a year: each shifts a fifth of the cases by a normal variable of 0.4 logits."""
    hiccup: float = 0.02
    """Share of the screenings in which 2 to 4 random cases fail, whatever their rate."""
    outage: float = 0.01
    """Share of the days on which the pass rates of two fifths of the cases fall to three tenths."""
    breaks: float = 0.0
    """Cases that break on main by a cause from outside in a half year, one at a time."""
    remembers: bool = True
    """Whether a run can read the artifacts of earlier runs of the pull request."""
    queue: bool = False
    """Whether a merge queue runs the gate once more before each merge."""
    reuse: float = 0.0
    """Share of the merges whose record is the queue's first run, instead of a run of its own."""


QUIET = World(day_sd=0.0, walk=0.0, versions=0.0, hiccup=0.0, outage=0.0)
GATE, STRICT, NONE, ORACLE = "this gate", "every case must pass, once (`adk eval`)", "no gate", "a perfect oracle"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table."""

    place: str
    rule: str = GATE
    world: World = field(default_factory=World)

    @property
    def key(self) -> str:
        """Its name in year.jsonl."""
        return f"{self.place}: {self.rule}"


ROWS = (
    *(Row(place="lively", rule=rule) for rule in (GATE, STRICT, NONE, ORACLE)),
    Row(place="lively, without the artifact of the previous attempt", world=World(remembers=False)),
    Row(place="lively, `num-runs: 2`", world=World(num_runs=2)),
    *(
        Row(
            place=f"lively, a merge queue; main's record is its run in {share:.0%}",
            world=World(queue=True, reuse=share),
        )
        for share in (0.0, 0.5, 1.0)
    ),
    Row(place="quiet", world=QUIET),
    Row(place="quiet", rule=STRICT, world=QUIET),
    Row(place="main breaks from outside 6 times", world=World(breaks=6)),
)


class Weather:
    """What all runs of a day share, whoever makes them."""

    def __init__(self, world: World, rng: Rng) -> None:
        self.world, self.rng = world, rng
        self.offset = 0.0
        self.today = -1
        self.shifts: dict[int, float] = {}
        """By case, in logits: what new versions of the model have done."""
        self.down: frozenset[int] = frozenset()
        self.mood = 0.0

    def go_to(self, day: int, case_ids: list[int]) -> None:
        """The next days, in order."""
        world, rng = self.world, self.rng
        while self.today < day:
            self.today += 1
            self.offset = 0.99 * self.offset + rng.normal(0, world.walk)
            self.mood = rng.normal(0, world.day_sd)
            is_down = rng.random() < world.outage
            self.down = (
                frozenset(np.array(case_ids)[rng.random(len(case_ids)) < 0.4].tolist()) if is_down else frozenset()
            )
            if rng.random() < world.versions / 250:
                for case_id in case_ids:
                    if rng.random() < 0.2:
                        self.shifts[case_id] = self.shifts.get(case_id, 0.0) + rng.normal(0, 0.4)

    def runs(self, case_ids: list[int], rates: Floats, count: int) -> Floats:
        """So many runs of each case: a row a case."""
        shift = self.offset + self.mood
        if shift or self.shifts:
            own = shift + np.array([self.shifts.get(case_id, 0.0) for case_id in case_ids])
            odds = np.exp(own) * rates / np.maximum(1 - rates, 1e-300)
            # What always passes has no odds: it loses what a rate of 99.5% would lose, and never gains.
            worse = np.minimum(1.0, 1 / (0.995 + 0.005 * np.exp(-own)))
            rates = np.where(rates < 1, odds / (1 + odds), worse)
        if self.down:
            rates = np.where([case_id in self.down for case_id in case_ids], 0.3 * rates, rates)
        return np.asarray(self.rng.random((len(rates), count)) < rates[:, None], dtype=np.float64)


class Records:
    """The stored runs of main, by case: the newest of KEEP records."""

    def __init__(self) -> None:
        self.kept: dict[int, deque[tuple[str, tuple[float, ...]]]] = {}
        self.flat: dict[int, Series] = {}
        self.count = 0

    def add(self, case_ids: list[int], runs: Floats) -> None:
        """One more record."""
        self.count += 1
        for case_id, values in zip(case_ids, runs.tolist(), strict=True):
            self.kept.setdefault(case_id, deque(maxlen=KEEP)).append((str(self.count), tuple(values)))
        self.flat.clear()

    def forget(self, case_id: int) -> None:
        """A changed case has no stored runs."""
        self.kept.pop(case_id, None)
        self.flat.pop(case_id, None)

    def of(self, case_id: int) -> Series:
        """The stored runs of a case; none for a new one."""
        if case_id not in self.flat:
            records = self.kept.get(case_id, ())
            self.flat[case_id] = Series(
                base=tuple(value for _, values in records for value in values),
                base_days=tuple(name for name, values in records for _ in values),
            )
        return self.flat[case_id]


@dataclass(kw_only=True)
class Outcome:
    """What came of one run of the gate."""

    red: bool
    failed: bool = False
    extra: int = 0
    push: Push | None = None
    screened: Floats | None = None
    """The first runs of each case."""


class Repository:
    """A half year of a repository under one rule."""

    def __init__(self, row: Row, seed: int) -> None:
        self.row, self.world, self.seed = row, row.world, seed
        rng = np.random.default_rng([seed, 1])
        self.weather = Weather(self.world, np.random.default_rng([seed, 2]))
        self.authors = np.random.default_rng([seed, 3])
        self.records = Records()
        self.case_ids = list(range(self.world.cases))
        self.rates = dict(zip(self.case_ids, self.drawn(rng, self.world.cases), strict=True))
        self.intended = dict(self.rates)
        self.broken: dict[int, tuple[int, float]] = {}
        """Cases that broke from outside: until which pull request, and their rate after it."""
        self.believed: deque[bool] = deque([True], maxlen=MISTRUST)
        self.slip = -PULLS
        """The pull request that merged the last broken or halved case."""
        self.out: dict[str, float] = defaultdict(float)
        for _ in range(KEEP):
            self.weather.go_to(self.weather.today + 1, self.case_ids)
            self.record()

    def drawn(self, rng: Rng, count: int) -> list[float]:
        """Pass rates of new cases."""
        values, shares = zip(*MIXES["mixed"], strict=True)
        return [float(rate) for rate in rng.choice(values, size=count, p=shares)]

    def now(self) -> Floats:
        """Main's pass rates."""
        return np.array([self.rates[case_id] for case_id in self.case_ids])

    def record(self) -> None:
        """Main runs, and its results are stored."""
        self.records.add(self.case_ids, self.weather.runs(self.case_ids, self.now(), self.world.num_runs))

    def run(
        self, head: Floats, changed: set[int], before: Collection[str], earlier: Sequence[Push], *, worse: bool
    ) -> Outcome:
        """The rule looks at one push.

        Args:
            head: The pass rates of the head.
            changed: New and changed cases, which have no stored runs.
            before: What the previous push held against cases, by their place.
            earlier: Earlier attempts of the same push.
            worse: Whether the push is bad.
        """
        rule, world, ids = self.row.rule, self.world, self.case_ids
        if rule in {NONE, ORACLE}:
            return Outcome(red=worse and rule == ORACLE, failed=worse and rule == ORACLE)
        screened = self.weather.runs(ids, head, world.num_runs)
        if self.weather.rng.random() < world.hiccup:
            screened[self.weather.rng.permutation(len(ids))[: self.weather.rng.integers(2, 5)], :1] = 0.0
        if rule == STRICT or (screened.all() and not before and not earlier):
            return Outcome(red=not screened.all(), failed=not screened.all(), screened=screened)
        evidence: dict[str, CaseEvidence] = {}
        retrials: dict[str, Retrial] = {}
        for place, (case_id, values) in enumerate(zip(ids, screened.tolist(), strict=True)):
            name, stored = str(place), self.records.of(case_id)
            if case_id not in changed and stored.base:
                series = replace(stored, head_screen=tuple(values), before=name in before)
                known = earlier if world.remembers else ()
                runs = tuple(each.evidence[name].metrics[PASS] for each in known if name in each.evidence)
                evidence[name] = CaseEvidence(case_id=name, metrics={PASS: series}, earlier=runs)
            elif not all(values):
                retrials[name] = Retrial(case_id=name, kind="case")
        main = self.now()
        push = settle(
            evidence,
            retrials,
            Rules(careful=bool(earlier) and not world.remembers),
            lambda here, there: (
                {PASS: self.weather.runs(ids, head, here)},
                {PASS: self.weather.runs(ids, main, there)},
            ),
            allowed=usual_extra_runs(len(ids), world.num_runs, metrics=1, confirm_on_base="auto"),
            can_run_base=True,
        )
        self.out["extra"] += push.extra / len(ids)
        return Outcome(
            red=push.outcome != "passed",
            failed=push.outcome == "failed",
            push=push,
            screened=screened,
        )

    def play(self) -> dict[str, float]:
        """All pull requests."""
        for pull in range(PULLS):
            self.weather.go_to(KEEP + pull // A_DAY, self.case_ids)
            self.outside(pull)
            self.pull_request(pull, np.random.default_rng([self.seed, 4, pull]))
            quality = [min(self.rates[each] / max(self.intended[each], 1e-9), 1.0) for each in self.case_ids]
            self.out["quality"] += sum(quality) / len(quality) / PULLS
        self.out["quality at the end"] = sum(quality) / len(quality)
        return self.out

    def outside(self, pull: int) -> None:
        """A service or a fixture outside of the repository breaks a case on main, or is repaired."""
        rng = np.random.default_rng([self.seed, 5, pull])
        for case_id, (until, rate) in list(self.broken.items()):
            if pull >= until:
                del self.broken[case_id]
                self.rates[case_id] = rate
        if not self.broken and rng.random() < self.world.breaks / PULLS:
            case_id = self.case_ids[int(rng.integers(len(self.case_ids)))]
            self.broken[case_id] = pull + LASTS, self.rates[case_id]
            self.rates[case_id] = 0.0

    def edits(self, pull: int, rng: Rng) -> tuple[set[int], set[int]]:
        """What the pull request does to the eval cases: the new ones, and all that can't be compared."""
        what, ids = rng.random(), self.case_ids
        if what < 0.05:
            new = self.world.cases + pull
            [self.rates[new]] = self.drawn(rng, 1)
            self.intended[new] = self.rates[new]
            self.case_ids = [*ids, new]
            return {new}, {new}
        if what < 0.10:
            return set(), {ids[int(rng.integers(len(ids)))]}
        if what < 0.14 and len(ids) > max(3, self.world.cases - 3):
            gone = ids[int(rng.integers(len(ids)))]
            self.case_ids = [case_id for case_id in ids if case_id != gone]
        return set(), set()

    def effect(self, kind: str, rng: Rng) -> Floats:
        """The pass rates of the head."""
        head = self.now()
        if kind == "small":
            some = rng.permutation(len(head))[: int(rng.integers(2, 7))]
            head[some] = np.maximum(head[some] - rng.uniform(0.05, 0.15, len(some)), 0)
        elif kind in {"broken", "halved"}:
            good = np.nonzero(head > 0.6)[0]
            head[int(rng.choice(good))] *= 0.0 if kind == "broken" else 0.5
        elif kind == "improvement":
            lost = np.array([self.intended[case_id] for case_id in self.case_ids]) - head
            head[int(lost.argmax())] += max(float(lost.max()), 0.0)
        return head

    def pull_request(self, pull: int, rng: Rng) -> None:
        """One pull request, from its first push until it is merged or given up."""
        kind = str(rng.choice(list(KINDS), p=list(KINDS.values())))
        pushes = 1 + int(rng.choice(len(PUSHES), p=PUSHES))
        enters = int(rng.integers(1, pushes + 1)) if rng.random() < 0.3 else 1
        new, changed = self.edits(pull, rng)
        main, head = self.now(), self.effect(kind, rng)
        group = kind
        if kind == "harmless" and self.broken:
            group = "harmless while main is broken"
        elif kind == "harmless" and pull - self.slip <= SOON:
            group = "harmless after a slip"
        ever, red, bad, overridden = self.pushes(kind, pushes, enters, main, head, changed)
        merged = not red or overridden
        record = None
        if merged and not overridden and self.world.queue:
            merged, record = self.queued(head if bad or kind == "improvement" else main, changed, worse=bad)
            ever, red = ever or not merged, not merged
        for what, count in (("pulls", 1), ("ever red", ever), ("red at the end", red)):
            self.out[f"{what}: {group}"] += count
        self.out["overridden"] += red and merged
        if not merged:
            self.case_ids = [case_id for case_id in self.case_ids if case_id not in new]
            return
        if bad:
            self.out[f"merged: {kind}"] += 1
            self.slip = pull if kind != "small" else self.slip
        if bad or kind == "improvement":
            for case_id, rate, before in zip(self.case_ids, head.tolist(), main.tolist(), strict=True):
                if rate != before:
                    self.rates[case_id] = rate
                    self.broken.pop(case_id, None)
        for case_id in changed:
            self.records.forget(case_id)
        if record is not None and rng.random() < self.world.reuse:
            self.records.add(self.case_ids, record)
        elif self.row.rule == GATE:
            self.record()
            self.out["records"] += 1

    def queued(self, head: Floats, changed: set[int], *, worse: bool) -> tuple[bool, Floats | None]:
        """The merge queue tests what is to be merged. A pull request that it throws out is queued twice more at most.

        Returns:
            Whether it is merged, and the first runs of the try that passed.
        """
        for _ in range(3):
            done = self.run(head, changed, (), [], worse=worse)
            self.out["runs"] += 1
            if not done.red:
                return True, done.screened
        return False, None

    def pushes(
        self, kind: str, pushes: int, enters: int, main: Floats, head: Floats, changed: set[int]
    ) -> tuple[bool, bool, bool, bool]:
        """The pushes and re-runs of a pull request.

        Returns:
            Whether a run was red; the last one was; what would be merged is bad; its author overrides the gate.
        """
        push = runs = again = repairs = 0
        ever = same = repaired = False
        before: Collection[str] = ()
        attempts: list[Push] = []
        authors = self.authors
        while True:
            if not same:
                push, attempts = push + 1, []
            bad = kind in BAD and not repaired and push >= enters
            done = self.run(
                head if bad or kind == "improvement" else main, changed, () if same else before, attempts, worse=bad
            )
            same, ever = False, ever or done.red
            before = done.push.before if done.push is not None and self.world.remembers else ()
            if done.push is not None and done.red:
                attempts.append(done.push)
            runs += 1
            self.out["runs"] += 1
            if done.failed:
                self.believed.append(bad)
            if not done.red:
                if push >= pushes:
                    return ever, False, bad, False
                continue
            right = (sum(self.believed) + 1) / (len(self.believed) + 2)
            sees_it = bad and (self.row.rule == ORACLE or authors.random() < right)
            if sees_it and repairs < 3:
                repairs += 1
                repaired = authors.random() < 0.8
                pushes = max(pushes, push + 1)
            elif push < pushes:
                continue
            elif sees_it:
                return ever, True, bad, False
            elif again < 2:
                again, same = again + 1, True
            else:
                return ever, True, bad, authors.random() < (0.5 if bad else 0.9)


def half_year(row: Row, seed: int) -> dict[str, float]:
    """What was counted in one half year, and the seconds of CPU that it took."""
    begun = time.process_time()
    return {**Repository(row, seed).play(), "seconds": time.process_time() - begun}


Measured = dict[str, dict[int, dict[str, float]]]
"""The counts of each half year, by row and seed."""


def stored() -> Measured:
    """The half years of year.jsonl."""
    measured: Measured = defaultdict(dict)
    for line in MEASURED.read_text(encoding="utf-8").splitlines() if MEASURED.exists() else ():
        key, seed, counts = json.loads(line)
        measured[key][seed] = counts
    return measured


def measure(rows: Sequence[Row], seeds: range, measured: Measured, workers: int) -> Iterator[tuple[str, int]]:
    """Plays what is missing; gives the row and the seed of each half year as soon as it is done."""
    with ProcessPoolExecutor(workers) as pool:
        jobs = {
            pool.submit(half_year, row, seed): (row, seed)
            for seed in seeds
            for row in rows
            if seed not in measured[row.key]
        }
        for job in as_completed(jobs):
            row, seed = jobs[job]
            measured[row.key][seed] = job.result()
            yield row.key, seed


def table(measured: Measured) -> str:
    """The rows that were measured."""
    lines = [
        "| where | rule (half years) | harmless ones ever red: in quiet times | after a slip | while main is broken "
        "| bad ones merged: small | broken | halved | quality: mean, end | suites paid: a run, a pull request "
        "| overridden in a half year |",
        "|---" * 11 + "|",
    ]
    for row in ROWS:
        years = list(measured[row.key].values())
        if not years:
            continue
        total: dict[str, float] = defaultdict(float)
        for year in years:
            for what, number in year.items():
                total[what] += number

        def red(group: str, total: dict[str, float] = total) -> str:
            pulls = int(total[f"pulls: {group}"])
            return share(int(total[f"ever red: {group}"]), pulls) if pulls else "-"

        count = len(years)
        bad = [f"{total[f'merged: {kind}']:.0f} of {total[f'pulls: {kind}']:.0f}" for kind in BAD]
        runs = row.world.num_runs
        pulls = count * PULLS
        paid = total["runs"] * runs + total["extra"]
        suites = (
            f"{paid / total['runs']:.2f}, {(paid + runs * total['records']) / pulls:.1f}"
            if row.rule in {GATE, STRICT}
            else "-"
        )
        quality = f"{total['quality'] / count:.3f}, {total['quality at the end'] / count:.3f}"
        columns = (
            row.place,
            f"{row.rule} ({count})",
            red("harmless"),
            red("harmless after a slip"),
            red("harmless while main is broken"),
            *bad,
            quality,
            suites,
            f"{total['overridden'] / count:.1f}",
        )
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines)


def main() -> int:
    """Measures, and writes or prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--half-years", type=int, default=HALF_YEARS, help="of each row")
    parser.add_argument("--quick", action="store_true", help="two half years of each row, printed only")
    parser.add_argument("--only", default="", help="rows whose place or rule contains this text")
    parser.add_argument("--seed", type=int, default=SEED, help="of the first half year")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--print", action="store_true", help="measure anew, print the table and write nothing")
    parser.add_argument("--docs", action="store_true", help="measure nothing, only update the table")
    arguments = parser.parse_args()
    only_print = arguments.print or arguments.quick
    measured: Measured = defaultdict(dict) if only_print else stored()
    rows = [row for row in ROWS if arguments.only in row.key]
    count = 0 if arguments.docs else 2 if arguments.quick else arguments.half_years
    begun = time.monotonic()
    for key, seed in measure(rows, range(arguments.seed, arguments.seed + count), measured, arguments.workers):
        print(f"{time.monotonic() - begun:6.0f} s  {key}: {len(measured[key])}", file=sys.stderr)
        if not only_print:
            counts = {what: round(number, 4) for what, number in sorted(measured[key][seed].items())}
            with MEASURED.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps([key, seed, counts]) + "\n")
    if only_print:
        print(table(measured))
        seconds = [year["seconds"] for name in measured.values() for year in name.values()]
        print(f"{sum(seconds):.0f} s of CPU, at most {max(seconds):.1f} s a half year")
        return 0
    text = DOCS.read_text(encoding="utf-8")
    DOCS.write_text(insert(text, "year", table(measured)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
