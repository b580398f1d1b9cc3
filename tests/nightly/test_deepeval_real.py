"""The adapter for DeepEval with the real package and a judge on loopback; also under `adk eval` itself."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest
from adk_envs import packages_python
from gate_runs import program
from upload_server import Received, Reply, upload_server

from agent_eval_agents.host import ADAPTERS

pytestmark = pytest.mark.nightly
VERSION = "4.3.1"
VEADK = "1.1.19"  # Needs google-adk 2.7.1, which has fewer fields of a turn than newer ones.
[ADAPTER] = ADAPTERS
ROOT = Path(__file__).parents[2]
VECTORS = json.loads((Path(__file__).parents[1] / "data/vectors/deepeval_tools.json").read_text("utf-8"))
FLAGS: dict[str, dict[str, object]] = {
    "default": {},
    "ordering": {"should_consider_ordering": True},
    "exact": {"should_exact_match": True},
}
GEVAL = {
    "threshold": 0.8,
    "metric": "GEval",
    "criteria": "Is it right?",
    "evaluation_params": ["input", "actual_output"],
}
TURN: dict[str, Any] = {"user": "on", "answer": "done", "expected": "done", "calls": [], "expected_calls": []}


@pytest.fixture(scope="module")
def python() -> Path:
    return packages_python(f"deepeval-{VERSION}", "google-adk[eval]==2.13.0", f"deepeval=={VERSION}")


def judged(request: Received) -> Reply:
    """Two answers in one: the steps that GEval asks for first, and the score 8 of 10."""
    content = json.dumps({"steps": ["compare"], "score": 8, "reason": "nearly complete"})
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return Reply(
        body={"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
    )


def environment(tmp_path: Path, url: str) -> dict[str, str]:
    """Without a key of OpenAI; with a key that would upload results, and a .env that would configure a judge."""
    (tmp_path / ".env").write_text("OPENAI_API_KEY=from-dotenv\n", "utf-8")
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "CONFIDENT_API_KEY": "confident",
        "DEEPEVAL_JUDGE_MODEL": "m",
        "DEEPEVAL_JUDGE_BASE_URL": f"{url}/v1",
        "DEEPEVAL_JUDGE_API_KEY": "k-123456",
    }


def tool_calls() -> tuple[list[dict[str, Any]], list[float]]:
    calls, scores = [], []
    for vector in VECTORS["tool_correctness"]:
        for name, score in vector["scores"].items():
            flag, _, arguments = name.partition("+")
            criterion = {"threshold": 0.5, "metric": "ToolCorrectnessMetric", **FLAGS[flag]}
            if arguments:
                criterion["evaluation_params"] = ["input_parameters"]
            turn = {**TURN, "calls": vector["actual"], "expected_calls": vector["expected"]}
            calls.append({"criterion": criterion, "turns": [turn]})
            scores.append(score)
    return calls, scores


def test_adapter__real_metrics_on_loopback_only(python: Path, tmp_path: Path) -> None:
    calls, scores = tool_calls()
    judged_calls = [
        {"criterion": GEVAL, "turns": [TURN, TURN]},
        {"criterion": {**GEVAL, "bogus": 1}, "turns": [TURN]},
        {"criterion": {"threshold": 0.5, "metric": "HallucinationMetric"}, "turns": [TURN]},
    ]
    with upload_server(judged) as server:
        worker, asked = Path(__file__).with_name("deepeval_worker.py"), json.dumps(calls + judged_calls)
        env = environment(tmp_path, server.url)
        done = program(python, worker, ADAPTER, asked, cwd=tmp_path, env=env, timeout=300)

    result = json.loads(done.stdout.splitlines()[-1])
    answers = result["answers"]
    assert [answer[0] for answer in answers[: len(scores)]] == pytest.approx(scores, abs=1e-6)
    geval, bogus, hallucination = answers[len(scores) :]
    assert geval == [0.8, "PASSED"]
    assert bogus[0] == "TypeError"
    assert "GEval has no argument `bogus`. Its signature is GEval(name: str," in bogus[1]
    assert hallucination[:2] == [None, "NOT_EVALUATED"]
    assert "'context' cannot be None" in hallucination[2]
    assert result["version"] == f"deepeval {VERSION}"
    assert set(result["hosts"]) <= {"127.0.0.1"}
    assert len(server.received) == 4  # Two calls for each turn of GEval.
    assert {request.headers["authorization"] for request in server.received} == {"Bearer k-123456"}
    assert sorted(path.name for path in tmp_path.iterdir()) == [".env"]


def test_adapter__under_adk_eval(python: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "__init__.py").write_text("from . import agent\n", "utf-8")
    (home / "agent.py").write_text(AGENT, "utf-8")
    (home / "agent_eval_deepeval.py").write_text(ADAPTER.read_text("utf-8"), "utf-8")
    case = {
        "eval_id": "on",
        "conversation": [
            {
                "user_content": {"role": "user", "parts": [{"text": "on"}]},
                "final_response": {"role": "model", "parts": [{"text": "done"}]},
            }
        ],
        "session_input": {"app_name": "home", "user_id": "u"},
    }
    (home / "a.evalset.json").write_text(json.dumps({"eval_set_id": "a", "eval_cases": [case]}), "utf-8")
    config = {
        "criteria": {"quality": GEVAL},
        "custom_metrics": {"quality": {"code_config": {"name": "home.agent_eval_deepeval.metric"}}},
    }
    (home / "test_config.json").write_text(json.dumps(config), "utf-8")
    with upload_server(judged) as server:
        files = ("home/a.evalset.json", "--config_file_path=home/test_config.json")
        env = environment(tmp_path, server.url) | {"PYTHONPATH": str(tmp_path)}
        done = program(python.with_name("adk"), "eval", "home", *files, code=None, cwd=tmp_path, env=env, timeout=300)

    assert "Tests passed: 1" in done.stdout, done.stdout + done.stderr
    assert len(server.received) == 2


AGENT = """
from google.adk.agents import BaseAgent
from google.adk.events import Event
from google.genai import types


class Home(BaseAgent):
    async def _run_async_impl(self, context):
        yield Event(author=self.name, content=types.Content(role="model", parts=[types.Part(text="done")]))


root_agent = Home(name="home")
"""


SHOP = """
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.genai import types


class Scripted(BaseLlm):
    async def generate_content_async(self, llm_request, stream=False):
        done = llm_request.contents[-1].parts[-1].function_response
        call = types.Part.from_function_call(name="track", args={"order": 7})
        part = types.Part(text="On its way.") if done else call
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def track(order: int) -> str:
    \"""Says where an order is.\"""
    return "on its way"


root_agent = LlmAgent(name="shop", model=Scripted(model="scripted"), tools=[track])
"""


def test_evaluator__as_a_test_of_veadk_calls_it(tmp_path: Path) -> None:
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    python = packages_python(f"veadk-{VEADK}-forms-{VERSION}", f"veadk-python=={VEADK}", f"deepeval=={VERSION}", *ours)
    (tmp_path / "ecommerce_agent").mkdir()
    (tmp_path / "ecommerce_agent/__init__.py").write_text("from . import agent\n", "utf-8")
    (tmp_path / "ecommerce_agent/agent.py").write_text(SHOP, "utf-8")
    (tmp_path / "tests").mkdir()
    for name, tool in (("simple", "track"), ("two", "cancel")):
        turn = {
            "user_content": {"role": "user", "parts": [{"text": "Where is it?"}]},
            "final_response": {"role": "model", "parts": [{"text": "On its way."}]},
            "intermediate_data": {"tool_uses": [{"name": tool, "args": {"order": 7}}]},
        }
        content = {"eval_set_id": name, "eval_cases": [{"eval_id": "track", "conversation": [turn]}]}
        (tmp_path / f"tests/{name}.test.json").write_text(json.dumps(content), "utf-8")
    with upload_server(judged) as server:
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "MODEL_JUDGE_API_BASE": f"{server.url}/v1",
            "MODEL_JUDGE_API_KEY": "k-123456",
            "PYTHONPATH": os.pathsep.join(map(str, (tmp_path, *ROOT.glob("src/*")))),
        }
        worker = Path(__file__).with_name("veadk_forms_worker.py")
        done = program(python, worker, cwd=tmp_path, env=env, timeout=300)
    passed, scores, failure = done.stdout.splitlines()[-3:]
    assert passed == "[('tool_trajectory_avg_score', 1.0), ('response_match_score', 1.0)]", done.stdout
    assert scores == "[('Base Evaluation', 0.8, True), ('ToolCorrectnessMetric', 1.0, True)]", done.stdout
    assert failure.startswith("tests/two.test.json:track, turn 1: ToolCorrectnessMetric 0.00 failed: ")
    assert len(server.received) == 3  # The steps of GEval once, and a score for each turn.
