"""ADK's own A2A servers, with both dialects and both executors, answer as the same agent does in a host."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
from a2a_support import a2a_agent
from adk_envs import REFERENCE, packages_python
from adk_harness import failure, request, running, say

from agent_eval.agents.a2a.agent import A2aAgent
from agent_eval.agents.adk._driver import AdkAgent
from agent_eval.agents.protocol import FailureKind, Owner
from agent_eval.core.content import Content, FunctionResponse, Part, text_of, user_message
from agent_eval.core.invocation import Invocation, InvocationEvents, tool_calls, tool_responses
from agent_eval.simulation import with_call_ids

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
SDKS = ("0.3.26", "1.3.0")
SERVER = Path(__file__).with_name("a2a_adk_server.py")


def python(sdk: str) -> Path:
    return packages_python(f"adk-{REFERENCE}-a2a-{sdk}", f"google-adk[a2a]=={REFERENCE}", f"a2a-sdk=={sdk}")


@dataclass(frozen=True, kw_only=True)
class Servers:
    sdk: str
    agent: A2aAgent
    legacy: A2aAgent
    """The same with ADK's older executor."""
    log: list[str]


@pytest_asyncio.fixture(params=SDKS, scope="module", loop_scope="module")
async def servers(request: pytest.FixtureRequest) -> AsyncIterator[Servers]:
    interpreter = await asyncio.to_thread(python, request.param)
    process = await asyncio.create_subprocess_exec(
        interpreter, "-W", "ignore", SERVER, stdout=asyncio.subprocess.PIPE, stderr=sys.stderr
    )
    assert process.stdout is not None
    try:
        ports = (await asyncio.wait_for(process.stdout.readline(), 120)).split()
        log: list[str] = []
        agent, legacy = (a2a_agent(f"http://127.0.0.1:{int(port)}", log=log.append) for port in ports)
        await agent.start()
        await legacy.start()
        yield Servers(sdk=request.param, agent=agent, legacy=legacy, log=log)
        await agent.close()
        await legacy.close()
    finally:
        process.kill()
        await process.wait()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def local(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AdkAgent]:
    async with running("dice", tmp_path_factory.mktemp("logs"), python=python("1.3.0")) as agent:
        yield agent


def comparable(invocation: Invocation, *, usage: bool = True) -> dict[str, object]:
    """An invocation without ids, times, and what A2A does not carry: the model's version, the agents' instructions,
    the spans."""
    data = invocation.model_dump(mode="json", exclude_none=True)
    for key in (
        "invocation_id",
        "creation_timestamp",
        "duration",
        "model_duration",
        "tool_duration",
        "app_details",
        "spans",
    ):
        data.pop(key, None)
    for event in data["intermediate_data"]["invocation_events"]:
        event.pop("model_version", None)
        counts = event.pop("usage_metadata", {})
        event["tokens"] = {key.replace("_", "").lower(): count for key, count in counts.items()} if usage else None
        for part in event.get("content", {}).get("parts", ()):
            part.pop("thought_signature", None)
            for key in ("function_call", "function_response"):
                part.get(key, {}).pop("id", None)
    return data


async def check_turns_are_those_of_a_host(servers: Servers, local: AdkAgent, message: str) -> None:
    expected = comparable(await say(local, message))
    text = json.dumps(expected, sort_keys=True)

    for agent in (servers.agent, servers.legacy):
        actual = await say(agent, message)
        assert comparable(actual) == expected
        assert json.dumps(comparable(actual), sort_keys=True) == text, "whole numbers are integers"
        assert actual.duration is not None
    assert servers.agent.shows_calls
    assert servers.legacy.shows_calls
    assert servers.agent.provenance["a2a"] == ("1.0" if servers.sdk.startswith("1") else "0.3")


async def check_failures__have_a_text_and_an_owner(servers: Servers) -> None:
    for agent in (servers.agent, servers.legacy):
        broken = await failure(agent, "raise")
        assert (broken.kind, broken.owner) == (FailureKind.EXCEPTION, Owner.AGENT)
        assert "the agent is broken" in broken.message
        quota = await failure(agent, "quota")
        assert (quota.kind, quota.owner) == (FailureKind.PROVIDER, Owner.PROVIDER)
        assert "RESOURCE_EXHAUSTED: no quota left" in quota.message


async def check_large_numbers__lose_digits_in_1_0_only(servers: Servers) -> None:
    for agent in (servers.agent, servers.legacy):
        [call] = tool_calls((await say(agent, "book")).intermediate_data)
        exact = call.args == {"account": 9007199254740993}
        assert exact is servers.sdk.startswith("0")
    assert any("a2a-large-number" in line for line in servers.log) is servers.sdk.startswith("1")
    assert len(servers.log) in {0, 2}, "once for each agent"


async def check_long_running_call__a_plain_message_goes_on(servers: Servers, local: AdkAgent) -> None:
    expected = await say(local, "approve")
    for agent in (servers.agent, servers.legacy):
        first = await say(agent, "approve")
        assert tool_names(first) == tool_names(expected) == ["approve"]
        assert text_of(first.final_response) == "Approval is pending."
        assert text_of((await say(agent, "approve", "hello")).final_response) == "You said hello."
    assert comparable(await say(servers.agent, "approve")) == comparable(expected)


async def check_long_running_call__the_response_continues_the_task(servers: Servers) -> None:
    response = Part(function_response=FunctionResponse(name="approve", response={"status": "granted"}))
    for agent in (servers.agent, servers.legacy):
        session = await agent.open(request())
        asked = await session.send(user_message("approve"), timeout=60)
        answer = with_call_ids(Content(role="user", parts=[response]), [asked])
        turn = await session.send(answer, timeout=60)
        assert text_of(turn.final_response) == "Approval is granted."
        assert tool_names(turn) == []


async def test_adk_servers__answer_as_the_agent_in_a_host(servers: Servers, local: AdkAgent) -> None:
    # One test for each SDK: every worker of pytest-xdist would start all servers.
    for message in ("roll", "think", "hello"):
        await check_turns_are_those_of_a_host(servers, local, message)
    await check_failures__have_a_text_and_an_owner(servers)
    await check_large_numbers__lose_digits_in_1_0_only(servers)
    await check_long_running_call__a_plain_message_goes_on(servers, local)
    await check_long_running_call__the_response_continues_the_task(servers)


def tool_names(invocation: Invocation) -> list[str | None]:
    assert isinstance(invocation.intermediate_data, InvocationEvents)
    calls = tool_calls(invocation.intermediate_data)
    answered = {response.id for response in tool_responses(invocation.intermediate_data)}
    assert {call.id for call in calls} <= answered
    return [call.name for call in calls]
