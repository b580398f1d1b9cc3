"""VeADK's `ADKEvaluator`, with the words of a test that was written for VeADK; google-adk's agent in a real process."""

from __future__ import annotations

import asyncio
import importlib
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import adk_python

from agent_eval import EvalFailed
from agent_eval_workbench.veadk import ADKEvaluator, MetricsFailed, Score, Scores

AGENT = """
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Shop(BaseAgent):
    async def _run_async_impl(self, context):
        part = types.Part(text="Order 7 is on its way.")
        content = types.Content(role="model", parts=[part])
        yield Event(author=self.name, invocation_id=context.invocation_id, content=content)


root_agent = Shop(name="shop")
"""
STUB = "class Agent: pass\nroot_agent = Agent()\n"
"""What the test imports: there is no google-adk here. The source of the agent is found by its module."""


def eval_set(answer: str) -> dict[str, Any]:
    turn = {"user_content": {"parts": [{"text": "Where is it?"}]}, "final_response": {"parts": [{"text": answer}]}}
    return {"eval_set_id": "simple", "eval_cases": [{"eval_id": "track", "conversation": [turn]}]}


@pytest.fixture
def root_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forked_engine: None) -> Iterator[Any]:
    package = tmp_path / "ecommerce_agent"
    package.mkdir()
    (package / "__init__.py").write_text("", "utf-8")
    (package / "agent.py").write_text(STUB, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    python = shlex.join(host_forks.command(adk_python()))
    monkeypatch.setattr("agent_eval.api._run.default_options", lambda: {"agent-python": python})
    agent = importlib.import_module("ecommerce_agent.agent").root_agent
    (package / "agent.py").write_text(AGENT, "utf-8")
    yield agent
    for name in ("ecommerce_agent", "ecommerce_agent.agent"):
        sys.modules.pop(name, None)


def test_adk_evaluator__awaited_or_not(root_agent: Any, capsys: pytest.CaptureFixture[str]) -> None:
    async def test() -> Any:
        evaluator = ADKEvaluator(agent=root_agent)
        return await evaluator.evaluate(
            eval_set=eval_set("Order 7 is on its way."),
            response_match_score_threshold=1,
            tool_score_threshold=0.5,
            num_runs=1,
            print_detailed_results=True,
        )

    results, failures = asyncio.run(test())
    assert failures == []
    [[tools, words]] = results
    assert (tools.metric_name, tools.overall_score, tools.threshold) == ("tool_trajectory_avg_score", 1.0, 0.5)
    assert (words.metric_name, words.overall_score, words.passed) == ("response_match_score", 1.0, True)
    assert "Passed: the only case passes" in capsys.readouterr().out

    broken = ADKEvaluator("ecommerce_agent")
    with pytest.raises(EvalFailed) as raised:  # without `await`
        broken.evaluate(eval_set=eval_set("It was lost."), num_runs=1)
    assert "response_match_score" in str(raised.value) and "agent-eval show" not in str(raised.value)
    _, [failure] = broken.evaluate(eval_set=eval_set("It was lost."), num_runs=1, check=False)
    assert failure.startswith("response_match_score for ") and "Failed. Expected 0.8, but got 0." in failure


def test_adk_evaluator__refuses() -> None:
    with pytest.raises(TypeError, match="The source of this object can't be found"):
        ADKEvaluator(object())
    with pytest.raises(ValueError, match="eval_set or eval_set_file_path is required"):
        ADKEvaluator("ecommerce_agent").evaluate()
    with pytest.raises(TypeError, match="must be an eval set of ADK or a mapping, not int"):
        ADKEvaluator("ecommerce_agent").evaluate(eval_set=3)


def test_scores__can_be_awaited_and_failures_are_named() -> None:
    score = Score(
        case_id="a:b", turn=1, metric_name="GEval", threshold=0.5, overall_score=0.25, passed=False, reason="No"
    )
    lost = Score(case_id="a:c", metric_name="GEval", threshold=0.5, overall_score=None, passed=False, reason="HTTP 429")
    scores = Scores([score, lost])
    assert asyncio.run(scores) is scores
    assert str(MetricsFailed(scores)).splitlines() == [
        "a:b, turn 2: GEval 0.25 failed: No",
        "a:c, turn 1: GEval could not be measured: HTTP 429",
    ]
