"""Model calls that the gate is asked about, on every supported google-adk, with a Gemini on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import host_forks
import pytest
from adk_envs import MATRIX, REFERENCE, adk_python
from adk_harness import failure, host_spec, request, say, seen
from fake_gemini import Answer, FakeGemini, GenerateRequest

from agent_eval.agents.adk._driver import AdkAgent
from agent_eval.agents.host import ModelOutages
from agent_eval.agents.messages import ModelAsked, ModelNews, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.core.content import text_of, user_message
from agent_eval.core.invocation import Invocation
from agent_eval.core.limiter import Limiter

WORDS = ("weather", "report", "own", "far")
"""What the fixture agent is asked; each leads to other calls."""
LATER = 0.2
"""Seconds. `left` is first, so what `merge` is asked does not vary."""
REPORT = json.dumps({"summary": "all is well", "stars": 4})


def answer(asked: GenerateRequest) -> Answer:
    """What Gemini says to each agent."""
    name, said, responses = asked.instruction, asked.user_texts, asked.tool_responses
    if "You are front." not in name:
        parts: list[dict[str, Any]] = [{"text": REPORT if "You are merge." in name else f"from the {name[8:12]}"}]
        if "You are helper." in name:
            parts.insert(0, {"text": "hm", "thought": True, "thoughtSignature": "/wBz"})
        return Answer(parts=parts, latency=LATER if "You are right." in name else None)
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


class Decider:
    """`CallDecider` of one session: all models are asked, or answered as they were. Tools run."""

    def __init__(self, recording: Decider | None = None) -> None:
        self.asked: list[ModelAsked] = []
        self.outcomes: dict[int, list[ModelRan]] = defaultdict(list)
        self.dealt: list[ModelRan] = []
        self.tools: list[str] = []
        self.holds: asyncio.Event | None = None
        self.was_cancelled = False
        self.answers: dict[str, list[Any]] = defaultdict(list)
        self.is_replay = recording is not None
        for asked in recording.asked if recording else ():
            assert recording is not None
            [result] = recording.outcomes[asked.call]
            assert result.reason is None and result.error is None, result
            self.answers[asked.agent].append(result.responses)

    async def model(self, asked: ModelAsked) -> Mapping[str, Any]:
        self.asked.append(asked)
        if self.holds is not None:
            try:
                self.holds.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.was_cancelled = True
                raise
        if not self.is_replay:
            return {"do": "run"}
        if asked.agent == "right":
            await asyncio.sleep(LATER)  # in the recorded order
        return {"do": "answer", "responses": self.answers[asked.agent].pop(0)}

    def model_news(self, news: Any) -> None:
        pass

    def model_ran(self, result: ModelRan) -> None:
        (self.dealt if result.is_dealt else self.outcomes[result.call]).append(result)

    async def ask(self, call: ToolAsked, so_far: Any) -> Mapping[str, Any]:
        await asyncio.sleep(0.01)
        self.tools.append(call.name)
        return {"do": "run"}

    def held(self) -> None: ...

    def ran(self, result: ToolRan) -> None: ...

    def event(self, event: Mapping[str, Any]) -> None:
        """No order is kept here."""

    def toolset(self, toolset: ToolsetAsked) -> Mapping[str, Any]:
        return {"do": "run"}

    def listed(self, listing: ToolsetListed) -> None: ...

    @property
    def questions(self) -> list[str]:
        """What was asked, without numbers of calls and the ids that ADK makes. In any order: agents are parallel."""
        asked = [each.model_dump(exclude={"turn", "call"}) for each in self.asked]
        return sorted(re.sub(r"adk-[-0-9a-f]{36}", "adk-ID", json.dumps(each)) for each in asked)

    def of(self, agent: str) -> list[ModelAsked]:
        return [asked for asked in self.asked if asked.agent == agent]

    def results(self, agent: str) -> list[ModelRan]:
        return [result for asked in self.of(agent) for result in self.outcomes[asked.call]]


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
    recorded = {word: Decider() for word in WORDS}
    live: dict[str, Any] = {}
    asked, not_asked = News(), News()
    with FakeGemini(answer) as server:
        async with asked_agent(tmp_path / "live", server, version, outages=asked) as agent:
            for word in WORDS:
                turn = await say(agent, word, tools=recorded[word])
                live[word] = seen(turn, in_parallel=word == "report")
                _check_spans(turn, replayed=False)
        assert server.stats.requests == sum(len(decider.asked) for decider in recorded.values()) - 2, "not own and far"
        calls = Counter({"gemini-2.5-flash": server.stats.requests, "far-1": 1})
        assert Counter(asked.heard) == {(name, what): n for name, n in calls.items() for what in ("asked", "answered")}
        before = server.stats.requests, server.stats.connections
        async with asked_agent(tmp_path / "replay", server, version, key=None, outages=not_asked) as agent:
            for word in WORDS:
                decider = Decider(recorded[word])
                turn = await say(agent, word, tools=decider)
                assert seen(turn, in_parallel=word == "report") == live[word], word
                assert decider.dealt and not decider.outcomes, "only that answers were dealt with"
                assert not any(decider.answers.values())
                assert decider.questions == recorded[word].questions
                assert decider.tools == recorded[word].tools
                _check_spans(turn, replayed=True)
        assert (server.stats.requests, server.stats.connections) == before
        assert not_asked.heard == []
    assert printed(tmp_path / "live", "own model asked") == ["own model asked: far-1", "own model asked: own-1"]
    assert printed(tmp_path / "replay", "own model asked") == []
    assert printed(tmp_path / "replay", "after") == printed(tmp_path / "live", "after")
    _check_what_was_asked(recorded)
    _check_what_was_answered(recorded)


def _check_spans(turn: Invocation, *, replayed: bool) -> None:
    spans = [span for span in turn.spans or () if span.kind == "model"]
    assert spans and {span.replayed for span in spans} == {replayed}
    assert all(span.attempts == [] and ((span.input_tokens or 0) > 0 or span.agent in {"own", "far"}) for span in spans)
    assert turn.model_duration is not None and (turn.model_duration > 0) is not replayed
    assert turn.tool_duration is not None and turn.tool_duration >= 0


def _check_what_was_asked(recorded: Mapping[str, Decider]) -> None:
    agents = {word: Counter(asked.agent for asked in decider.asked) for word, decider in recorded.items()}
    assert agents == {
        "weather": {"front": 2, "helper": 1},
        "report": {"front": 1, "left": 1, "right": 1, "merge": 1},
        "own": {"front": 1, "own": 1},
        "far": {"front": 1, "far": 1},
    }
    first, second = recorded["weather"].of("front")
    assert (first.model, first.implementation) == ("gemini-2.5-flash", "google.adk.models.google_llm.Gemini")
    assert not first.stream and not second.stream
    assert list(first.request)[:4] == ["instruction", "contents", "tools", "config"]
    assert first.request["instruction"].startswith("You are front.")
    assert [content["role"] for content in second.request["contents"]] == ["user", "model", "user"]
    assert first.request["contents"] == [{"parts": [{"text": "weather"}], "role": "user"}]
    declared = [each["name"] for tool in first.request["tools"] for each in tool["function_declarations"]]
    assert sorted(declared) == ["consult", "helper", "look_up", "transfer_to_agent"], "where the last is varies"
    assert first.request["config"] == {"temperature": 0.25, "stop_sequences": ["END"]}
    said = second.request["contents"][1]["parts"]
    assert said[0] == {"text": "I look.!"}
    assert said[1]["thought_signature"] == "sha256:" + hashlib.sha256(bytes.fromhex("ffef00")).hexdigest()
    responses = [part["function_response"]["response"] for part in second.request["contents"][2]["parts"]]
    assert responses[0] == {"city": "Oslo", "days": 1, "weather": None}, "None is an answer"

    [merge] = recorded["report"].of("merge")
    assert merge.request["config"]["response_schema"]["properties"]["stars"] == {
        "default": 3,
        "title": "Stars",
        "type": "integer",
    }
    [own] = recorded["own"].of("own")
    assert own.implementation.endswith("agent.Polite")
    assert own.settings == {"tone": "calm", "_arguments": {"temperature": 0.5}, "_lock": "lock", "_calls": 0}
    asked = json.dumps([one.model_dump() for decider in recorded.values() for one in decider.asked])
    for secret in ("label-of", "header-of", "key-of", "adk_agent_name", "google-genai-sdk", "http://x", "9000"):
        assert secret not in asked


def _check_what_was_answered(recorded: Mapping[str, Decider]) -> None:
    first, second = recorded["weather"].results("front")
    assert [len(result.responses) for result in (first, second)] == [1, 1]
    parts = first.responses[0]["content"]["parts"]
    assert [list(part) for part in parts] == [
        ["text"],
        ["function_call", "thought_signature"],
        *[["function_call"]] * 2,
    ]
    assert parts[2]["function_call"] == {"args": {"city": "Rome", "days": 2}, "name": "look_up"}, "ADK adds ids later"
    assert parts[1]["thought_signature"] == "_-8A"
    assert first.responses[0]["usage_metadata"]["prompt_token_count"] > 0
    assert second.responses[0]["content"]["parts"] == [{"text": "It is cold."}], "before the callbacks after it"
    [partial, whole] = recorded["own"].results("own")[0].responses
    assert (partial["partial"], "partial" in whole) == (True, False)
    assert whole["custom_metadata"] == {"kept": None, "odd": 1}
    assert all(result.seconds >= 0 for decider in recorded.values() for [result] in decider.outcomes.values())


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
                assert decider.results("own")[-1].reason == reason
                assert word != "again" or len(decider.results("own")[0].responses) == 2
            await _reports_errors(agent)
            await _asks_not_within_tools(agent, server)
            await _answers_another_thread(agent)
            await _cancels_what_is_held(agent)
            await _ends_with_an_unreadable_answer(agent)
            # A session without a decider asks all models.
            assert text_of((await say(agent, "hello")).final_response) == "It is cold.!"


async def _reports_errors(agent: AdkAgent) -> None:
    decider = Decider()
    error = await failure(agent, "fail", tools=decider)
    [result] = decider.results("own")
    assert (error.kind, error.owner) == (FailureKind.EXCEPTION, Owner.AGENT)
    assert result.error is not None and not result.responses and result.reason is None
    assert (result.error.type, result.error.message) == ("ValueError", "the model is broken")
    assert error.traceback is not None and "agent_eval_host" not in error.traceback

    decider = Decider()
    error = await failure(agent, "wait", timeout=1, tools=decider)
    assert (error.kind, error.owner) == (FailureKind.DEADLINE, Owner.AGENT)
    assert "waiting for the model own-1" in error.message
    assert "await asyncio.Event().wait()" in error.message
    assert [result.reason for result in decider.results("own")] == ["it was cancelled"]


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


async def _cancels_what_is_held(agent: AdkAgent) -> None:
    """The process goes on with other sessions while the gate waits, and a turn ends that waits for the gate."""
    decider = Decider()
    decider.holds = asyncio.Event()
    held = asyncio.create_task(failure(agent, "hello", timeout=2, tools=decider))
    await asyncio.wait_for(decider.holds.wait(), 20)
    assert text_of((await say(agent, "hello", tools=Decider())).final_response) == "It is cold.!"
    error = await held
    assert (error.kind, error.owner, error.collateral) == (FailureKind.DEADLINE, Owner.AGENT, False)
    assert decider.was_cancelled and not decider.outcomes

    decider = Decider()
    decider.holds = asyncio.Event()
    conversation = await agent.open(request(tools=decider))
    sending = asyncio.create_task(conversation.send(user_message("hello"), timeout=60))
    await asyncio.wait_for(decider.holds.wait(), 20)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await conversation.close()
    assert text_of((await say(agent, "hello", tools=Decider())).final_response) == "It is cold.!"
    assert decider.was_cancelled


async def _ends_with_an_unreadable_answer(agent: AdkAgent) -> None:
    decider = Decider(Decider())
    decider.answers["front"] = [[{"content": "no content"}]]
    error = await failure(agent, "hello", tools=decider)
    assert (error.kind, error.owner) == (FailureKind.NOT_REPLAYABLE, Owner.GATE)
    assert error.message.startswith(
        "The agent's google-adk can't read a recorded answer of a model: 1 validation error"
    )


async def test_question__shows_what_a_change_alters(tmp_path: Path) -> None:
    changes = {"TEMPERATURE": "0.75", "STARS": "5", "OWN_TEMPERATURE": "0.1"}
    questions: list[dict[str, Any]] = []
    with FakeGemini(answer) as server:
        for variables in ({}, changes):
            async with asked_agent(tmp_path / "logs", server, REFERENCE, variables=variables) as agent:
                report, own = Decider(), Decider()
                await say(agent, "report", tools=report)
                await say(agent, "own", tools=own)
            questions.append(
                {each.agent: each.model_dump(exclude={"turn", "call"}) for each in report.asked + own.asked}
            )
    before, after = questions
    assert {name for name in before if before[name] != after[name]} == {"front", "merge", "own"}
    before["front"]["request"]["config"]["temperature"] = 0.75
    before["merge"]["request"]["config"]["response_schema"]["properties"]["stars"]["default"] = 5
    before["own"]["settings"]["_arguments"]["temperature"] = 0.1
    assert before == after


async def test_decider__that_raises_ends_the_turn(tmp_path: Path) -> None:
    class Failing(Decider):
        async def model(self, asked: ModelAsked) -> Mapping[str, Any]:
            await asyncio.sleep(0.01)
            raise self.error

        error: Exception = AgentFailure("Not on the tape.", kind=FailureKind.NOT_RECORDED, owner=Owner.GATE)

    with FakeGemini(answer) as server:
        async with asked_agent(tmp_path / "logs", server, REFERENCE, key=None) as agent:
            error = await failure(agent, "hello", tools=Failing())
            assert (error.kind, error.owner) == (FailureKind.NOT_RECORDED, Owner.GATE)
            decider = Failing()
            decider.error = LookupError("a mistake of ours")
            with pytest.raises(LookupError):
                await say(agent, "hello", tools=decider)
        assert server.stats.requests == 0
