"""What a run is compared with, and what came of it: the part of `results.json` about the base branch."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, computed_field, model_validator

from agent_eval.core.wire import WireModel
from agent_eval.results.status import CaseStatus

BaselineSource = Literal["artifact", "file", "rerun"]
BaselineStatus = Literal["found", "none-yet", "fetch-failed", "incompatible"]
"""`none-yet`: nobody has recorded one. `fetch-failed`: there may be one, but it could not be had. `incompatible`: there
is one, and nothing of it can be compared."""
Change = Literal["newly_failing", "fixed", "still_failing", "changed", "added", "removed", "unjudged", "renamed"]
"""What became of a case since the base. `changed`: the case itself is another one, so that its scores say nothing about
the agent. `unjudged`: one of the sides has no result to compare. `renamed`: the same case under another id, which
passes as it did."""


class BaselineStep(WireModel):
    """One place where a baseline was looked for."""

    source: BaselineSource
    status: BaselineStatus
    message: str
    """One plain sentence: what was found, or why nothing was."""


class BaselineReport(WireModel):
    """Where the results of the base come from, or why there are none."""

    status: BaselineStatus
    branch: str = Field(default="", exclude_if=lambda value: not value)
    """The base branch's name, e.g. `main`; "" where it is unknown."""
    source: BaselineSource | None = None
    """Only when found, as the next ones."""
    commit: str | None = None
    wanted_commit: str | None = None
    """What the head was tested on top of; `commit` may lie before it."""
    distance: int | None = None
    """Commits from `wanted_commit` back to `commit`; 0 when they are the same."""
    run_url: str | None = None
    recorded_at: float | None = None
    """Unix time in seconds."""
    message: str
    """One plain sentence for people."""
    steps: list[BaselineStep] = Field(default_factory=list)
    """All places that were looked at, in order."""


class Delta(WireModel):
    """A number on both sides."""

    head: float | None = None
    base: float | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_computed(cls, value: Any) -> Any:
        return {key: item for key, item in value.items() if key != "delta"} if isinstance(value, dict) else value

    @computed_field  # type: ignore[prop-decorator]
    @property
    def delta(self) -> float | None:
        """Head minus base; None when one of them is missing."""
        return None if self.head is None or self.base is None else self.head - self.base


class MetricComparison(WireModel):
    """A metric over the cases that have a comparable score on both sides."""

    name: str
    cases: int
    """How many those are."""
    score: Delta
    """Means over those cases."""
    threshold: float | None = None
    """What the head asks for; None for an informational metric, and where the cases differ."""
    base_threshold: float | None = None
    """What the base asked for, under the same rule."""
    not_compared: int = 0
    """Cases with the same content whose scores of this metric can't be compared."""
    note: str | None = None
    """Why some or all cases can't be compared, e.g. that the judge is another one."""


class CaseMetricComparison(WireModel):
    """A metric of one case."""

    name: str
    score: Delta
    note: str | None = None
    """Why the two scores can't be compared, and then there is no base score; or that the threshold is another one."""


class CaseComparison(WireModel):
    """A case that is not as it was on the base."""

    case_id: str
    file: str
    eval_id: str
    change: Change
    head: CaseStatus | None = None
    """None when the case is gone."""
    base: CaseStatus | None = None
    """None when it is new."""
    renamed_from: str | None = None
    """The case id on the base of a case with the same content that is gone there."""
    metrics: list[CaseMetricComparison] = Field(default_factory=list)
    """Gating metrics whose score or status is not as it was."""
    note: str | None = None
    """Why the case is unjudged, in one sentence."""


class Move(WireModel):
    """A score of a case that passes on both sides."""

    case_id: str
    file: str
    eval_id: str
    name: str
    """Of the metric."""
    score: Delta


class ComparisonReport(WireModel):
    """Head against base. Deltas carry no claim here: what is significant is in the gate's decision."""

    cases: list[CaseComparison] = Field(default_factory=list)
    """Those that are not as they were, in the head's order, removed ones last."""
    compared: int
    """Cases with the same content on both sides."""
    unchanged: int
    """Of those, cases that passed on both sides."""
    metrics: list[MetricComparison] = Field(default_factory=list)
    pass_rate: Delta = Field(default_factory=Delta)
    """Over the compared cases."""
    duration: Delta = Field(default_factory=Delta)
    """Mean seconds of a run of the compared cases."""
    tokens: Delta = Field(default_factory=Delta)
    """Mean tokens of a run of the compared cases, of the agent's model calls."""
    cost: Delta = Field(default_factory=Delta)
    """US dollars for judges and simulated users, of everything."""
    base_records: int = Field(default=1, ge=0, exclude_if=lambda value: value == 1)
    """How many runs of the gate on the base branch its scores and its pass rate are means of."""
    drops: list[Move] = Field(default_factory=list)
    """The largest drops of scores that still pass, at most ten."""
    notes: list[str] = Field(default_factory=list)
    """What the reader must know to read the numbers, e.g. that the criteria of a file have changed."""
