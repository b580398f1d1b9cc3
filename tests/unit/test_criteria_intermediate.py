"""`intermediate_response_similarity`, and intermediate responses in reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evalset_samples import case, eval_set, turn
from hypothesis import given
from hypothesis import strategies as st
from recording_samples import recording
from remark_samples import lines

from agent_eval.core.content import Content, Part, model_message, user_message
from agent_eval.core.invocation import (
    IntermediateData,
    Invocation,
    InvocationEvent,
    InvocationEvents,
    intermediate_responses,
)
from agent_eval.criteria import Conversation, NotEvaluated, Scored, build
from agent_eval.evalset.loading import load_suite
from agent_eval.evalset.models import CRITERION_MODELS, EvalCase
from agent_eval.evalset.parse import criterion
from agent_eval.report.views.conversation import TurnView, rows
from agent_eval.runner.conversations import conversation_of

METRIC = "intermediate_response_similarity"
Said = list[tuple[str, str]]
SUNNY, TRAIN = ("weather", "It is sunny in Paris."), ("travel", "The train leaves at nine.")


def expected_turn(said: Said, answer: str = "Go.") -> Invocation:
    data = IntermediateData(intermediate_responses=[(author, [Part(text=text)]) for author, text in said])
    return Invocation(user_content=user_message("?"), final_response=model_message(answer), intermediate_data=data)


def actual_turn(said: Said, answer: str = "Go.") -> Invocation:
    events = [InvocationEvent(author=author, content=model_message(text)) for author, text in said]
    data = InvocationEvents(invocation_events=events)
    return Invocation(user_content=user_message("?"), final_response=model_message(answer), intermediate_data=data)


async def run(*turns: tuple[Said, Said], metric: str = METRIC, **options: Any) -> Scored | NotEvaluated:
    expected = [expected_turn(pair[0]) for pair in turns]
    actual = [actual_turn(pair[1]) for pair in turns]
    model = CRITERION_MODELS[metric].model_validate({"threshold": 0.9, **options})
    eval_case = EvalCase(eval_id="c", conversation=expected)
    return await build(criterion(metric, model)).score(Conversation(case=eval_case, actual=actual, expected=expected))


async def score(expected: Said, actual: Said, **options: Any) -> float | None:
    result = await run((expected, actual), **options)
    assert isinstance(result, Scored), result
    return result.score


async def test_score__same_agent_in_order() -> None:
    assert await score([SUNNY, TRAIN], [SUNNY, TRAIN]) == 1
    assert await score([SUNNY, TRAIN], [("travel", "Let me look."), SUNNY, ("weather", "Hm."), TRAIN]) == 1
    assert await score([SUNNY, TRAIN], [TRAIN, SUNNY]) == 0.5
    assert await score([SUNNY, TRAIN], [SUNNY]) == 0.5
    assert await score([SUNNY], []) == 0
    assert await score([SUNNY], [("travel", SUNNY[1])]) == 0
    assert await score([SUNNY], [("weather", "IT IS SUNNY IN PARIS!")]) == 1
    assert await score([SUNNY], [("weather", "It is sunny  in Paris.")], algorithm="exact", normalize=False) == 0


async def test_score__the_best_assignment_counts() -> None:
    good, better = ("a", "one two three"), ("a", "one two three four")
    assert await score([better], [good, better]) == 1
    assert await score([good, better], [better, good, better]) == 1


async def test_score__turns_without_expected_responses_are_left_out() -> None:
    result = await run(([SUNNY], [SUNNY]), ([], [TRAIN]), ([TRAIN], []), threshold=0.4)
    assert isinstance(result, Scored)
    assert (result.score, result.turn_scores) == (0.5, (1.0, None, 0.0))
    assert [finding.turn for finding in result.findings] == [2]

    nothing = await run(([], [TRAIN]))
    assert isinstance(nothing, NotEvaluated)
    assert nothing.code == "no-reference-text"


async def test_score__too_much_text() -> None:
    for said in ([("weather", "x" * 20_001)], [("weather", "x")] * 10_001):
        result = await run(([SUNNY], said))
        assert isinstance(result, NotEvaluated)
        assert result.code == "too-long"


async def test_intermediate__findings() -> None:
    result = await run(([SUNNY, TRAIN], [("weather", "It is rainy in Paris."), ("hotel", "Full.")]))

    assert isinstance(result, Scored)
    [finding] = result.findings
    assert finding.expected == "weather: It is sunny in Paris.\ntravel: The train leaves at nine."
    assert finding.actual == "weather: It is rainy in Paris.\nhotel: Full."
    assert lines(finding.why) == (
        "1 of 2 expected intermediate responses have a counterpart",
        "weather: similarity 0.67: 4 of 6 distinct words are in both texts; missing words: sunny; "
        "unexpected words: rainy",
        'missing: travel: "The train leaves at nine."',
    )


async def test_response_similarity__with_intermediate_responses() -> None:
    options: dict[str, Any] = {"metric": "response_similarity", "algorithm": "exact"}
    assert await score([SUNNY], [TRAIN], **options) == 1
    options["include_intermediate_responses_in_final"] = True
    assert await score([SUNNY], [TRAIN], **options) == 0
    assert await score([SUNNY], [SUNNY], **options) == 1


WORDS = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(" ".join)
RESPONSES = st.lists(st.tuples(st.sampled_from(["x", "y"]), WORDS), max_size=4)


@given(RESPONSES.filter(bool), RESPONSES)
async def test_score__range_and_identity(expected: Said, actual: Said) -> None:
    value = await score(expected, actual)

    assert value is not None
    assert 0 <= value <= 1
    assert await score(expected, expected) == 1
    assert await score(expected, [*actual, *expected]) == 1
    more = await score(expected, [*actual, ("x", "c")])
    assert more is not None
    assert more >= value - 1e-12


def test_intermediate_responses__both_forms_without_thoughts_and_the_answer() -> None:
    parts = [Part(text="Looking.", thought=True), Part(text="It is"), Part(text="sunny.")]
    events = [
        InvocationEvent(author="weather", content=Content(role="model", parts=parts)),
        InvocationEvent(author="weather", content=Content(role="model", parts=[Part(text=" ")])),
        InvocationEvent(author="root", content=model_message("Go.")),
        InvocationEvent(author="root"),
    ]
    data = InvocationEvents(invocation_events=events)
    turn_ = Invocation(user_content=user_message("?"), final_response=model_message("Go."), intermediate_data=data)

    assert intermediate_responses(turn_) == [("weather", "It is\nsunny.")]
    assert intermediate_responses(expected_turn([SUNNY, ("root", "Go.")])) == [SUNNY]
    assert intermediate_responses(Invocation(user_content=user_message("?"))) == []


@pytest.mark.parametrize(
    ("actual", "shown"),
    [
        ([SUNNY, ("hotel", "Full."), TRAIN], []),
        ([TRAIN, SUNNY], ["weather: It is sunny in Paris.", "travel: The train leaves at nine."]),
    ],
)
def test_conversation__shows_expected_responses_beside_the_actual_ones(actual: Said, shown: list[str]) -> None:
    eval_case = EvalCase(eval_id="c", conversation=[expected_turn([SUNNY, TRAIN])])

    [report] = conversation_of(recording("c", actual_turn(actual)), eval_case).turns

    assert (report.expected_said or []) == shown
    listed = [(row.kind, row.text) for row in rows(TurnView(said=report))]
    assert [text for kind, text in listed if kind == "expected said"] == shown
    assert [text for kind, text in listed if kind == "said"] == [f"{author}: {text}" for author, text in actual]


def test_validation__without_expected_responses(tmp_path: Path) -> None:
    (tmp_path / "test_config.json").write_text(json.dumps({"criteria": {METRIC: 0.5}}))
    (tmp_path / "a.test.json").write_text(json.dumps(eval_set(case())))
    [problem] = load_suite(tmp_path).problems
    assert (problem.code, problem.path) == ("needs-reference", "eval_cases[0]")
    assert "intermediate_responses" in (problem.hint or "")

    said = {"intermediate_responses": [["weather", [{"text": "sunny"}]]]}
    (tmp_path / "a.test.json").write_text(
        json.dumps(eval_set(case(conversation=[turn(intermediate_data=said), turn()])))
    )
    assert load_suite(tmp_path).problems == ()
