"""The adapter for DeepEval in the process of the custom metrics, with a stand-in for the package.

The stand-in shows what it was given; `tests/nightly/test_deepeval_real.py` has the real package.
"""

from __future__ import annotations

import json
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES, adk_python
from metric_runs import failure_of, metric_hosts

from agent_eval.agents.host import ADAPTERS, MetricHosts
from agent_eval.agents.protocol import MetricCall, MetricFailureKind
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
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


def hosts(tmp_path: Path, **variables: str) -> AbstractAsyncContextManager[MetricHosts]:
    return metric_hosts(tmp_path, [str(adk_python())], environment={"PYTHONPATH": str(STAND_IN), **variables})


def call(metric: str, **fields: Any) -> MetricCall:
    return MetricCall(
        metric="mine",
        function="agent_eval_deepeval.metric",
        criterion={"threshold": 0.5, "metric": metric, **fields},
        actual=ACTUAL,
        expected=EXPECTED,
        scenario=None,
    )


async def test_adapter__scores_turns_and_refuses_what_it_can_not_use(tmp_path: Path) -> None:
    judge = {"DEEPEVAL_JUDGE_MODEL": "m", "DEEPEVAL_JUDGE_BASE_URL": "http://j/v1", "DEEPEVAL_JUDGE_API_KEY": "k"}
    async with hosts(tmp_path, **judge, CONFIDENT_API_KEY="uploads") as runner:
        shows = await runner.evaluate(call("Shows", evaluation_params=["input"]))
        other = await runner.evaluate(call("Shows", name="Mine", model="other", retrieval_context=["a page"]))
        flips = await runner.evaluate(call("Flips"))
        talks = await runner.evaluate(call("Talks", chatbot_role="a home"))
        missing = {metric: await runner.evaluate(call(metric)) for metric in ("Unavailable", "NoScore", "Fails")}
        errors = [
            await failure_of(runner, call("Shows", bogus=1)),
            await failure_of(runner, call("Shows", evaluation_params=["inptu"])),
            await failure_of(runner, call("Showz")),
            await failure_of(runner, call("os")),
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
        shows = await runner.evaluate(call("Shows"))
    assert json.loads(shows.turns[0].rubrics[0].rationale)["model"] == "_NoJudge"

    async with hosts(tmp_path, PYTHONPATH="") as runner:
        failure = await failure_of(runner, call("Shows"))
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
