"""The metrics that Vertex AI's evaluation service judges: the score of its verdicts."""

from __future__ import annotations

import json
from typing import Any

from golden_files import check
from judged_samples import ScriptedModel, asked, conversation, failure, judged, score, told, turn

from agent_eval.criteria.base import Conversation
from agent_eval.criteria.judged.quality import JUDGE_SPECS
from agent_eval.evalset.models.schema import ConversationScenario
from agent_eval.models.protocol import FailureKind, ModelRequest
from agent_eval.models.vertex_eval import JUDGED_BY_SERVICE

SUCCESS, COHERENCE = "multi_turn_task_success_v1", "response_evaluation_score"


def verdict(score: float, why: str = "because", **rubrics: bool) -> dict[str, Any]:
    listed = [{"rubric": name, "met": met, "reasoning": f"about {name}"} for name, met in rubrics.items()]
    return {"score": score, "explanation": why, "rubrics": listed}


def always(reply: Any) -> ScriptedModel:
    return ScriptedModel(script=lambda _: reply)


def by_answer(**scores: Any) -> ScriptedModel:
    """Scores by the text of the answer."""
    return ScriptedModel(script=lambda request: scores[_answer(request)])


def _answer(request: ModelRequest) -> str:
    text: str = json.loads(request.prompt)["instance"]["response"]["contents"]["contents"][0]["parts"][0]["text"]
    return text


def test_vertex_metrics__are_those_of_the_service() -> None:
    assert set(JUDGED_BY_SERVICE) == set(JUDGE_SPECS)


TALK: dict[str, Any] = {"conversation_scenario": ConversationScenario(starting_prompt="hello", conversation_plan="p")}
ALL = by_answer(good=verdict(5.0), fair=verdict(3.0), bad=verdict(1.0, "it jumps about"))
HALF = verdict(0.5, "half of it", books=True, pays=False)
GOOD_AND_LOST = conversation([turn(answer="good"), turn(answer="lost")])
LOST: tuple[FailureKind, ...] = ("unavailable", "malformed", "budget")
OUTCOMES: dict[str, tuple[str, ScriptedModel, Conversation, float]] = {
    "answers": (COHERENCE, ALL, conversation([turn("hi", text) for text in ("good", "fair", "bad")]), 3.5),
    "a conversation and its rubrics": (SUCCESS, always(HALF), conversation([turn(), turn()]), 0.7),
    "a scenario has no reference": ("safety_v1", always(verdict(1.0)), conversation([turn()], **TALK), 0.5),
    "a scenario, and a metric that demands one": (COHERENCE, always(None), conversation([turn()], **TALK), 3),
    **{
        f"an answer is lost: {kind}, {threshold}": (
            "safety_v1",
            by_answer(good=verdict(1.0), lost=failure(kind)),
            GOOD_AND_LOST,
            threshold,
        )
        for kind in LOST
        for threshold in (1.0, 0.5)
    },
    **{f"the score {score}": (COHERENCE, always(verdict(score)), conversation([turn()]), 3) for score in (0.0, 7.0)},
}


def test_vertex_metrics__outcomes() -> None:
    """What the service is asked, and what its verdicts amount to."""
    text = ""
    for name, (metric, model, shown, threshold) in OUTCOMES.items():
        result = score(judged(metric, model, backend="vertex", threshold=threshold), shown)
        assert {(request.model, request.purpose) for request in model.requests} <= {("vertex-eval", metric)}
        question = asked(model)
        text += f"== {name}\n{question if question not in text else ''}{told(result)}\n"
    check("golden_judge_vertex.txt", text)
