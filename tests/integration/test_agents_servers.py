"""Servers that the gate starts: readiness, environment, logs, crashes, several workers, the end."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from adk_harness import failure, request, say
from fake_adk import agent_spec, context
from gate_runs import is_gone

from agent_eval.agents.driver import ServerSpec
from agent_eval.agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner
from agent_eval.agents.sandbox import Sandbox
from agent_eval.agents.servers._agent import ServerAgent
from agent_eval.core.content import text_of, user_message

DOUBLE = Path(__file__).with_name("server_double.py")


def server(*arguments: str, **facts: Any) -> ServerSpec:
    command = (sys.executable, str(DOUBLE), *(arguments or ("{port}",)))
    return ServerSpec(**{"name": "double", "command": command, "ready_timeout": 60.0, **facts})


def agent_of(spec: ServerSpec, directory: Path, *, workers: int = 1) -> ServerAgent:
    environment = {"PATH": os.environ["PATH"], "GOOGLE_API_KEY": "s3cret-token"}
    shared = context(directory, headers={"X-Token": "never sent"})
    shared = dataclasses.replace(shared, sandbox=Sandbox(environment=environment), workers=workers)
    return ServerAgent(agent_spec("double", shared), spec)


@contextlib.asynccontextmanager
async def running(spec: ServerSpec, directory: Path, *, workers: int = 1) -> AsyncIterator[ServerAgent]:
    agent = agent_of(spec, directory, workers=workers)
    try:
        await agent.start()
        yield agent
    finally:
        await agent.close()


async def answer(agent: Any, text: str, **facts: Any) -> str:
    return text_of((await say(agent, text, **facts)).final_response)


async def test_server__environment_directory_log_and_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "weather").mkdir()
    monkeypatch.setenv("NOT_FOR_THE_AGENT", "x")
    async with running(server(directory="weather", version="v7"), tmp_path) as agent:
        await agent.start()  # once more changes nothing
        pid = int((await answer(agent, "hello")).removeprefix("pid "))
        assert await answer(agent, "cwd") == str(tmp_path / "weather")
        assert await answer(agent, "env NOT_FOR_THE_AGENT") == "unset"
        assert int(await answer(agent, "env PORT")) > 1000
        facts = {"driver": "adk-rest", "app": "double", "server": "double", "version": "v7"}
        assert agent.provenance == facts and agent.metrics is None
    assert is_gone(pid)
    log = (tmp_path / "double" / "server.log").read_text("utf-8")
    assert "starting, the key is ***" in log and "s3cret" not in log


async def test_server__one_that_dies_is_replaced_and_the_run_repeated_alone(tmp_path: Path) -> None:
    async with running(server(), tmp_path) as agent:
        before = await answer(agent, "hello")
        error = await failure(agent, "die")
        assert (error.kind, error.owner, error.collateral) == (FailureKind.CRASH, Owner.AGENT, True)
        assert "exited with code 7" in error.message and "about to die" in (error.log_tail or "")
        session = await agent.open(request(isolated=True))
        alone = text_of((await session.send(user_message("hello"), timeout=30)).final_response)
        await session.close()
        await session.close()
        shared = await answer(agent, "hello")
        assert len({before, alone, shared}) == 3 and is_gone(int(alone.removeprefix("pid ")))


async def test_server__workers_share_the_sessions(tmp_path: Path) -> None:
    async with running(server(), tmp_path, workers=2) as agent:
        sessions = [await agent.open(request()) for _ in range(4)]
        answers = [await session.send(user_message("hello"), timeout=30) for session in sessions]
        await asyncio.gather(*(session.close() for session in sessions))
        assert len({text_of(turn.final_response) for turn in answers}) == 2
    assert (tmp_path / "double" / "server-2.log").exists()


async def test_server__app_with_a_space_and_a_percent_sign(tmp_path: Path) -> None:
    with pytest.raises(AgentRefused, match=r"has no app `my 100%25 app`\. Its apps: double"):
        async with running(server(app="my 100%25 app"), tmp_path):
            pass


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (server("{port}", "broken"), "exited with code 1 before it was ready"),
        (server("{port}", "silent", ready_timeout=0.5), "was not ready within 0.5 s"),
        (server(ready="/nothing", ready_timeout=0.5), "was not ready within 0.5 s"),
        (server(command=("no-such-program",)), "can't be started"),
        (server(directory="missing"), "can't be started"),
    ],
)
async def test_server__not_ready_is_the_agents_failure(spec: ServerSpec, message: str, tmp_path: Path) -> None:
    agent = agent_of(spec, tmp_path)
    for _ in range(2):  # It is not started again.
        with pytest.raises(AgentFailure, match=message) as caught:
            await agent.start()
        assert (caught.value.kind, caught.value.owner) == (FailureKind.ENVIRONMENT, Owner.AGENT)
    if "broken" in spec.command:
        assert "no such config file" in (caught.value.log_tail or "")
    await agent.close()


async def test_server__of_a2a_is_asked_at_its_port_whatever_its_card_says(tmp_path: Path) -> None:
    async with running(server(protocol="a2a", version="v7"), tmp_path, workers=2) as agent:
        assert (await answer(agent, "hello")).startswith("pid ")
        error = await failure(agent, "die")
        assert (error.kind, error.owner, error.collateral) == (FailureKind.CRASH, Owner.AGENT, True)
        assert "about to die" in (error.log_tail or "")
        assert (await answer(agent, "hello", isolated=True)).startswith("pid ")
        assert await answer(agent, "header X-Token") == "unset"  # `agent-headers` are not for code of a pull request
        facts = {"driver": "a2a", "agent": "double", "a2a": "0.3", "server": "double", "version": "v7"}
        assert agent.provenance == facts
