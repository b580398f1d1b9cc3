"""The process of the custom metrics: what it calls, with what, and what becomes of functions that don't behave."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES, MATRIX, REFERENCE, adk_python

from agent_eval.agents.host.metric_hosts import MetricHosts
from agent_eval.agents.host.process import HostSpec
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
            python=[str(adk_python(version))],
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

    made = MetricHosts(spec, name="metrics", timeout=timeout)
    try:
        yield made
    finally:
        await made.close()


def call(function: str, *, turns: int = 1, **criterion: Any) -> MetricCall:
    return MetricCall(
        metric="mine",
        function=f"checks.metrics.{function}",
        criterion={"threshold": 0.5, "words": ["please"], **criterion},
        actual=[TURN] * turns,
        expected=[TURN] * turns,
        scenario=None,
    )


async def failure(made: MetricHosts, function: str) -> MetricFailure:
    with pytest.raises(MetricFailure) as caught:
        await made.evaluate(call(function))
    return caught.value


@pytest.mark.parametrize("version", MATRIX[1:])
async def test_a_function_is_called_with_objects_of_its_own_adk(version: str, tmp_path: Path) -> None:
    async with hosts(tmp_path, version=version) as made:
        told = await made.evaluate(call("polite", turns=2))
        also = await made.evaluate(MetricCall(**{**vars(call("brief")), "function": "agent.metrics.brief"}))

    assert (told.type, told.score, told.status) == ("EvaluationResult", 1.0, "PASSED")
    assert [(turn.score, turn.status) for turn in told.turns] == [(1.0, "PASSED")] * 2
    assert (also.score, also.status) == (10.0, "FAILED")
    assert "polite is called for mine" in (tmp_path / "metrics-1.log").read_text(encoding="utf-8")


async def test_an_adk_without_custom_metrics_says_so(tmp_path: Path) -> None:
    async with hosts(tmp_path, version=MATRIX[0]) as made:
        found = await failure(made, "polite")
        again = await failure(made, "brief")

    assert (found.kind, found.owner) == (MetricFailureKind.ENVIRONMENT, Owner.AGENT)
    assert "google-adk 1.18.0 has no custom metrics" in found.message
    assert again.message == found.message
    assert not (tmp_path / "metrics-2.log").exists()


async def test_what_goes_wrong_in_a_function_is_told_and_hurts_no_other_call(tmp_path: Path) -> None:
    async with hosts(tmp_path) as made:
        raised = await failure(made, "raises")
        absent = await failure(made, "no_such")
        value = await failure(made, "not_callable")
        module = await failure(made, "no.such")
        exits = await failure(made, "exits")
        told = await made.evaluate(call("a_dict"))
        fine = await made.evaluate(call("polite"))

    assert raised.kind is MetricFailureKind.EXCEPTION
    assert "ValueError: the metric is broken" in raised.message
    assert "metrics.py" in (raised.traceback or "")
    assert {one.kind for one in (absent, value, module)} == {MetricFailureKind.IMPORT}
    assert "has no `no_such`" in absent.message
    assert "is of type int, not a function" in value.message
    assert "sys.exit(0)" in exits.message
    assert (told.type, told.shown) == ("dict", "{'score': 1.0}")
    assert fine.score == 1.0


async def test_functions_that_hang_or_kill_their_process_fail_alone(tmp_path: Path) -> None:
    async with hosts(tmp_path, timeout=1.5) as made:
        begun = time.monotonic()
        names = ("waits", "hangs", "leaves", "polite", "brief", "polite")
        results = await asyncio.gather(*(made.evaluate(call(name)) for name in names), return_exceptions=True)
        seconds = time.monotonic() - begun
        second = await failure(made, "leaves")
        third = await failure(made, "leaves")

    kinds = [one.kind if isinstance(one, MetricFailure) else getattr(one, "score", one) for one in results]
    deadline, crash = MetricFailureKind.DEADLINE, MetricFailureKind.CRASH
    assert kinds == [deadline, deadline, crash, 1.0, 10.0, 1.0]
    hung = results[1]
    assert isinstance(hung, MetricFailure)
    assert "in hangs" in (hung.traceback or "")
    assert "exited with code 3" in second.message
    assert "was not called any more" in third.message
    assert seconds < 45


async def test_what_a_metric_says_is_masked(tmp_path: Path) -> None:
    async with hosts(tmp_path, secret="the metric is broken") as made:
        found = await failure(made, "raises")

    assert "the metric is broken" not in f"{found.message}{found.traceback}{found.log_tail}"


async def test_a_scenario_reaches_the_function(tmp_path: Path) -> None:
    scenario = ConversationScenario(starting_prompt="hi", conversation_plan="buy", user_persona="EXPERT")
    async with hosts(tmp_path) as made:
        with pytest.raises(MetricFailure) as caught:
            await made.evaluate(MetricCall(**{**vars(call("polite")), "expected": None, "scenario": scenario}))

    assert "assert scenario is None" in (caught.value.traceback or "")
