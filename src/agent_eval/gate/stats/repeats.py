"""pass@k and pass^k over several runs of each case. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from agent_eval.gate.stats.exact_tests import pass_at_k, pass_hat_k
from agent_eval.results import CaseReport, PassRates


def pass_rates(cases: Sequence[CaseReport], num_runs: int) -> list[PassRates]:
    """pass@k and pass^k for k from 1 to `num_runs`, averaged over the cases.

    Runs without a result and quarantined cases don't count. Empty for `num_runs` 1, where both equal the pass rate.
    """
    if num_runs < 2:
        return []
    counts = []
    for case in cases:
        if case.status != "quarantined":
            statuses = [run.status for run in case.runs if run.run < num_runs]
            counts.append((statuses.count("passed"), statuses.count("passed") + statuses.count("failed")))
    rates = []
    for k in range(1, num_runs + 1):
        with_k_runs = [(passed, runs) for passed, runs in counts if runs >= k]
        if with_k_runs:
            rates.append(
                PassRates(
                    k=k,
                    cases=len(with_k_runs),
                    any=fsum(pass_at_k(passed, runs, k) for passed, runs in with_k_runs) / len(with_k_runs),
                    all=fsum(pass_hat_k(passed, runs, k) for passed, runs in with_k_runs) / len(with_k_runs),
                )
            )
    return rates
