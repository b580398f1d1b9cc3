"""What a calibration found, on the wire: `agent-eval calibrate --format json`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from agent_eval import __version__
from agent_eval.calibration.agreement import LEVEL, Weights
from agent_eval.core.wire import WireModel
from agent_eval.results import ModelUsageReport


class IntervalReport(WireModel):
    """Where the true value lies."""

    low: float
    high: float
    level: float = LEVEL
    method: str


class ShareReport(WireModel):
    """A share of labels, with its interval."""

    count: int
    total: int
    share: float | None = None
    """None: of nothing."""
    interval: IntervalReport | None = None


class TableReport(WireModel):
    """How often which label met which verdict."""

    categories: list[float]
    """1 is pass and 0 is fail where labels say that; else scores."""
    counts: list[list[int]]
    """By label, then by verdict."""


class OtherThreshold(WireModel):
    """How far judge and people would agree, were this the threshold."""

    threshold: float
    kappa: float | None = None
    wrongly_passed: int
    wrongly_failed: int


class RubricReport(WireModel):
    """The agreement on one rubric."""

    rubric: str
    labels: int
    judged: int
    kappa: float | None = None
    interval: IntervalReport | None = None
    agreement: ShareReport
    passed_by_people: int
    passed_by_judge: int


class OpinionReport(WireModel):
    """One label, and what the judge says."""

    line: int
    id: str | None = None
    rubric: str | None = None
    label: float
    """1 or 0 for pass and fail, else a score."""
    verdict: float | None = None
    """In the same terms; None: not judged."""
    score: float | None = None
    """What the criterion scored."""
    votes: list[str] = Field(default_factory=list)
    """How they fell on each thing that was asked, e.g. `5:0` or `3:2, close`."""
    rationale: list[str] = Field(default_factory=list)
    """The judge's words to each of those things. A model wrote them that has read hostile text: escape them."""
    note: str = ""
    """People's words."""
    prompt: str = ""
    response: str = ""
    reason: str | None = None
    """The code of why it was not judged."""


class UnjudgedReport(WireModel):
    """Why some labels have no verdict beside them."""

    code: str
    message: str
    """Of the first of them."""
    count: int


class CalibrationReport(WireModel):
    """How far a judge agrees with people."""

    schema_version: Literal["1"] = "1"
    tool_version: str = __version__
    verdict: Literal["passed", "failed", "inconclusive", "reported"]
    """`reported`: no `--min-kappa` was given, so nothing was decided."""
    reason: str
    """Why, in one sentence."""
    labels_file: str
    criterion: str
    config: str | None = None
    threshold: float | None = None
    model: str
    samples: int
    """Votes on each question at most."""
    kind: Literal["verdict", "score"]
    weights: Weights
    responses: int
    labels: int
    judged: int
    min_kappa: float | None = None
    kappa: float | None = None
    interval: IntervalReport | None = None
    kappa_if_unjudged_agree: float | None = None
    kappa_if_unjudged_disagree: float | None = None
    """What kappa would be, had the judge said what people say, or what is farthest from it, where it said nothing."""
    agreement: ShareReport
    """The share of labels on which the two say the same."""
    weighted_agreement: float | None = None
    """The same with near misses counted by `weights`: what kappa is made of."""
    expected_agreement: float | None = None
    """What chance alone would give instead."""
    wrongly_passed: ShareReport | None = None
    """Of what people fail, what the judge passes: such answers would get through the gate."""
    wrongly_failed: ShareReport | None = None
    """Of what people pass, what the judge fails."""
    mean_difference: float | None = None
    """The judge's values minus people's, on average: above 0 it is lenient."""
    table: TableReport
    rubrics: list[RubricReport] = Field(default_factory=list)
    thresholds: list[OtherThreshold] = Field(default_factory=list)
    """Where labels say pass or fail and scores have more than two values: each of those as the threshold."""
    close: int = 0
    """Labels whose verdict one vote could have turned."""
    unjudged: list[UnjudgedReport] = Field(default_factory=list)
    disagreements: list[OpinionReport] = Field(default_factory=list)
    """The worst first: farthest apart, then those on which the votes were most of one mind."""
    opinions: list[OpinionReport] = Field(default_factory=list)
    """Everything, in the order of the file."""
    notices: list[str] = Field(default_factory=list)
    usage: list[ModelUsageReport] = Field(default_factory=list)
