"""One metric over all cases: its suspected regressions, the runs they need, and p-values. Pure.

A *family* shares an error rate: all cases of one metric under the same rule. Its p-value combines two tests, each with
its share of the error rate. The suite test uses the screening runs of all cases and detects many small drops. The case
test uses the confirmation runs of the suspected regressions and detects few large drops. If the suite test is
borderline, every case runs once more for a second interim analysis with its own share.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, fsum
from typing import TYPE_CHECKING

from agent_eval.gate.stats._confirmation import Trial, likelihood_ratio, pooled_p
from agent_eval.gate.stats._screening import Table, suite_p, suite_scores_p
from agent_eval.gate.stats.decision import Budget, MetricRule, Rules
from agent_eval.gate.stats.exact_tests import exact_p, holm, permutation_p
from agent_eval.gate.stats.looks import Pair, first_look, missing, second_look
from agent_eval.gate.stats.samples import Series
from agent_eval.gate.stats.suspect import Suspect

if TYPE_CHECKING:
    import numpy as np

SUITE_SHARE, AGAIN_SHARE, CONFIRM_SHARE = _SHARES = (0.3, 0.2, 0.5)
"""Shares of a family's error rate: first and second interim analysis of the suite, and the suspected regressions.
Chosen with benchmarks/gate_error_rates.py: a larger share for the suite detects smaller drops of all cases, a larger
share for suspected regressions detects smaller drops of a few cases."""
AGAIN_BELOW = 0.2
"""Maximum p-value of the first interim analysis for a second one."""
ROUND = 3
"""Confirmation runs of a case between two interim analyses."""
FULL_BASE = 10
"""Base runs of a suspected regression, if the base branch can be run."""
LOOKS = {1: 0.2, 2: 0.3}
"""Interim analyses of scores: the round of confirmation runs, and its share of the error rate. The final analysis of
all runs has the rest."""
_FUTILE = 0.15
"""A case whose scores have a larger p-value gets no more runs."""
_MARGIN = 0.02
"""A score below its usual range by at most this much is not suspected."""


@dataclass(kw_only=True)
class Family:
    """All cases of one metric under one rule."""

    metric: str
    rule: MetricRule
    """Its `max_drop` is not used: each case has its own tolerance."""
    rules: Rules
    budget: Budget
    today_only: bool = False
    """The stored runs of the base differ from today's (`_base_today`) and are not used."""
    case_ids: list[str] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    drops: list[float] = field(default_factory=list)
    """The tolerance of each case."""
    binary: bool = True
    """Whether all values are zeros and ones."""

    def add(self, case_id: str, series: Series, max_drop: float) -> None:
        """Adds a case."""
        self.case_ids.append(case_id)
        self.series.append(series)
        self.drops.append(max_drop)
        if self.binary and not is_binary(series):
            self.binary = False

    @cached_property
    def fresh_only(self) -> bool:
        """Whether only runs of the same day are compared."""
        return (self.today_only or self.rules.confirm_on_base == "always") and self.budget.can_run_base

    @cached_property
    def suite_p(self) -> float | None:
        """p-value of the screening runs of all cases; None if no case has runs on both sides."""
        return self.suite_test([first_look(series, fresh_only=self.fresh_only) for series in self.series])

    def suite_test(self, pairs: Sequence[Pair]) -> float | None:
        """One-sided p-value that the head's values are lower; None if no case has values on both sides."""
        rng = self._rng("")
        if self.binary:
            tables: Counter[Table] = Counter(
                Table(failed(head), len(head), failed(base), len(base)) for head, base in pairs if head and base
            )
            return suite_p(tables, rng) if tables else None
        shifted = [
            ([value + drop for value in head], base)
            for (head, base), drop in zip(pairs, self.drops, strict=True)
            if head and base
        ]
        return suite_scores_p(shifted, rng) if shifted else None

    @cached_property
    def suspects(self) -> list[Suspect]:
        """The suspected regressions, in the order of the family."""
        indices = [index for index, series in enumerate(self.series) if self._suspicious(index, series)]
        below_threshold = sum(self._below(self.series[index]) for index in indices)
        return [self._suspect(index, len(indices), below_threshold) for index in indices]

    @cached_property
    def confirm_p(self) -> float | None:
        """p-value of the confirmation runs of all suspected regressions together; None without any."""
        tested = [suspect for suspect in self.suspects if suspect.trial.base_planned]
        if not any(suspect.trial.made for suspect in tested):
            return None
        if self.binary:
            return pooled_p(suspect.trial for suspect in tested)
        return min(1.0, *(suspect.p_value / suspect.weight for suspect in tested))

    @cached_property
    def repeated(self) -> dict[int, float]:
        """Holm-adjusted p-values of the cases that blocked the previous attempt.

        To block again, they are not adjusted for all other cases. In a pull request without any effect this adds the
        error rate times the probability that the previous attempt failed.
        """
        blocked = [
            suspect
            for suspect in self.suspects
            if self.series[suspect.index].before == "blocked" and suspect.trial.made
        ]
        return dict(
            zip((suspect.index for suspect in blocked), holm([suspect.p_value for suspect in blocked]), strict=True)
        )

    @property
    def shares(self) -> tuple[float, float, float]:
        """Shares of the error rate: first and second interim analysis of the suite, suspected regressions."""
        if self.suite_p is not None:
            return _SHARES
        again = SUITE_SHARE + AGAIN_SHARE if self._trigger is not None else 0.0
        return 0.0, again, 1.0 - again

    @property
    def p_value(self) -> float:
        """The combined p-value of all tests (weighted Bonferroni)."""
        tests = zip((self.suite_p, self.again_p, self.confirm_p), self.shares, strict=True)
        return min(1.0, *(value / share for value, share in tests if value is not None and share), 1.0)

    @cached_property
    def _trigger(self) -> float | None:
        """The p-value that triggers the second interim analysis: of the first one, or of a test of stored runs."""
        if self.suite_p is not None or not self.fresh_only or self.today_only:
            return self.suite_p
        return self.suite_test([first_look(series, fresh_only=False) for series in self.series])

    @cached_property
    def again_due(self) -> bool:
        """Whether the second interim analysis needs more runs of every case."""
        return self._trigger is not None and self._trigger <= AGAIN_BELOW and self.again_p is None

    @cached_property
    def again_p(self) -> float | None:
        """p-value of the second interim analysis; None until all cases have their runs."""
        if not self.series or self._trigger is None or any(any(runs) for runs in self.missing().values()):
            return None
        return self.suite_test([second_look(series, fresh_only=self.fresh_only) for series in self.series])

    def missing(self) -> dict[str, tuple[int, int]]:
        """Missing runs of head and base for the second interim analysis, by case id."""
        return {
            case_id: missing(series, fresh_only=self.fresh_only)
            for case_id, series in zip(self.case_ids, self.series, strict=True)
            if series.head_screen and (series.base or series.base_screen)
        }

    def base_of(self, series: Series) -> tuple[float, ...]:
        """The base runs that confirmation runs are compared with."""
        if self.fresh_only:
            return (*series.base_screen, *series.base_confirm)
        return (*series.base, *series.base_screen, *series.base_confirm)

    def _below(self, series: Series) -> bool:
        """Whether a screening run failed: the only reason for suspicion that is independent of the base."""
        if self.binary:
            return failed(series.head_screen) > 0
        return series.threshold is not None and any(value < series.threshold for value in series.head_screen)

    def _suspicious(self, index: int, series: Series) -> bool:
        if not series.head_screen:
            return False
        if self.binary and series.before:
            return True
        if self._below(series):
            # Stored base runs that the test does not use may select the cases.
            stored = likelihood_ratio(failed(series.head_screen), 0, 0, failed(series.base), len(series.base))
            return not (self.fresh_only and self.binary and series.base and stored < 1.0)
        if self.binary:
            return False
        base = (*series.base, *series.base_screen)
        mean = fsum(series.head_screen) / len(series.head_screen)
        return bool(base) and mean + max(self.drops[index], _MARGIN) < min(base)

    def _low(self, index: int, series: Series) -> bool:
        """Whether the screening scores are lower than most base scores; only for selecting runs."""
        base = sorted((*series.base, *series.base_screen))
        mean = fsum(series.head_screen) / len(series.head_screen)
        return not base or mean + self.drops[index] < base[len(base) // 5]

    def _likelihood_ratio(self, series: Series) -> float:
        base, confirm = self.base_of(series), series.head_confirm
        screened = failed(series.head_screen) + bool(series.before)
        return likelihood_ratio(screened, failed(confirm), len(confirm), failed(base), len(base))

    def _base_planned(self, series: Series) -> int:
        have = len(series.base_screen) if self.fresh_only else len(series.base) + len(series.base_screen)
        fresh = self.budget.can_run_base and self.rules.confirm_on_base != "never"
        return max(have, FULL_BASE) if fresh else have

    def _suspect(self, index: int, count: int, below_threshold: int) -> Suspect:
        series = self.series[index]
        planned, base_planned = self.rules.confirm_runs, self._base_planned(series)
        head, base = series.head_confirm[:planned], self.base_of(series)[:base_planned]
        if self.binary:
            trial = Trial(failed(head), len(head), planned, failed(base), len(base), base_planned)
            underpowered = exact_p(planned, planned, 0, base_planned) > self.level
            hopeless = not underpowered and trial.best_p_value > self.rules.alpha
            return Suspect(
                index=index,
                trial=trial,
                always_fails_on_base=is_red(self.base_of(series) or series.base),
                is_binary=True,
                likelihood_ratio=0.0 if hopeless else self._likelihood_ratio(series),
                base_underpowered=underpowered,
                p_value=trial.p_value,
                weight=1 / count,
            )
        trial = Trial(0, len(head), planned, 0, len(base), base_planned)
        shifted = [value + self.drops[index] for value in head]
        share = look_share(len(head), planned) if len(base) >= max(base_planned, 1) else 0.0
        raw = permutation_p(shifted, base, self._rng(self.case_ids[index])) if share else 1.0
        return Suspect(
            index=index,
            trial=trial,
            always_fails_on_base=False,
            is_binary=False,
            likelihood_ratio=0.0 if (share and raw > _FUTILE) or not self._low(index, series) else 2.0,
            base_underpowered=1 / comb(planned + base_planned, planned) > self.level,
            p_value=min(1.0, raw / share) if share else 1.0,
            weight=self._weight(series, count, below_threshold),
        )

    def _weight(self, own: Series, count: int, below_threshold: int) -> float:
        """The case's share of the error rate of the suspected regressions.

        Half of the error rate is for cases below their threshold. The base runs select the others, which favours cases
        with high base runs by chance; dividing by the number of all cases corrects for this selection.
        """
        if self.fresh_only and not any(series.base_screen for series in self.series):
            return 1 / count  # Stored runs selected the cases, and the test doesn't use them.
        if not below_threshold:
            return 1 / len(self.series)
        return 0.5 / len(self.series) + (0.5 / below_threshold if self._below(own) else 0.0)

    @cached_property
    def level(self) -> float:
        """The error rate of the suspected regressions if there is no other family."""
        alpha = self.rule.alpha if self.rule.alpha is not None else self.rules.alpha
        return alpha * CONFIRM_SHARE

    def _rng(self, name: str) -> np.random.Generator:
        import numpy as np

        return np.random.default_rng(
            [self.rules.seed, zlib.crc32(self.metric.encode()), zlib.crc32(name.encode()), len(name)]
        )


def look_share(runs: int, planned: int) -> float:
    """The error rate's share of a test of this many confirmation runs; 0 if no test is due."""
    if runs == planned:
        return 1.0 - sum(share for rounds, share in LOOKS.items() if rounds * ROUND < planned)
    rounds, odd = divmod(runs, ROUND)
    return 0.0 if odd else LOOKS.get(rounds, 0.0)


def failed(values: Sequence[float]) -> int:
    """The number of failed runs in a series of zeros and ones."""
    return len(values) - int(sum(values))


def is_red(base: Sequence[float]) -> bool:
    """Whether the base has runs and none of them passed."""
    return bool(base) and not any(base)


def is_binary(series: Series) -> bool:
    """Whether all values are zeros and ones."""
    return _BINARY.issuperset(
        (*series.head_screen, *series.head_confirm, *series.base, *series.base_screen, *series.base_confirm)
    )


_BINARY = frozenset((0.0, 1.0))
