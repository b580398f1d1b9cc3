"""Judged scores against google-adk[eval]: the same verdict for the same turn, rubric and sample on both sides."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from adk_reference import Reference
from judged_cases import (
    FAILED_SAMPLE,
    FAILS,
    MISSING_VERDICT,
    TURN_RUBRICS,
    TYPES,
    Drawn,
    OurJudge,
    adk_script,
    draw,
    find_rows,
)

from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, NotEvaluated, Result
from agent_eval.criteria.judged.judge import Judge
from agent_eval.criteria.judged.quality import JUDGE_SPECS
from agent_eval.criteria.registry import build
from agent_eval.evalset.models.criteria import CRITERION_MODELS
from agent_eval.evalset.models.schema import EvalCase
from agent_eval.evalset.parse.criteria import criterion
from agent_eval.models.protocol import Model

pytestmark = pytest.mark.conformance

CONVERSATIONS = 400
JUDGED = ("final_response_match_v2", *TYPES, "hallucinations_v1", "per_turn_user_simulator_quality_v1")


def theirs(reference: Reference, drawn: Drawn, **more: Any) -> dict[str, Any]:
    more = more or {"script": adk_script(drawn), "case_rubrics": drawn.case_rubrics, "scenario": drawn.scenario}
    return reference.score(drawn.metric, drawn.actual, drawn.expected, drawn.criterion, **more)


def ours(drawn: Drawn, model: Model) -> Result:
    config = criterion(drawn.metric, CRITERION_MODELS[drawn.metric].model_validate(drawn.criterion))
    turns = [Invocation.model_validate(turn) for turn in drawn.actual]
    expected = None if drawn.expected is None else [Invocation.model_validate(turn) for turn in drawn.expected]
    case = EvalCase.model_validate(
        {
            "eval_id": "c",
            "conversation": None if drawn.scenario else [],
            "conversation_scenario": drawn.scenario,
            "rubrics": drawn.case_rubrics or None,
        }
    )
    conversation = Conversation(case=case, actual=turns, expected=expected)
    return asyncio.run(build(config, judge=Judge(model=model)).score(conversation))


def _status(result: Result, threshold: float) -> str:
    if isinstance(result, NotEvaluated) or result.score is None:
        return "NOT_EVALUATED"
    return "PASSED" if result.score >= threshold else "FAILED"


@pytest.mark.parametrize("metric", JUDGED)
def test_judged_scores__are_adks(reference: Reference, metric: str) -> None:
    exempt: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    calls = full = 0
    for seed in range(CONVERSATIONS):
        drawn = draw(metric, seed)
        judge = OurJudge(drawn)
        adks, result = theirs(reference, drawn), ours(drawn, judge)
        status = _status(result, drawn.criterion["threshold"])
        statuses[status] += 1
        exempt.update(drawn.rows)
        if drawn.rows - {MISSING_VERDICT}:
            continue
        if MISSING_VERDICT in drawn.rows and isinstance(result, NotEvaluated):
            continue  # Where the gaps can't matter there is a score, and it is ADK's: checked below.
        assert status == adks.get("status", "NOT_EVALUATED"), (seed, result, adks)
        if not isinstance(result, NotEvaluated):
            assert result.score == adks["score"], seed
            assert list(result.turn_scores) == adks["turns"], seed
            if drawn.metric != "hallucinations_v1":
                calls, full = calls + sum(judge.first.values()), full + adks["calls"]
                assert adks["calls"] == drawn.full_calls

    exempted = sum(bool(draw(metric, seed).rows) for seed in range(CONVERSATIONS))
    assert exempted <= CONVERSATIONS / 4, exempt
    assert min(statuses["PASSED"], statuses["FAILED"]) > CONVERSATIONS / 10, statuses
    if metric != "hallucinations_v1":
        assert calls < 0.85 * full, "votes stop when they are decided"


# --- each row by itself -----------------------------------------------------------------------------------------------


def _fixed(metric: str, samples: int, threshold: float = 0.5) -> Drawn:
    options = {"judge_model": "scripted-judge", "num_samples": samples}
    return Drawn(
        metric=metric,
        criterion={"threshold": threshold, "judge_model_options": options},
        actual=[],
        expected=[],
    )


def _add_turn(drawn: Drawn, key: str, subjects: list[str], samples: list[Any], **expected: Any) -> None:
    assert drawn.expected is not None
    turn = {"user_content": {"parts": [{"text": key}]}, "final_response": {"parts": [{"text": "x"}]}}
    drawn.actual.append(turn)
    drawn.expected.append({**turn, **expected})
    drawn.subjects[key], drawn.samples[key] = subjects, samples


def test_a_failed_sample__voids_the_turn_in_adk_and_drops_out_here(reference: Reference) -> None:
    drawn = _fixed("final_response_match_v2", 5)
    _add_turn(drawn, "@@T0@@", [""], [["yes"], FAILS, ["yes"], ["yes"], ["yes"]])

    result = ours(drawn, OurJudge(drawn))

    assert theirs(reference, drawn)["status"] == "NOT_EVALUATED"
    assert not isinstance(result, NotEvaluated)
    assert result.score == 1.0
    assert draw_rows(drawn) == {FAILED_SAMPLE}


def test_rubrics_of_turns__are_mixed_up_by_adk_and_kept_apart_here(reference: Reference) -> None:
    drawn = _fixed("rubric_based_final_response_quality_v1", 1)
    for number, (rubric, word) in enumerate([("a", "no"), ("b", "yes")]):
        rubrics = [{"rubric_id": rubric, "rubric_content": {"text_property": rubric}, "type": "FINAL_RESPONSE_QUALITY"}]
        _add_turn(drawn, f"@@T{number}@@", [rubric], [[word]], rubrics=rubrics)

    result = ours(drawn, OurJudge(drawn))

    assert theirs(reference, drawn)["score"] == 1.0, "the turn that fails is left out"
    assert not isinstance(result, NotEvaluated)
    assert (result.score, result.turn_scores) == (0.5, (0.0, 1.0))
    assert draw_rows(drawn) == {TURN_RUBRICS}


def test_a_turn_without_a_verdict__is_left_out_by_adk_and_never_passes_here(reference: Reference) -> None:
    drawn = _fixed("final_response_match_v2", 3, threshold=0.8)
    _add_turn(drawn, "@@T0@@", [""], [["yes"]] * 3)
    _add_turn(drawn, "@@T1@@", [""], ["garbage"] * 3)

    result = ours(drawn, OurJudge(drawn))

    assert theirs(reference, drawn)["status"] == "PASSED"
    assert isinstance(result, NotEvaluated)
    assert draw_rows(drawn) == {MISSING_VERDICT}


def draw_rows(drawn: Drawn) -> set[str]:
    find_rows(drawn)
    return drawn.rows


# --- the five that ADK sends to Vertex AI, with its remote call stubbed ---------------------------------------------


@pytest.mark.parametrize("metric", JUDGE_SPECS)
def test_metrics_of_vertex__come_from_turns_to_cases_as_adks(reference: Reference, metric: str) -> None:
    spec = JUDGE_SPECS[metric]
    words = {score: word for word, score in spec.scale.items()}
    statuses: Counter[str] = Counter()
    exempt = 0
    for seed in range(100):
        rng = random.Random(f"{metric} {seed}")
        low, high = spec.span
        threshold = rng.choice([low, low + (high - low) / 3, low + (high - low) / 2, high])
        drawn = _fixed(metric, 1, threshold)
        for number in range(rng.randint(1, 4)):
            _add_turn(drawn, f"@@T{number}@@", [""], [])
        asked = list(drawn.samples)[-1:] if spec.conversation else list(drawn.samples)
        scores = [rng.choice([*words, *words, None]) for _ in asked]
        for key, value in zip(asked, scores, strict=True):
            drawn.samples[key] = ["garbage" if value is None else [words[value]]]

        result = ours(drawn, OurJudge(drawn))

        adks = theirs(reference, drawn, service=scores)
        status = _status(result, threshold)
        if None in scores and isinstance(result, NotEvaluated):
            exempt += adks["status"] != "NOT_EVALUATED"
            continue
        statuses[status] += 1
        assert status == adks["status"], seed
        assert not isinstance(result, NotEvaluated)
        assert result.score == adks["score"], seed
        assert list(result.turn_scores) == adks["turns"], seed

    assert exempt <= 25
    assert min(statuses["PASSED"], statuses["FAILED"]) > 10, statuses
