"""The words and shapes of a statistical decision: what is asked for, what is answered. Pure.

`gate.sequential.next_step` takes `Rules` and evidence and gives either `Runs` (make these, then ask again) or a
`Decision`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

ConfirmOnBase = Literal["auto", "always", "never"]
"""Whether the base is run beside the head's confirmation runs: `auto` where its stored runs are too few to decide,
`always` for every suspicious case (then only runs of the same day are compared), `never`."""

Word = Literal["broken", "worse", "suspicious", "flaky as before", "fixed", "better", "unchanged"]
"""broken: significantly worse, and no confirmation run passed; or failed every run, and the base has too few to compare
with. worse: significantly worse. suspicious: looks worse, not shown. flaky as before: failed now, no more often than on
the base. fixed: no run of the base passed, every run does now, and that is significant. better: significantly better.
unchanged: nothing to tell."""

Outcome = Literal["passed", "failed", "inconclusive"]


@dataclass(frozen=True, kw_only=True)
class MetricRule:
    """How one metric gates."""

    max_drop: float = 0.0
    """Tolerance in the score's own unit, 0 or more: a smaller drop than this never blocks."""
    blocking: bool = True
    """False: tested and told, never a reason to fail."""
    alpha: float | None = None
    """An error rate of its own; None shares `Rules.alpha` with the other metrics."""
    direction: Literal["higher", "lower"] = "higher"
    """Which way is better. Where it is `lower` the values of the series have the other sign; the words turn it back."""


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the user wants."""

    alpha: float = 0.05
    """How often a pull request that changed nothing may fail, over all cases and metrics together."""
    confirm_on_base: ConfirmOnBase = "auto"
    metrics: Mapping[str, MetricRule] = field(default_factory=dict)
    """By metric. A metric that isn't here is not tested; `{}` means the cases' pass or fail alone."""
    cases: Mapping[str, Mapping[str, MetricRule]] = field(default_factory=dict)
    """Exceptions, by case id and metric."""
    confirm_runs: int = 15
    """How many confirmation runs of the head a suspicious case has at most. More see smaller drops and cost more."""
    seed: int = 0
    """Of the random deals where there are too many to count all."""

    @property
    def blocking_metrics(self) -> int:
        """How many metrics can fail the gate."""
        everywhere = (self.metrics, *self.cases.values())
        return len({name for rules in everywhere for name, rule in rules.items() if rule.blocking}) or 1

    def __post_init__(self) -> None:
        """Checks what would make every p-value meaningless.

        Raises:
            ValueError: An alpha is not between 0 and 1, or there is no confirmation run.
        """
        rules = (*self.metrics.values(), *(rule for own in self.cases.values() for rule in own.values()))
        for alpha in (self.alpha, *(rule.alpha for rule in rules if rule.alpha is not None)):
            if not 0.0 < alpha < 1.0:
                raise ValueError(f"alpha must be between 0 and 1, not {alpha}")
        if self.confirm_runs < 1:
            raise ValueError(f"confirm_runs must be at least 1, not {self.confirm_runs}")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What may still be spent."""

    extra_runs: int | None = None
    """Runs beyond the screening, both sides together, that may still be made; None: no limit."""
    can_run_base: bool = False
    """Whether there is a worktree of the base to run."""


_SUITES = {"never": 3, "auto": 8, "always": 10}
"""Times the whole suite that extra runs may come to unless a setting says otherwise. Few pull requests use that many:
it is what a small drop of all cases, or a day on which everything fails, takes to be decided (docs/statistics.md)."""
_LEAST_EXTRA = 100
"""Extra runs that even a small suite may use: fewer decide nothing."""


def usual_extra_runs(cases: int, num_runs: int, *, metrics: int, confirm_on_base: ConfirmOnBase) -> int:
    """How many extra runs a pull request may use by default.

    Args:
        cases: Of the suite.
        num_runs: Screening runs of each.
        metrics: Compared metrics that can block; each may have its own suspicious cases.
        confirm_on_base: `never` also where the base can't be run.
    """
    suites = _SUITES[confirm_on_base] * (1 + metrics) / 2
    return max(round(suites * cases * num_runs), _LEAST_EXTRA)


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Make these runs, add them to the evidence, and ask again."""

    head: Mapping[str, int]
    """How many more confirmation runs, by case id."""
    base: Mapping[str, int]
    """How many runs of the base's worktree, by case id; made beside the head's, not all before or after."""
    why: str
    """One sentence for the log."""


@dataclass(frozen=True, kw_only=True)
class DecisionReason:
    """Why the outcome is what it is."""

    code: str
    """`case-worse`, `cases-worse-together`, `suite-worse`, `broken-case`, `thin-base`, `budget`,
    `base-differs-today`."""
    message: str
    """One sentence for people, with the numbers."""
    metric: str = "pass"
    case_ids: tuple[str, ...] = ()
    blocking: bool = True


@dataclass(frozen=True, kw_only=True)
class CaseDecision:
    """What is known about one case and metric."""

    case_id: str
    metric: str
    word: Word
    blocking: bool
    """Whether this case fails the gate by itself."""
    evidence: str
    """E.g. "0 of 5 now, 10 of 10 on base"."""
    head_mean: float | None
    base_mean: float | None
    p_value: float | None
    """One-sided: how likely a drop like this is if nothing changed; of the runs that count, before Holm."""
    p_adjusted: float | None
    """The same, after allowing for all that was tested."""
    by: Literal["comparison", "threshold"] = "comparison"
    """`threshold`: the base has too few runs to compare with, so the case is judged by its own runs."""
    undecided: bool = False
    """It fails more often than not, and neither history nor budget allow to say whether that is new."""
    would_decide: str | None = None
    """What is missing where data is too thin, e.g. "2 more runs of the base would decide"."""


@dataclass(frozen=True, kw_only=True)
class SuiteTest:
    """All cases of one metric together."""

    metric: str
    cases: int
    """Cases with runs on both sides."""
    drop: float | None
    """Mean over the cases of how much worse the head is, in the score's own unit: base minus head, or head minus base
    where lower is better."""
    interval: tuple[float, float] | None
    """95%, of the mean over the cases."""
    p_value: float | None
    """Screening runs of all cases against the base."""
    p_again: float | None
    """The same with one more run of every case; None unless the first look was on the brink."""
    p_confirm: float | None
    """Confirmation runs of the suspicious cases against the base, all together; None when there are none."""
    p_adjusted: float | None
    """All in one, after Holm over the metrics: blocks when it is at most alpha."""
    minimum_detectable_drop: float | None
    """The smallest drop of all cases that this run would have seen four times out of five."""
    blocking: bool
    direction: Literal["higher", "lower"] = "higher"
    """Which way is better."""


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The statistical answer. What blocks a merge in the end is for `gate.policy` to say."""

    outcome: Outcome
    reasons: tuple[DecisionReason, ...]
    """The weightiest first; empty when nothing got worse."""
    cases: tuple[CaseDecision, ...]
    """In the order of the evidence; one per case and tested metric."""
    suites: tuple[SuiteTest, ...]
    extra_runs: int
    """Confirmation runs that were made, both sides together."""
    retrials: Mapping[str, Literal["again", "gone", "open"]] = field(default_factory=dict)
    """By case id, of failures that can't be compared with the base: whether they showed again, see `gate.retrial`."""
