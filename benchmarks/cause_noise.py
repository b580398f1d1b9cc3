"""How often a cause is claimed of an agent that has not changed: pairs of runs of noisy agents, and what is claimed.

python benchmarks/cause_noise.py [PAIRS]: 150 pairs of each kind and rate, with one run a side, one against five stored
ones, and three a side; with the causes of few cases, in pull requests with harmless changes. Ten minutes.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from pathlib import Path

sys.path.extend(str(Path(__file__).resolve().parents[1] / "tests" / name) for name in ("unit", "results", "scoring"))

from test_results_cause_noise import claimed
from test_results_causes import NOISE

from agent_eval_results.report.phrases import changed_lead

GOAL = 0.02
"""Share of the pairs. Beside a change of its own code, nobody can tell a tool that is random now and then from one that
the change broke by one run a side: what the report says with "may differ by chance" is no claim, and counted apart.
"""
RATES = (0.4, 0.1, 0.03)


def main() -> int:
    """Prints the table; 1 if a kind is above the goal."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    missed = False
    for noise in NOISE:
        for often in RATES:
            for runs, on_base in ((1, 1), (1, 5), (3, 3)):
                rng = random.Random(runs)
                claims = [found for _ in range(pairs) if (found := claimed(noise, often, runs, on_base, rng))]
                doubted = sum(all("by chance" in changed_lead(each) for each in found) for found in claims)
                few = sum(any(each.few for each in found) for found in claims)
                missed |= len(claims) - doubted > GOAL * pairs
                name = noise.__name__.replace("_", " ")
                kinds = ", ".join(f"{n} {code}" for code, n in Counter(found[0].code for found in claims).items())
                print(
                    f"{name:16} {often:4} {runs} against {on_base}: {len(claims) - doubted:3} of {pairs},"
                    f" {few} of few cases, {doubted} said to be chance, perhaps  {kinds}",
                    flush=True,
                )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
