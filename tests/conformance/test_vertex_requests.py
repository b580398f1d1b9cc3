"""What Vertex AI's evaluation service is asked, and what becomes of its answers: Google's own SDK beside ours."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from adk_reference import Reference
from fake_gemini.evaluation import EvaluationRequest, FakeEvaluation

from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result, Scored
from agent_eval_scoring.criteria.judged.judge import Judge
from agent_eval_scoring.criteria.registry import build
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS, METRICS
from agent_eval_scoring.evalset.models.schema import EvalCase
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models.pool import open_models
from agent_eval_scoring.models.settings import ModelSettings
from agent_eval_scoring.models.vertex_eval import JUDGED_BY_SERVICE
from agent_eval_scoring.net.retry import Retry

pytestmark = pytest.mark.conformance

QUICK = ModelSettings(retry=Retry(attempts=1, first=0.01), attempt_timeout=10.0)
WORDS = ["hello", "and then?", "{braces}", "it's «fine»", "日本語", 'a "quoted"\nline', "\\n", "@@"]


@pytest.fixture
def service() -> Iterator[FakeEvaluation]:
    with FakeEvaluation(script=verdict_on) as server:
        yield server


@pytest.fixture
def environ(service: FakeEvaluation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    path = tmp_path / "account.json"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))  # google-auth looks there itself
    return service.environ(path, location="europe-west4")


def verdict_on(request: EvaluationRequest) -> Mapping[str, Any]:
    """By the request alone, so that both sides get the same answers."""
    rng = random.Random(json.dumps(_plain(request.instance, {}), sort_keys=True))
    if rng.random() < 0.15:
        return {"error": {"code": 3, "message": "no"}, "score": 0.5}
    if rng.random() < 0.1:
        return {"explanation": "no idea"}
    score = rng.choice([1, 2.5, 4, 5]) if request.metric == "coherence" else rng.choice([0, 0.25, 0.7, 1])
    rubrics = [
        {"evaluatedRubric": {"rubricId": "r0", "content": {"property": {"description": "is kind"}}}, "verdict": True},
        {"evaluatedRubric": {"rubricId": "r1"}, "reasoning": "it isn't"},
        {"verdict": rng.random() < 0.5, "reasoning": "so"},
    ]
    explained = {"explanation": "since it is so"} if rng.random() < 0.5 else {}
    return {"score": score, **explained, "rubricVerdicts": rubrics[: rng.randint(0, 3)]}


def message(rng: random.Random, role: str | None, least: int = 0) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"text": rng.choice(WORDS)} for _ in range(rng.randint(least, 2))]
    if rng.random() < 0.3:
        parts.append({"text": "let me think", "thought": True})
    if rng.random() < 0.2:
        parts.append({"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGgo+/w=="}})
    return {"role": role, "parts": parts} if role else {"parts": parts}


def turn(rng: random.Random, number: int) -> dict[str, Any]:
    call = {"id": f"c{number}", "name": "look_up", "args": {"city_name": rng.choice(WORDS), "radiusKm": None, "n": 1.5}}
    response = {"id": f"c{number}", "name": "look_up", "response": {"found_items": [1, None, {"a_b": "c"}]}}
    events = [
        {"author": "guide", "content": {"role": "model", "parts": [{"function_call": call}]}},
        {"author": "guide", "content": {"role": "user", "parts": [{"function_response": response}]}},
        {"author": "guide", "content": None},
        {"author": "helper", "content": message(rng, None, 1)},
    ]
    tools = [
        {
            "function_declarations": [
                {
                    "name": "look_up",
                    "description": "Looks things up.",
                    "parameters": {"type": "OBJECT", "properties": {"city_name": {"type": "STRING"}}},
                }
            ]
        },
        {"google_search": {}},
    ]
    details = {
        name: {"name": name, "instructions": f"You are {name}, {rng.choice(WORDS)}", "tool_declarations": tools}
        for name in rng.sample(["guide", "helper", "clerk"], rng.randint(0, 2))
    }
    made = {
        "invocation_id": f"turn-{number}",
        "user_content": message(rng, "user", 1),
        "final_response": message(rng, "model", 1),
        "intermediate_data": {"invocation_events": events[: rng.randint(0, 4)]},
        "app_details": {"agent_details": details},
    }
    if rng.random() < 0.2:
        made["intermediate_data"] = {"tool_uses": [call], "tool_responses": [response]}
    for name in ("intermediate_data", "app_details"):
        if rng.random() < 0.2:
            del made[name]
    return made


def in_order(bodies: Iterable[Mapping[str, Any]]) -> list[Any]:
    """Bodies to compare: single turns are asked about at once, base64 has two alphabets that mean the same, and ids of
    turns and calls, which ADK draws, only say what belongs together."""
    return sorted((_plain(body, {}) for body in bodies), key=json.dumps)


def _plain(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_plain(item, ids) for item in value]
    if not isinstance(value, dict):
        return value
    for key in sorted(value.keys() & {"id", "turn_id"}):
        value = {**value, key: ids.setdefault(value[key], f"{key} {len(ids)}")}
    if isinstance(value.get("inline_data"), dict):
        blob = value["inline_data"]
        value = {**value, "inline_data": {**blob, "data": blob["data"].replace("-", "+").replace("_", "/")}}
    return {key: _plain(value[key], ids) for key in sorted(value)}


def ours(metric: str, threshold: float, actual: Any, expected: Any, environ: Mapping[str, str]) -> Result:
    form = CRITERION_MODELS[metric].model_validate({"threshold": threshold, "backend": "vertex"})
    turns = [Invocation.model_validate(item) for item in actual]
    references = None if expected is None else [Invocation.model_validate(item) for item in expected]
    conversation = Conversation(
        case=EvalCase(eval_id="c", conversation=references or []), actual=turns, expected=references
    )

    async def asked() -> Result:
        async with open_models(QUICK, environ, models=["vertex-eval"]) as pool:
            assert await pool.prepare() == []
            return await build(criterion(metric, form), judge=Judge(model=pool)).score(conversation)

    return asyncio.run(asked())


@pytest.mark.parametrize("metric", JUDGED_BY_SERVICE)
def test_vertex_requests__requests_and_scores_are_those_of_googles_sdk(
    reference: Reference, service: FakeEvaluation, environ: dict[str, str], metric: str
) -> None:
    low, high = METRICS[metric].low, METRICS[metric].high
    seen: set[str] = set()
    for seed in range(16):
        rng = random.Random(f"{metric} {seed}")
        count = rng.randint(1, 3)
        actual, expected = [[turn(rng, number) for number in range(count)] for _ in range(2)]
        if not METRICS[metric].needs_reference and rng.random() < 0.3:
            expected = None  # type: ignore[assignment]
        threshold = rng.choice([low, (low + high) / 2, high])
        service.received.clear()

        theirs = reference.score(metric, actual, expected, {"threshold": threshold}, environ=environ)
        asked = [request.body for request in service.received]
        service.received.clear()
        result = ours(metric, threshold, actual, expected, environ)

        assert in_order(request.body for request in service.received) == in_order(asked), seed
        assert {(r.project, r.location) for r in service.received} == {("a-project", "europe-west4")}
        if isinstance(result, NotEvaluated):
            # A turn without a verdict: ADK leaves it out (docs/adk-compatibility.md has the row).
            assert None in theirs["turns"] or theirs["status"] == "NOT_EVALUATED", seed
            seen.add("not evaluated")
            continue
        assert isinstance(result, Scored)
        seen.add(theirs["status"])
        assert result.score == theirs["score"], seed
        assert list(result.turn_scores) == theirs["turns"], seed
        assert result.score is not None
        assert ("PASSED" if result.score >= threshold else "FAILED") == theirs["status"], seed
        matches = [[judgement.subject, judgement.score] for judgement in result.judgements if judgement.subject]
        assert matches == [rubric for rubric in theirs["rubrics"] if rubric[1] is not None], seed
    assert service.refused == []
    assert seen == {"PASSED", "FAILED", "not evaluated"}


@pytest.mark.parametrize("metric", ["safety_v1", "response_evaluation_score"])
def test_an_answer_without_text__ends_the_metric_in_adk_and_is_a_missing_verdict_here(
    reference: Reference, service: FakeEvaluation, environ: dict[str, str], metric: str
) -> None:
    service.script = lambda request: {"score": METRICS[metric].high}
    by_id: dict[str, Any] = {"user_content": {"parts": [{"text": "hi"}]}, "final_response": {"parts": [{"text": "ho"}]}}
    actual, expected = [by_id, {**by_id, "final_response": None}], [by_id, by_id]

    theirs = reference.score(metric, actual, expected, {"threshold": 1.0}, environ=environ)
    result = ours(metric, METRICS[metric].high, actual, expected, environ)

    assert "Response is required" in theirs["message"]
    assert isinstance(result, NotEvaluated) and result.code == "no-verdict"
    assert "without text" in result.facts["message"]
