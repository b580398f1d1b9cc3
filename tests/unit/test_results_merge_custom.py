"""Runs of a metric that says itself whether it passed become one metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest

from agent_eval.results._merge import merge, status_of_run
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, MetricReport, Reason, RunResult, RunScore

Status = Literal["passed", "failed", "not_evaluated"]


def case(
    runs: Sequence[tuple[float | None, Status]], *, threshold: float = 5.0, error: RunError | None = None
) -> list[CaseReport]:
    parts = []
    for number, (score, status) in enumerate(runs):
        run_score = RunScore(
            run=number,
            score=score,
            status=status,
            reason=Reason(code="x", message="m") if score is None else None,
            error=error if score is None else None,
        )
        run = RunResult(run_id=f"c#{number}", run=number, status="passed")
        run.status = status_of_run(run, [run_score])
        metric = MetricReport(name="mine", threshold=threshold, status=status, runs=[run_score])
        parts.append(
            CaseReport(
                case_id="c", file="f", eval_set_id="s", eval_id="c", status=run.status, metrics=[metric], runs=[run]
            )
        )
    return parts


@pytest.mark.parametrize(
    ("runs", "rate", "metric", "direction", "outcome"),
    [
        ([(3.0, "passed")], 1.0, "passed", "lower", "passed"),
        ([(7.0, "failed")], 1.0, "failed", "lower", "failed"),
        ([(3.0, "passed"), (5.0, "passed")], 1.0, "passed", "lower", "passed"),
        ([(5.0, "passed"), (3.0, "passed")], 1.0, "passed", "lower", "passed"),
        ([(3.0, "passed"), (6.0, "failed")], 0.5, "passed", "lower", "passed"),
        ([(3.0, "passed"), (9.0, "failed")], 0.5, "failed", "lower", "failed"),
        ([(7.0, "passed"), (3.0, "failed")], 0.5, "passed", "higher", "passed"),
        ([(5.0, "failed")], 1.0, "failed", "higher", "failed"),
        ([(5.0, "failed"), (5.0, "failed")], 0.0, "failed", "higher", "failed"),
    ],
)
def test_merge_custom__fewer_may_be_better(
    runs: list[tuple[float, Status]], rate: float, metric: str, direction: str, outcome: str
) -> None:
    [merged] = merge(case(runs), min_pass_rate=rate)

    assert (merged.metrics[0].status, merged.metrics[0].direction, merged.status) == (metric, direction, outcome)


def test_merge_custom__a_metric_that_the_pull_request_broke_fails_the_case_and_says_so() -> None:
    error = RunError(kind="custom-metric-exception", owner="agent", message="it raised")
    [merged] = merge(case([(None, "not_evaluated")], error=error), min_pass_rate=1.0)

    assert merged.status == "failed"
    assert merged.reason == Reason(code="custom-metric-exception", message="it raised")


def test_merge_custom__it_never_passes_however_few_runs_have_to() -> None:
    error = RunError(kind="custom-metric-exception", owner="agent", message="it raised")
    [merged] = merge(case([(None, "not_evaluated"), (7.0, "passed")], error=error), min_pass_rate=0.0)

    assert merged.status == "errored"


def test_merge__a_metric_that_fails_above_its_threshold_says_so_itself() -> None:
    """It was reported as below the threshold."""
    [merged] = merge(case([(1.0, "failed")], threshold=0.5), min_pass_rate=1.0)
    assert merged.reason is not None
    assert merged.reason == Reason.of("below-threshold", decided={"mine": [1.0, 0.5]})
