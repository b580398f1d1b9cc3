"""What the statistical gate found: the part of `results.json` that says which changes are more than noise."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from agent_eval.core.wire import WireModel
from agent_eval.results.status import CaseWord


class DecisionReasonReport(WireModel):
    """Why the outcome is what it is."""

    code: str
    message: str
    metric: str = "pass"
    case_ids: list[str] = Field(default_factory=list)
    blocking: bool = True


class FlakinessReport(WireModel):
    """How often a case fails on the base, though it asks the same; by the runs that its history keeps."""

    failures: int
    runs: int
    low: float
    high: float
    """95% Wilson interval of the failure rate, 0 to 1."""
    since: str = ""
    """The commit of its first failure there; "" if nobody knows."""


class CaseDecisionReport(WireModel):
    """A case and metric of which there is something to tell."""

    case_id: str
    metric: str
    """`pass` is the case's own pass or fail."""
    word: CaseWord
    blocking: bool = False
    """Whether it fails the gate by itself."""
    evidence: str
    """E.g. "0 of 5 now, 10 of 10 on base"."""
    head_mean: float | None = None
    base_mean: float | None = None
    p_value: float | None = None
    """One-sided: how likely a drop like this is if nothing changed."""
    p_adjusted: float | None = None
    """The same, after allowing for all that was tested."""
    would_decide: str | None = None
    """What is missing where data is too thin."""
    flakiness: FlakinessReport | None = Field(default=None, exclude_if=lambda value: value is None)
    """Of the metric `pass`, if the case both passed and failed on the base."""


class CaseRunsReport(WireModel):
    """How many runs of a case passed on each side, of those that were judged."""

    case_id: str
    head_passed: int = Field(ge=0, le=100_000)
    head_runs: int = Field(ge=0, le=100_000)
    """Extra runs included."""
    base_passed: int = Field(ge=0, le=100_000)
    base_runs: int = Field(ge=0, le=100_000)
    """Stored runs, and those of today."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """It comes from a file."""
        if self.head_passed > self.head_runs or self.base_passed > self.base_runs:
            raise ValueError(f"more runs of {self.case_id!r} passed than were made")
        return self


class SuiteTestReport(WireModel):
    """All cases of one metric together."""

    metric: str
    cases: int
    drop: float | None = None
    """Mean over the cases of how much worse the head is: base minus head, or head minus base if lower is better."""
    interval: tuple[float, float] | None = None
    """95%, of the mean over the cases."""
    p_value: float | None = None
    """Of the screening runs against the base."""
    p_again: float | None = None
    """The same with a second look, where the first was on the brink."""
    p_confirm: float | None = None
    """Of the suspicious cases' confirmation runs, all together."""
    p_adjusted: float | None = None
    """All of it, after allowing for all that was tested."""
    minimum_detectable_drop: float | None = None
    """The smallest drop of all cases that this run would have seen four times out of five."""
    blocking: bool = False
    direction: Literal["higher", "lower"] = Field(default="higher", exclude_if=lambda value: value == "higher")
    """Which way is better; where it is `lower`, a drop is a rise."""


class DecisionReport(WireModel):
    """What is significant, by docs/statistics.md."""

    outcome: Literal["passed", "failed", "inconclusive"]
    reasons: list[DecisionReasonReport] = Field(default_factory=list)
    cases: list[CaseDecisionReport] = Field(default_factory=list)
    """Those that are not `unchanged`."""
    runs: list[CaseRunsReport] = Field(default_factory=list, exclude_if=lambda value: not value)
    """The compared cases of which a run failed on either side, in the head's order."""
    suites: list[SuiteTestReport] = Field(default_factory=list)
    alpha: float
    """How often a pull request that changed nothing may fail."""
    extra_runs: int = 0
    """Confirmation runs, of both sides together."""
