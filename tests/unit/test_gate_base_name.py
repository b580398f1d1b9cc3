"""The base branch has its name wherever that is known."""

from __future__ import annotations

import pytest

from agent_eval.gate.base_name import named, named_decision
from agent_eval.results.decision import CaseDecisionReport, DecisionReport


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("0 of 5 now, 10 of 10 on base", "0 of 5 now, 10 of 10 on main"),
        ("1 case is worse than on the base: x", "1 case is worse than on main: x"),
        ("3 more runs of the base branch would decide", "3 more runs of main would decide"),
        ("the base has too few", "main has too few"),
        ("evals/database.json, based on baselines", "evals/database.json, based on baselines"),
    ],
)
def test_named(text: str, shown: str) -> None:
    assert named(text, "main") == shown


def test_named__a_branch_is_no_pattern() -> None:
    assert named("on the base", r"release\1") == r"on release\1"


def test_named_decision__what_is_said_of_each_case() -> None:
    one = CaseDecisionReport(case_id="x", metric="pass", word="worse", evidence="0 of 5 now, 9 of 9 on base")
    decision = named_decision(DecisionReport(outcome="failed", alpha=0.05, cases=[one]), "main")
    assert [case.evidence for case in decision.cases] == ["0 of 5 now, 9 of 9 on main"]
