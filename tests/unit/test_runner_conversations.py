"""What results.json keeps of what the agent did: readable, expected beside actual, in bounded size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import recording_samples
from golden_files import check
from recording_samples import actual, called
from remark_samples import notes
from report_samples import RESPONSE, TRAJECTORY, case, metric, report

from agent_eval.runner.journal import Journal
from agent_eval_results.data.conversation import ConversationReport
from agent_eval_results.data.conversations import MOST_OF_A_CASE, attach_conversations, conversation_of
from agent_eval_results.data.report import CaseReport, TurnEvidence
from agent_eval_results.report.renderers.results_json import results_json
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, Part, model_message, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation, InvocationEvent, InvocationEvents
from agent_eval_scoring.core.recording import Recording, RunError
from agent_eval_scoring.evalset.models.schema import EvalCase

NO_DEVICES: dict[str, Any] = {"devices": []}


def expected(message: str, answer: str, *calls: FunctionCall) -> Invocation:
    return Invocation(
        user_content=user_message(message),
        final_response=model_message(answer),
        intermediate_data=IntermediateData(tool_uses=list(calls)) if calls else None,
    )


def recording(*turns: Invocation, eval_id: str = "lamp", **facts: Any) -> Recording:
    return recording_samples.recording(eval_id, *turns, file="tests/a.test.json", **facts)


def eval_case(*turns: Invocation, eval_id: str = "lamp") -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=list(turns))


LAMP = FunctionCall(name="set_status", args={"device": "lamp", "status": "off"})
FIND = FunctionCall(name="find_devices", args={"room": "bedroom"})


def spoken() -> Iterator[tuple[str, Recording, EvalCase | None]]:
    """Runs, and what was expected of them, by what results.json keeps of them."""
    found = called("find_devices", NO_DEVICES, room="bedroom")
    yield (
        "calls have their responses; what is as expected is not repeated",
        recording(actual("Lamp off.", "No such lamp.", *found), actual("Again.", "Done.", *found)),
        eval_case(expected("Lamp off.", "The lamp is off.", FIND, LAMP), expected("Again.", "Done.", FIND)),
    )
    # A long-running tool returns twice, a broken one never.
    calls = [*called("look", id="1", at="a"), *called("look", id="2", at="b"), *called("cancel", id="3")]
    answers = [
        Part(function_response=FunctionResponse(id=id, name="look", response={"saw": id})) for id in ("2", "1", "2")
    ]
    yield "parallel calls are paired by id", recording(actual("Look.", "Seen.", *calls, *answers)), None
    events = [
        InvocationEvent(author="root", content=Content(parts=called("transfer_to_agent", {"result": None}, id="1"))),
        InvocationEvent(author="clerk", content=Content(parts=[Part(text="Let me see.")])),
        InvocationEvent(author="clerk", content=None),
    ]
    turn = actual("Hello", "Seen.").model_copy(update={"intermediate_data": InvocationEvents(invocation_events=events)})
    yield "sub-agents and words on the way", recording(turn), None
    error = RunError(kind="agent-exception", owner="agent", message="boom", turn=1)
    both = eval_case(expected("One.", "Done."), expected("Two.", "Done."))
    broken = recording(actual("One.", "Done."), error=error)
    yield "a turn that broke", broken, both
    cut = actual("Two.", None, *called("find", NO_DEVICES, id="1"), *called("switch", id="2"))
    broke_off = broken.model_copy(update={"unfinished": cut})
    yield "a turn that broke, as far as it went", broke_off, both
    yield "a turn of a simulated user that broke", broke_off, None


def test_conversation_of__what_is_kept() -> None:
    """UPDATE_GOLDEN=1 writes it."""
    kept = {name: conversation_of(run, case).model_dump(mode="json") for name, run, case in spoken()}
    check("golden_conversations.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def failing(eval_id: str, *, turn: int = 0, run: int = 0, runs: int = 1) -> CaseReport:
    evidence = {run: [TurnEvidence(turn=turn, score=0.0, user="", expected="", actual="", why=notes("bad"))]}
    scores = [0.0 if number == run else 1.0 for number in range(runs)]
    failed = metric(TRAJECTORY, *scores, threshold=1.0, evidence=evidence)
    eval_case = case(eval_id, "failed", failed, file="tests/a.test.json", runs=runs)
    for result in eval_case.runs:
        result.status = "failed" if result.run == run else "passed"
    return eval_case


def attach(*cases: CaseReport, recordings: Sequence[Recording]) -> list[ConversationReport | None]:
    """What is kept of each case."""
    run_report = report("failed", list(cases))
    attach_conversations(run_report, {}, {each.run_id: each for each in recordings}.get)
    return [each.conversation for each in run_report.cases]


def test_attach__the_run_that_failed_is_kept_and_passed_cases_have_none() -> None:
    good = case("fine", "passed", metric(RESPONSE, 1.0, threshold=0.8), file="tests/a.test.json")
    recordings = [recording(actual("Hi", f"answer {run}"), run=run) for run in range(3)]
    kept, none = attach(failing("lamp", run=1, runs=3), good, recordings=[*recordings, recording(eval_id="fine")])
    assert kept is not None and none is None
    assert (kept.run, kept.turns[0].answer) == (1, "answer 1")


def test_attach__the_turns_that_say_why_come_before_the_others() -> None:
    long = "word " * 2_000
    turns = (actual(f"{n} {long}", long) for n in range(40))
    [kept] = attach(failing("lamp", turn=37), recordings=[recording(*turns)])
    assert kept is not None and 37 in [turn.turn for turn in kept.turns]
    assert kept.turns_left_out == 40 - len(kept.turns) > 0
    assert len(kept.model_dump_json()) < 2 * MOST_OF_A_CASE


def huge() -> Invocation:
    text = "word " * 300
    return actual(text, text, *(part for n in range(8) for part in called(f"tool_{n}", {"text": text}, text=text)))


@pytest.mark.parametrize("number", [10, 1_000])
def test_attach__many_failing_cases_stay_within_the_bound(number: int) -> None:
    run_report = report("failed", [failing(f"case-{n}") for n in range(number)])
    run_report.blocking = [run_report.cases[-1].case_id]
    shared = recording(huge())

    attach_conversations(run_report, {}, lambda run_id: shared, most=100_000)

    conversations = [case.conversation for case in run_report.cases if case.conversation is not None]
    assert len(conversations) == min(number, 100_000 // 1_200)
    assert run_report.cases[-1].conversation is not None  # What blocks comes first.
    assert 20_000 < sum(map(_characters, conversations)) <= 100_000
    assert len(results_json(run_report)) < 200_000 + 2_500 * number


def test_attach__a_huge_conversation_costs_no_more_than_what_is_kept_of_it() -> None:
    text = "word " * 10_000
    parts = [part for n in range(300) for part in called(f"tool_{n}", {"text": text}, text=text)]
    [kept] = attach(failing("lamp"), recordings=[recording(actual(text, text, *parts))])
    assert kept is not None and kept.turns[0].steps_left_out > 250
    assert _characters(kept) <= MOST_OF_A_CASE


def _characters(conversation: ConversationReport) -> int:
    total = 0
    for turn in conversation.turns:
        total += len(turn.user) + len(turn.answer or "")
        total += sum(len(step.call) + sum(map(len, step.responses)) for step in turn.steps)
    return total


@pytest.mark.parametrize("depth", [100, 3_000])
def test_conversation_of__a_deep_response_breaks_nothing(depth: int) -> None:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"a": value}
    part = Part.model_construct(
        **{
            **Part().__dict__,
            "function_response": FunctionResponse.model_construct(id=None, name="t", response=value, parts=None),
        }
    )
    turn = actual("Hi", "Ho")
    assert isinstance(turn.intermediate_data, InvocationEvents)
    turn.intermediate_data.invocation_events.append(InvocationEvent(author="home"))
    turn.intermediate_data.invocation_events[0].content = Content.model_construct(role="model", parts=[part])

    [shown] = conversation_of(recording(turn), None).turns

    assert shown.steps[0].responses[0].startswith('{"a": {"a"')


def test_attach__runs_that_were_taken_from_an_earlier_journal_count(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(Journal(path, resume=False)) as journal:
        journal.add(recording(actual("Hi", "answer")))
    with closing(Journal(path, resume=True)) as journal:
        assert journal.recording("tests/a.test.json:lamp#1") is None, "nobody has asked for it yet"
        assert journal.reuse("tests/a.test.json:lamp#1", "f") is not None
        run_report = report("failed", [failing("lamp")])
        attach_conversations(run_report, {}, journal.recording)

    assert run_report.cases[0].conversation is not None
    assert run_report.cases[0].conversation.turns[0].answer == "answer"
