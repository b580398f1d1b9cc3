"""Custom metrics against google-adk[eval]: the same functions, the same conversations, the same numbers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from adk_harness import host_spec
from adk_reference import Reference, interpreter

from agent_eval.agents.host import HostSpec
from agent_eval.agents.host.metric_hosts import MetricHosts
from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, NotEvaluated, Scored
from agent_eval.criteria.custom import CustomMetric
from agent_eval.evalset.models.schema import EvalCase

pytestmark = pytest.mark.conformance

INPUTS = 300
CONFIG: dict[str, Any] = {
    "criteria": {"seen": {"threshold": 0.4, "salt": "x"}, "fewer": 20, "raises": 0.5},
    "custom_metrics": {
        "seen": {"code_config": {"name": "measured.seen"}},
        "fewer": {"code_config": {"name": "measured.fewer"}},
        "raises": {"code_config": {"name": "measured.raises"}},
    },
}
FUNCTIONS = """
import asyncio, hashlib
from google.adk.evaluation.eval_metrics import EvalStatus
from google.adk.evaluation.evaluator import EvaluationResult, PerInvocationResult

# What the numbers depend on is everything that ADK passes, as ADK itself writes it.
def fraction(text):
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) / 2**32

def result(scores, passes, actual):
    status = lambda score: EvalStatus.PASSED if passes(score) else EvalStatus.FAILED
    overall = sum(scores) / len(scores)
    return EvaluationResult(
        overall_score=overall,
        overall_eval_status=status(overall),
        per_invocation_results=[
            PerInvocationResult(actual_invocation=one, score=score, eval_status=status(score))
            for one, score in zip(actual, scores)
        ],
    )

def seen(metric, actual, expected, scenario):
    text = metric.model_dump_json() + repr(scenario)
    scores = [
        fraction(text + one.model_dump_json() + other.model_dump_json()) for one, other in zip(actual, expected)
    ]
    return result(scores, lambda score: score >= metric.criterion.threshold, actual)

async def fewer(metric, actual, expected, scenario):
    await asyncio.sleep(0)
    scores = [float(len(one.model_dump_json())) % 40 for one in actual]
    return result(scores, lambda score: score <= metric.criterion.threshold, actual)

def raises(metric, actual, expected, scenario):
    raise RuntimeError("no")
"""


def turn(draw: random.Random) -> dict[str, Any]:
    words = ["yes", "no", "naïve", "天气", "", "a\\nb", "<b>"]
    args: list[dict[str, Any]] = [{}, {"a": [1, 2.5, None, True]}, {"b": "ü", "n": None}]
    call = {"name": draw.choice(["f", "g"]), "args": draw.choice(args)}
    events = [{"author": "a", "content": {"role": "model", "parts": [{"function_call": call}]}}]
    return {
        "invocation_id": draw.choice(["", "i"]),
        "user_content": {"role": "user", "parts": [{"text": draw.choice(words)}]},
        "final_response": draw.choice([None, {"role": "model", "parts": [{"text": draw.choice(words)}]}]),
        "intermediate_data": draw.choice([None, {"tool_uses": [call]}, {"invocation_events": events}]),
        "creation_timestamp": draw.choice([0.0, 12.5]),
    }


async def test_custom_metrics__a_custom_metric_gives_what_it_gives_in_adk(tmp_path: Path, reference: Reference) -> None:
    draw = random.Random(7)
    (tmp_path / "measured.py").write_text(FUNCTIONS, encoding="utf-8")
    inputs: list[dict[str, Any]] = []
    for _ in range(INPUTS):
        turns = draw.randint(1, 4)
        actual, expected = ([turn(draw) for _ in range(turns)] for _ in range(2))
        metric = draw.choices(["seen", "fewer", "raises"], [6, 3, 1])[0]
        inputs.append({"metric": metric, "actual": actual, "expected": expected})
    adks = reference.ask("custom_scores", path=str(tmp_path), config=CONFIG, inputs=inputs)

    async def spec() -> HostSpec:
        return host_spec("agent", tmp_path, python=interpreter(), root=tmp_path, start_timeout=120, role="metrics")

    hosts = MetricHosts(spec, name="metrics", timeout=60)
    try:
        for item, theirs in zip(inputs, adks, strict=True):
            given = CONFIG["criteria"][item["metric"]]
            form = given if isinstance(given, dict) else {"threshold": given}
            happened = [Invocation.model_validate(turn) for turn in item["actual"]]
            wanted = [Invocation.model_validate(turn) for turn in item["expected"]]
            scorer = CustomMetric(
                name=item["metric"],
                threshold=form["threshold"],
                function=CONFIG["custom_metrics"][item["metric"]]["code_config"]["name"],
                options={name: value for name, value in form.items() if name != "threshold"},
            )
            case = EvalCase(eval_id="e", conversation=wanted)
            ours = await scorer.score(Conversation(case=case, actual=happened, expected=wanted, metrics=hosts))
            if "raised" in theirs:
                assert isinstance(ours, NotEvaluated), item
                assert ours.code == "custom-metric-exception"
                continue
            assert isinstance(ours, Scored), (item, ours)
            assert ours.score == theirs["score"], item
            assert ("PASSED" if ours.passed else "FAILED") == theirs["status"]
            assert list(ours.turn_scores) == theirs["turns"]
    finally:
        await hosts.close()
    assert {item.get("status", "raised") for item in adks} == {"PASSED", "FAILED", "raised"}
