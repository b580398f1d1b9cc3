"""The estimate of calls and cost, from the files alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from evalset_samples import loaded
from judged_samples import rubric, turn

from agent_eval.criteria.judged.building import judge_calls
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import (
    ConversationScenario,
    CriterionConfig,
    EvalCase,
    LoadedFile,
)
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models.usage import Price
from agent_eval.runner.cost_estimate import CriterionEstimate, Estimate, FileEstimate, Range, estimate

PRICES = {"judge": Price(input=1.0, output=10.0)}
ANSWER_TOKENS = 500


def case(*turns: Any, eval_id: str = "c") -> EvalCase:
    return EvalCase(eval_id=eval_id, conversation=list(turns) or [turn(), turn()])


def scenario(eval_id: str = "s") -> EvalCase:
    led = ConversationScenario(starting_prompt="hi", conversation_plan="p")
    return EvalCase(eval_id=eval_id, conversation_scenario=led)


def metric(name: str, samples: int = 5, **options: Any) -> CriterionConfig:
    form: dict[str, Any] = {"threshold": 1.0, **options}
    if name not in {"response_match_score", "tool_trajectory_avg_score"}:
        form = {"judge_model_options": {"num_samples": samples}} | form
    return criterion(name, CRITERION_MODELS[name].model_validate(form))


def file(cases: Sequence[EvalCase], *criteria: CriterionConfig, user: dict[str, Any] | None = None) -> LoadedFile:
    return loaded("a.test.json", *cases, criteria=criteria, user_simulator_config=user)


def only(*files: LoadedFile, runs: int = 1, prices: dict[str, Price] | None = None) -> FileEstimate:
    [file_estimate] = estimate(files, num_runs=runs, default_model="openai/judge", prices=prices).files
    return file_estimate


def span(least: int, most: int | None) -> Range:
    return Range(least=least, most=most)


def test_estimate__fixed_turns_are_counted_for_every_run() -> None:
    file_estimate = only(file([case(), case(turn(), eval_id="d")], metric("final_response_match_v2")), runs=4)

    assert (file_estimate.cases, file_estimate.runs, file_estimate.turns) == (2, 4, span(12, 12))
    [row] = file_estimate.criteria
    assert (row.model, row.samples, row.cases) == ("openai/judge", 5, 2)
    assert row.calls == span(12 * 3, 12 * 5), "three votes of five settle a turn"


def test_estimate__calls_about_sentences_are_one_each_and_not_known_for_messages_on_the_way() -> None:
    [row] = only(file([case()], metric("hallucinations_v1", samples=9))).criteria
    assert (row.samples, row.calls) == (1, span(4, 6))
    config = metric("hallucinations_v1", evaluate_intermediate_nl_responses=True)
    [row] = only(file([case()], config), prices=PRICES, runs=3).criteria
    assert row.calls == span(3 * 4, None)
    assert row.cost is not None
    assert row.cost[0] > 0 and row.cost[1] is None


def test_estimate__who_judges() -> None:
    [free] = only(file([case()], metric("response_match_score")), prices=PRICES).criteria
    assert free == CriterionEstimate(metric="response_match_score", cases=1), "computed metrics make no calls"
    own = metric("safety_v1", judge_model_options={"judge_model": "gemini-2.5-pro"})
    files = [file([case()], own, metric("final_response_match_v2"))] * 2
    whole = estimate(files, num_runs=1, default_model="openai/judge")

    assert [row.model for row in whole.files[0].criteria] == ["gemini-2.5-pro", "openai/judge"]
    assert whole.models == ["gemini-2.5-pro", "openai/judge"]
    assert [row.tokens for row in whole.with_model()] == [None] * 4, "nothing was weighed without prices"
    assert (whole.cases, whole.turns, whole.calls) == (2, span(4, 4), span(24, 40)), "sums of the files"
    weighed = estimate(files, num_runs=1, default_model="openai/unknown", prices=PRICES)
    assert [(row.tokens is None, row.cost) for row in weighed.with_model()] == [(False, None)] * 4, "no invented price"
    assert weighed.tokens == sum((row.tokens for row in weighed.with_model() if row.tokens), span(0, 0))
    assert estimate([], num_runs=1, default_model="m") == Estimate(files=[])


@pytest.mark.parametrize(
    ("limit", "turns", "user"), [(5, (1, 5), (1, 4)), (1, (1, 1), (0, 0)), (-1, (1, None), (1, None))]
)
def test_estimate__a_simulated_user(limit: int, turns: tuple[int, int | None], user: tuple[int, int | None]) -> None:
    led = file([scenario(), case(turn())], metric("safety_v1"), user={"max_allowed_invocations": limit})
    file_estimate = only(led, runs=2)

    assert file_estimate.turns == (span(*turns) + span(1, 1)).times(2)
    row = file_estimate.criteria[-1]
    assert (row.metric, row.cases, row.model) == ("user-simulator", 1, "gemini-2.5-flash")
    assert row.calls == span(*user).times(2)


def test_estimate__a_whole_conversation_is_judged_once_however_long_it_gets() -> None:
    unbounded = {"max_allowed_invocations": -1}
    whole, each = only(
        file([scenario()], metric("multi_turn_task_success_v1"), metric("safety_v1"), user=unbounded)
    ).criteria[:2]

    calls = judge_calls("multi_turn_task_success_v1", 5, turns=1, texts=1)
    assert whole.calls == span(calls.least, calls.most)
    assert each.calls == span(3, None)


def test_estimate__tokens_are_weighed_by_the_prompts_that_would_be_sent() -> None:
    def tokens(text: str) -> Range:
        eval_case = case(turn(answer=text))
        [row] = only(file([eval_case], metric("final_response_match_v2", samples=1)), prices=PRICES).criteria
        assert row.calls == span(1, 1)
        assert row.tokens is not None
        return row.tokens

    short, long = tokens("x"), tokens("x" * 4001)
    assert short.least == short.most
    # The answer stands in the prompt twice: as the reference, and as what the agent would say.
    assert long.least - short.least == pytest.approx(2000, abs=2)
    assert short.least > ANSWER_TOKENS


def test_estimate__many_cases_are_sampled_and_counted_in_full() -> None:
    cases = [case(turn(answer="x" * 400), eval_id=str(number)) for number in range(200)]
    config = metric("final_response_match_v2", samples=1)
    [few] = only(file(cases[:1], config), prices=PRICES).criteria
    [many] = only(file(cases, config), prices=PRICES).criteria

    assert few.tokens is not None
    assert many.tokens == few.tokens.times(200)


def test_estimate__rubrics_are_weighed_too() -> None:
    name = "rubric_based_final_response_quality_v1"
    rubrics = [rubric("a").model_dump()]
    more = [*rubrics, rubric("b" * 400).model_dump()]
    [few], [many] = (
        only(file([case()], metric(name, rubrics=some)), prices=PRICES).criteria for some in (rubrics, more)
    )

    assert few.calls == many.calls == span(2 * 3, 2 * 5 * 2)
    assert few.tokens is not None
    assert many.tokens is not None
    assert many.tokens.least > few.tokens.least + 6 * 90


def test_estimate__the_second_question_about_sentences_is_weighed() -> None:
    """It holds all that the agent knew; the first one only what it said."""
    [row] = only(file([case(turn(user="y" * 8000, answer="x"))], metric("hallucinations_v1")), prices=PRICES).criteria

    assert row.tokens is not None
    assert row.tokens.least > 2 * ANSWER_TOKENS + 8000 / 4


def test_estimate__cost_is_what_the_tokens_cost() -> None:
    config = metric("final_response_match_v2", judge_model_options={"judge_model": "openai/judge"})
    [row] = only(file([case()], config), prices=PRICES).criteria

    assert row.tokens is not None
    assert row.tokens.most is not None
    for tokens, calls, cost in ((row.tokens.least, 6, 0), (row.tokens.most, 10, 1)):
        output = calls * ANSWER_TOKENS
        assert row.cost is not None
        assert row.cost[cost] == pytest.approx(((tokens - output) * 1.0 + output * 10.0) / 1e6)


def test_estimate__the_tokens_of_scenarios_are_unknown() -> None:
    played = file([scenario(), case()], metric("safety_v1", samples=1))
    [row, _] = only(played, prices=PRICES).criteria

    assert row.model is not None
    assert (row.tokens, row.cost) == (None, None)
    alone = estimate([played], num_runs=1, default_model="openai/judge", prices=PRICES)
    assert (alone.tokens, alone.cost) == (Range(least=0, most=None), None)
    fixed = file([case()], metric("safety_v1", samples=1))
    both = estimate([played, fixed], num_runs=1, default_model="openai/judge", prices=PRICES)
    assert both.tokens.least > 0 and both.cost is not None and both.cost[0] > 0
    assert (both.tokens.most, both.cost[1]) == (None, None), "what has no estimate is no reason to name a most"
