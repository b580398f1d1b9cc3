"""A simpler rule to compare with: an empirical Bayes factor in place of the gate's exact tests. Not shipped.

What is known of pass rates is a distribution that is learned from the suite's own stored runs (EM on a grid of rates).
The Bayes factor says how much likelier today's runs are if something got worse than if nothing did; at 10 or more the
rule fails a pull request. All runs count, the screening runs too: by Bayes' rule it does not matter why a case was run
again. It knows only pass and fail, so scores are held to their threshold. docs/statistics.md has what came of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from simulated_pulls import THRESHOLD, Cell, Floats, PullRequest, Push

from agent_eval.gate.regression._base_today import CHECK_RUNS, DIFFERS
from agent_eval.gate.regression.attempts import Before
from agent_eval.gate.regression.retrial import Retrial, next_runs, outcomes
from agent_eval.gate.stats._screening import Table, suite_p
from agent_eval.gate.stats.decision import Outcome
from agent_eval.gate.stats.families import FULL_BASE, ROUND
from agent_eval.gate.stats.samples import PASS

FACTOR = 10.0
"""From this Bayes factor on a pull request fails."""
_BRINK = 2.0
"""From this factor of "all cases are a little worse" on every case gets one more run."""
_RATES = np.array([0.002, 0.02, 0.05, *np.arange(0.1, 0.95, 0.05), 0.95, 0.98, 0.995, 0.9995])
_KEPT = np.array([0.02, 0.2, 0.4, 0.6, 0.8])
"""Which share of its pass rate a case that got worse may have kept."""
_SHIFTS = np.array([0.5, 1.0, 1.5, 2.0])
"""By how many logits all cases may have got worse."""
_FEW = 3
"""How many cases got worse where it is a few."""
_FIRST = (0.5 + 0.5 * (np.arange(len(_RATES)) == len(_RATES) - 1) * len(_RATES)) / len(_RATES)
"""What is believed of a suite without stored runs: half of its cases always pass."""


@dataclass
class Runs:
    """Passed and all runs of each case, which is each metric of each case."""

    passed: Floats
    made: Floats

    @classmethod
    def of(cls, runs: Mapping[str, Floats]) -> Runs:
        """From tables of runs, one a metric."""
        table = np.concatenate([values if name == PASS else values >= THRESHOLD for name, values in runs.items()])
        return cls(table.sum(axis=1).astype(float), np.full(len(table), float(table.shape[1])))

    def add(self, index: int, runs: Mapping[str, Floats], cases: int) -> None:
        """Adds runs of one case."""
        more = Runs.of(runs)
        self.passed[index::cases] += more.passed
        self.made[index::cases] += more.made

    def likelihood(self, rates: Floats) -> Floats:
        """Of each case, its rates along the last axis."""
        shape = (-1, *(1,) * rates.ndim)
        failed = (self.made - self.passed).reshape(shape)
        return np.asarray(np.exp(self.passed.reshape(shape) * np.log(rates) + failed * np.log1p(-rates)))


def _learned(base: Runs) -> Floats:
    """The distribution of pass rates, by EM; a few cases' worth of what is believed of any suite keeps it wide."""
    likelihood: Floats = base.likelihood(_RATES)
    weights: Floats = _FIRST
    for _ in range(30):
        shares = likelihood * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).sum(axis=0) + 3 * _FIRST
        weights = weights / weights.sum()
    return weights


def factors(prior: Floats, base: Runs, head: Runs) -> tuple[float, float, Floats]:
    """The Bayes factor of everything; of "all a little worse"; of each case."""
    posterior = base.likelihood(_RATES) * prior
    posterior /= posterior.sum(axis=1, keepdims=True)
    same = (posterior * head.likelihood(_RATES)).sum(axis=1)
    lower = head.likelihood(np.outer(_RATES, _KEPT)).mean(axis=2)
    each = (posterior * lower).sum(axis=1) / same
    odds = (_RATES / (1 - _RATES))[:, None] * np.exp(-_SHIFTS)
    shifted = (posterior[:, :, None] * head.likelihood(odds / (1 + odds))).sum(axis=1) / same[:, None]
    everything = float(np.exp(np.log(shifted).sum(axis=0)).mean())
    few = min(_FEW / len(each), 0.5)
    return float(each.mean() + np.prod(1 - few + few * each) + everything) / 3, everything, each


def bayes_gate(
    pull: PullRequest,
    cell: Cell,
    *,
    head: Mapping[str, Floats],
    stored: Mapping[str, Floats],
    again: Mapping[str, Floats],
    before: Mapping[str, Before],
) -> Push:
    """What the rule makes of a push. It has the gate's limits of runs, and its check that the base is as it was.

    Changed cases are tried again just as by the gate, since there is no base that a rule could use.
    """
    world, cases = pull.world, pull.world.cases
    can_run = world.base_can_run or world.rerun
    now, old, today = Runs.of(head), Runs.of(stored), Runs.of(again)
    prior = _learned(old)
    touched = np.arange(len(now.made)) % cases < world.touched
    now.passed[touched] = now.made[touched] = 0.0
    fresh = Runs(np.zeros(len(touched)), np.zeros(len(touched)))
    suspicious = [
        index for index in range(cases) if (now.passed < now.made)[index::cases].any() or before.get(str(index))
    ]
    retrials = [
        Retrial(case_id=str(index), kind="case") for index in range(world.touched) if not head[PASS][index].all()
    ]
    extra, today_only, checked, second = 0, cell.confirm_on_base == "always" and can_run, False, False

    def run(requests: Mapping[int, tuple[int, int]]) -> bool:
        """Makes runs of head and base of some cases, as far as they are allowed."""
        nonlocal extra
        spent = extra
        for index, (more, base_more) in requests.items():
            if more + base_more <= cell.allowed - extra:
                at = slice(index, index + 1)
                runs = pull.runs(pull.head, more, at)
                now.add(index, runs, cases)
                fresh.add(index, runs, cases)
                today.add(index, pull.runs(pull.base, base_more, at), cases)
                extra += more + base_more
        return extra > spent

    while requests := next_runs(retrials, cell.allowed - extra):
        for at, retrial in enumerate(retrials):
            index = int(retrial.case_id)
            values = pull.runs(pull.head, requests.get(retrial.case_id, 0), slice(index, index + 1))[PASS][0].tolist()
            retrials[at] = replace(retrial, failed=(*retrial.failed, *(not value for value in values)))
            extra += len(values)
    while True:
        # Where only runs of today are compared, those that chose the cases must not count: the others have no base.
        base = today if today_only else Runs(old.passed + today.passed, old.made + today.made)
        total, everything, each = factors(prior, base, fresh if today_only else now)
        promise = each.reshape(-1, cases).max(axis=0)
        fresh_runs, has = fresh.made[:cases], base.made[:cases]
        if total >= FACTOR:
            if checked or today_only or cell.confirm_on_base != "auto" or not can_run:
                break
            selected = [index for index in suspicious if promise[index] > 1] or list(np.argsort(-promise)[:8])
            run({index: (0, int(max(CHECK_RUNS - today.made[index], 0))) for index in selected})
            checked, today_only = True, _differs(old, today)
            continue
        wanted_now = {
            index: (ROUND, int(min(max(FULL_BASE - has[index], 0), ROUND)) if can_run else 0)
            for index in sorted(suspicious, key=lambda index: -promise[index])
            if (promise[index] > 1 or ((today_only or before.get(str(index))) and not fresh_runs[index]))
            and fresh_runs[index] < cell.confirm_runs
        }
        if run(wanted_now):
            continue
        if not second and everything >= _BRINK:
            second = True
            if run({index: (1, int(today_only)) for index in range(world.touched, cases)}):
                continue
        break
    tried = outcomes(retrials).values()
    outcome: Outcome = "failed" if total >= FACTOR or "again" in tried else "inconclusive" if wanted_now else "passed"
    suspected: dict[str, Before] = {str(index): "suspicious" for index in np.flatnonzero(promise > 3)}
    return Push(outcome=outcome, extra=extra, before=suspected)


def _differs(old: Runs, today: Runs) -> bool:
    """Whether the base fails more often today than it did, as in `base_today`."""
    tables: Counter[Table] = Counter(
        Table(
            int(today.made[at] - today.passed[at]), int(today.made[at]), int(old.made[at] - old.passed[at]), int(count)
        )
        for at, count in enumerate(old.made)
        if count and today.made[at]
    )
    return bool(tables) and suite_p(tables, np.random.default_rng(0)) <= DIFFERS
