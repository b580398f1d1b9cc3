"""The metrics that Vertex AI's evaluation service judges: the score of its verdicts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from judged_samples import ScriptedModel, conversation, failure, refused, scored, turn
from judged_samples import judged as judged_by
from remark_samples import lines

from agent_eval.criteria.base import Criterion
from agent_eval.criteria.judged.quality import JUDGE_SPECS
from agent_eval.evalset.models.schema import ConversationScenario
from agent_eval.models.protocol import FailureKind, ModelRequest
from agent_eval.models.vertex_eval import JUDGED_BY_SERVICE

SUCCESS = "multi_turn_task_success_v1"


def judged(metric: str, model: ScriptedModel, **options: Any) -> Criterion:
    return judged_by(metric, model, backend="vertex", **options)


def verdict(score: float, why: str = "because", **rubrics: bool) -> dict[str, Any]:
    listed = [{"rubric": name, "met": met, "reasoning": f"about {name}"} for name, met in rubrics.items()]
    return {"score": score, "explanation": why, "rubrics": listed}


def by_answer(**scores: Any) -> ScriptedModel:
    """Scores by the text of the answer."""
    return ScriptedModel(script=lambda request: scores[_answer(request)])


def _answer(request: ModelRequest) -> str:
    text: str = json.loads(request.prompt)["instance"]["response"]["contents"]["contents"][0]["parts"][0]["text"]
    return text


def test_vertex_metrics__are_those_of_the_service() -> None:
    assert set(JUDGED_BY_SERVICE) == set(JUDGE_SPECS)


def test_a_single_turn_metric__is_the_mean_over_turns_asked_once_each() -> None:
    model = by_answer(good=verdict(5.0), fair=verdict(3.0), bad=verdict(1.0, "it jumps about"))

    result = scored(
        judged("response_evaluation_score", model, threshold=3.5), conversation([turn("hi", a) for a in JUDGED])
    )

    assert (result.score, result.turn_scores) == (3.0, (5.0, 3.0, 1.0))
    assert [finding.turn for finding in result.findings] == [1, 2]
    assert "it jumps about" in lines(result.findings[1].why)[0]
    assert result.details["backend"] == "vertex"
    assert result.details["judge"]["model"] == "vertex-eval"
    assert result.details["judge"]["saved"] == 0
    assert {(request.model, request.purpose) for request in model.requests} == {
        ("vertex-eval", "response_evaluation_score")
    }
    assert len(model.requests) == 3


JUDGED = ("good", "fair", "bad")


def test_a_conversation__is_judged_once_with_its_rubrics() -> None:
    model = ScriptedModel(script=lambda _: verdict(0.5, "half of it", books=True, pays=False))

    result = scored(judged(SUCCESS, model, threshold=0.7), conversation([turn(), turn()]))

    assert (result.score, result.turn_scores) == (0.5, (None, 0.5))
    assert len(model.requests) == 1
    assert [(judgement.subject, judgement.verdict, judgement.score) for judgement in result.judgements] == [
        ("", "0.5", 0.5),
        ("books", "met", 1.0),
        ("pays", "not met", 0.0),
    ]
    [finding] = result.findings
    assert [line.split(":")[0] for line in lines(finding.why)] == ["0.5", "pays"], finding.why


def test_a_scenario_has_no_reference__and_the_metric_that_demands_one_says_so() -> None:
    scenario = ConversationScenario(starting_prompt="hello", conversation_plan="p")
    model = ScriptedModel(script=lambda _: verdict(1.0))

    assert scored(judged("safety_v1", model), conversation([turn()], conversation_scenario=scenario)).score == 1.0
    assert "reference" not in json.loads(model.requests[0].prompt)["instance"]
    asked = judged("response_evaluation_score", model, threshold=3)
    assert refused(asked, conversation([turn()], conversation_scenario=scenario)).code == "needs-reference"


@pytest.mark.parametrize(
    ("kind", "code"), [("unavailable", "judge-unavailable"), ("malformed", "judge-malformed"), ("budget", "budget")]
)
def test_a_turn_without_a_verdict__never_makes_a_pass(kind: FailureKind, code: str) -> None:
    model = by_answer(good=verdict(1.0), lost=failure(kind))
    turns = [turn(answer="good"), turn(answer="lost")]

    assert refused(judged("safety_v1", model, threshold=1.0), conversation(turns)).code == code
    if kind != "budget":  # Of the rest of the turns nothing is heard then.
        assert scored(judged("safety_v1", model, threshold=0.5), conversation(turns)).score == 1.0


@pytest.mark.parametrize("score", [0.0, 7.0])
def test_a_score_outside_the_metrics_range__is_none(score: float) -> None:
    model = ScriptedModel(script=lambda _: verdict(score))
    asked = judged("response_evaluation_score", model, threshold=3)

    assert "is not between 1 and 5" in refused(asked, conversation([turn()])).facts["message"]
