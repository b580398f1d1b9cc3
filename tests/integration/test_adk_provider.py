"""Who is to blame when the agent's model call fails, on a real ADK that talks to a Gemini on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from adk_envs import MATRIX, adk_python
from adk_harness import failure, running, say
from fake_gemini import Answer, FakeGemini, Fault, GenerateRequest

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
    """A model that fails these times, and whenever somebody says the name of a fault."""

    def answer(request: GenerateRequest) -> Answer | Fault:
        said = request.user_texts[-1]
        if said == "reset":
            return Fault(kind="reset")
        return Fault(kind=int(said)) if said.isdecimal() else Answer.text(f"to {said}")

    return FakeGemini(answer, faults=faults)


@pytest.mark.parametrize("version", MATRIX)
async def test_a_throttled_call_is_repeated_and_told__and_if_it_stays_so_that_is_not_the_agents_failure(
    tmp_path: Path, version: str
) -> None:
    told: list[str] = []
    options: dict[str, Any] = {"python": adk_python(version), "on_throttle": lambda: told.append("throttled")}
    with serving(Fault(kind=429), Fault(kind=503)) as server:
        async with gemini_agent(tmp_path / "logs", server, **options) as agent:
            invocation = await say(agent, "hello")
            assert (server.stats.requests, len(told)) == (3, 2)
            error = await failure(agent, "429")
        assert server.stats.requests == 6
    assert text_of(invocation.final_response) == "to hello"
    data = invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    assert data.invocation_events[0].usage_metadata is not None
    assert "prompt_token_count" in data.invocation_events[0].usage_metadata
    assert (error.kind, error.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
    assert "429" in error.message


async def test_blame_by_status(tmp_path: Path) -> None:
    blamed = {
        "500": (FailureKind.PROVIDER, Owner.PROVIDER),
        "reset": (FailureKind.PROVIDER, Owner.PROVIDER),
        "403": (FailureKind.PROVIDER, Owner.PROVIDER),
        "400": (FailureKind.EXCEPTION, Owner.AGENT),
        "404": (FailureKind.EXCEPTION, Owner.AGENT),
    }
    with serving() as server:
        async with gemini_agent(tmp_path / "logs", server) as agent:
            errors = {name: await failure(agent, name) for name in blamed}
    assert {name: (error.kind, error.owner) for name, error in errors.items()} == blamed
    assert all(error.traceback for error in errors.values())


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
