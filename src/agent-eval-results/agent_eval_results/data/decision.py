"""The statistical decision: the part of `results.json` that says which changes are significant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from agent_eval_results.data.origin import CaseWord
from agent_eval_scoring.core.reason import NoMoreRuns, Numbers, Reason
from agent_eval_scoring.core.wire import ReportModel, WireModel

CHANGED_FACTS = "changed-facts"
"""Stands for a metric where a case answers otherwise than on the base branch, and a policy forbids that."""


class DecisionReasonReport(Reason):
    """A reason for the outcome."""

    metric: str = "pass"
    case_ids: list[str] = Field(default_factory=list)
    blocking: bool = True


class FlakinessReport(WireModel):
    """How often an unchanged case fails on the base branch, according to its history."""

    failures: int
    runs: int
    low: float
    high: float
    """95% Wilson interval of the failure rate, 0 to 1."""
    since: str = ""
    """The commit of its first failure there; "" if unknown."""


class CaseDecisionReport(WireModel):
    """The decision on one case and metric."""

    case_id: str
    metric: str
    """`pass` stands for the case's status, `changed-facts` for what it says."""
    word: CaseWord
    blocking: bool = False
    """Whether this alone fails the gate."""
    evidence: str = ""
    """The numbers of both sides in English, e.g. "0 of 5 now, 10 of 10 on main"."""
    head_mean: float | None = None
    head_runs: int = 0
    base_mean: float | None = None
    base_runs: int = 0
    broken_on_base: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether a case that once passed on the base branch fails there as well now: no pull request is blamed for it."""
    again: bool = False
    """Whether the head's runs are only those that were made to confirm a regression."""
    p_value: float | None = None
    """One-sided p-value: the probability of such a drop if nothing changed."""
    p_adjusted: float | None = None
    """The p-value adjusted for multiple testing."""
    lacks: int | NoMoreRuns | None = None
    """What is missing for a decision about a case that fails most runs: a number of runs of the base branch, if all of
    them pass; or runs of both sides, with the reason why they can't be made."""
    would_decide: str | None = None
    """The same in English."""
    flakiness: FlakinessReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """For the metric `pass`, if the case both passed and failed on the base branch."""

    @property
    def is_notable(self) -> bool:
        """Whether the statistics say anything about it."""
        return self.word != "unchanged"

    @property
    def passed_again(self) -> bool:
        """Whether no run that was made to confirm a regression failed, and no more are needed."""
        return self.metric == "pass" and self.again and self.head_mean == 1.0 and self.lacks is None

    @property
    def numbers(self) -> Numbers:
        """The numbers of both sides."""
        return {
            "case": self.case_id,
            "metric": self.metric,
            "head": self.head_mean,
            "head_runs": self.head_runs,
            "base": self.base_mean,
            "base_runs": self.base_runs,
            "again": self.again,
        }


class CaseRunsReport(WireModel):
    """Evaluated runs of a case, and how many passed, on each side."""

    case_id: str
    head_passed: int = Field(ge=0, le=100_000)
    head_runs: int = Field(ge=0, le=100_000)
    """Including extra runs."""
    base_passed: int = Field(ge=0, le=100_000)
    base_runs: int = Field(ge=0, le=100_000)
    """Stored runs, and runs made for this comparison."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Checks untrusted input."""
        if self.head_passed > self.head_runs or self.base_passed > self.base_runs:
            raise ValueError(f"more runs of {self.case_id!r} passed than took place")
        return self


class SuiteTestReport(WireModel):
    """The test of one metric over all cases."""

    metric: str
    cases: int
    drop: float | None = None
    """Mean drop over the cases: base minus head, or head minus base if lower is better."""
    p_value: float | None = None
    """p-value of the screening runs against the base branch."""
    p_again: float | None = None
    """p-value of the fresh runs of all cases alone, if the screening made every case run again."""
    p_confirm: float | None = None
    """Upper bound of the p-value of all fresh runs of the suspected regressions."""
    p_adjusted: float | None = None
    """Combined p-value adjusted for multiple testing."""
    minimum_detectable_drop: float | None = None
    """The smallest drop over all cases that this run detects with 80% power."""
    blocking: bool = False
    direction: Literal["higher", "lower"] = Field(default="higher", exclude_if=lambda value: value == "higher")
    """Which way is better. With `lower`, a drop means a higher score."""


class DecisionReport(WireModel):
    """The decision and its significant changes (docs/statistics.md)."""

    outcome: Literal["passed", "failed", "inconclusive"]
    reasons: list[DecisionReasonReport] = Field(default_factory=list)
    cases: list[CaseDecisionReport] = Field(default_factory=list)
    """Cases that are not `unchanged`."""
    runs: list[CaseRunsReport] = Field(default_factory=list, exclude_if=lambda value: not value)
    """Compared cases with a failed run on either side, in the head's order."""
    suites: list[SuiteTestReport] = Field(default_factory=list)
    alpha: float
    """The probability that a pull request without any effect fails."""
    extra_runs: int = 0
    """Confirmation runs of both sides."""

    @property
    def is_inconclusive(self) -> bool:
        """Whether more runs are needed for a decision."""
        return self.outcome == "inconclusive"

    def is_beyond_chance(self, case: CaseDecisionReport) -> bool:
        """Whether the p-value of a case is small enough to be evidence of what its word says."""
        return case.p_value is not None and case.p_value <= self.alpha


class PassRates(ReportModel):
    """pass@k and pass^k for one k, averaged over the cases."""

    k: int
    """Number of runs."""
    cases: int
    """Cases with at least that many evaluated runs."""
    any: float
    """pass@k: the share of cases in which at least one of k runs passes, 0..1."""
    all: float
    """pass^k: the share of cases in which all of k runs pass, 0..1."""


RunsFor = Literal["suspects", "suite", "retrials", "base-error", "base-stored", "facts"]
"""What runs are for: to confirm suspected regressions; to see whether the suite got worse as a whole; to repeat
failures that can't be compared; to see whether the base branch's agent has an error, too; to check the base's stored
runs; to see whether changed answers stay changed."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """Runs to make and to add to the samples before the next call."""

    head: Mapping[str, int]
    """Number of additional confirmation runs, by case id."""
    base: Mapping[str, int]
    """Number of runs of the base branch, by case id. They run concurrently with the head's, not all before or after."""
    why: RunsFor
