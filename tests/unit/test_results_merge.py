"""Runs become cases: the same numbers whatever finished first and wherever it ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.report.phrases import text
from agent_eval.results._merge import WITHOUT_KEY, merge, status_of_run
from agent_eval.results.recording import RunError
from agent_eval.results.report import CaseReport, MetricReport, Reason, RunResult, RunScore

NAMES = ("trajectory", "response")
THRESHOLDS = {"trajectory": 1.0, "lenient": 0.7, "response": 0.5, "tokens": None, "mine": 5.0}
CRASH = RunError(kind="agent-crash", owner="agent", message="It left")
OUTAGE = RunError(kind="provider-unavailable", owner="provider", message="503")
STOPPED = RunError(kind="stopped", owner="gate", message="Stopped")
INVALID = RunError(kind="custom-metric-exception", owner="agent", message="it raised")
MISSING = Reason(code="turn-count", message="2 turns instead of 1")

Score = float | tuple[float, Literal["passed", "failed"]] | RunError | Reason | None
Scores = dict[str, Score]
"""By metric; with what a metric said itself. An error or a reason: why it was not evaluated; None has a reason."""


def score_of(run: int, threshold: float | None, score: Score) -> RunScore:
    if isinstance(score, RunError):
        return RunScore(run=run, status="not_evaluated", error=score, reason=Reason(code="x", message="m"))
    if score is None or isinstance(score, Reason):
        return RunScore(run=run, status="not_evaluated", reason=score or MISSING)
    if isinstance(score, tuple):
        return RunScore(run=run, score=score[0], status=score[1])
    if threshold is None:
        return RunScore(run=run, score=score, status="informational")
    return RunScore(run=run, score=score, status="passed" if score >= threshold else "failed")


def part(run: int, outcome: Scores | RunError, *, case: str = "a.json:one") -> CaseReport:
    """A case with a single run, as the runner makes it."""
    error = outcome if isinstance(outcome, RunError) else None
    given = {} if isinstance(outcome, RunError) else outcome
    scores = {name: score_of(run, limit, given[name]) for name, limit in THRESHOLDS.items() if name in given}
    not_run = error is not None and error.owner == "gate"
    status = "not_run" if not_run else status_of_run(error, scores.values())
    result = RunResult(run_id=f"{case}#{run + 1}", run=run, status=status, error=error)
    file, _, eval_id = case.partition(":")
    return CaseReport(
        case_id=case,
        file=file,
        eval_set_id=file,
        eval_id=eval_id,
        status=result.status,
        metrics=[
            MetricReport(name=name, threshold=THRESHOLDS[name], status=score.status, runs=[score])
            for name, score in scores.items()
        ],
        runs=[result],
    )


def judged(*outcomes: Scores | RunError, rate: float = 1.0) -> CaseReport:
    (case,) = merge([part(run, outcome) for run, outcome in enumerate(outcomes)], min_pass_rate=rate)
    return case


def both(trajectory: float | None, response: float | None) -> Scores:
    return {"trajectory": trajectory, "response": response}


GOOD, BAD = both(1.0, 1.0), both(0.0, 1.0)

outcomes = st.one_of(
    st.sampled_from([CRASH, OUTAGE, STOPPED]),
    st.fixed_dictionaries(
        {name: st.one_of(st.none(), st.floats(0, 1, allow_subnormal=False)) for name in NAMES} | {"tokens": st.just(7)}
    ),
)


@given(st.lists(outcomes, min_size=1, max_size=7), st.floats(0, 1), st.data())
def test_merge__any_partition_in_any_order_merges_to_the_same(
    runs: list[Scores | RunError], rate: float, data: st.DataObject
) -> None:
    parts = [part(run, outcome) for run, outcome in enumerate(runs)]
    whole = merge(parts, min_pass_rate=rate)
    shuffled = data.draw(st.permutations(parts))
    cuts = sorted(data.draw(st.sets(st.integers(0, len(parts)), max_size=3)))
    groups = [shuffled[start:end] for start, end in zip([0, *cuts], [*cuts, len(parts)], strict=True)]
    merged_groups = [case for group in groups for case in merge(group, min_pass_rate=rate)]
    assert merge(merged_groups, min_pass_rate=rate) == whole
    assert merge(whole, min_pass_rate=rate) == whole


@given(st.lists(outcomes, min_size=1, max_size=5), st.floats(0, 1))
def test_merge__nothing_passes_without_a_passing_score_of_every_metric(
    runs: list[Scores | RunError], rate: float
) -> None:
    case = judged(*runs, rate=rate)
    if case.status == "passed":
        gating = [metric for metric in case.metrics if metric.threshold is not None]
        assert [metric.status for metric in gating] == ["passed", "passed"]
        assert all(metric.score is not None and metric.score >= (metric.threshold or 0) for metric in gating)
        assert sum(run.status == "passed" for run in case.runs) / len(case.runs) >= rate - 1e-9
        assert case.reason is None
    else:
        assert case.reason is not None
        assert text(case.reason) != case.reason.code


@pytest.mark.parametrize(
    ("runs", "rate", "status", "code"),
    [
        ([GOOD], 1.0, "passed", None),
        ([BAD], 1.0, "failed", "below-threshold"),
        ([CRASH], 1.0, "failed", "agent-crash"),
        ([CRASH], 0.0, "failed", "agent-crash"),
        ([OUTAGE], 1.0, "errored", "provider-unavailable"),
        ([STOPPED], 1.0, "not_run", "stopped"),
        ([both(1.0, None)], 1.0, "errored", "not-evaluated"),
        ([both(0.0, None)], 1.0, "failed", "below-threshold"),
        # Every run has to pass unless the user wants less.
        ([GOOD, GOOD, both(1.0, 0.49)], 1.0, "failed", "min-pass-rate"),
        ([GOOD, GOOD, both(1.0, 0.49)], 0.6, "passed", None),
        ([GOOD, GOOD, both(1.0, 0.49)], 0.6666666667, "passed", None),
        ([GOOD, GOOD, both(1.0, 0.49)], 0.67, "failed", "min-pass-rate"),
        # Enough runs passed, but the mean did not.
        ([both(1.0, 0.5), both(1.0, 0.5), both(1.0, 0.0)], 0.6, "failed", "below-threshold"),
        # Neither an outage nor a stop can save or sink what is decided already.
        ([BAD, OUTAGE], 1.0, "failed", "min-pass-rate"),
        ([BAD, STOPPED, STOPPED], 1.0, "failed", "min-pass-rate"),
        ([GOOD, OUTAGE], 1.0, "errored", "provider-unavailable"),
        ([GOOD, OUTAGE], 0.5, "errored", "provider-unavailable"),
        ([GOOD, STOPPED], 0.5, "not_run", "stopped"),
        ([OUTAGE, STOPPED], 1.0, "errored", "provider-unavailable"),
        ([BAD, GOOD, OUTAGE], 0.6, "errored", "provider-unavailable"),
        # A crash has no score; a tolerated one does not spoil the mean.
        ([CRASH, GOOD], 0.5, "passed", None),
        ([CRASH, CRASH], 0.0, "failed", "agent-crash"),
        # A metric that could not be evaluated in a run that failed is not hidden by the pass rate.
        ([both(0.0, None), both(1.0, 1.0), both(1.0, 1.0)], 0.5, "failed", "below-threshold"),
        ([both(1.0, None), GOOD], 0.5, "errored", "not-evaluated"),
    ],
)
def test_merge__statuses(runs: list[Scores | RunError], rate: float, status: str, code: str | None) -> None:
    case = judged(*runs, rate=rate)
    assert (case.status, case.reason.code if case.reason else None) == (status, code)


def test_merge__a_metric_missing_in_a_failed_run_is_never_masked_by_the_pass_rate() -> None:
    case = judged({"lenient": 0.5, "response": None}, {"lenient": 1.0, "response": 1.0}, rate=0.5)
    assert [metric.status for metric in case.metrics] == ["passed", "not_evaluated"]
    assert case.status == "errored"
    assert case.reason == Reason.of("not-evaluated", metric="response", because=MISSING)


def test_merge__the_mean_is_a_running_sum() -> None:
    scores = [0.1] * 10
    runs: list[Scores | RunError] = [{"response": score} for score in scores]
    case = judged(*runs)
    total = 0.0
    for score in scores:
        total += score
    assert case.metrics[0].score == total / 10
    assert total != 1.0, "the difference that a compensated sum would hide"


def test_merge__informational_metrics_gate_nothing() -> None:
    case = judged({**GOOD, "tokens": 900.0}, {**GOOD, "tokens": 100.0})
    assert case.metrics[2].status == "informational"
    assert case.metrics[2].score == 500.0
    assert case.status == "passed"


def test_merge__per_run_scores_are_kept_in_order() -> None:
    (case,) = merge([part(2, BAD), part(0, GOOD), part(1, CRASH)], min_pass_rate=1.0)
    assert [run.run for run in case.runs] == [0, 1, 2]
    assert [(score.run, score.score) for score in case.metrics[0].runs] == [(0, 1.0), (2, 0.0)]
    assert case.reason is not None
    assert case.reason == Reason.of("min-pass-rate", passed=1, runs=3, rate=1.0)


def test_merge__a_run_that_is_there_twice_counts_once_and_the_later_one() -> None:
    (case,) = merge([part(0, BAD), part(1, GOOD), part(0, GOOD)], min_pass_rate=1.0)
    assert case.status == "passed"
    assert [len(metric.runs) for metric in case.metrics] == [2, 2]


def test_merge__cases_keep_the_order_of_their_first_parts() -> None:
    parts = [part(0, GOOD, case=name) for name in ("b:2", "a:1")] + [part(1, BAD, case="b:2")]
    assert [(case.case_id, case.status) for case in merge(parts, min_pass_rate=1.0)] == [
        ("b:2", "failed"),
        ("a:1", "passed"),
    ]


def test_merge__does_not_change_what_it_is_given() -> None:
    parts: Sequence[CaseReport] = [part(0, GOOD), part(1, BAD)]
    before = [report.model_dump() for report in parts]
    merge(parts, min_pass_rate=1.0)
    assert [report.model_dump() for report in parts] == before


@pytest.mark.parametrize(("trajectory", "status"), [(1.0, "passed"), (0.0, "failed")])
def test_what_was_left_out_for_want_of_a_key__decides_nothing(trajectory: float, status: str) -> None:
    left_out = Reason(code=WITHOUT_KEY, message="There is no key")
    report = part(0, {"trajectory": trajectory, "response": left_out})
    [merged] = merge([report], min_pass_rate=1.0)
    assert report.runs[0].status == merged.status == status
    assert merged.metrics[1].status == "not_evaluated"


# -- metrics that say themselves whether they passed


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
        ([INVALID], 1.0, "not_evaluated", "higher", "failed"),
        # However few runs have to pass.
        ([INVALID, (7.0, "passed")], 0.0, "not_evaluated", "higher", "errored"),
    ],
)
def test_merge_custom__fewer_may_be_better(
    runs: list[Score], rate: float, metric: str, direction: str, outcome: str
) -> None:
    merged = judged(*({"mine": run} for run in runs), rate=rate)
    assert (merged.metrics[0].status, merged.metrics[0].direction, merged.status) == (metric, direction, outcome)


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        (INVALID, Reason(code="custom-metric-exception", message="it raised")),
        ((6.0, "failed"), Reason.of("below-threshold", decided={"mine": [6.0, 5.0]})),  # Above it, in fact.
    ],
)
def test_merge_custom__a_metric_that_fails_by_its_own_rule_says_so(score: Score, reason: Reason) -> None:
    merged = judged({"mine": score})
    assert (merged.status, merged.reason) == ("failed", reason)
