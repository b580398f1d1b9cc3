"""Before a pull request fails, the base is run today: a day on which everything fails is no regression."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_eval.gate.regression._base_today import CHECK_RUNS
from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget, Rules
from agent_eval.gate.stats.samples import PASS, CaseEvidence, Series
from agent_eval.results.decision import DecisionReport

BROKEN = [f"case{index}" for index in range(12)]


def suite(broken: int) -> dict[str, CaseEvidence]:
    """30 cases that always passed in 20 stored runs; some of them fail now."""
    names = [*BROKEN[:broken], *(f"fine{index}" for index in range(30 - broken))]
    return {
        name: CaseEvidence(
            case_id=name,
            metrics={PASS: Series(head_screen=(0.0 if name in BROKEN else 1.0,), base=(1.0,) * 20)},
        )
        for name in names
    }


def play(
    evidence: dict[str, CaseEvidence], *, base_today: float, rules: Rules, budget: Budget
) -> tuple[DecisionReport, int]:
    """The decision where the head goes on failing and the base does the same every time today; and its runs today."""
    made = 0
    for number in range(60):
        step = next_step(list(evidence.values()), rules, budget)
        if isinstance(step, DecisionReport):
            return step, made
        for case_id in {*step.head, *step.base}:
            series = evidence[case_id].metrics[PASS]
            now, then = step.head.get(case_id, 0), step.base.get(case_id, 0)
            made += then
            series = replace(
                series,
                head_confirm=(*series.head_confirm, *((0.0 if case_id in BROKEN else 1.0,) * now)),
                head_rounds=(*series.head_rounds, *[number] * now),
                base_confirm=(*series.base_confirm, *((base_today if case_id in BROKEN else 1.0,) * then)),
            )
            evidence[case_id] = replace(evidence[case_id], metrics={PASS: series})
    raise AssertionError("it never decides")


RUNS_BASE = Budget(can_run_base=True)


@pytest.mark.parametrize("broken", [1, 12])
def test_base_today__a_tool_that_is_down_for_both_sides_blocks_nothing(broken: int) -> None:
    stored_only, _ = play(suite(broken), base_today=0.0, rules=Rules(), budget=Budget())
    assert stored_only.outcome == "failed", "without a worktree nothing says that today is another day"

    decision, made = play(suite(broken), base_today=0.0, rules=Rules(), budget=RUNS_BASE)
    assert decision.outcome == "passed"
    assert made > 0
    assert [reason.code for reason in decision.reasons] == ["base-differs-today"]


@pytest.mark.parametrize("broken", [1, 12])
def test_base_today__a_regression_still_blocks_and_the_check_is_bounded(broken: int) -> None:
    decision, made = play(suite(broken), base_today=1.0, rules=Rules(), budget=RUNS_BASE)
    assert decision.outcome == "failed"
    assert 0 < made <= CHECK_RUNS * broken


def test_base_today__never_means_never() -> None:
    decision, made = play(suite(1), base_today=0.0, rules=Rules(confirm_on_base="never"), budget=RUNS_BASE)
    assert (decision.outcome, made) == ("failed", 0)


def test_base_today__a_regression_beside_an_outage_blocks() -> None:
    """One case fails on the head alone, eleven on both sides."""
    evidence = suite(12)
    for number in range(80):
        step = next_step(list(evidence.values()), Rules(), RUNS_BASE)
        if isinstance(step, DecisionReport):
            break
        for case_id in {*step.head, *step.base}:
            series = evidence[case_id].metrics[PASS]
            down = case_id in BROKEN and case_id != BROKEN[0]
            series = replace(
                series,
                head_confirm=(
                    *series.head_confirm,
                    *((0.0 if case_id in BROKEN else 1.0,) * step.head.get(case_id, 0)),
                ),
                head_rounds=(*series.head_rounds, *[number] * step.head.get(case_id, 0)),
                base_confirm=(*series.base_confirm, *((0.0 if down else 1.0,) * step.base.get(case_id, 0))),
            )
            evidence[case_id] = replace(evidence[case_id], metrics={PASS: series})
    assert isinstance(step, DecisionReport)
    assert step.outcome == "failed"
    assert [case.case_id for case in step.cases if case.blocking] == [BROKEN[0]]


def test_base_today__where_nothing_may_be_run_nothing_is_decided() -> None:
    evidence = suite(12)
    decision = next_step(list(evidence.values()), Rules(), Budget(extra_runs=0, can_run_base=True))
    assert isinstance(decision, DecisionReport)
    assert decision.outcome == "inconclusive"
