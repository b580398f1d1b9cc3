"""One metric over all cases: who is suspicious, which runs it still needs, and its p-values. Pure.

A *family* is what shares an error rate: all cases of one metric under the same rule. Its p-value joins two tests that
look at different things, each with its share of the error rate: the screening runs of all cases (the suite), which see
many small drops at once, and the confirmation runs of the suspicious cases, which see few large ones. Where the suite
is on the brink it gets one more run of every case, and a second look with a share of its own.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import comb, fsum
from typing import TYPE_CHECKING

from agent_eval.gate.stats._confirmation import Trial, pooled_p, promise
from agent_eval.gate.stats._screening import Table, suite_p, suite_scores_p
from agent_eval.gate.stats.decision import Budget, MetricRule, Rules
from agent_eval.gate.stats.evidence import Series
from agent_eval.gate.stats.exact_tests import exact_p, holm, permutation_p
from agent_eval.gate.stats.looks import Pair, first_look, missing, second_look
from agent_eval.gate.stats.suspect import Suspect

if TYPE_CHECKING:
    import numpy as np

SUITE_SHARE, AGAIN_SHARE, CONFIRM_SHARE = _SHARES = (0.3, 0.2, 0.5)
"""Of a family's error rate: a first look at the suite, a second one, the suspicious cases. Chosen with
benchmarks/gate_error_rates.py: more for the suite makes small drops of everything easier to see, more for suspicious
cases large drops of few."""
AGAIN_BELOW = 0.2
"""The suite gets its second look where the first one gave at most this p-value, but didn't decide."""
ROUND = 3
"""Confirmation runs of a case between two looks."""
FULL_BASE = 10
"""A suspicious case with fewer runs of the base gets so many, where the base can be run."""
LOOKS = {1: 0.2, 2: 0.3}
"""For scores, after which rounds the confirmation runs are tested, and with which share of the error rate. The rest of
it is for the test of all runs."""
_FUTILE = 0.15
"""A case whose scores look as innocent as this p-value gets no more runs."""
_MARGIN = 0.02
"""A score within its usual range but for this much is not suspicious."""


@dataclass(kw_only=True)
class Family:
    """All cases of one metric under one rule."""

    metric: str
    rule: MetricRule
    """Its `max_drop` is not used: each case has its own."""
    rules: Rules
    budget: Budget
    today_only: bool = False
    """The stored runs of the base are not like today's (`base_today`): nothing may rest on them."""
    case_ids: list[str] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    drops: list[float] = field(default_factory=list)
    """The tolerance of each case."""
    binary: bool = True
    """All values are zeros and ones."""

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
        """The screening runs of all cases against the base's; None when no case has both."""
        return self.suite_test([first_look(series, fresh_only=self.fresh_only) for series in self.series])

    def suite_test(self, pairs: Sequence[Pair]) -> float | None:
        """One-sided p-value that the first of each pair is lower; None when no case has both."""
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
        """The suspicious cases, in the order of the family."""
        found = [index for index, series in enumerate(self.series) if self._suspicious(index, series)]
        first = sum(self._below(self.series[index]) for index in found)
        return [self._suspect(index, len(found), first) for index in found]

    @cached_property
    def confirm_p(self) -> float | None:
        """The confirmation runs of all suspicious cases together; None when there are none."""
        tested = [suspect for suspect in self.suspects if suspect.trial.base_planned]
        if not any(suspect.trial.made for suspect in tested):
            return None
        if self.binary:
            return pooled_p(suspect.trial for suspect in tested)
        return min(1.0, *(suspect.p_value / suspect.weight for suspect in tested))

    @cached_property
    def repeated(self) -> dict[int, float]:
        """P-values of the cases that blocked the previous attempt too, after Holm over them.

        To block again they need not be picked out of all cases once more. In a pull request that changes nothing this
        adds the error rate times the chance of having been blocked before.
        """
        found = [one for one in self.suspects if self.series[one.index].before == "blocked" and one.trial.made]
        return dict(zip((one.index for one in found), holm([one.p_value for one in found]), strict=True))

    @property
    def shares(self) -> tuple[float, float, float]:
        """How the error rate is divided: the first look at the suite, the second, the suspicious cases."""
        if self.suite_p is not None:
            return _SHARES
        again = SUITE_SHARE + AGAIN_SHARE if self._trigger is not None else 0.0
        return 0.0, again, 1.0 - again

    @property
    def p_value(self) -> float:
        """All tests in one: each within its share of the error rate (Bonferroni with weights)."""
        tests = zip((self.suite_p, self.again_p, self.confirm_p), self.shares, strict=True)
        return min(1.0, *(value / share for value, share in tests if value is not None and share), 1.0)

    @cached_property
    def _trigger(self) -> float | None:
        """What says whether a second look is worth its runs: the first one, or one at the runs of other days."""
        if self.suite_p is not None or not self.fresh_only or self.today_only:
            return self.suite_p
        return self.suite_test([first_look(series, fresh_only=False) for series in self.series])

    @cached_property
    def again_due(self) -> bool:
        """Whether more runs of every case could settle what the first look left open."""
        return self._trigger is not None and self._trigger <= AGAIN_BELOW and self.again_p is None

    @cached_property
    def again_p(self) -> float | None:
        """The suite with more runs of each case; None until all have them."""
        if not self.series or self._trigger is None or any(any(runs) for runs in self.missing().values()):
            return None
        return self.suite_test([second_look(series, fresh_only=self.fresh_only) for series in self.series])

    def missing(self) -> dict[str, tuple[int, int]]:
        """By case id: how many runs of head and base a second look needs still."""
        return {
            case_id: missing(series, fresh_only=self.fresh_only)
            for case_id, series in zip(self.case_ids, self.series, strict=True)
            if series.head_screen and (series.base or series.base_screen)
        }

    def base_of(self, series: Series) -> tuple[float, ...]:
        """The base's runs with which confirmation runs are compared, as far as they were made."""
        if self.fresh_only:
            return (*series.base_screen, *series.base_confirm)
        return (*series.base, *series.base_screen, *series.base_confirm)

    def _below(self, series: Series) -> bool:
        """Whether a screening run failed: the one suspicion that owes nothing to the base."""
        if self.binary:
            return failed(series.head_screen) > 0
        return series.threshold is not None and any(value < series.threshold for value in series.head_screen)

    def _suspicious(self, index: int, series: Series) -> bool:
        if not series.head_screen:
            return False
        if self.binary and series.before:
            return True
        if self._below(series):
            # Where the stored base doesn't count in the test it may say whom to look at.
            stored = promise(failed(series.head_screen), 0, 0, failed(series.base), len(series.base))
            return not (self.fresh_only and self.binary and series.base and stored < 1.0)
        if self.binary:
            return False
        base = (*series.base, *series.base_screen)
        mean = fsum(series.head_screen) / len(series.head_screen)
        return bool(base) and mean + max(self.drops[index], _MARGIN) < min(base)

    def _low(self, index: int, series: Series) -> bool:
        """Whether the screening scores are lower than nearly all of the base's; only for choosing what to run."""
        base = sorted((*series.base, *series.base_screen))
        mean = fsum(series.head_screen) / len(series.head_screen)
        return not base or mean + self.drops[index] < base[len(base) // 5]

    def _promise(self, series: Series) -> float:
        base, confirm = self.base_of(series), series.head_confirm
        screened = failed(series.head_screen) + bool(series.before)
        return promise(screened, failed(confirm), len(confirm), failed(base), len(base))

    def _base_planned(self, series: Series) -> int:
        have = len(series.base_screen) if self.fresh_only else len(series.base) + len(series.base_screen)
        fresh = self.budget.can_run_base and self.rules.confirm_on_base != "never"
        return max(have, FULL_BASE) if fresh else have

    def _suspect(self, index: int, count: int, first: int) -> Suspect:
        series = self.series[index]
        planned, base_planned = self.rules.confirm_runs, self._base_planned(series)
        head, base = series.head_confirm[:planned], self.base_of(series)[:base_planned]
        if self.binary:
            trial = Trial(failed(head), len(head), planned, failed(base), len(base), base_planned)
            thin = exact_p(planned, planned, 0, base_planned) > self.level
            hopeless = not thin and trial.best_p_value > self.rules.alpha
            return Suspect(
                index=index,
                trial=trial,
                red=is_red(self.base_of(series) or series.base),
                counted=True,
                promise=0.0 if hopeless else self._promise(series),
                thin=thin,
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
            red=False,
            counted=False,
            promise=0.0 if (share and raw > _FUTILE) or not self._low(index, series) else 2.0,
            thin=1 / comb(planned + base_planned, planned) > self.level,
            p_value=min(1.0, raw / share) if share else 1.0,
            weight=self._weight(series, count, first),
        )

    def _weight(self, series: Series, count: int, first: int) -> float:
        """Half of the error rate is for cases that failed their threshold; the others were chosen by their base runs.

        Such a choice favours bases that were lucky. That is allowed for by counting all cases, not the chosen ones.
        """
        if self.fresh_only and not any(one.base_screen for one in self.series):
            return 1 / count  # They were chosen by stored runs, which the test doesn't use.
        if not first:
            return 1 / len(self.series)
        return 0.5 / len(self.series) + (0.5 / first if self._below(series) else 0.0)

    @cached_property
    def level(self) -> float:
        """The error rate of its suspicious cases if there is no other family."""
        alpha = self.rule.alpha if self.rule.alpha is not None else self.rules.alpha
        return alpha * CONFIRM_SHARE

    def _rng(self, name: str) -> np.random.Generator:
        import numpy as np

        return np.random.default_rng(
            [self.rules.seed, zlib.crc32(self.metric.encode()), zlib.crc32(name.encode()), len(name)]
        )


def look_share(made: int, planned: int) -> float:
    """Which share of the error rate a test of that many confirmation runs has; 0: none is due."""
    if made == planned:
        return 1.0 - sum(share for rounds, share in LOOKS.items() if rounds * ROUND < planned)
    rounds, odd = divmod(made, ROUND)
    return 0.0 if odd else LOOKS.get(rounds, 0.0)


def failed(values: Sequence[float]) -> int:
    """How many runs of a series of zeros and ones failed."""
    return len(values) - int(sum(values))


def is_red(base: Sequence[float]) -> bool:
    """Whether no run of the base passed, and there were some."""
    return bool(base) and not any(base)


def is_binary(series: Series) -> bool:
    """Whether all values are zeros and ones."""
    return _BINARY.issuperset(
        (*series.head_screen, *series.head_confirm, *series.base, *series.base_screen, *series.base_confirm)
    )


_BINARY = frozenset((0.0, 1.0))
