"""What the previous attempt of a pull request held against a case is looked at again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent_eval.gate.regression.gathering import Before, held_against
from agent_eval.gate.regression.sequential import next_step
from agent_eval.gate.stats.decision import Budget, Rules
from agent_eval.gate.stats.samples import PASS, CaseEvidence, Series
from agent_eval.results.decision import DecisionReport


def push(runs: str, before: dict[str, Before], *, cases: int = 30) -> tuple[DecisionReport, int]:
    """A push in which `odd` does this, first in the screening and then when run again; the others always pass."""
    base = (1.0,) * 20
    evidence = {
        name: CaseEvidence(
            case_id=name, metrics={PASS: Series(head_screen=(1.0,), base=base, before=before.get(name, ""))}
        )
        for name in ("odd", *(f"fine{index}" for index in range(cases - 1)))
    }
    values = [float(run) for run in runs]
    odd = evidence["odd"].metrics[PASS]
    evidence["odd"] = CaseEvidence(case_id="odd", metrics={PASS: replace(odd, head_screen=(values[0],))})
    total = number = 0
    while not isinstance(
        step := next_step(list(evidence.values()), Rules(), Budget(can_run_base=True)), DecisionReport
    ):
        for case_id in {*step.head, *step.base}:
            series = evidence[case_id].metrics[PASS]
            count = step.head.get(case_id, 0)
            more = values[1 + len(series.head_confirm) :][:count] if case_id == "odd" else [1.0] * count
            series = replace(
                series,
                head_confirm=(*series.head_confirm, *more),
                head_rounds=(*series.head_rounds, *[number] * len(more)),
                base_confirm=(*series.base_confirm, *((1.0,) * step.base.get(case_id, 0))),
            )
            evidence[case_id] = CaseEvidence(case_id=case_id, metrics={PASS: series})
            total += count
        number += 1
    return step, total


FAILS_MOSTLY = "0010001001000100"


def test_attempts__a_lucky_screening_does_not_turn_a_blocked_case_green() -> None:
    first, _ = push(FAILS_MOSTLY, {})
    assert first.outcome == "failed"
    assert held_against(first.cases) == {"odd": "blocked"}

    lucky = f"1{FAILS_MOSTLY[1:]}"
    assert push(lucky, {})[0].outcome == "passed", "nobody looked"
    again, _ = push(lucky, held_against(first.cases))
    assert again.outcome == "failed"
    assert [case.case_id for case in again.cases if case.blocking] == ["odd"]


def test_attempts__a_push_that_repairs_the_case_passes_and_is_forgotten() -> None:
    repaired, made = push("1" * 16, {"odd": "blocked"})
    assert repaired.outcome == "passed"
    assert 0 < made <= 12
    assert held_against(repaired.cases) == {}


@pytest.mark.parametrize(("before", "outcome"), [("", "passed"), ("suspicious", "passed"), ("blocked", "failed")])
def test_attempts__a_blocked_case_is_not_picked_out_of_all_once_more(before: Before, outcome: str) -> None:
    """2 failures of 4 against 20 passes pay 27: enough for the case alone, not with half of the stake on it."""
    decision, _ = push("0101011111111111", {"odd": before})
    assert decision.outcome == outcome
