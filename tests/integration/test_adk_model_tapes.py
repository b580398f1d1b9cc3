"""Conversations replayed from tapes by agents on every supported google-adk: no model is asked, and no tool runs."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from adk_envs import MATRIX
from adk_harness import failure, say, seen
from fake_gemini import Answer, FakeGemini, GenerateRequest
from test_adk_model_answers import WORDS, answer, asked_agent, printed

from agent_eval.agents.messages import ModelAsked, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval.agents.protocol import AgentFailure, FailureKind, Owner
from agent_eval.agents.tapes import (
    Mode,
    Order,
    Tape,
    TapeIndex,
    TapeSession,
    ToolRules,
    Unanswerable,
    tape_of,
    tape_text,
)

LATE = 0.15
"""Seconds by which a parallel agent is later than the other one."""


class Decider:
    """`CallDecider` of one session, on top of a TapeSession."""

    def __init__(self, mode: Mode, tape: Tape | None = None) -> None:
        index = None if tape is None else TapeIndex(tape, ToolRules())
        self.session = TapeSession(mode=mode, rules=ToolRules(), index=index, order=Order(patience=60))
        self.late = ""
        """The agent whose question arrives late."""

    async def ask(self, call: ToolAsked, so_far: Any) -> Any:
        return await self._answered(self.session.ask(call))

    async def model(self, asked: ModelAsked) -> Any:
        await asyncio.sleep(LATE if asked.agent == self.late else 0)
        return await self._answered(self.session.model(asked))

    async def _answered(self, decision: Any) -> Any:
        try:
            return await decision
        except Unanswerable as error:
            place = error.difference.place if error.difference else ""
            raise AgentFailure(place, kind=FailureKind.MODEL_NOT_RECORDED, owner=Owner.GATE) from None

    def model_news(self, news: Any) -> None:
        pass

    def model_ran(self, result: ModelRan) -> None:
        self.session.model_ran(result)

    def held(self) -> None: ...

    def ran(self, result: ToolRan) -> None:
        self.session.ran(result)

    def event(self, event: dict[str, Any]) -> None:
        """No order is kept here."""

    def toolset(self, toolset: ToolsetAsked) -> Any:
        return self.session.toolset(toolset)

    def listed(self, listing: ToolsetListed) -> None:
        self.session.listed(listing)

    def tape(self) -> Tape:
        """The recorded tape, as it is after it was written and read."""
        assert self.session.why_not_taped is None
        taped = tape_of([self.session], ToolRules(), chosen=self.session)
        facts: dict[str, Any] = {"tools": taped.tools, "calls": taped.calls}
        facts |= {"model_calls": taped.model_calls, "parts": taped.parts}
        tape = Tape.model_validate_json(tape_text(Tape(eval_set_id="s", eval_id="c", recorded_at=0, **facts)))
        assert tape.flaw() is None
        return tape


@pytest.mark.parametrize("version", MATRIX)
async def test_replay__gives_the_recorded_events(version: str, tmp_path: Path) -> None:
    late = {"name": ""}

    def delayed(asked: GenerateRequest) -> Answer:
        waits = bool(late["name"]) and f"You are {late['name']}." in asked.instruction
        return dataclasses.replace(answer(asked), latency=LATE if waits else None)

    live: dict[str, Any] = {}
    tapes: dict[str, Tape] = {}
    words = {**dict.fromkeys(WORDS, ""), "report": "right", "report ": "left"}
    with FakeGemini(delayed) as server:
        async with asked_agent(tmp_path / "live", server, version) as agent:
            for word, late["name"] in words.items():
                decider = Decider("record")
                live[word] = seen(await say(agent, word.strip(), tools=decider))
                tapes[word] = decider.tape()
        before = server.stats.requests, server.stats.connections
        async with asked_agent(tmp_path / "replay", server, version, key=None) as agent:
            for word, name in words.items():
                decider = Decider("all", tapes[word])
                decider.late = {"left": "right", "right": "left"}.get(name, "")
                assert seen(await say(agent, word.strip(), tools=decider)) == live[word], word
                assert decider.session.left == []
                assert decider.session.use.model_calls == len(tapes[word].model_calls) > 1
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
    assert printed(tmp_path / "replay", "own model asked") == []
