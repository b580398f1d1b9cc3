"""How often a cause is claimed of an agent that has not changed: pairs of runs of noisy agents, and what is claimed.

python benchmarks/cause_noise.py [PAIRS]: 150 pairs of each kind, with one run and with three runs a side; two minutes.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "unit"))

from test_gate_causes import NOISE, claims_of_noise

GOAL = 0.02
"""Share of the pairs."""


def main() -> int:
    """Prints the table; 1 if a kind is above the goal."""
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    missed = False
    for noise in NOISE:
        for runs in (1, 3):
            rng = random.Random(runs)
            claims = sum(bool(claims_of_noise(noise, runs, rng)) for _ in range(pairs))
            missed |= claims > GOAL * pairs
            print(f"{noise.__name__.replace('_', ' '):16} {runs} a side: {claims:3} of {pairs}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
