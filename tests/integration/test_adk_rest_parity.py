"""The same agent in a host, behind `adk api_server`, and recorded: equal turns and equal scores."""

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
from agent_eval.agents.recorded import RecordedAgent
from agent_eval.agents.sandbox import Sandbox
from agent_eval.agents.servers._agent import ServerAgent
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.criteria import Conversation, Scored, build
from agent_eval.evalset.models import CriterionConfig, EvalCase
from agent_eval.results import Recording
from agent_eval.runner.usage import usage_of

pytestmark = pytest.mark.slow

SHAPES = [
    *("text and call", "parallel", "long now", "long later", "skip", "missing argument", "none arguments", "thought"),
    *("error", "silent", "empty", "bytes", "before agent", "transfer", "agent tool", "sequence", "both", "hello"),
]
METRICS = ("tool_trajectory_avg_score", "response_match_score")
UNEQUAL = {
    "spans",
    "invocation_id",
    "creation_timestamp",
    "duration",
    "model_duration",
    "tool_duration",
    "app_details",
    "id",
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


async def scores(actual: Invocation, expected: Invocation) -> list[float | None]:
    case = EvalCase(eval_id="c", conversation=[expected])
    conversation = Conversation(case=case, actual=[actual], expected=[expected])
    criteria = [build(CriterionConfig(metric=name, threshold=0.5)) for name in METRICS]
    results = [await criterion.score(conversation) for criterion in criteria]
    return [result.score if isinstance(result, Scored) else None for result in results]


async def recorded(turn: Invocation, directory: Path) -> Invocation:
    """The turn as `recorded:` gives it back."""
    run = Recording(
        schema_version="1", run_id="r", case_id="f:c", file="f", eval_set_id="s", eval_id="c", run=0, fingerprint="",
        invocations=[turn], started_at=0.0, duration=0.0, usage=usage_of([turn]), attempts=1,
    )  # fmt: skip
    path = directory / "recordings.jsonl"
    path.write_text(run.model_dump_json() + "\n", encoding="utf-8")
    agent = RecordedAgent(path)
    await agent.start()
    try:
        session = await agent.open(request())
        return await session.send(turn.user_content, timeout=1)
    finally:
        await agent.close()


@pytest.mark.parametrize("version", ["1.39.1", REFERENCE])
async def test_api_server__turns_and_scores_are_those_of_a_host(version: str, tmp_path: Path) -> None:
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
    seen = set()
    for message, other in zip(SHAPES, [*SHAPES[1:], SHAPES[0]], strict=True):
        ours, theirs = in_host[message], behind_server[message]
        assert dumped(theirs) == dumped(ours), message
        expected = in_host[other]
        if isinstance(ours, Invocation) and isinstance(theirs, Invocation) and isinstance(expected, Invocation):
            again = await recorded(theirs, tmp_path)
            assert dumped(again) == dumped(theirs)
            numbers = [await scores(turn, expected) for turn in (ours, theirs, again)]
            assert numbers[0] == numbers[1] == numbers[2], message
            seen |= set(map(str, numbers[0]))
    assert len(seen) >= 3, seen


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
