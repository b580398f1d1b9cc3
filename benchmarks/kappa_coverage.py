"""How often intervals of kappa hold the truth: what docs/calibration.md quotes. `python benchmarks/kappa_coverage.py`.

Two raters who are equally lenient; their table is multinomial. The coverage of the two intervals made from the standard
error of Fleiss, Cohen and Everitt is summed over all tables that can come out; that of the percentile bootstrap is
simulated, with a fixed seed.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

sys.path.extend(map(str, (Path(__file__).parents[1] / "src").glob("*")))

from agent_eval_workbench.calibration.judging import Pair, agreement, kappa_interval, kappa_of, tabulate

PAIRS: tuple[Pair, ...] = ((1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0))
SETTINGS = tuple(itertools.product((20, 30, 50, 100), (0.5, 0.3, 0.2), (0.5, 0.7, 0.9)))
"""Labels, the share of `pass` among them, and the true kappa."""


def shares(prevalence: float, kappa: float) -> list[float]:
    """The probabilities of PAIRS."""
    chance = prevalence**2 + (1 - prevalence) ** 2
    apart = (1 - kappa) * (1 - chance) / 2
    return [prevalence - apart, apart, apart, 1 - prevalence - apart]


def tables(total: int, probabilities: Sequence[float]) -> Iterator[tuple[Sequence[int], float]]:
    """All tables that matter, with their probabilities."""
    for cut in itertools.combinations_with_replacement(range(total + 1), 3):
        counts = (cut[0], cut[1] - cut[0], cut[2] - cut[1], total - cut[2])
        log = math.lgamma(total + 1) - sum(math.lgamma(count + 1) for count in counts)
        log += sum(count * math.log(share) for count, share in zip(counts, probabilities, strict=True))
        if log > -16:
            yield counts, math.exp(log)


def pairs_of(counts: Sequence[int]) -> list[Pair]:
    """The table as pairs."""
    return [pair for pair, count in zip(PAIRS, counts, strict=True) for _ in range(count)]


def exact(total: int, prevalence: float, kappa: float) -> Mapping[str, float]:
    """The coverage of the plain interval and of ours, and how often ours is above the truth."""
    sums: dict[str, float] = dict.fromkeys(("defined", "plain", "ours", "above"), 0.0)
    for counts, weight in tables(total, shares(prevalence, kappa)):
        pairs = pairs_of(counts)
        interval = kappa_interval([[pair] for pair in pairs])
        terms = agreement(tabulate(pairs))
        if interval is None or terms.kappa is None:
            continue
        reach = 1.959964 * math.sqrt(math.fsum(terms.influence.get(pair, 0.0) ** 2 for pair in pairs)) / total
        sums["defined"] += weight
        sums["plain"] += weight * (abs(terms.kappa - kappa) <= reach)
        sums["ours"] += weight * (interval.low <= kappa <= interval.high)
        sums["above"] += weight * (interval.low > kappa)
    return {name: sums[name] / sums["defined"] for name in ("plain", "ours", "above")}


def bootstrapped(total: int, prevalence: float, kappa: float, draws: int, resamples: int) -> float:
    """The coverage of the percentile bootstrap."""
    chosen = random.Random(total)
    hits = defined = 0
    for _ in range(draws):
        counted = Counter(chosen.choices(range(4), shares(prevalence, kappa), k=total))
        counts = [counted[number] for number in range(4)]
        again = []
        for _ in range(resamples):
            drawn = Counter(chosen.choices(range(4), counts, k=total))
            value = kappa_of(pairs_of([drawn[number] for number in range(4)]))
            if value is not None:
                again.append(value)
        if not again:
            continue
        again.sort()
        defined += 1
        hits += again[int(0.025 * len(again))] <= kappa <= again[math.ceil(0.975 * len(again)) - 1]
    return hits / defined


def main() -> None:
    """Prints a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300, help="simulated tables for the bootstrap; 0 leaves it out")
    parser.add_argument("--resamples", type=int, default=300)
    arguments = parser.parse_args()
    print("| labels | say pass | kappa | plain | bootstrap | ours | ours is above the truth |")
    print("|---|---|---|---|---|---|---|")
    for total, prevalence, kappa in SETTINGS:
        sums = exact(total, prevalence, kappa)
        bootstrap = (
            f"{bootstrapped(total, prevalence, kappa, arguments.draws, arguments.resamples):.0%}"
            if arguments.draws
            else "-"
        )
        row = [f"{sums['plain']:.1%}", bootstrap, f"{sums['ours']:.1%}", f"{sums['above']:.1%}"]
        print(f"| {total} | {prevalence:.0%} | {kappa} | {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
