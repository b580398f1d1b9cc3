"""Results of earlier runs of the base branch, by case: the part of `results.json` that the next gate reads.

Twenty runs of 10,000 cases must not be larger than the report itself, so a case's runs are stored as short texts:

    {"case_id": "evals/home.test.json:lamp_on", "fingerprint": "…", "outcomes": "1101", "records": "0 1 2 3",
     "scores": {"0": "1 1 .5 1"}}

The keys of `scores` are indexes into `metrics`; the numbers in `records` are indexes into the report's `records`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from agent_eval_scoring.core.wire import WireModel

PASSED, FAILED, BROKE, UNKNOWN = "1", "0", "x", "?"
"""Outcomes of a run: passed; scores too low; the agent failed; not evaluated by all criteria."""
NO_SCORE = "-"


class HistoryRecord(WireModel):
    """One run of the gate on the base branch."""

    commit: str = ""
    run_id: int | None = None
    run_attempt: int | None = None
    run_url: str | None = None
    recorded_at: float
    """Start time; Unix time in seconds."""
    tool_version: str = ""


class HistoryMetric(WireModel):
    """The metric of a column of scores."""

    name: str
    fingerprint: str = ""
    """See `MetricReport.fingerprint`."""


class HistoryRule(WireModel):
    """The threshold that a metric must reach for a run to pass."""

    metric: int
    """Index into `metrics`."""
    threshold: float
    direction: Literal["higher", "lower"] = "higher"


class CaseHistory(WireModel):
    """The last runs of one case, oldest first."""

    case_id: str
    fingerprint: str = ""
    """See `CaseReport.fingerprint`; runs of a case with different content are not kept."""
    outcomes: str = ""
    """One character per run: `1` passed, `0` failed, `x` the agent failed, `?` not evaluated by all criteria."""
    records: str = ""
    """The index of each run's record, separated by spaces."""
    rules: int | None = None
    """Index of the set of rules that decided `outcomes`."""
    scores: dict[str, str] = Field(default_factory=dict)
    """By index of the metric: a score per run, rounded down to 4 digits; `-` if there is none."""

    def passed_in(self, record: int) -> bool | None:
        """Whether all its runs passed in the run of the gate with this index; None if that is not known."""
        pairs = zip(self.outcomes, self.records.split(), strict=True)
        outcomes = {outcome for outcome, number in pairs if number == str(record)}
        return None if not outcomes or UNKNOWN in outcomes else outcomes == {PASSED}


Count = Annotated[int, Field(ge=0, le=10_000_000)]
"""Of cases, in a file that may be damaged or forged."""


class TrendRow(HistoryRecord):
    """The totals of one run of the base branch, as they were reported; they are never rescored."""

    scoring_version: int
    cases: Count
    passed: Count = 0
    failed: Count = 0
    """Cases whose scores were too low, without those of `broke`."""
    broke: Count = 0
    """Cases that did not pass and in which the agent failed."""
    quarantined: Count = 0
    """Quarantined cases that did not pass: no part of the pass rate, as in `totals`."""
    unknown: Count = 0
    """Cases that were not run, or not evaluated by all criteria."""
    means: dict[str, FiniteFloat] = Field(default_factory=dict)
    """Mean score of each gating metric over the cases that have one."""
    p50: FiniteFloat | None = None
    p95: FiniteFloat | None = None
    """Seconds of a run of a case: median and 95th percentile (nearest rank)."""
    tokens: FiniteFloat | None = None
    """Mean input and output tokens of the agent per run of a case; None if no model reports them."""
    cost: FiniteFloat | None = None
    """US dollars of judges and simulated users; None without a price."""
    suite: str = ""
    """Hash of the cases' ids and fingerprints: rows with different ones measured different cases."""
    rules: str = ""
    """Hash of thresholds, options of criteria, `num_runs` and `min_pass_rate`: others let more or fewer cases pass."""
    judges: list[str] = Field(default_factory=list)
    """Judge models, sorted."""
    adk: str = ""
    """Version of google-adk; several versions are joined by commas."""


class HistoryReport(WireModel):
    """Earlier runs of the base branch, including the baseline's own."""

    scoring_version: int
    """Scores of other versions are not kept."""
    keep: int
    """Maximum records per case; a record may have several runs (`num-runs`)."""
    records: list[HistoryRecord] = Field(default_factory=list)
    """Oldest first; each record is the source of at least one run in `cases`."""
    metrics: list[HistoryMetric] = Field(default_factory=list)
    rules: list[list[HistoryRule]] = Field(default_factory=list)
    """Sets of rules; most cases share one."""
    cases: list[CaseHistory] = Field(default_factory=list)
    """In the order of the report."""
    trend: list[TrendRow] = Field(default_factory=list)
    """A row for each recorded run, oldest first. It reaches further back than `records`."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        """Checks untrusted input: a column of another length would assign scores to the wrong runs."""
        for case in self.cases:
            sources = case.records.split()
            columns = [column.split() for column in case.scores.values()]
            if {len(case.outcomes), *map(len, columns)} - {len(sources)}:
                raise ValueError(f"the columns of {case.case_id!r} don't have the same length")
            if set(case.outcomes) - {PASSED, FAILED, BROKE, UNKNOWN}:
                raise ValueError(f"{case.outcomes!r} is not a list of outcomes")
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
