"""What earlier runs of the base branch gave, case by case: the part of `results.json` that the next gate learns from.

Twenty runs of ten thousand cases must not outgrow the report itself, so a case's runs are short texts, one a column:

    {"case_id": "evals/home.test.json:lamp_on", "fingerprint": "…", "outcomes": "1101", "records": "0 1 2 3",
     "scores": {"0": "1 1 .5 1"}}

The key of `scores` is a number in `metrics`, the numbers in `records` are those in the report's `records`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, Self

from pydantic import Field, model_validator

from agent_eval.core.wire import WireModel

PASSED, FAILED, BROKE, UNKNOWN = "1", "0", "x", "?"
"""What a run came to: it passed; its scores were too low; the agent broke; it was not judged by all criteria."""
NO_SCORE = "-"


class HistoryRecord(WireModel):
    """One run of the gate on the base branch."""

    commit: str = ""
    run_id: int | None = None
    run_attempt: int | None = None
    run_url: str | None = None
    recorded_at: float
    """When it started; Unix time in seconds."""
    tool_version: str = ""


class HistoryMetric(WireModel):
    """What the scores of one column measure."""

    name: str
    fingerprint: str = ""
    """See `MetricReport.fingerprint`."""


class HistoryRule(WireModel):
    """What a metric must reach for a run to pass."""

    metric: int
    """Its number in `metrics`."""
    threshold: float
    direction: Literal["higher", "lower"] = "higher"


class CaseHistory(WireModel):
    """The last runs of one case, oldest first."""

    case_id: str
    fingerprint: str = ""
    """See `CaseReport.fingerprint`; runs of a case with another content are not kept."""
    outcomes: str = ""
    """A character a run: `1` passed, `0` failed, `x` the agent broke, `?` not judged by all criteria."""
    records: str = ""
    """The number of each run's record, separated by blanks."""
    rules: int | None = None
    """Number of the set of rules by which `outcomes` was judged."""
    scores: dict[str, str] = Field(default_factory=dict)
    """By the number of a metric a score for each run, rounded down to 4 digits, `-` where there is none."""


class HistoryReport(WireModel):
    """What a baseline knows of the runs before it, its own included."""

    scoring_version: int
    """Scores of another version are not kept."""
    keep: int
    """The most records that are kept of a case; each may have several runs (`num-runs`)."""
    records: list[HistoryRecord] = Field(default_factory=list)
    """Oldest first; each is the source of at least one run below."""
    metrics: list[HistoryMetric] = Field(default_factory=list)
    rules: list[list[HistoryRule]] = Field(default_factory=list)
    """Sets of rules; most cases share one."""
    cases: list[CaseHistory] = Field(default_factory=list)
    """In the order of the report."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """It comes from a file: a column of another length would move scores to other runs."""
        for case in self.cases:
            sources = case.records.split()
            columns = [column.split() for column in case.scores.values()]
            if {len(case.outcomes), *map(len, columns)} - {len(sources)}:
                raise ValueError(f"the columns of {case.case_id!r} don't have the same length")
            if set(case.outcomes) - {PASSED, FAILED, BROKE, UNKNOWN}:
                raise ValueError(f"{case.outcomes!r} is no list of outcomes")
            _within(sources, len(self.records), "record")
            _within(case.scores, len(self.metrics), "metric")
            _within([] if case.rules is None else [str(case.rules)], len(self.rules), "set of rules")
            for column in columns:
                if not all(score == NO_SCORE or math.isfinite(float(score)) for score in column):
                    raise ValueError(f"a score of {case.case_id!r} is not a number")
        for rules in self.rules:
            _within([str(rule.metric) for rule in rules], len(self.metrics), "metric")
        return self


def _within(numbers: Iterable[str], count: int, what: str) -> None:
    for number in set(numbers):
        if not number.isdecimal() or int(number) >= count:
            raise ValueError(f"there is no {what} {number}")
