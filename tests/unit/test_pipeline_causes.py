"""Runs that ended as their cases expect are not read again to find causes, and the causes are the same."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recording_samples import recording
from report_samples import case, metric, report
from runner_doubles import planned

from agent_eval.pipeline._causes import BothSides
from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import Plan
from agent_eval_results import CauseReport, Recording, RunError
from agent_eval_scoring.core.content import FunctionCall, FunctionResponse, model_message, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation
from agent_eval_scoring.evalset.models import EvalCase
from agent_eval_scoring.evalset.models.packed import pack, packed_turns

FILE = "a.test.json"


def turn(number: int, channel: str = "mail", *, response: dict[str, Any] | None = None) -> Invocation:
    calls = [FunctionCall(name="notify", args={"customer": number, "channel": channel})]
    responses = [] if response is None else [FunctionResponse(name="notify", response=response)]
    data = IntermediateData(tool_uses=calls, **({"tool_responses": responses} if responses else {}))
    return Invocation(
        user_content=user_message("Tell them."),
        final_response=model_message("They know."),
        intermediate_data=data,
    )


def causes(tmp_path: Path, *, quick: bool, **facts: Any) -> tuple[list[CauseReport], set[str]]:
    """The causes of ten cases, and the ids of those whose recordings were read; every second one fails."""
    cases, plans, read = [], [], set[str]()
    with closing(Journal(tmp_path / "journal", resume=False)) as journal:
        for number in range(10):
            name, failed = f"c{number}", number % 2 == 0
            expected, actual = turn(number, **facts), turn(number, "phone" if failed else "mail", **facts)
            ended = [RunError(kind="agent-exception", owner="agent", message="!", turn=1)] if number == 4 else []
            recorded = recording(name, actual, file=FILE, **({"error": ended[0]} if ended else {}))
            journal.add(recorded)
            eval_case = EvalCase(eval_id=name, conversation=[expected])
            pack([eval_case])
            plans.append(replace(planned(name), case=eval_case))
            scored = metric("tool_trajectory_avg_score", 0.0 if failed else 1.0, threshold=1.0)
            cases.append(case(name, "failed" if failed else "passed", scored, file=FILE))
            cases[-1].runs[0].error = next(iter(ended), None)

        def recording_of(run_id: str) -> Recording | None:
            read.add(run_id.partition("#")[0])
            return journal.recording(run_id)

        sides = BothSides(
            report=report("failed", cases),
            plan=Plan(cases=tuple(plans), num_runs=1),
            recording_of=recording_of,
            base=None,
            output=tmp_path,
            has_turns=journal.has_turns if quick else lambda run_id, turns: False,
        )
        sides._add_causes()
    return sides.report.causes, read


@pytest.mark.parametrize(
    ("facts", "unread"), [({}, 5), ({"response": {"error": "no line"}}, 0)], ids=["calls alone", "with responses"]
)
def test_add_causes__reads_no_run_that_is_as_expected(tmp_path: Path, facts: dict[str, Any], unread: int) -> None:
    found, all_of_them = causes(tmp_path, quick=False, **facts)
    assert found
    assert len(all_of_them) == 10
    quick, read = causes(tmp_path, quick=True, **facts)
    assert quick == found
    assert len(all_of_them - read) == unread


def test_journal__has_turns(tmp_path: Path) -> None:
    expected = EvalCase(eval_id="c", conversation=[turn(1)])
    pack([expected])
    text = packed_turns(expected)
    assert text is not None
    error = RunError(kind="agent-exception", owner="agent", message="!", turn=1)
    ended: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"error": error}, False),
        ({"unfinished": turn(1)}, False),
        # Whoever names a case decides what is before the turns.
        ({"eval_id": f'"invocations":{text.decode()},"started_at":'}, True),
    ]
    with closing(Journal(tmp_path / "journal", resume=False)) as journal:
        for facts, known in ended:
            journal.add(recording("c", turn(1)).model_copy(update=facts))
            assert journal.has_turns(recording("c").run_id, text) is known
        for turns in ([], [turn(2)], [turn(1), turn(1)]):
            journal.add(recording("c", *turns).model_copy(update={"eval_id": f'"invocations":{text.decode()}'}))
            assert not journal.has_turns(recording("c").run_id, text)
        assert not journal.has_turns("another", text)
