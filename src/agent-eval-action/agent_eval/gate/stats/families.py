"""One metric over all cases: its suspected regressions, the runs they need, and p-values. Pure.

A *family* is all cases of one metric under the same rule. Two tests look for a regression, and each rests on fresh runs
of the head. The test of the suspected regressions uses only the runs made since they are suspected,
and detects few large drops. The suite test detects many small drops: if the screening of all cases looks worse, every
case runs again, once or twice, and these runs alone must show it too. Holm's method adjusts for the families that share
an error rate, and for the suspected regressions of each.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import comb, fsum
from typing import TYPE_CHECKING

from agent_eval.gate.stats._screening import Columns, Table, run_level_p, suite_p, suite_scores_p
from agent_eval.gate.stats.decision import Budget, MetricRule, Rules
from agent_eval.gate.stats.samples import FRESH_COLUMNS, SCREENED, Pair, Series, failed, is_red, later_runs, look
from agent_eval.gate.stats.suspects import WORTH_MORE, Suspect, case_e, joint_e, p_of
from agent_eval_results.data.exact_tests import exact_p, holm, permutation_p

if TYPE_CHECKING:
    import numpy as np

BOTH_LEVEL = 0.6
"""The level of the test of screening and fresh columns together, as a share of the error rate. This and the other
constants were chosen with benchmarks/gate_error_rates.py."""
SEEN_AGAIN = 2.0
"""What the bets must pay without the runs of any one round."""
SCORES_SHARE = 0.5
"""The share of the error rate of the test of suspected scores."""
ROUND = 3
"""Fresh runs of a suspected score between two interim analyses."""
FULL_BASE = 10
"""Base runs of a suspected regression, if the base branch can be run; today's of a case that still passes some of its
runs, before it blocks by stored runs."""
CHECK_RUNS = 2
"""The same of a case that failed every time, as long as it passes there, and of every case where the suite got worse
(`_decide.runs_to_check`)."""
RED_TODAY = 5
"""So many base runs of today that all failed show that a case is broken there, whatever its stored runs."""
_NEWEST = 5
"""Newest records of the base: if these and its runs of today fail more often than the older ones, only they count."""
_CHANGED = 0.05
"""The p-value up to which that is so."""
_SUITE_LEVEL = 2.5
"""The same for the suite: how much larger its p-value may be against the newest runs than the error rate."""
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
    """The stored runs of the base differ from today's (`regression._decide`) and are not used."""
    case_ids: list[str] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    drops: list[float] = field(default_factory=list)
    """The tolerance of each case."""
    binary: bool = True
    """Whether all values are zeros and ones."""
    peers: Sequence[float] = ()
    """The p-values of the families that share its error rate, its own included."""

    def add(self, case_id: str, series: Series, max_drop: float) -> None:
        """Adds a case."""
        self.case_ids.append(case_id)
        self.series.append(series)
        self.drops.append(max_drop)
        if self.binary and not series.is_binary:
            self.binary = False

    @cached_property
    def fresh_only(self) -> bool:
        """Whether only runs of the same day are compared."""
        return (self.today_only or self.rules.confirm_on_base == "always") and self.budget.can_run_base

    @cached_property
    def _compared(self) -> list[Series]:
        """The cases as the suite's test sees them: of what changed on the base branch only the newest runs."""
        return [self._now(series) for series in self.series]

    def _now(self, series: Series) -> Series:
        if self._is_red_today(series):
            return replace(series, base=(), base_days=())
        if not self._changed_on_base(series):
            return series
        newest = self._newest(series)
        return replace(series, base=newest, base_days=series.base_days[-len(newest) :])

    @cached_property
    def screening_p(self) -> float | None:
        """p-value of the screening runs of all cases; None if no case has comparable runs on both sides."""
        return self.suite_test([look(series, fresh_only=self.fresh_only) for series in self._compared])

    @cached_property
    def trigger(self) -> float | None:
        """The p-value for which every case may run again: of the screening runs, if need be against stored runs."""
        if self.today_only:
            return None
        if self.rules.careful:
            return 0.0
        if self.screening_p is not None or not self.fresh_only:
            return self.screening_p
        return self.suite_test([look(series, fresh_only=False) for series in self._compared])

    @cached_property
    def columns(self) -> int:
        """Complete fresh columns: runs of all cases after the screening (`FRESH_COLUMNS`)."""
        if self.trigger is None:
            return 0
        # Half a column is none: cases that were run first would decide for all.
        return max((count for count in range(1, self.most_columns + 1) if not self.missing(count)), default=0)

    @cached_property
    def most_columns(self) -> int:
        """The most fresh columns."""
        return FRESH_COLUMNS + max((series.head_rounds.count(SCREENED) for series in self.series), default=0)

    @cached_property
    def fresh_p(self) -> float | None:
        """p-value of the fresh columns alone; None without any."""
        if self.trigger is None or not self.columns:
            return None
        looks = zip(self._compared, self.fresh_columns, strict=True)
        return self.suite_test(
            [look(series, columns, screened=False, fresh_only=self.fresh_only) for series, columns in looks]
        )

    @cached_property
    def suite_p(self) -> float | None:
        """p-value that the suite got worse; None unless the head's fresh runs were tested.

        A metric that only informs gets no fresh runs: its screening runs decide.

        The largest p-value of three tests, each of which must show it: the fresh columns alone; the screening and the
        fresh columns, at a smaller level; and the columns as wholes (`run_level_p`), which bounds a cause that many
        cases of one run share.
        """
        if self.fresh_p is None:
            informs = not self.rule.blocking and self.screening_p is not None
            return min(1.0, (self.screening_p or 0.0) / BOTH_LEVEL) if informs else None
        looks = zip(self._compared, self.fresh_columns, strict=True)
        both = self.suite_test([look(series, columns, fresh_only=self.fresh_only) for series, columns in looks])
        assert both is not None
        # The largest one: a drop that one of the tests does not see is no regression of the suite.
        p_value = max(self.fresh_p, min(1.0, both / BOTH_LEVEL), self._newest_p())
        return max(p_value, self._run_level_p()) if p_value <= self.alpha else p_value

    def _newest_p(self) -> float:
        """The same against the newest base runs alone, at a larger level: those of today, once the base has run."""
        if self.fresh_only:
            return 0.0
        heads = [
            (*series.head_screen, *columns) if columns else ()
            for series, columns in zip(self._compared, self.fresh_columns, strict=True)
        ]
        # Where the base has run in most cases today, only that counts: it has seen the same day.
        today = [each.base_confirm if len(each.base_confirm) >= CHECK_RUNS else () for each in self._compared]
        if 2 * sum(map(bool, today)) < len(today):
            if self.budget.can_run_base:
                return 0.0  # It runs before the suite blocks.
            today = [(*self._newest(each), *each.base_screen, *each.base_confirm) for each in self._compared]
        p_value = self.suite_test(list(zip(heads, today, strict=True)))
        return 0.0 if p_value is None else min(1.0, p_value / _SUITE_LEVEL)

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

    def _run_level_p(self) -> float:
        """p-value of the head's columns against the stored columns; 0.0 if there are too few to tell."""
        if self.fresh_only:
            return 0.0  # Base runs of the same day share the moment with the head's.
        rows = [
            Columns(
                head=tuple(value + drop for value in (*series.head_screen, *columns)),
                base=series.base,
                records=series.base_days,
            )
            for series, columns, drop in zip(self._compared, self.fresh_columns, self.drops, strict=True)
        ]
        return run_level_p(rows, self._rng("columns"), binary=self.binary)

    @cached_property
    def suspects(self) -> list[Suspect]:
        """The suspected regressions, in the order of the family."""
        fresh_from = {
            index: start for index, series in enumerate(self.series) if (start := self._suspected(index)) is not None
        }
        below_threshold = sum(self._below(self.series[index]) for index in fresh_from)
        return [self._suspect(index, start, len(fresh_from), below_threshold) for index, start in fresh_from.items()]

    @cached_property
    def confirm_p(self) -> float | None:
        """p-value of the fresh runs of all suspected regressions together; None without any."""
        if not any(suspect.made for suspect in self._tested):
            return None
        if self.binary:
            return p_of(joint_e(suspect.e_value() for suspect in self._tested))
        return min(1.0, *(suspect.p_value / suspect.weight / SCORES_SHARE for suspect in self._tested))

    @cached_property
    def _tested(self) -> list[Suspect]:
        return [suspect for suspect in self.suspects if suspect.base_planned and not suspect.always_fails_on_base]

    @cached_property
    def seen_twice(self) -> bool:
        """Whether the fresh runs of the suspected regressions say so without those of any one round as well.

        A bad moment makes many runs of one round fail. Only for pass or fail: scores are compared over several rounds.
        """
        if not self.binary:
            return True
        rounds = {number for suspect in self._tested for number in suspect.rounds}
        return all(joint_e(suspect.e_value(number) for suspect in self._tested) >= SEEN_AGAIN for number in rounds)

    def may_be_named(self, suspect: Suspect) -> bool:
        """Whether a suspected regression may be named: more than one bad moment made it fail."""
        return suspect.failed_rounds > 1 if self.binary else suspect.made > 0

    @property
    def p_value(self) -> float:
        """The p-value of the metric: the smaller one of suite and suspected regressions."""
        tests = (self.suite_p, self.confirm_p if self.seen_twice else None)
        return min((value for value in tests if value is not None), default=1.0)

    def missing(self, columns: int) -> dict[str, tuple[int, int]]:
        """Runs of head and base that this many fresh columns still need, by case id."""
        needed: dict[str, tuple[int, int]] = {}
        for case_id, series, runs in zip(self.case_ids, self.series, self._later_runs, strict=True):
            if series.head_screen and (series.base or series.base_screen):
                base = columns - len(series.base_confirm) if self.fresh_only else 0
                needed[case_id] = max(columns - len(runs), 0), max(base, 0)
        return {case_id: runs for case_id, runs in needed.items() if any(runs)}

    @cached_property
    def fresh_columns(self) -> list[tuple[float, ...]]:
        """The fresh columns of each case."""
        return [runs[: self.columns] for runs in self._later_runs]

    @cached_property
    def _later_runs(self) -> list[tuple[float, ...]]:
        return [
            later_runs(series, confirmed=self._confirmed_first(index, series))
            for index, series in enumerate(self.series)
        ]

    def _confirmed_first(self, index: int, series: Series) -> bool:
        """Whether the first fresh runs of a case were made because its screening looked worse."""
        if not self._suspicious(index, series) or not self.binary:
            return self._suspicious(index, series) and self._low(index, series)
        return _payoff(series.screened, look(series, fresh_only=self.fresh_only)[1]) >= WORTH_MORE

    def base_of(self, series: Series) -> tuple[float, ...]:
        """The base runs that confirmation runs are compared with."""
        if self.fresh_only:
            return (*series.base_screen, *series.base_confirm)
        return (*series.base, *series.base_screen, *series.base_confirm)

    def _held_to(self, series: Series) -> tuple[float, ...]:
        """Those of them that a regression has to be worse than."""
        changed = self._changed_on_base(series)
        return (*self._newest(series), *series.base_screen, *series.base_confirm) if changed else self.base_of(series)

    def _below(self, series: Series) -> bool:
        """Whether a screening run failed: the only reason for suspicion that is independent of the base."""
        if self.binary:
            return failed(series.head_screen) > 0
        return series.threshold is not None and any(value < series.threshold for value in series.head_screen)

    def _suspected(self, index: int) -> int | None:
        """From which extra run on the runs of a case are fresh, as they did not select it; None if not suspected."""
        series = self.series[index]
        if self._suspicious(index, series):
            return 0
        if not self.binary or not series.head_screen or self._always_fails_on_base(series):
            return None
        return next((number for number, value in enumerate(series.head_confirm, start=1) if not value), None)

    def _suspicious(self, index: int, series: Series) -> bool:
        """Whether the screening runs look worse."""
        if not series.head_screen:
            return False
        if self.binary and series.before:
            return True
        if self._below(series):
            if not (self.fresh_only and self.binary and series.base):
                return True
            # The test does not use these base runs: they may select the cases.
            return _payoff(series.head_screen, series.base) >= 1.0
        if self.binary:
            return False
        base = (*series.base, *series.base_screen)
        mean = fsum(series.head_screen) / len(series.head_screen)
        return bool(base) and mean + max(self.drops[index], _MARGIN) < min(base)

    def _always_fails_on_base(self, series: Series) -> bool:
        if is_red(self._held_to(series) or series.base):
            return True
        broke = len(series.base_confirm) >= CHECK_RUNS and is_red(series.base_confirm)
        return self._is_red_today(series) or (broke and self._changed_on_base(series))

    def _is_red_today(self, series: Series) -> bool:
        # A score of zero in every run of today is a low score, which runs of today are compared with.
        return self.binary and len(series.base_confirm) >= RED_TODAY and is_red(series.base_confirm)

    def fails_on_base(self, series: Series) -> bool:
        """Whether a case that passed on the base branch once fails there now."""
        return any(series.base) and self._always_fails_on_base(series)

    def newest_failed(self, series: Series) -> bool:
        """Whether the last `RED_TODAY` base runs, some of today, failed, and an older one passed: only to be said."""
        if not self.binary or len(series.base_confirm) < CHECK_RUNS:
            return False
        runs = (*series.base, *series.base_confirm)
        return any(runs) and is_red(series.base_confirm) and not any(runs[-RED_TODAY:])

    def unseen_today(self, index: int) -> int:
        """Base runs of today that a suspected case needs before all others: it failed the newest records there."""
        series = self.series[index]
        asked = self.budget.can_run_base and self.rules.confirm_on_base == "auto" and not self.today_only
        broke = self.binary and any(series.base) and is_red(self._newest(series))
        return max(CHECK_RUNS - len(series.base_confirm), 0) if asked and broke else 0

    def _newest(self, series: Series) -> tuple[float, ...]:
        return series.base[-_NEWEST * max(len(series.head_screen), 1) :]

    def _changed_on_base(self, series: Series) -> bool:
        """Whether the newest base runs, those of today included, fail more often than the older ones.

        Then a regression came in there, and the pull request is compared with what it is now. This never adds to the
        error rate, as it makes the base worse. If the base can run today, it has to do so first.
        """
        if not self.binary or self.fresh_only or (self.budget.can_run_base and len(series.base_confirm) < CHECK_RUNS):
            return False
        newest = self._newest(series)
        older = series.base[: -len(newest)] if newest else ()
        now = (*newest, *series.base_screen, *series.base_confirm)
        return bool(older) and (is_red(now) or exact_p(failed(now), len(now), failed(older), len(older)) <= _CHANGED)

    def _low(self, index: int, series: Series) -> bool:
        """Whether the screening scores are lower than most base scores; only for selecting runs."""
        base = sorted((*series.base, *series.base_screen))
        mean = fsum(series.head_screen) / len(series.head_screen)
        return not base or mean + self.drops[index] < base[len(base) // 5]

    def _base_planned(self, series: Series) -> int:
        # The plan must not depend on how many of its runs were made: it would move with each look.
        have = len(self._held_to(series)) - len(series.base_confirm)
        fresh = self.budget.can_run_base and self.rules.confirm_on_base != "never"
        return max(have, FULL_BASE) if fresh else have

    def _suspect(self, index: int, start: int, count: int, below_threshold: int) -> Suspect:
        series = self.series[index]
        planned = self.rules.confirm_runs * (1 + self.rules.careful) + max(series.earlier - start, 0)
        base_planned = self._base_planned(series)
        fresh, base = series.head_confirm[start : start + planned], self._held_to(series)
        if self.binary:
            # What is worth more runs may look at all of them; what blocks, only at those that selected nothing.
            worth = _payoff((*series.screened, *series.head_confirm[: start + planned]), base)
            least, level = p_of(joint_e([case_e(planned, planned, 0, base_planned)])), self.alpha
            p_value, weight = p_of(_payoff(fresh, base)), 1 / count
        else:
            base = base[:base_planned]
            shifted = [value + self.drops[index] for value in fresh]
            share = look_share(len(fresh), planned) if len(base) >= max(base_planned, 1) else 0.0
            # Scores are tested after whole rounds only, and each look spends a share of the error rate.
            raw = permutation_p(shifted, base, self._rng(self.case_ids[index])) if share else 1.0
            worth = 0.0 if (share and raw > _FUTILE) or not self._low(index, series) else 2.0
            least, level = 1 / comb(planned + base_planned, planned), self.alpha * SCORES_SHARE
            p_value = min(1.0, raw / share) if share else 1.0
            weight = self._weight(series, count, below_threshold)
        return Suspect(
            index=index,
            fresh=fresh,
            rounds=series.head_rounds[start : start + planned],
            planned=planned,
            base_failures=failed(base) if self.binary else 0,
            base_made=len(base),
            base_planned=base_planned,
            worth=worth,
            always_fails_on_base=self.binary and self._always_fails_on_base(series),
            is_binary=self.binary,
            base_underpowered=least > level,
            p_value=p_value,
            weight=weight,
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
    def alpha(self) -> float:
        """The family-wise error rate, shared with its peers."""
        return self.rule.alpha if self.rule.alpha is not None else self.rules.alpha

    @property
    def pool(self) -> tuple[object, ...]:
        """Families share an error rate if this is equal. Informational ones must not reduce the gate's power."""
        return self.rule.blocking, self.rule.alpha, self.metric if self.rule.alpha is not None else None

    @cached_property
    def adjusted(self) -> float:
        """The Holm-adjusted p-value of the metric."""
        return min(holm(self.peers)[self.peers.index(self.p_value)], 1.0)

    @property
    def rejected(self) -> bool:
        """Whether the metric got significantly worse."""
        return self.adjusted <= self.alpha

    @property
    def level(self) -> float:
        """The level of the p-value: Holm's step if rejected, else alpha divided by the number of peers."""
        # Holm: the k-th smallest of n p-values is held to alpha / (n - k + 1).
        step = sum(value >= self.p_value for value in self.peers)
        return self.alpha / (step if self.rejected else len(self.peers))

    @cached_property
    def case_p(self) -> dict[int, float]:
        """Adjusted p-values of the suspected regressions, by index."""
        tested = [suspect for suspect in self.suspects if suspect.made and suspect.base_planned]
        if self.binary:
            values = holm([suspect.p_value for suspect in tested])
        else:
            values = [min(1.0, suspect.p_value / suspect.weight) for suspect in tested]
        # A case can't be surer than the metric that it is a part of.
        return {
            suspect.index: max(self.adjusted, min(1.0, len(self.peers) * value))
            for suspect, value in zip(tested, values, strict=True)
        }

    @cached_property
    def named(self) -> tuple[int, ...]:
        """Indices of the cases that individually got significantly worse."""
        seen = {suspect.index for suspect in self.suspects if self.may_be_named(suspect)}
        return tuple(
            index
            for index, value in self.case_p.items()
            if value <= self.alpha and index in seen and self.drop_of(index) > self.drops[index]
        )

    def drop_of(self, index: int) -> float:
        """Base mean minus head mean of a case: of its confirmation runs if there are any; 0 without base runs."""
        series = self.series[index]
        head, base = series.head_confirm or series.head_screen, self.base_of(series)
        return fsum(base) / len(base) - fsum(head) / len(head) if head and base else 0.0

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


def _payoff(head: Sequence[float], base: Sequence[float]) -> float:
    """The payoff of the bet that runs of the head fail more often than those of the base (`bets.case_e`)."""
    return case_e(failed(head), len(head), failed(base), len(base))
