"""The same agent in a host and behind `adk api_server`: equal turns. Equal scores: tests/crossings."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from adk_envs import FIXTURES, REFERENCE, adk_python
from adk_harness import running
from fake_adk import agent_spec, context, failure, request

from agent_eval.agents.adk._driver import AdkAgent
from agent_eval.agents.adk_rest.agent import AdkRestAgent
from agent_eval.agents.driver import ServerSpec
from agent_eval.agents.protocol import Agent, AgentFailure, FailureKind, Owner
from agent_eval.agents.sandbox import Sandbox
from agent_eval.agents.servers._agent import ServerAgent
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import Invocation

pytestmark = pytest.mark.slow

SHAPES = [
    *("text and call", "parallel", "long now", "long later", "skip", "missing argument", "none arguments", "thought"),
    *("error", "silent", "empty", "bytes", "before agent", "transfer", "agent tool", "sequence", "both", "hello"),
]
UNEQUAL = {
    *("spans", "invocation_id", "creation_timestamp", "app_details", "id"),
    *("duration", "model_duration", "tool_duration"),
}


def api_server(version: str, directory: Path, app: str, *others: str) -> ServerAgent:
    """`adk api_server` on a copy of the fixtures, because it writes a database into each app."""
    agents = directory / "agents"
    agents.mkdir()
    shutil.copy(FIXTURES / "scripted_model.py", agents)
    for name in (app, *others):
        shutil.copytree(FIXTURES / name, agents / name, ignore=shutil.ignore_patterns("__pycache__"))
    command = (str(adk_python(version)), "-m", "google.adk.cli", "api_server", "--port", "{port}", str(agents))
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(agents)}
    shared = dataclasses.replace(context(directory), sandbox=Sandbox(environment=environment))
    server = ServerSpec(name=app, command=command, app=app)
    return ServerAgent(agent_spec(app, shared), server)


async def turns(agent: Agent | AdkAgent, messages: list[str], **facts: Any) -> dict[str, Invocation | AgentFailure]:
    """Each message in a session of its own, as many at once as the server's database holds."""
    places = asyncio.Semaphore(4)

    async def one(text: str) -> Invocation | AgentFailure:
        async with places:
            session = await agent.open(request(**facts))
            try:
                return await session.send(user_message(text), timeout=60)
            except AgentFailure as caught:
                return caught
            finally:
                await session.close()

    return dict(zip(messages, await asyncio.gather(*map(one, messages)), strict=True))


def plain(value: Any) -> Any:
    """Without ids and times."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items() if key not in UNEQUAL}
    return [plain(item) for item in value] if isinstance(value, list) else value


def dumped(turn: Invocation | AgentFailure) -> Any:
    return turn.kind if isinstance(turn, AgentFailure) else plain(turn.model_dump(mode="json", exclude_none=True))


@pytest.mark.parametrize("version", ["1.39.1", REFERENCE])
async def test_api_server__turns_are_those_of_a_host(version: str, tmp_path: Path) -> None:
    remote = api_server(version, tmp_path, "shapes", "faults", "home")
    async with running("shapes", tmp_path / "logs", python=adk_python(version)) as host:
        starting = asyncio.create_task(remote.start())
        in_host = await turns(host, SHAPES)
        try:
            await starting
            behind_server = await turns(remote, SHAPES)
            await check_state_and_errors(remote, tmp_path)
        finally:
            await remote.close()
    for message in SHAPES:
        assert dumped(behind_server[message]) == dumped(in_host[message]), message


async def check_state_and_errors(server: ServerAgent, directory: Path) -> None:
    """Other apps of the same server: state reaches the instruction, and an exception has its type."""
    process = server._slots[0].process
    assert process is not None
    for app in ("home", "faults"):
        agent = AdkRestAgent(agent_spec(f"{process.url}#{app}", context(directory)))
        await agent.start()
        if app == "home":
            turn = (await turns(agent, ["instruction"], state={"guest": "Ann", "user:mood": "calm"}))["instruction"]
            assert isinstance(turn, Invocation) and "Serve Ann in the . Shared: calm" in text_of(turn.final_response)
            assert turn.app_details is None or turn.app_details.agent_details["butler"].tool_declarations
        else:
            error = await failure(agent, "raise")
            assert (error.kind, error.owner) == (FailureKind.EXCEPTION, Owner.AGENT)
            assert "the tool is broken" in error.message  # with its type since 2.x
        await agent.close()
