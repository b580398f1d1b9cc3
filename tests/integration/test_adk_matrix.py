"""The same turns on every supported google-adk give the same invocations (measured shapes of google-adk 2.13.0)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from adk_envs import MATRIX, adk_python
from adk_harness import failure, running, say

from agent_eval.agents.adk._driver import AdkAgent
from agent_eval.agents.messages import AgentDescribed
from agent_eval.agents.protocol import FailureKind
from agent_eval.core.content import Part, text_of
from agent_eval.core.invocation import Invocation, InvocationEvents, tool_calls, tool_responses

DESCRIBED: list[AgentDescribed] = []
"""The agents, as the host describes them."""
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(params=MATRIX, scope="module", loop_scope="module")
async def shapes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[AdkAgent]:
    logs: Path = tmp_path_factory.mktemp("logs")
    DESCRIBED.clear()
    async with running("shapes", logs, python=adk_python(request.param), described=DESCRIBED) as agent:
        assert agent.provenance["adk"] == request.param
        yield agent


def kind(part: Part) -> str:
    names = ("text", "function_call", "function_response", "inline_data")
    return next(name.removeprefix("function_") for name in names if getattr(part, name) is not None)


def shape(invocation: Invocation) -> list[str]:
    """`author:kinds` of each event; `blank` for one without content."""
    data = invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    return [
        f"{event.author}:{'+'.join(map(kind, event.content.iter_parts())) if event.content else 'blank'}"
        for event in data.invocation_events
    ]


SHAPES = {
    "plain": ("Done.", ["tools:blank"]),
    "text and call": ("Done.", ["tools:text+call", "tools:response", "tools:blank"]),
    "parallel": ("Done.", ["tools:call+call", "tools:response+response", "tools:blank"]),
    "long now": ("Done.", ["tools:call", "tools:response", "tools:blank"]),
    "missing argument": ("Done.", ["tools:call", "tools:response", "tools:blank"]),
    "before agent": ("No need to ask.", ["tools:blank"]),
    "streamed": ("Done.", ["tools:blank"]),
    "thought": ("I think.\nI say.", ["tools:blank"]),
    "bytes": ("a picture", ["tools:blank"]),
    "skip": ("", ["tools:call", "tools:blank"]),
    "long later": ("I asked.", ["tools:text+call"]),
    "agent tool": ("The helper did it.", ["boss:call", "boss:response", "boss:blank"]),
    "sequence": ("second", ["one:call", "one:response", "one:text", "two:blank"]),
    "error": (None, []),
    "empty": (None, []),
}


@pytest.mark.parametrize("message", SHAPES)
async def test_matrix__shape(shapes: AdkAgent, message: str) -> None:
    invocation = await say(shapes, message)
    final, data = invocation.final_response, invocation.intermediate_data
    assert (None if final is None else text_of(final), shape(invocation)) == SHAPES[message]
    calls, responses = tool_calls(data), tool_responses(data)
    if message == "parallel":
        assert [(call.name, call.args) for call in calls] == [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]
        assert [response.response for response in responses] == [{"sum": 3}, {"sum": 7}]
        assert [call.id for call in calls] == [response.id for response in responses]
    elif message == "missing argument":
        assert calls[0].args == {"a": 1}
        assert "error" in (responses[0].response or {})
    elif message == "skip":
        assert final is not None
        assert [part.function_response.name for part in final.iter_parts() if part.function_response] == ["show"]


async def test_matrix__several_agents(shapes: AdkAgent) -> None:
    transfer = await say(shapes, "transfer")
    assert text_of(transfer.final_response) == "The specialist says hello."
    assert [call.name for call in tool_calls(transfer.intermediate_data)] == ["transfer_to_agent"]
    assert (shape(transfer)[:2], shape(transfer)[-1]) == (["front:call", "front:response"], "specialist:blank")
    both = await say(shapes, "both")
    assert sorted(shape(both)) in (["left:blank", "right:text"], ["left:text", "right:blank"])
    assert text_of(both.final_response) in ("L", "R")
    assert isinstance(both.intermediate_data, InvocationEvents)
    branches = {event.author: event.branch for event in both.intermediate_data.invocation_events}
    assert all(branch is not None and branch.endswith(f".{author}") for author, branch in branches.items()), branches


async def test_matrix__usage_version_and_durations(shapes: AdkAgent) -> None:
    invocation = await say(shapes, "text and call")
    data = invocation.intermediate_data
    assert isinstance(data, InvocationEvents)
    counted = [event for event in data.invocation_events if event.usage_metadata]
    assert len(counted) == 2
    assert all(event.usage_metadata == {"prompt_token_count": 10, "candidates_token_count": 5} for event in counted)
    assert {event.model_version for event in counted} == {"scripted-1"}
    assert invocation.duration is not None
    assert 0 <= (invocation.model_duration or 0) + (invocation.tool_duration or 0) <= invocation.duration + 0.002
    assert invocation.creation_timestamp > 1_700_000_000
    assert invocation.spans is not None
    model, tool, again = invocation.spans
    assert (model.kind, model.agent, model.input_tokens, model.output_tokens, model.attempts) == (
        "model", "tools", 10, 5, [],
    )  # fmt: skip
    assert (tool.kind, tool.agent, tool.name) == ("tool", "tools", "add")
    assert tool.call_id == tool_calls(data)[0].id is not None
    times = [moment for span in (model, tool, again) for moment in (span.start, span.end)]
    assert times == sorted(times) and times[0] >= 0 and times[-1] <= invocation.duration + 0.002


async def test_spans__calls_inside_an_agent_tool(shapes: AdkAgent) -> None:
    nested = (await say(shapes, "agent tool")).spans
    assert nested is not None
    assert [(span.kind, span.agent) for span in nested] == [
        ("model", "boss"), ("tool", "boss"),
        ("model", "helper"), ("tool", "helper"), ("model", "helper"),
        ("model", "boss"),
    ]  # fmt: skip
    assert all(nested[1].start <= span.start <= span.end <= nested[1].end for span in nested[2:5])


async def test_matrix__app_details_are_of_the_agents_that_spoke(shapes: AdkAgent) -> None:
    details = (await say(shapes, "agent tool")).app_details
    assert details is not None
    assert list(details.agent_details) == ["boss"]
    boss = details.agent_details["boss"]
    assert "boss" in boss.instructions
    assert [tool["function_declarations"][0]["name"] for tool in boss.tool_declarations] == ["helper"]
    tools = (await say(shapes, "plain")).app_details
    assert tools is not None
    assert tools.agent_details["tools"].instructions.startswith("Add numbers.")


@pytest.mark.parametrize("message", ["nothing", "silent"])
async def test_matrix__no_event_is_no_answer(shapes: AdkAgent, message: str) -> None:
    assert (await failure(shapes, message)).kind is FailureKind.NO_ANSWER


async def test_matrix__the_agents_are_described(shapes: AdkAgent) -> None:
    await say(shapes, "say hi")
    root = DESCRIBED[0]
    assert (root.name, len(DESCRIBED)) == (shapes.provenance["agent"], 12)
    assert set(root.sub_agents) < {agent.name for agent in DESCRIBED}
    tools = [tool for agent in DESCRIBED for tool in agent.tools]
    own = {tool.name: tool.code for tool in tools if tool.code is not None}
    assert {place.file for place in own.values()} == {"shapes/agent.py"}
    assert {tool.name for tool in tools if tool.declaration} == {"add", "ask_boss", "show"}
    assert root.code is not None
    assert (root.code.file, root.code.symbol) == ("shapes/agent.py", "root_agent")
