"""Judged scores against google-adk[eval]: the same verdict for the same turn, rubric and sample on both sides."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from adk_reference import Reference, status_of
from judged_cases import (
    FAILED_SAMPLE,
    FAILS,
    GARBAGE,
    MISSING_VERDICT,
    TURN_RUBRICS,
    TYPES,
    Drawn,
    OurJudge,
    adk_script,
    draw,
    find_rows,
)

from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.criteria.base import Conversation, NotEvaluated, Result
from agent_eval_scoring.criteria.judged.judge import Judge
from agent_eval_scoring.criteria.judged.quality import JUDGE_SPECS
from agent_eval_scoring.criteria.registry import build
from agent_eval_scoring.evalset.models.criteria import CRITERION_MODELS
from agent_eval_scoring.evalset.models.schema import EvalCase
from agent_eval_scoring.evalset.parse.criteria import criterion
from agent_eval_scoring.models.protocol import Model

pytestmark = pytest.mark.conformance

CONVERSATIONS = 400
JUDGED = ("final_response_match_v2", *TYPES, "hallucinations_v1", "per_turn_user_simulator_quality_v1", *JUDGE_SPECS)
"""The last five ADK sends to Vertex AI, whose answers are stubbed."""


def theirs(reference: Reference, drawn: Drawn) -> dict[str, Any]:
    more: dict[str, Any] = {"service": drawn.service}
    if not drawn.service:
        more = {"script": adk_script(drawn), "case_rubrics": drawn.case_rubrics, "scenario": drawn.scenario}
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


@pytest.mark.parametrize("metric", JUDGED)
def test_judged_scores__are_adks(reference: Reference, metric: str) -> None:
    exempt: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    calls = full = 0
    seeds = range(CONVERSATIONS if metric not in JUDGE_SPECS else CONVERSATIONS // 4)
    for seed in seeds:
        drawn = draw(metric, seed)
        judge = OurJudge(drawn)
        adks, result = theirs(reference, drawn), ours(drawn, judge)
        status = status_of(None if isinstance(result, NotEvaluated) else result.score, drawn.criterion["threshold"])
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
            if drawn.metric != "hallucinations_v1" and not drawn.service:
                calls, full = calls + sum(judge.first.values()), full + adks["calls"]
                assert adks["calls"] == sum(map(len, drawn.samples.values()))

    exempted = sum(bool(draw(metric, seed).rows) for seed in seeds)
    assert exempted <= len(seeds) / 4, exempt
    assert min(statuses["PASSED"], statuses["FAILED"]) > len(seeds) / 10, statuses
    if full:
        assert calls < 0.85 * full, "votes stop when they are decided"


# --- each row by itself -----------------------------------------------------------------------------------------------


QUALITY = "rubric_based_final_response_quality_v1"
RUBRICS = {
    name: {"rubrics": [{"rubric_id": name, "rubric_content": {"text_property": name}, "type": TYPES[QUALITY]}]}
    for name in ("a", "b")
}
Asked = tuple[list[str], list[Any], dict[str, Any]]
"""Of a turn: subjects, samples, more of what is expected."""


@pytest.mark.parametrize(
    ("row", "metric", "turns", "adks", "here"),
    [
        # Voids the turn there, drops out here.
        (FAILED_SAMPLE, "final_response_match_v2", [([""], [["yes"], FAILS, *[["yes"]] * 3], {})], None, 1.0),
        # Mixed up there, so that the turn that fails is left out; kept apart here.
        (TURN_RUBRICS, QUALITY, [(["a"], [["no"]], RUBRICS["a"]), (["b"], [["yes"]], RUBRICS["b"])], 1.0, 0.5),
        # Left out there; never passes here.
        (MISSING_VERDICT, "final_response_match_v2", [([""], [["yes"]], {}), ([""], [GARBAGE], {})], 1.0, None),
    ],
)
def test_row__differs_as_documented(
    reference: Reference, row: str, metric: str, turns: list[Asked], adks: float | None, here: float | None
) -> None:
    options = {"judge_model": "scripted-judge", "num_samples": len(turns[0][1])}
    criterion = {"threshold": 0.8, "judge_model_options": options}
    drawn = Drawn(metric=metric, criterion=criterion, actual=[], expected=(wanted := []))
    for number, (subjects, samples, expected) in enumerate(turns):
        key = f"@@T{number}@@"
        turn = {"user_content": {"parts": [{"text": key}]}, "final_response": {"parts": [{"text": "x"}]}}
        drawn.actual.append(turn)
        wanted.append({**turn, **expected})
        drawn.subjects[key], drawn.samples[key] = subjects, samples

    result = ours(drawn, OurJudge(drawn))

    assert theirs(reference, drawn)["score"] == adks
    assert (None if isinstance(result, NotEvaluated) else result.score) == here
    find_rows(drawn)
    assert drawn.rows == {row}
