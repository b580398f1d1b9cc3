"""Who is to blame when the agent's model call fails, on a real ADK that talks to a Gemini on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from adk_envs import MATRIX, adk_python
from adk_harness import failure, running, say
from fake_gemini import Answer, FakeGemini, Fault

from agent_eval.agents.adk import AdkAgent
from agent_eval.agents.protocol import FailureKind, Owner
from agent_eval.core.content import text_of
from agent_eval.core.invocation import InvocationEvents

QUICK = {"attempts": 3, "initial_delay": 0.01, "max_delay": 0.02, "http_status_codes": [429, 500, 503]}


@asynccontextmanager
async def gemini_agent(
    logs: Path, server: FakeGemini, *, name: str = "gemini", **options: Any
) -> AsyncIterator[AdkAgent]:
    environment = {"GOOGLE_GEMINI_BASE_URL": server.url, "GOOGLE_API_KEY": "a-key-that-is-no-key"}
    settings = {"environment": environment, "retry_options": QUICK, **options}
    async with running(name, logs, **settings) as agent:
        yield agent


def serving(*faults: Fault) -> FakeGemini:
    return FakeGemini(lambda request: Answer.text(f"to {request.user_texts[-1]}"), faults=faults)


@pytest.mark.parametrize("version", MATRIX)
async def test_a_throttled_call_is_repeated_and_told(tmp_path: Path, version: str) -> None:
    told: list[str] = []
    with serving(Fault(kind=429), Fault(kind=503)) as server:
        async with gemini_agent(
            tmp_path / "logs", server, python=adk_python(version), on_throttle=lambda: told.append("throttled")
        ) as agent:
            invocation = await say(agent, "hello")
        assert server.stats.requests == 3
    assert text_of(invocation.final_response) == "to hello"
    assert len(told) == 2
    data = invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    assert data.invocation_events[0].usage_metadata is not None
    assert "prompt_token_count" in data.invocation_events[0].usage_metadata


@pytest.mark.parametrize("version", MATRIX)
async def test_a_provider_that_stays_unavailable_is_not_the_agents_failure(tmp_path: Path, version: str) -> None:
    with serving(*[Fault(kind=429)] * 20) as server:
        async with gemini_agent(tmp_path / "logs", server, python=adk_python(version)) as agent:
            error = await failure(agent, "hello")
        assert server.stats.requests == 3
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "429" in error.message


@pytest.mark.parametrize(
    ("fault", "kind", "owner"),
    [
        (Fault(kind=500), FailureKind.PROVIDER, Owner.PROVIDER),
        (Fault(kind="reset"), FailureKind.PROVIDER, Owner.PROVIDER),
        (Fault(kind=403), FailureKind.PROVIDER, Owner.PROVIDER),
        (Fault(kind=400, message="bad request"), FailureKind.EXCEPTION, Owner.AGENT),
        (Fault(kind=404, message="no such model"), FailureKind.EXCEPTION, Owner.AGENT),
    ],
    ids=lambda value: str(value.kind) if isinstance(value, Fault) else "",
)
async def test_blame_by_status(tmp_path: Path, fault: Fault, kind: FailureKind, owner: Owner) -> None:
    with serving(*[fault] * 20) as server:
        async with gemini_agent(tmp_path / "logs", server) as agent:
            error = await failure(agent, "hello")
    assert (error.kind, error.owner) == (kind, owner)
    assert error.traceback


async def test_nobody_listens(tmp_path: Path) -> None:
    with serving() as server:
        pass
    async with gemini_agent(tmp_path / "logs", server) as agent:
        error = await failure(agent, "hello")
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "base URL" in (error.hint or "")


async def test_a_missing_key_names_the_variable(tmp_path: Path) -> None:
    async with running("gemini", tmp_path / "logs") as agent:
        error = await failure(agent, "hello")
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "GOOGLE_API_KEY" in (error.hint or "")


async def test_a_turn_that_ends_amid_retries_is_the_providers(tmp_path: Path) -> None:
    slow = QUICK | {"attempts": 50, "initial_delay": 0.5, "max_delay": 0.5}
    with serving(*[Fault(kind=503)] * 50) as server:
        async with gemini_agent(tmp_path / "logs", server, retry_options=slow) as agent:
            error = await failure(agent, "hello", timeout=2)
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "HTTP 503" in error.message


async def test_a_model_that_never_answers_is_a_deadline(tmp_path: Path) -> None:
    with serving(Fault(kind="hang")) as server:
        async with gemini_agent(tmp_path / "logs", server) as agent:
            error = await failure(agent, "hello", timeout=2)
    assert error.kind is FailureKind.DEADLINE
    assert "waiting for the model gemini-2.5-flash" in error.message


@pytest.mark.parametrize("version", MATRIX)
async def test_an_agent_of_yaml(tmp_path: Path, version: str) -> None:
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server, name="yaml_agent", python=adk_python(version)) as agent:
            invocation = await say(agent, "hello")
        assert server.received[0].instruction.startswith("Answer in one word.")
    assert text_of(invocation.final_response) == "to hello"
