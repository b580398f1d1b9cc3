"""The adapter for DeepEval in the process of the custom metrics, with a stand-in for the package.

The stand-in shows what it was given; `tests/nightly/test_deepeval_real.py` has the real package.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES, adk_python

from agent_eval.agents.host import ADAPTERS, HostSpec, MetricHosts
from agent_eval.agents.messages import Evaluated
from agent_eval.agents.protocol import MetricCall, MetricFailure, MetricFailureKind
from agent_eval.agents.sandbox.spawn import Sandbox
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.core.masking import Masker
from agent_eval.runner import function_source

STAND_IN = FIXTURES / "deepeval_stand_in"
CALL = {"id": "c1", "name": "set", "args": {"on": True}}
REPLY = {"id": "c1", "name": "set", "response": {"status": "ok"}}


def turn(user: str, answer: str, *, calls: bool = False) -> Invocation:
    parts = [{"function_call": CALL}, {"function_response": REPLY}] if calls else []
    return Invocation.model_validate(
        {
            "user_content": user_message(user),
            "final_response": model_message(answer),
            "intermediate_data": {"invocation_events": [{"author": "a", "content": {"role": "model", "parts": parts}}]},
            "duration": 1.5,
        }
    )


ACTUAL = [turn("on", "done", calls=True), turn("off", "no")]
EXPECTED = [turn("on", "done", calls=True), turn("off", "yes")]


@asynccontextmanager
async def hosts(tmp_path: Path, **variables: str) -> AsyncIterator[MetricHosts]:
    async def spec() -> HostSpec:
        environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(STAND_IN), **variables}
        return HostSpec(
            python=[str(adk_python())],
            agent_path=str(FIXTURES / "checks"),
            root=FIXTURES,
            sandbox=Sandbox(environment=environment),
            masker=Masker([]),
            log_dir=tmp_path,
            start_timeout=120,
            role="metrics",
        )

    runner = MetricHosts(spec, name="metrics", timeout=60)
    try:
        yield runner
    finally:
        await runner.close()


async def evaluate(runner: MetricHosts, metric: str, **fields: Any) -> Evaluated:
    criterion = {"threshold": 0.5, "metric": metric, **fields}
    return await runner.evaluate(
        MetricCall(
            metric="mine",
            function="agent_eval_deepeval.metric",
            criterion=criterion,
            actual=ACTUAL,
            expected=EXPECTED,
            scenario=None,
        )
    )


async def error(runner: MetricHosts, metric: Any, **fields: Any) -> MetricFailure:
    with pytest.raises(MetricFailure) as caught:
        await evaluate(runner, metric, **fields)
    return caught.value


async def test_adapter__scores_turns_and_refuses_what_it_can_not_use(tmp_path: Path) -> None:
    judge = {"DEEPEVAL_JUDGE_MODEL": "m", "DEEPEVAL_JUDGE_BASE_URL": "http://j/v1", "DEEPEVAL_JUDGE_API_KEY": "k"}
    async with hosts(tmp_path, **judge, CONFIDENT_API_KEY="uploads") as runner:
        shows = await evaluate(runner, "Shows", evaluation_params=["input"])
        other = await evaluate(runner, "Shows", name="Mine", model="other", retrieval_context=["a page"])
        flips = await evaluate(runner, "Flips")
        talks = await evaluate(runner, "Talks", chatbot_role="a home")
        missing = {metric: await evaluate(runner, metric) for metric in ("Unavailable", "NoScore", "Fails")}
        errors = [
            await error(runner, "Shows", bogus=1),
            await error(runner, "Shows", evaluation_params=["inptu"]),
            await error(runner, "Showz"),
            await error(runner, "os"),
        ]

    # The mean over the turns; it passes only if every turn does.
    assert (shows.score, shows.status, shows.version) == (0.625, "FAILED", "deepeval 9.8.7")
    assert [(item.score, item.status) for item in shows.turns] == [(1.0, "PASSED"), (0.25, "FAILED")]
    first, second = (json.loads(item.rubrics[0].rationale) for item in shows.turns)
    assert (first["name"], first["params"]) == ("mine", ["SingleTurnParams.INPUT"])
    assert first["model"] == "m at http://j/v1 with k"
    assert first["environment"] == {
        **judge,
        "DEEPEVAL_JUDGE_API_KEY": "-",
        "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
        "DEEPEVAL_DISABLE_DOTENV": "1",
        "DEEPEVAL_FILE_SYSTEM": "READ_ONLY",
        "DEEPEVAL_NO_INSPECT_PROMPT": "1",
    }
    tool = {"name": "set", "input_parameters": {"on": True}, "output": {"status": "ok"}}
    assert first["case"] == {
        "input": "on",
        "actual_output": "done",
        "expected_output": "done",
        "retrieval_context": ['{"status": "ok"}'],
        "tools_called": [tool],
        "expected_tools": [tool],
        "completion_time": 1.5,
    }
    assert second["case"]["context"] == ["User: on", "Agent: done"]
    shown = json.loads(other.turns[0].rubrics[0].rationale)
    assert (shown["name"], shown["model"]) == ("Mine", "other at http://j/v1 with k")
    assert shown["case"]["retrieval_context"] == ["a page"]
    assert ([item.status for item in flips.turns], flips.turns[0].rubrics) == (["FAILED", "PASSED"], [])

    assert (talks.score, talks.status, len(talks.turns)) == (0.75, "PASSED", 2)
    conversation = json.loads(talks.turns[0].rubrics[0].rationale)
    assert [item["role"] for item in conversation["turns"]] == ["user", "assistant"] * 2
    assert conversation["chatbot_role"] == "a home"
    assert talks.turns[1].rubrics == []

    # One turn without a score: there is none for the run.
    assert {(item.score, item.status) for item in missing.values()} == {(None, "NOT_EVALUATED")}
    assert {name: item.rubrics[0].rationale for name, item in missing.items()} == {
        "Unavailable": "ConnectionError: the judge is down",
        "NoScore": "the metric has no score",
        "Fails": "a verdict is missing",
    }
    assert missing["Unavailable"].turns[0].score == 1.0

    assert {item.kind for item in errors} == {MetricFailureKind.EXCEPTION}
    assert "Shows has no argument `bogus`. Its signature is Shows(name: " in errors[0].message
    assert "Shows: `evaluation_params` is invalid" in errors[1].message
    assert "not 'Showz'. Did you mean Shows" in errors[2].message
    assert "must be a class of deepeval.metrics" in errors[3].message


@pytest.mark.slow
async def test_adapter__without_a_judge_or_without_deepeval(tmp_path: Path) -> None:
    async with hosts(tmp_path) as runner:
        shows = await evaluate(runner, "Shows")
    assert json.loads(shows.turns[0].rubrics[0].rationale)["model"] == "_NoJudge"

    async with hosts(tmp_path, PYTHONPATH="") as runner:
        failure = await error(runner, "Shows")
    assert (failure.kind, "No module named 'deepeval'" in failure.message) == (MetricFailureKind.IMPORT, True)


def test_function_source__of_the_adapter_is_its_file_or_the_repositorys_own(tmp_path: Path) -> None:
    ours = function_source("agent_eval_deepeval.metric", tmp_path, None)
    assert ours
    assert function_source("agent_eval_other.metric", tmp_path, None) == ""

    (tmp_path / "agent_eval_deepeval.py").write_text("def metric(): ...\n", "utf-8")
    assert function_source("agent_eval_deepeval.metric", tmp_path, None) not in {"", ours}


def test_adapter__imports_nothing_of_agent_eval() -> None:
    for path in ADAPTERS:
        assert "agent_eval." not in path.read_text("utf-8").replace("agent_eval_deepeval.metric", "")
