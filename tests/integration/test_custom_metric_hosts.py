"""The process of the custom metrics: what it calls, with what, and what becomes of functions that don't behave."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import FIXTURES, MATRIX, REFERENCE, adk_python

from agent_eval.agents.host import HostSpec
from agent_eval.agents.host.metric_hosts import MetricHosts
from agent_eval.agents.protocol import MetricCall, MetricFailure, MetricFailureKind, Owner
from agent_eval.agents.sandbox.spawn import Sandbox
from agent_eval.core.content import model_message, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.core.masking import Masker
from agent_eval.evalset.models.schema import ConversationScenario

EVENT = {
    "author": "a",
    "content": {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]},
    "usage_metadata": {"prompt_token_count": 3},
    "grounding_metadata": {},
    "model_version": "m",
}
TURN = Invocation.model_validate(
    {
        "user_content": user_message("hi"),
        "final_response": model_message("yes please"),
        "duration": 1.0,
        "model_duration": 0.5,
        "intermediate_data": {"invocation_events": [EVENT]},
    }
)


@asynccontextmanager
async def hosts(
    tmp_path: Path, *, version: str = REFERENCE, timeout: float = 30, secret: str = ""
) -> AsyncIterator[MetricHosts]:
    async def spec() -> HostSpec:
        return HostSpec(
            python=host_forks.command(adk_python(version)),
            agent_path=str(FIXTURES / "checks"),
            root=FIXTURES,
            sandbox=Sandbox(environment={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "SECRET": secret}),
            masker=Masker([secret] if secret else []),
            log_dir=tmp_path,
            log_limit=1_000_000,
            start_timeout=60,
            retry={},
            role="metrics",
        )

    runner = MetricHosts(spec, name="metrics", timeout=timeout)
    try:
        yield runner
    finally:
        await runner.close()


def call(function: str, *, turns: int = 1, **criterion: Any) -> MetricCall:
    return MetricCall(
        metric="mine",
        function=f"checks.metrics.{function}",
        criterion={"threshold": 0.5, "words": ["please"], **criterion},
        actual=[TURN] * turns,
        expected=[TURN] * turns,
        scenario=None,
    )


async def failure(runner: MetricHosts, function: str) -> MetricFailure:
    with pytest.raises(MetricFailure) as caught:
        await runner.evaluate(call(function))
    return caught.value


NEWER_FIELDS = {"usage_metadata": {"prompt_token_count": 3}, "grounding_metadata": {}, "model_version": "m"}
"""What events have that an older google-adk refuses."""


@pytest.mark.parametrize("newer", [NEWER_FIELDS, {}], ids=["newer", "plain"])
@pytest.mark.parametrize("version", MATRIX[1:])
async def test_custom_metric_hosts__a_function_gets_all_calls_responses_and_texts(
    version: str, newer: dict[str, Any], tmp_path: Path
) -> None:
    parts = [
        {"text": "One moment."},
        {"functionCall": {"name": "switch", "args": {"room": "hall"}}},
        {"functionResponse": {"name": "switch", "response": {"on": True}}},
    ]
    events = [{"author": "a", "content": {"role": "model", "parts": [part]}, **newer} for part in parts]
    events.append({"author": "a", **newer})  # of the answer, whose content is the final response
    answer = {"user_content": user_message("hi"), "final_response": model_message("yes please")}
    as_events = Invocation.model_validate({**answer, "intermediate_data": {"invocation_events": events}})
    as_lists = Invocation.model_validate(
        {
            **answer,
            "intermediate_data": {
                "tool_uses": [{"name": "switch", "args": {"room": "hall"}}],
                "tool_responses": [{"name": "switch", "response": {"on": True}}],
                "intermediate_responses": [["a", [{"text": "One moment."}]]],
            },
        }
    )
    async with hosts(tmp_path, version=version) as runner:
        result = await runner.evaluate(MetricCall(**{**vars(call("hears_all")), "actual": [as_events, as_lists]}))

    assert [turn.score for turn in result.turns] == [111.0, 111.0]


@pytest.mark.parametrize("version", MATRIX[1:])
async def test_custom_metric_hosts__a_function_is_called_with_objects_of_its_own_adk(
    version: str, tmp_path: Path
) -> None:
    async with hosts(tmp_path, version=version) as runner:
        result = await runner.evaluate(call("polite", turns=2))
        also = await runner.evaluate(MetricCall(**{**vars(call("brief")), "function": "agent.metrics.brief"}))

    assert (result.type, result.score, result.status) == ("EvaluationResult", 1.0, "PASSED")
    assert [(turn.score, turn.status) for turn in result.turns] == [(1.0, "PASSED")] * 2
    assert (also.score, also.status) == (10.0, "FAILED")
    assert "polite is called for mine" in (tmp_path / "metrics-1.log").read_text(encoding="utf-8")


@pytest.mark.slow
async def test_custom_metric_hosts__an_adk_without_custom_metrics_says_so(tmp_path: Path) -> None:
    async with hosts(tmp_path, version=MATRIX[0]) as runner:
        error = await failure(runner, "polite")
        again = await failure(runner, "brief")

    assert (error.kind, error.owner) == (MetricFailureKind.ENVIRONMENT, Owner.AGENT)
    assert "google-adk 1.18.0 has no custom metrics" in error.message
    assert again.message == error.message
    assert not (tmp_path / "metrics-2.log").exists()


async def test_custom_metric_hosts__an_error_in_a_function_is_reported_and_hurts_no_other_call(
    tmp_path: Path,
) -> None:
    async with hosts(tmp_path) as runner:
        raised = await failure(runner, "raises")
        absent = await failure(runner, "no_such")
        value = await failure(runner, "not_callable")
        module = await failure(runner, "no.such")
        exits = await failure(runner, "exits")
        result = await runner.evaluate(call("a_dict"))
        fine = await runner.evaluate(call("polite"))

    assert raised.kind is MetricFailureKind.EXCEPTION
    assert "ValueError: the metric is broken" in raised.message
    assert "metrics.py" in (raised.traceback or "")
    assert {raised_error.kind for raised_error in (absent, value, module)} == {MetricFailureKind.IMPORT}
    assert "has no `no_such`" in absent.message
    assert "is of type int, not a function" in value.message
    assert "sys.exit(0)" in exits.message
    assert (result.type, result.shown) == ("dict", "{'score': 1.0}")
    assert fine.score == 1.0


async def test_custom_metric_hosts__functions_that_hang_or_kill_their_process_fail_alone(tmp_path: Path) -> None:
    async with hosts(tmp_path, timeout=1.5) as runner:
        begun = time.monotonic()
        names = ("waits", "hangs", "leaves", "polite", "brief", "polite")
        results = await asyncio.gather(*(runner.evaluate(call(name)) for name in names), return_exceptions=True)
        seconds = time.monotonic() - begun
        second = await failure(runner, "leaves")
        third = await failure(runner, "leaves")

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


async def test_custom_metric_hosts__what_a_metric_says_is_masked(tmp_path: Path) -> None:
    async with hosts(tmp_path, secret="the metric is broken") as runner:
        error = await failure(runner, "raises")

    assert "the metric is broken" not in f"{error.message}{error.traceback}{error.log_tail}"


async def test_custom_metric_hosts__a_scenario_reaches_the_function(tmp_path: Path) -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="buy", user_persona="EXPERT")
    async with hosts(tmp_path) as runner:
        with pytest.raises(MetricFailure) as caught:
            await runner.evaluate(MetricCall(**{**vars(call("polite")), "expected": None, "scenario": scenario}))

    assert "assert scenario is None" in (caught.value.traceback or "")
