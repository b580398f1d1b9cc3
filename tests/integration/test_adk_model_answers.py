"""Model calls that the gate is asked about, on every supported google-adk, with a Gemini on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python
from adk_harness import Decider, failure, host_spec, request, say, seen
from fake_gemini import Answer, FakeGemini, GenerateRequest
from golden_files import check

from agent_eval_agents.adk._driver import AdkAgent
from agent_eval_agents.host import ModelOutages
from agent_eval_agents.messages import ModelAsked, ModelNews
from agent_eval_agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval_scoring.core.content import text_of, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.limiter import Limiter

REPORT = json.dumps({"summary": "all is well", "stars": 4})


def answer(asked: GenerateRequest) -> Answer:
    """What Gemini says to each agent."""
    name, said, responses = asked.instruction, asked.user_texts, asked.tool_responses
    if "You are front." not in name:
        parts: list[dict[str, Any]] = [{"text": REPORT if "You are merge." in name else f"from the {name[8:12]}"}]
        if "You are helper." in name:
            parts.insert(0, {"text": "hm", "thought": True, "thoughtSignature": "/wBz"})
        return Answer(parts=parts)
    if said[-1] == "weather" and not responses:
        return Answer(
            parts=[
                {"text": "I look."},
                {"functionCall": {"name": "look_up", "args": {"city": "Oslo"}}, "thoughtSignature": "_-8A"},
                {"functionCall": {"name": "look_up", "args": {"city": "Rome", "days": 2}}},
                {"functionCall": {"name": "helper", "args": {"request": "Is it cold?"}}},
            ]
        )
    if said[-1] == "consult" and not responses:
        return Answer.calls(("consult", {"topic": "owls"}))
    if said[-1] in {"report", "own", "far", "fail", "wait", "again", "odd", "nothing"}:
        name = {"report": "desk", "far": "far"}.get(said[-1], "own")
        return Answer.calls(("transfer_to_agent", {"agent_name": name}))
    return Answer.text("It is cold.")


@asynccontextmanager
async def asked_agent(
    logs: Path,
    server: FakeGemini,
    version: str,
    *,
    key: str | None = "key-of-the-job",
    outages: ModelOutages | None = None,
    variables: Mapping[str, str] | None = None,
) -> AsyncIterator[AdkAgent]:
    """The fixture agent, whose hosts ask for tools and models."""
    keys = {} if key is None else {"GOOGLE_API_KEY": key}
    spec = host_spec(
        "asked",
        logs,
        python=host_forks.command(adk_python(version)),
        environment={"GOOGLE_GEMINI_BASE_URL": server.url, **keys, **(variables or {})},
        asks_for_tools=True,
        asks_for_models=True,
    )
    agent = AdkAgent(spec, outages or News())
    try:
        await agent.start()
        yield agent
    finally:
        await agent.close()


class News(ModelOutages):
    """Remembers what the hosts say of the models' attempts."""

    def __init__(self) -> None:
        super().__init__(turn_timeout=60, limiter=Limiter(64), log=print)
        self.heard: list[tuple[str, str]] = []

    def note(self, outage: asyncio.Future[AgentFailure], news: ModelNews) -> None:
        self.heard.append((news.model, news.what))
        super().note(outage, news)


def printed(logs: Path, beginning: str) -> list[str]:
    """The lines of the agent that begin like this, sorted."""
    text = "".join(path.read_text() for path in sorted(logs.glob("*.log")))
    return sorted(line for line in text.splitlines() if line.startswith(beginning))


@pytest.mark.parametrize("version", MATRIX)
async def test_replay__gives_the_recorded_events_and_asks_no_model(version: str, tmp_path: Path) -> None:
    """Also if the parallel agents ask in another order."""
    late = {"name": ""}

    def delayed(asked: GenerateRequest) -> Answer:
        waits = bool(late["name"]) and f"You are {late['name']}." in asked.instruction
        return dataclasses.replace(answer(asked), latency=Decider.seconds if waits else None)

    recorded: dict[str, Decider] = {}
    live: dict[str, Any] = {}
    words = {"weather": "", "own": "", "far": "", "report": "right", "report ": "left"}
    asked, not_asked = News(), News()
    with FakeGemini(delayed) as server:
        async with asked_agent(tmp_path / "live", server, version, outages=asked) as agent:
            for word, late["name"] in words.items():
                recorded[word] = Decider("record")
                turn = await say(agent, word.strip(), tools=recorded[word])
                live[word] = seen(turn)
                _check_spans(turn, replayed=False)
        assert server.stats.requests == sum(len(decider.asked) for decider in recorded.values()) - 2, "not own and far"
        calls = Counter({"gemini-2.5-flash": server.stats.requests, "far-1": 1})
        assert Counter(asked.heard) == {(name, what): n for name, n in calls.items() for what in ("asked", "answered")}
        tapes = {word: decider.tape() for word, decider in recorded.items()}
        before = server.stats.requests, server.stats.connections
        async with asked_agent(tmp_path / "replay", server, version, key=None, outages=not_asked) as agent:
            for word, name in words.items():
                decider = Decider("all", tapes[word])
                decider.late = {"left": "right", "right": "left"}.get(name, "")
                turn = await say(agent, word.strip(), tools=decider)
                assert seen(turn) == live[word], word
                assert all(result.is_dealt for result in decider.results), "only that answers were dealt with"
                assert decider.session.left == []
                assert decider.session.use.model_calls == len(tapes[word].model_calls) == len(decider.results) > 1
                assert decider.tools == recorded[word].tools
                _check_spans(turn, replayed=True)
        # What another environment makes the agent ask is not on the tape.
        for changes, word, place in (
            ({"TEMPERATURE": "0.5"}, "weather", "config.temperature"),
            ({"STARS": "4"}, "report", "config.response_schema.properties.stars.default"),
            ({"OWN_TEMPERATURE": "0.6"}, "own", "settings._arguments.temperature"),
        ):
            async with asked_agent(tmp_path / word, server, version, key=None, variables=changes) as agent:
                error = await failure(agent, word, tools=Decider("all", tapes[word]))
                assert (error.kind, error.message) == (FailureKind.MODEL_NOT_RECORDED, place)
        assert (server.stats.requests, server.stats.connections) == before
        assert not_asked.heard == []
    assert printed(tmp_path / "live", "own model asked") == ["own model asked: far-1", "own model asked: own-1"]
    assert printed(tmp_path / "replay", "own model asked") == []
    assert printed(tmp_path / "replay", "after") == printed(tmp_path / "live", "after")
    check(
        "golden_asked.txt",
        "".join(f"# {word}\n{exchanges(recorded[word])}\n" for word in ("weather", "own", "far", "report")),
    )


def _check_spans(turn: Invocation, *, replayed: bool) -> None:
    spans = [span for span in turn.spans or () if span.kind == "model"]
    assert spans and {span.replayed for span in spans} == {replayed}
    assert all(span.attempts == [] and ((span.input_tokens or 0) > 0 or span.agent in {"own", "far"}) for span in spans)
    assert turn.model_duration is not None and (turn.model_duration > 0) is not replayed
    assert turn.tool_duration is not None and turn.tool_duration >= 0


def exchanges(decider: Decider) -> str:
    """What each model was asked and answered, as far as it is the same for each google-adk."""
    lines = []
    for asked in sorted(decider.asked, key=lambda asked: asked.agent):  # some are parallel
        [result] = [each for each in decider.results if each.call == asked.call and not each.is_dealt]
        assert result.seconds >= 0 and result.reason is None and result.error is None
        request = asked.request
        assert list(request) == ["instruction", "contents", "tools", "config"]
        for secret in ("label-of", "header-of", "key-of", "adk_agent_name", "google-genai-sdk", "http://x", "9000"):
            assert secret not in asked.model_dump_json()
        settings = {name: value for name, value in asked.settings.items() if name != "use_interactions_api"}
        declared = [each["name"] for tool in request["tools"] for each in tool["function_declarations"]]
        lines += [
            f"{asked.agent}: {asked.model}, {asked.implementation}, {settings}, stream: {asked.stream}",
            f"{request['instruction'].splitlines()[0]} {sorted(declared)} {request['config']}",
        ]
        for content in request["contents"]:
            text = json.dumps(content, sort_keys=True).replace(r"hm\n", "")  # thoughts, of google-adk 1.18
            lines.append("< what ADK relays" if "For context" in text else f"< {text}")
        for response in result.responses:
            assert response.get("partial") or response["usage_metadata"]["prompt_token_count"] > 0
            facts = {name: response[name] for name in response if name != "usage_metadata"}
            lines.append(f"> {json.dumps(facts, sort_keys=True)}")
    return "\n".join([*lines, ""])


@pytest.mark.slow
@pytest.mark.parametrize("version", [MATRIX[0], REFERENCE])
async def test_answers__that_a_tape_can_not_hold_or_give(version: str, tmp_path: Path) -> None:
    with FakeGemini(answer) as server:
        async with asked_agent(tmp_path / "logs", server, version) as agent:
            for word, reason in {
                "odd": "JSON can't carry its response",
                "again": "a second complete response came",
                "nothing": "no complete response came",
            }.items():
                decider = Decider()
                with contextlib.suppress(AgentFailure):  # `nothing`: what that is depends on google-adk
                    await say(agent, word, tools=decider)
                assert decider.of("own")[-1].reason == reason
                assert word != "again" or len(decider.of("own")[0].responses) == 2
            await _reports_errors(agent)
            await _asks_not_within_tools(agent, server)
            await _answers_another_thread(agent)
            await _cancels_what_is_held(agent)
            # A session without a decider asks all models.
            assert text_of((await say(agent, "hello")).final_response) == "It is cold.!"


async def _reports_errors(agent: AdkAgent) -> None:
    decider = Decider()
    error = await failure(agent, "fail", tools=decider)
    [result] = decider.of("own")
    assert (error.kind, error.owner) == (FailureKind.EXCEPTION, Owner.AGENT)
    assert result.error is not None and not result.responses and result.reason is None
    assert (result.error.type, result.error.message) == ("ValueError", "the model is broken")
    assert error.traceback is not None and "agent_eval_host" not in error.traceback

    waits = Decider()
    for tools in (waits, None):
        error = await failure(agent, "wait", timeout=1, tools=tools)
        assert (error.kind, error.owner) == (FailureKind.DEADLINE, Owner.AGENT)
        assert "waiting for the model own-1" in error.message
        assert "await asyncio.Event().wait()" in error.message
    assert [result.reason for result in waits.of("own")] == ["it was cancelled"]


async def _asks_not_within_tools(agent: AdkAgent, server: FakeGemini) -> None:
    """A model that the body of a tool calls is a part of the tool."""
    decider, before = Decider(), server.stats.requests
    await say(agent, "consult", tools=decider)
    assert decider.tools == ["consult"]
    assert server.stats.requests - before == 3
    assert [asked.agent for asked in decider.asked] == ["front", "front"]


async def _answers_another_thread(agent: AdkAgent) -> None:
    """Also while the event loop is blocked, which waits for that thread."""
    decider = Decider()
    await say(agent, "thread", tools=decider)
    assert [asked.model for asked in decider.asked] == ["own-2", "gemini-2.5-flash"]


class Holding(Decider):
    """Does not answer."""

    def __init__(self) -> None:
        super().__init__()
        self.holds = asyncio.Event()
        self.was_cancelled = False

    async def model(self, asked: ModelAsked) -> Any:
        self.holds.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.was_cancelled = True


async def _cancels_what_is_held(agent: AdkAgent) -> None:
    """The process goes on with other sessions while the gate waits, and a turn ends that waits for the gate."""
    held, cancelled = Holding(), Holding()
    waiting = asyncio.create_task(failure(agent, "hello", timeout=2, tools=held))
    conversation = await agent.open(request(tools=cancelled))
    sending = asyncio.create_task(conversation.send(user_message("hello"), timeout=60))
    for decider in (held, cancelled):
        await asyncio.wait_for(decider.holds.wait(), 20)
    assert text_of((await say(agent, "hello", tools=Decider())).final_response) == "It is cold.!"
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await conversation.close()
    error = await waiting
    assert (error.kind, error.owner, error.collateral) == (FailureKind.DEADLINE, Owner.AGENT, False)
    assert text_of((await say(agent, "hello", tools=Decider())).final_response) == "It is cold.!"
    assert held.was_cancelled and cancelled.was_cancelled and not held.results


class Answering(Decider):
    """Answers, or raises."""

    def __init__(self, answer: Exception | dict[str, Any]) -> None:
        super().__init__()
        self.answer = answer

    async def model(self, asked: ModelAsked) -> Any:
        await asyncio.sleep(0.01)
        if isinstance(self.answer, Exception):
            raise self.answer
        return {"do": "answer", "responses": [self.answer]}


async def test_decider__that_raises_or_gives_what_can_not_be_read_ends_the_turn(tmp_path: Path) -> None:
    with FakeGemini(answer) as server:
        async with asked_agent(tmp_path / "logs", server, REFERENCE, key=None) as agent:
            raised = AgentFailure("Not on the tape.", kind=FailureKind.NOT_RECORDED, owner=Owner.GATE)
            error = await failure(agent, "hello", tools=Answering(raised))
            assert (error.kind, error.owner) == (FailureKind.NOT_RECORDED, Owner.GATE)
            with pytest.raises(LookupError):
                await say(agent, "hello", tools=Answering(LookupError("a mistake of ours")))
            error = await failure(agent, "hello", tools=Answering({"content": "no content"}))
            assert (error.kind, error.owner) == (FailureKind.NOT_REPLAYABLE, Owner.GATE)
            wanted = "The agent's google-adk can't read a recorded answer of a model: 1 validation error"
            assert error.message.startswith(wanted)
        assert server.stats.requests == 0
