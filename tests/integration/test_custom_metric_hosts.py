"""The process of the custom metrics: what it calls, with what, and what becomes of functions that don't behave."""

from __future__ import annotations

import asyncio
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python
from metric_runs import failure_of, metric_hosts

from agent_eval.agents.host.metric_hosts import MetricHosts
from agent_eval.agents.protocol import MetricCall, MetricFailure, MetricFailureKind, Owner
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.evalset.models.schema import ConversationScenario

ANSWER = {"user_content": user_message("hi"), "final_response": model_message("yes please")}
NEWER = {"usage_metadata": {"prompt_token_count": 3}, "grounding_metadata": {}, "model_version": "m"}
"""What events have that an older google-adk refuses."""


def turn(*parts: dict[str, Any]) -> Invocation:
    """A turn with these events, the last of which is the answer's."""
    events = [{"author": "a", "content": {"role": "model", "parts": [part]}, **NEWER} for part in parts]
    timed = {"duration": 1.0, "model_duration": 0.5}
    return Invocation.model_validate(
        {**ANSWER, **timed, "intermediate_data": {"invocation_events": [*events, {"author": "a", **NEWER}]}}
    )


TURN = turn({"functionCall": {"name": "f", "args": {}}})


def hosts(
    tmp_path: Path, version: str = REFERENCE, *, timeout: float = 30, secret: str = ""
) -> AbstractAsyncContextManager[MetricHosts]:
    return metric_hosts(tmp_path, host_forks.command(adk_python(version)), timeout=timeout, secret=secret)


def call(name: str, **fields: Any) -> MetricCall:
    made: dict[str, Any] = {
        "metric": "mine",
        "function": f"checks.metrics.{name}",
        "criterion": {"threshold": 0.5, "words": ["please"]},
        "actual": [TURN],
        "expected": [TURN],
        "scenario": None,
    }
    return MetricCall(**{**made, **fields})


@pytest.mark.parametrize("version", MATRIX[1:])
async def test_custom_metric_hosts__a_function_gets_objects_of_its_own_adk_with_all_that_happened(
    version: str, tmp_path: Path
) -> None:
    switch = {"name": "switch", "args": {"room": "hall"}}
    switched = {"name": "switch", "response": {"on": True}}
    as_events = turn({"text": "One moment."}, {"functionCall": switch}, {"functionResponse": switched})
    as_lists = Invocation.model_validate(
        {
            **ANSWER,
            "intermediate_data": {
                "tool_uses": [switch],
                "tool_responses": [switched],
                "intermediate_responses": [["a", [{"text": "One moment."}]]],
            },
        }
    )
    async with hosts(tmp_path, version) as runner:
        result = await runner.evaluate(call("polite", actual=[TURN, TURN], expected=[TURN, TURN]))
        also = await runner.evaluate(call("brief", function="agent.metrics.brief"))
        heard = await runner.evaluate(call("hears_all", actual=[as_events, as_lists]))

    assert (result.type, result.score, result.status) == ("EvaluationResult", 1.0, "PASSED")
    assert [(turn.score, turn.status) for turn in result.turns] == [(1.0, "PASSED")] * 2
    assert (also.score, also.status) == (10.0, "FAILED")
    assert [turn.score for turn in heard.turns] == [111.0, 111.0]
    assert "polite is called for mine" in (tmp_path / "metrics-1.log").read_text(encoding="utf-8")


@pytest.mark.slow
async def test_custom_metric_hosts__an_adk_without_custom_metrics_says_so(tmp_path: Path) -> None:
    async with hosts(tmp_path, MATRIX[0]) as runner:
        error = await failure_of(runner, call("polite"))
        again = await failure_of(runner, call("brief"))

    assert (error.kind, error.owner) == (MetricFailureKind.ENVIRONMENT, Owner.AGENT)
    assert "google-adk 1.18.0 has no custom metrics" in error.message
    assert again.message == error.message
    assert not (tmp_path / "metrics-2.log").exists()


async def test_custom_metric_hosts__an_error_in_a_function_is_reported_masked_and_hurts_no_other_call(
    tmp_path: Path,
) -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="buy", user_persona="EXPERT")
    async with hosts(tmp_path, secret="and hostile") as runner:
        raised = await failure_of(runner, call("raises"))
        absent, value, module = [
            await failure_of(runner, call(name)) for name in ("no_such", "not_callable", "no.such")
        ]
        exits = await failure_of(runner, call("exits"))
        with_scenario = await failure_of(runner, call("polite", expected=None, scenario=scenario))
        result = await runner.evaluate(call("a_dict"))
        fine = await runner.evaluate(call("polite"))

    assert raised.kind is MetricFailureKind.EXCEPTION
    assert "ValueError: the metric is broken" in raised.message
    assert "metrics.py" in (raised.traceback or "")
    assert "and hostile" not in f"{raised.message}{raised.traceback}{raised.log_tail}"
    assert {error.kind for error in (absent, value, module)} == {MetricFailureKind.IMPORT}
    assert "has no `no_such`" in absent.message
    assert "is of type int, not a function" in value.message
    assert "sys.exit(0)" in exits.message
    assert "assert scenario is None" in (with_scenario.traceback or "")
    assert (result.type, result.shown) == ("dict", "{'score': 1.0}")
    assert fine.score == 1.0


async def test_custom_metric_hosts__functions_that_hang_or_kill_their_process_fail_alone(tmp_path: Path) -> None:
    async with hosts(tmp_path, timeout=1.5) as runner:
        begun = time.monotonic()
        names = ("waits", "hangs", "leaves", "polite", "brief", "polite")
        results = await asyncio.gather(*(runner.evaluate(call(name)) for name in names), return_exceptions=True)
        seconds = time.monotonic() - begun
        second = await failure_of(runner, call("leaves"))
        third = await failure_of(runner, call("leaves"))

    kinds = [
        result.kind if isinstance(result, MetricFailure) else getattr(result, "score", result) for result in results
    ]
    deadline, crash = MetricFailureKind.DEADLINE, MetricFailureKind.CRASH
    assert kinds == [deadline, deadline, crash, 1.0, 10.0, 1.0]
    hung = results[1]
    assert isinstance(hung, MetricFailure)
    assert "in hangs" in (hung.traceback or "")
    assert "exited with code 3" in second.message
    assert "was not called any more" in third.message
    assert seconds < 45
