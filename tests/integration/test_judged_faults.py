"""Judged criteria against a failing provider: no wrong or invented verdicts, and a dead judge is named."""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from typing import Any

import pytest
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest
from models_support import QUICK, pool_at, quick

from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, NotEvaluated, Result, Scored
from agent_eval.criteria.judged.judge import Judge
from agent_eval.criteria.registry import build
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import EvalCase
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models.settings import ModelSettings
from agent_eval.net.retry import Retry

METRIC = "final_response_match_v2"
CASES = 40


def _conversation(case: int) -> Conversation:
    turns = [
        Invocation(user_content=user_message(f"case {case} turn {number}"), final_response=model_message("x"))
        for number in range(3)
    ]
    return Conversation(case=EvalCase(eval_id=f"c{case}", conversation=turns), actual=turns, expected=turns)


def _truth(case: int, turn: int) -> bool:
    return (case * 7 + turn * 3) % 4 > 0


def _answer(request: GenerateRequest) -> Answer:
    place = re.search(r"case (\d+) turn (\d+)", request.user_texts[-1])
    assert place
    verdict = "valid" if _truth(int(place[1]), int(place[2])) else "invalid"
    return Answer.text(json.dumps({"reasoning": "so", "verdict": verdict}))


class Troubled:
    """30% of 429, 10% of 503, 5% dropped, 5% prose, 5% cut short."""

    def __init__(self) -> None:
        self._random = random.Random(1)
        self.troubles = 0

    def __call__(self, request: GenerateRequest) -> Answer | Fault:
        roll = self._random.random()
        self.troubles += roll < 0.55
        if roll < 0.3:
            return Fault(kind=429, retry_after=0)
        if roll < 0.4:
            return Fault(kind=503)
        if roll < 0.45:
            return Fault(kind="reset")
        good = _answer(request)
        if roll < 0.5:
            return Answer.text("I think that the answer is valid.")
        if roll < 0.55:
            return Answer.text(str(good.parts[0]["text"])[:-9])
        return good


def _judge_all(server: FakeGemini, settings: ModelSettings, cases: int = CASES, **options: Any) -> list[Result]:
    async def judge() -> list[Result]:
        form = {"threshold": 1.0, "judge_model_options": {"num_samples": 3, **options}}
        config = criterion(METRIC, CRITERION_MODELS[METRIC].model_validate(form))
        async with pool_at(server, settings) as pool:
            scorer = build(config, judge=Judge(model=pool))
            return await asyncio.gather(*(scorer.score(_conversation(case)) for case in range(cases)))

    return asyncio.run(asyncio.wait_for(judge(), 60))


@pytest.mark.slow
def test_troubles__cost_calls_and_no_verdicts() -> None:
    troubled = Troubled()
    settings = quick(retry=Retry(first=0.01, longest=0.05, attempts=8))
    with FakeGemini(troubled) as server:
        results = _judge_all(server, settings)

    assert troubled.troubles > 100
    for case, result in enumerate(results):
        truth = [1.0 if _truth(case, turn) else 0.0 for turn in range(3)]
        if isinstance(result, Scored):
            scores = [(score, true) for score, true in zip(result.turn_scores, truth, strict=True) if score is not None]
            assert [score for score, _ in scores] == [true for _, true in scores]
            assert (result.score == 1.0) == all(true == 1.0 for true in truth)
    scored = [result for result in results if isinstance(result, Scored)]
    assert len(scored) > 0.9 * CASES
    assert sum(result.details["judge"]["calls"] for result in scored) > 6 * len(scored), "retries are counted"


@pytest.mark.slow
@pytest.mark.parametrize("fault", [503, "reset"])
def test_a_judge_that_refuses_every_call__is_reported_as_unavailable(fault: Any) -> None:
    settings = quick(call_timeout=30.0)
    with FakeGemini(lambda _: Fault(kind=fault)) as server:
        results = _judge_all(server, settings, cases=4)

    assert [result.code for result in results if isinstance(result, NotEvaluated)] == ["judge-unavailable"] * 4


def test_a_judge_that_hangs__is_reported_in_time() -> None:
    settings = quick(attempt_timeout=0.2, call_timeout=0.6)
    begun = time.monotonic()
    with FakeGemini(lambda _: Fault(kind="hang")) as server:
        results = _judge_all(server, settings, cases=4)

    assert time.monotonic() - begun < 20
    codes = [result.code for result in results if isinstance(result, NotEvaluated)]
    assert len(codes) == 4
    assert set(codes) <= {"judge-deadline", "judge-unavailable"}


def test_a_judge_that_only_talks__gives_no_score() -> None:
    with FakeGemini(lambda _: Answer.text('The verdict is "valid".')) as server:
        [result] = _judge_all(server, QUICK, cases=1)

    assert isinstance(result, NotEvaluated)
    assert result.code == "judge-malformed"


def test_a_refused_key__ends_at_once() -> None:
    with FakeGemini(lambda _: Fault(kind=403, message="no access")) as server:
        [result] = _judge_all(server, QUICK, cases=1, num_samples=9)
        assert server.stats.requests <= 15, "no second wave"

    assert isinstance(result, NotEvaluated)
    assert result.code == "judge-invalid-request"
    assert "no access" in result.facts["message"]
