"""The bounds contain the actual number of calls, and both are reached."""

from __future__ import annotations

import json
from typing import Any

import pytest
from judged_samples import ASKED_BY_US, ScriptedModel, conversation, judged, rubric, score, turn, verdict, verdicts

from agent_eval_scoring.criteria.judged.building import judge_calls
from agent_eval_scoring.evalset.models.criteria import METRICS
from agent_eval_scoring.evalset.models.schema import ConversationScenario
from agent_eval_scoring.models.protocol import ModelRequest


def unanimous(word: int) -> ScriptedModel:
    """Always gives the best (0) or the worst verdict (-1), and skips nothing."""
    return ScriptedModel(script=lambda request: _reply(request, word, skips=False))


def torn() -> ScriptedModel:
    """Votes that leave the outcome open to the end, and skip the first subject if possible."""
    return ScriptedModel(script=lambda request: _reply(request, -(request.sample % 2), skips=True))


def _reply(request: ModelRequest, word: int, *, skips: bool) -> Any:
    assert request.schema is not None
    properties = request.schema["properties"]
    if "verdict" in properties:
        return verdict(properties["verdict"]["enum"][word])
    skips = skips and "Leave none out" not in request.prompt
    if "verdicts" in properties:
        answer = ["yes", "no"][word]
        return verdicts(None if skips else answer, answer)
    if properties["sentences"]["items"]["type"] == "string":
        return {"sentences": ["One.", "Two."]}
    listing = request.prompt.split("The sentences to check:\n")[1].split("\n", 1)[1].rsplit("\n</data", 1)[0]
    labels = [{"number": entry["number"], "rationale": "", "label": "supported"} for entry in json.loads(listing)]
    return {"sentences": labels[skips:]}


def asked(metric: str, model: ScriptedModel, samples: int, turns: int) -> int:
    simulated = METRICS[metric].needs_scenario
    case: dict[str, Any] = {}
    if simulated:
        case["conversation_scenario"] = ConversationScenario(starting_prompt="hello", conversation_plan="p")
    options: dict[str, Any] = {"rubrics": [rubric("a"), rubric("b")]} if METRICS[metric].rubric_type else {}
    threshold = METRICS[metric].low
    criterion = judged(metric, model, samples=samples, threshold=threshold, **options)
    score(criterion, conversation([turn(answer="One. Two.") for _ in range(turns)], **case))
    return len(model.requests)


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("metric", ASKED_BY_US)
def test_judge_calls__bounds_are_reached(metric: str, samples: int) -> None:
    for turns in (1, 3):
        estimate = judge_calls(metric, samples, turns=turns, texts=turns)
        calls = {asked(metric, model, samples, turns) for model in (unanimous(0), unanimous(-1))}
        most = asked(metric, torn(), samples, turns)

        assert min(calls) == estimate.least
        assert max(*calls, most) <= estimate.most
        if samples % 2:  # With an even number of votes the last but one can decide.
            assert most == estimate.most


def test_judge_calls__other_metrics() -> None:
    with pytest.raises(ValueError, match="not judged"):
        judge_calls("response_match_score", 5, turns=1, texts=1)
