"""Cases that may not answer otherwise than on the base branch: which block, and when that stays open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from report_samples import case

from agent_eval.gate.policy import Policy, PolicyEntry
from agent_eval.pipeline._facts import MOST_CASES, RUNS, decide_on_facts, held_cases
from agent_eval.pipeline._regression import Confirmation
from agent_eval_results import CaseReport, ToolUse
from agent_eval_results.data.comparison import ChangedAnswer, ChangedValue

BLOCK = PolicyEntry(changed_facts="block")


@dataclass
class Runs:
    """What `Confirmation` is to these functions: it makes runs, of which some cases get a result."""

    is_recorded: bool = False
    results: Sequence[str] | None = None
    """None: every case that is asked gets one."""
    asked: list[str] = field(default_factory=list)

    async def run_again(self, case_ids: Sequence[str], count: int) -> frozenset[str]:
        assert count == RUNS
        self.asked += case_ids
        return frozenset(each for each in case_ids if self.results is None or each.partition(":")[2] in self.results)


def answer(name: str) -> ChangedAnswer:
    value = ChangedValue(kind="answer", turn=0, before="150", after="0")
    found = case(name, "passed")
    return ChangedAnswer(
        case_id=found.case_id, file=found.file, eval_id=name, passes=True, runs=1, base_runs=1, values=[value]
    )


def replayed(name: str) -> CaseReport:
    made = case(name, "passed")
    runs = [run.model_copy(update={"tools": ToolUse(mode="all")}) for run in made.runs]
    return made.model_copy(update={"runs": runs})


@pytest.mark.parametrize(
    ("runs", "cases", "first", "then", "expected", "asked"),
    [
        pytest.param(Runs(), "a b", "", "", None, "", id="nothing differs"),
        pytest.param(Runs(), "a b", "b", "b", ("failed", "b"), "b", id="it stays"),
        pytest.param(Runs(), "a b", "a b", "b", ("failed", "b"), "a b", id="one stays, one goes"),
        pytest.param(Runs(), "a b", "a", "", None, "a", id="it goes"),
        pytest.param(Runs(results=()), "a b", "a", "a", ("inconclusive", ""), "a", id="no fresh result"),
        pytest.param(Runs(results=("b",)), "a b", "a b", "b", ("failed", "b"), "a b", id="one has none"),
        pytest.param(Runs(is_recorded=True), "a b", "a", "a", ("failed", "a"), "", id="recorded answers"),
        pytest.param(Runs(), "a R", "R", "R", ("failed", "R"), "", id="a replayed case"),
        pytest.param(Runs(), "a b c d e f g h i j k l", "a l", "l", ("failed", "l"), "a l", id="of many"),
    ],
)
async def test_facts__what_blocks(
    runs: Runs, cases: str, first: str, then: str, expected: tuple[str, str] | None, asked: str
) -> None:
    reports = {name: replayed(name) if name == "R" else case(name, "passed") for name in cases.split()}
    found = iter([[answer(name) for name in names.split()] for names in (first, then)])
    runs = replace(runs, asked=[])
    verdict, decisions = await decide_on_facts(cast(Confirmation, runs), [*reports.values()], lambda: (next(found), ()))
    got = None if verdict is None else (verdict.value, " ".join(each.partition(":")[2] for each in verdict.blocking))
    assert got == expected
    assert [each.partition(":")[2] for each in runs.asked] == asked.split()
    assert [each.evidence for each in decisions] == ["answer: 150 → 0"] * bool(decisions)
    blocks = expected is not None and expected[0] == "failed"
    assert [(each.word, each.blocking) for each in decisions] == [("worse", True)] * blocks


NAMES = [f"c{number}" for number in range(3 * MOST_CASES)]


async def test_facts__so_many_cases_are_run_again_at_once() -> None:
    runs, found = Runs(), [answer(name) for name in NAMES]
    verdict, _ = await decide_on_facts(
        cast(Confirmation, runs), [case(name, "passed") for name in NAMES], lambda: (list(found), ())
    )
    assert len(runs.asked) == MOST_CASES and verdict is not None and len(verdict.blocking) == MOST_CASES


async def test_facts__where_the_first_cases_were_chance_the_next_ones_are_run_again() -> None:
    runs = Runs()

    def changed() -> tuple[list[ChangedAnswer], list[str]]:
        left = [name for name in NAMES if name == NAMES[-1] or case(name, "passed").case_id not in runs.asked]
        return [answer(name) for name in left], []

    verdict, _ = await decide_on_facts(cast(Confirmation, runs), [case(name, "passed") for name in NAMES], changed)
    assert len(runs.asked) == len(NAMES)
    assert verdict is not None and [each.partition(":")[2] for each in verdict.blocking] == [NAMES[-1]]


async def test_facts__what_the_base_branch_has_not_recorded_stays_open() -> None:
    unread = ["home.test.json:a"]
    verdict, _ = await decide_on_facts(cast(Confirmation, Runs()), [case("a", "passed")], lambda: ([], unread))
    assert verdict is not None and verdict.value == "inconclusive"
    assert [(reason.code, reason.data["phrase"]) for reason in verdict.reasons] == [
        ("facts-open", "facts-not-recorded")
    ]
    shown = [answer("b")]
    verdict, _ = await decide_on_facts(cast(Confirmation, Runs()), [case("b", "passed")], lambda: (shown, unread))
    assert verdict is not None and verdict.value == "failed", "what is known decides"


def test_held_cases__are_those_that_can_be_compared_and_may_block() -> None:
    entries = (
        BLOCK,
        PolicyEntry(cases=(":draft",), blocking=False),
        PolicyEntry(cases=(":free",), changed_facts="inform"),
    )
    cases = [case(name, "passed") for name in ("held", "draft", "free", "new")]
    cases += [case("worse", "failed"), case("broken", "errored"), case("late", "quarantined")]
    confirmation: Any = Runs()
    confirmation.report = type("Report", (), {"cases": cases})
    confirmation.comparable = {each.case_id: None for each in cases if each.eval_id != "new"}
    settings = type("Settings", (), {"policy": Policy(entries=entries)})
    confirmation.checkout = type("Checkout", (), {"settings": settings})
    assert [each.eval_id for each in held_cases(confirmation)] == ["held", "worse"]
