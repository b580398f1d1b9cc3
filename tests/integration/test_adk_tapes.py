"""Recorded tools on every supported google-adk, in real processes: a replay gives the same events, and runs no tool."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python, packages_python
from adk_harness import Decider, failure, make, request, say, seen
from golden_files import check
from loopback import loopback

from agent_eval_agents.adk._driver import AdkAgent
from agent_eval_agents.messages import ToolAsked
from agent_eval_agents.protocol import FailureKind
from agent_eval_agents.tapes import Tape, ToolRule, ToolRules, by_hand, tape_text
from agent_eval_scoring.core.content import Content, FunctionCall, FunctionResponse, user_message
from agent_eval_scoring.core.invocation import IntermediateData, Invocation, InvocationEvents
from agent_eval_scoring.evalset.models import EvalCase

WORDS = (
    *("book", "twice", "parallel", "forbidden", "broken", "form", "hand over", "price", "missing"),
    *("office", "loop", "both", "mcp"),
)
"""What the fixture agent is asked; each word leads to other calls."""
SECRET = "s3cret-of-the-job"


@asynccontextmanager
async def toolbox(
    logs: Path, version: str, *, name: str = "toolbox", **variables: str
) -> AsyncIterator[tuple[AdkAgent, Counter[str]]]:
    """The fixture agent, and how often each of its tools reached the server."""
    counts: Counter[str] = Counter()
    numbers = itertools.count(1)

    async def count(request: Any, answer: Any) -> None:
        counts[request.target.strip("/")] += 1
        await answer.send(200, str(next(numbers)).encode())

    async with loopback(count) as server:
        environment = {"COUNTER_URL": server.url, "JOB_SECRET": SECRET, **variables}
        # Older versions of ADK bring `mcp` with them.
        new = version == REFERENCE
        python = (
            packages_python(f"adk-{version}-mcp", f"google-adk=={version}", "mcp<2") if new else adk_python(version)
        )
        agent = make(
            name,
            logs,
            python=host_forks.command(python),
            environment=environment,
            secrets=[SECRET],
            asks_for_tools=True,
        )
        try:
            await agent.start()
            yield agent, counts
        finally:
            await agent.close()


@pytest.mark.parametrize("version", MATRIX)
async def test_replay__gives_the_recorded_events_and_runs_no_tool(version: str, tmp_path: Path) -> None:
    async with toolbox(tmp_path / "logs", version) as (agent, counts):
        tapes: dict[str, Tape] = {}
        events: dict[str, Any] = {}
        for word in WORDS:
            decider = Decider("record")
            events[word] = seen(await say(agent, word, tools=decider), in_parallel=word == "both")
            tapes[word] = decider.tape()
            assert all(call.replayable for call in tapes[word].calls), (word, tapes[word].calls)
        assert counts["mcp_list"] >= 1
        live = counts.copy()
        log_of_recording = _callbacks(tmp_path)
        assert live - Counter(mcp_list=live["mcp_list"]) == Counter(
            book=3 + 1 + 3 + 1 + 2, booked=2, broken=2, form=1, hand_over=1, price=1, stop=1, mcp=1
        )
        assert "sunny in Oslo" in json.dumps(events["mcp"])

        for word in WORDS:
            decider = Decider("replay", tapes[word])
            invocation = await say(agent, word, tools=decider)
            assert seen(invocation, in_parallel=word == "both") == events[word], word
            spans = [span for span in invocation.spans or () if span.kind == "tool" and span.replayed]
            asked = [span.contents for span in invocation.spans or () if span.kind == "model"]
            assert word != "book" or asked == [1, 3, 5]
            assert word == "office" or len(spans) == decider.session.use.replayed, word
            assert decider.session.use.replayed == len(tapes[word].calls) or word == "twice"
            assert not decider.session.changed
        assert counts == live, "a tool ran in a replay"
        assert sorted(_callbacks(tmp_path)[len(log_of_recording) :]) == sorted(log_of_recording), "callbacks differ"

        # Every run of a session without a decider is live.
        await say(agent, "price")
        assert counts["price"] == 2

        # A call that is not on the tape ends the turn, whatever the agent does with errors.
        decider = Decider("replay", tapes["book"])
        assert (await failure(agent, "price", tools=decider)).kind is FailureKind.NOT_RECORDED
        assert counts["price"] == 2
        assert [error.call.name for error in decider.unanswerable if isinstance(error.call, ToolAsked)] == ["price"]
        # The process is still usable.
        assert seen(await say(agent, "book", tools=Decider("replay", tapes["book"]))) == events["book"]

        # A recorded exception reaches the run, as the class that it was.
        decider = Decider("record")
        error = await failure(agent, "really broken", tools=decider)
        again = await failure(agent, "really broken", tools=Decider("replay", decider.tape()))
        assert (again.kind, again.message, again.owner) == (error.kind, error.message, error.owner)
        assert error.kind is FailureKind.EXCEPTION
        await _check_confirmations(agent, counts)
        await _check_what_cannot_be_replayed(agent, counts)

    if version == REFERENCE:
        # No server is needed: neither for a call of its tool, nor to know that it has tools.
        async with toolbox(tmp_path, version, MCP_COMMAND="/nothing/here") as (agent, counts):
            for word in ("mcp", "price"):
                # The counter that tools call has another address here, which they read from a variable.
                calls = [call.model_copy(update={"saw": {}}) for call in tapes[word].calls]
                decider = Decider("replay", tapes[word].model_copy(update={"calls": calls}))
                assert seen(await say(agent, word, tools=decider)) == events[word]
            assert not counts

    check("golden_taped_calls.txt", "".join(f"# {word}\n{taped(tape, word)}\n" for word, tape in tapes.items()))


def taped(tape: Tape, word: str) -> str:
    """The calls of a tape, without what varies: variables; of parallel ones the order, and so the state."""
    assert tape.tools.keys() == {call.tool for call in tape.calls}
    assert all(tool.declaration and tool.source for tool in tape.tools.values())
    facts = {"seconds", "done", "after", "dealt", "saw", *(["state"] if word in {"parallel", "both"} else [])}
    lines = [repr(call.model_dump(exclude_defaults=True, exclude=facts)) for call in tape.calls]
    lines += [
        f"{name.partition('#')[0]}: {[tool['name'] for tool in listed]}" for name, listed in tape.toolsets.items()
    ]
    return re.sub(r"(?<=')\d+(?=')|(?<=\()\d+(?=\))", "N", "".join(f"{line}\n" for line in sorted(lines)))


async def _confirmed(agent: AdkAgent, decider: Decider, answer: bool) -> list[Any]:
    """The turns of a session whose user confirms a call, or refuses it."""
    conversation = await agent.open(request(tools=decider))
    try:
        first = await conversation.send(user_message("pay"), timeout=60)
        assert isinstance(first.intermediate_data, InvocationEvents)
        contents = [first.final_response, *(event.content for event in first.intermediate_data.invocation_events)]
        calls = [part.function_call for content in contents if content for part in content.parts or ()]
        [asked] = [call for call in calls if call is not None and call.name == "adk_request_confirmation"]
        response = {"id": asked.id, "name": asked.name, "response": {"confirmed": answer}}
        said = Content.model_validate({"role": "user", "parts": [{"function_response": response}]})
        return [seen(first), seen(await conversation.send(said, timeout=60))]
    finally:
        await conversation.close()


async def _check_confirmations(agent: AdkAgent, counts: Counter[str]) -> None:
    """A tool with `require_confirmation` asks in a replay, too; only its function does not run."""
    for answer, runs in ((True, 1), (False, 0)):
        before, decider = counts["pay"], Decider("record")
        live = await _confirmed(agent, decider, answer)
        assert (counts["pay"] - before, len(decider.session.recorded)) == (runs, runs)
        player = Decider("replay", decider.tape())
        assert await _confirmed(agent, player, answer) == live
        assert (counts["pay"] - before, player.session.use.replayed) == (runs, runs)
        assert ("paid" in json.dumps(live), "rejected" in json.dumps(live)) == (answer, not answer)


def _callbacks(folder: Path) -> list[str]:
    """What the callbacks of the agent and of the app's plugin printed."""
    text = "".join(path.read_text() for path in sorted((folder / "logs").glob("*.log")))
    return [line for line in text.splitlines() if line.split(" ")[0] in {"guard", "after", "error", "audit"}]


async def _check_what_cannot_be_replayed(agent: AdkAgent, counts: Counter[str]) -> None:
    decider = Decider("record")
    await say(agent, "raw", tools=decider)
    [call] = decider.tape().calls
    assert call.reason == "its response contains a value of type bytes, which JSON can't carry"
    decider = Decider("replay", None, ToolRules(rules=(ToolRule(name="raw", replay=False),)))
    await say(agent, "raw", tools=decider)
    assert (counts["raw"], decider.session.use.live) == (2, 1)

    decider = Decider("record")
    await say(agent, "leak", tools=decider)
    assert SECRET not in tape_text(decider.tape())
    [call] = decider.session.recorded
    assert (call.args, call.response) == ({"key": "***"}, {"value": "***", "within": "a *** b", "token": "***"})


async def test_replay__answers_the_tool_node_of_a_workflow(tmp_path: Path) -> None:
    async with toolbox(tmp_path / "logs", REFERENCE, name="toolbox_workflow") as (agent, counts):
        decider = Decider("record")
        live = seen(await say(agent, '{"room": "blue"}', tools=decider))
        tape = decider.tape()
        assert [(call.tool, call.args) for call in tape.calls] == [("book", {"room": "blue"})]
        assert seen(await say(agent, '{"room": "blue"}', tools=Decider("replay", tape))) == live
        assert counts["book"] == 1


BY_HAND = ToolRules(
    rules=(ToolRule(name="book", answers="case"), ToolRule(name="load_memory", answers="case", match=()))
)


def written(*answers: tuple[str, dict[str, Any], dict[str, Any]]) -> EvalCase:
    """A case with these calls and their answers."""
    uses = [FunctionCall(name=name, args=args) for name, args, _ in answers]
    responses = [FunctionResponse(name=name, response=response) for name, _, response in answers]
    data = IntermediateData(tool_uses=uses, tool_responses=responses)
    return EvalCase(eval_id="c", conversation=[Invocation(user_content=user_message("u"), intermediate_data=data)])


@pytest.mark.parametrize("version", MATRIX)
async def test_by_hand__no_tool_runs_that_the_case_answers_for(version: str, tmp_path: Path) -> None:
    """adk-python #4051 (no credentials), #4193 (fixed JSON), #6472 (deterministic); the others run as always."""
    first, second = {"booking": "from the case"}, {"error": "fully booked"}
    case = written(("book", {"room": "blue"}, first), ("book", {"room": "blue", "nights": 2}, second))
    async with toolbox(tmp_path / "logs", version) as (agent, counts):
        decider = Decider("live", rules=BY_HAND, by_hand=by_hand(case, BY_HAND))
        events = seen(await say(agent, "twice", tools=decider))
        assert "from the case" in str(events) and "fully booked" in str(events)
        assert "'checked': True" in str(events), "callbacks of the agent get the answer, too"
        assert counts["book"] == 0 and decider.session.use.by_hand == 3
        decider = Decider("live", rules=BY_HAND, by_hand=by_hand(case, BY_HAND))
        await say(agent, "book", tools=decider)
        assert (counts["book"], counts["booked"]) == (0, 1)
        decider = Decider("live", rules=BY_HAND, by_hand=by_hand(written(), BY_HAND))
        await failure(agent, "book", tools=decider)
        assert counts["book"] == 0 and decider.unanswerable[0].by_hand


async def test_by_hand__of_an_mcp_server_whatever_the_arguments(tmp_path: Path) -> None:
    """adk-python #3740, mcp-toolbox #2034: with `match = []`, since the SQL is another one in each run."""
    case = written(("load_memory", {"city": "another"}, {"content": [{"type": "text", "text": "by hand"}]}))
    async with toolbox(tmp_path / "logs", REFERENCE) as (agent, _):
        decider = Decider("live", rules=BY_HAND, by_hand=by_hand(case, BY_HAND))
        assert "by hand" in str(seen(await say(agent, "mcp", tools=decider)))
        assert decider.session.use.by_hand == 1
