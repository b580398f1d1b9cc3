"""Starts the fixture agents in real processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from adk_envs import FIXTURES, adk_python

from agent_eval_agents.adk._driver import RETRY_OPTIONS, AdkAgent
from agent_eval_agents.host import HostSpec, ModelOutages
from agent_eval_agents.host.parents import Parents
from agent_eval_agents.messages import ModelAsked, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval_agents.protocol import AgentFailure, AgentRefused, FailureKind, Owner, Session, SessionRequest
from agent_eval_agents.sandbox.spawn import Sandbox
from agent_eval_agents.tapes import (
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
from agent_eval_scoring.core.content import user_message
from agent_eval_scoring.core.invocation import Invocation, InvocationEvents, tool_responses
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.core.masking import Masker


class Conversable(Protocol):
    """An agent of any driver."""

    async def open(self, request: SessionRequest) -> Session: ...


def host_spec(
    name: str,
    log_dir: Path,
    *,
    python: Path | Sequence[str] | None = None,
    environment: dict[str, str] | None = None,
    secrets: Iterable[str] = (),
    root: Path = FIXTURES,
    **options: Any,
) -> HostSpec:
    """Hosts of an agent of agents_fixtures (or of a dotted module)."""
    log_dir.mkdir(exist_ok=True)
    facts: dict[str, Any] = {
        "python": [str(python)] if isinstance(python, Path) else python or [str(adk_python())],
        "agent_path": name if "." in name.removesuffix(".py") else str(root / name),
        "root": root,
        "sandbox": Sandbox(environment={"PATH": os.environ["PATH"], "HOME": str(log_dir), **(environment or {})}),
        "masker": Masker(secrets),
        "log_dir": log_dir,
        "retry": RETRY_OPTIONS,
    }
    return HostSpec(**{**facts, **options})


def make(
    name: str,
    log_dir: Path,
    *,
    workers: int | None = 1,
    runs: int = 1,
    turn_timeout: float = 180.0,
    limiter: Limiter | None = None,
    **options: Any,
) -> AdkAgent:
    """An agent, not started.

    Its hosts are new interpreters, unless `python` is a command of host_forks.py.
    """
    outages = ModelOutages(turn_timeout=turn_timeout, limiter=limiter or Limiter(64), log=print)
    return AdkAgent(host_spec(name, log_dir, **options), outages, workers=workers, runs=runs)


@asynccontextmanager
async def forked(expected: int = 2) -> AsyncIterator[dict[str, Any]]:
    """Options of `running`: hosts are forked by a parent, or one becomes the host. They must be."""
    parents = Parents()
    async with parents.expecting(expected):
        yield {"parents": parents}
        made = [task.result() for task in (*parents._started.values(), *parents._became)]
        assert [parent is not None and not parent.refused and parent.became for parent in made] == [expected == 1]


class Startable(Protocol):
    """What is started and closed."""

    async def start(self) -> None: ...
    async def close(self) -> None: ...


A = TypeVar("A", bound=Startable)


@asynccontextmanager
async def started(agent: A) -> AsyncIterator[A]:
    """Closed at the end, also if its start fails."""
    try:
        await agent.start()
        yield agent
    finally:
        await agent.close()


@asynccontextmanager
async def running(name: str, log_dir: Path, **options: Any) -> AsyncIterator[AdkAgent]:
    """A started agent of agents_fixtures."""
    async with started(make(name, log_dir, **options)) as agent:
        yield agent


def request(**facts: Any) -> SessionRequest:
    return SessionRequest(
        **{
            "case_id": "f:c",
            "eval_set_id": "set",
            "eval_id": "case",
            "run": 0,
            "app_name": "app",
            "user_id": "u",
            **facts,
        }
    )


async def say(agent: Conversable, text: str, *more: str, timeout: float = 60, **facts: Any) -> Invocation:
    """The last invocation of a session of its own in which these texts were sent."""
    session = await agent.open(request(**facts))
    try:
        for message in (text, *more):
            invocation = await session.send(user_message(message), timeout=timeout)
        return invocation
    finally:
        await session.close()


async def failure(agent: Conversable, *texts: str, **facts: Any) -> AgentFailure:
    """The failure that the last of these texts provokes."""
    with pytest.raises(AgentFailure) as caught:
        await say(agent, *(texts or ("hello",)), **facts)
    return caught.value


async def start_failure(name: str, log_dir: Path, **options: Any) -> AgentFailure:
    """The failure of an agent that can't be started."""
    with pytest.raises(AgentFailure) as caught:
        async with running(name, log_dir, **options):
            pass
    return caught.value


async def pid(agent: Conversable, of: str = "pid") -> int:
    """The process id that a tool of the agent `faults` answers: its host's, or that of a process that it starts."""
    response = tool_responses((await say(agent, of)).intermediate_data)[0].response
    assert response is not None
    return int(response["pid"])


def seen(invocation: Invocation, *, in_parallel: bool = False) -> Any:
    """An invocation without ids and times; of agents in parallel without the order of their events."""
    raw = invocation.model_dump(mode="json", exclude_none=True)
    for key in ("invocation_id", "creation_timestamp", "duration", "model_duration", "tool_duration", "spans"):
        raw.pop(key, None)
    events = json.loads(json.dumps(raw), object_hook=_without_ids)
    if in_parallel:
        # The last answer may be that of either agent; its event has no content then.
        made = events["intermediate_data"]["invocation_events"]
        contents = [events["final_response"], *(event["content"] for event in made if "content" in event)]
        return sorted(json.dumps(content, sort_keys=True) for content in contents)
    return events


def _without_ids(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != "id"}


def headline(error: AgentFailure | AgentRefused) -> list[str]:
    """The kind of a failure, whose it is, and what people read of it."""
    if isinstance(error, AgentRefused):
        what, message, hint = f"refused, {error.problem.code}", error.problem.message, error.problem.hint
    else:
        collateral = ", collateral" if error.collateral else ""
        what, message, hint = f"{error.kind.value}, {error.owner.value}{collateral}", error.message, error.hint
    return [f"{what}: {message}", *([f"hint: {hint}"] if hint else [])]


def failure_lines(error: AgentFailure) -> list[str]:
    """All that is said of a failure but how long something was waited for."""
    lines = headline(error)
    if error.raised:
        lines.append(f"raised: {error.raised}")
        assert f"line {error.raised.line}," in (error.traceback or "")
    if error.waited:
        lines.append(f"waited: {error.waited.model_dump(exclude={'seconds'})}")
        assert 0 <= error.waited.seconds < 60
    lines += [error.traceback] if error.traceback else []
    lines += re.findall(r"(?m)^(?:about|Fatal|the value|raw|child) .*", error.log_tail or "")
    return lines + (["unfinished:", *turn_lines(error.unfinished)] if error.unfinished else [])


def turn_lines(turn: Invocation) -> list[str]:
    """A turn without ids and times: its events, its answer, its spans, and its agents."""
    assert isinstance(turn.intermediate_data, InvocationEvents)
    lines = []
    for event in turn.intermediate_data.invocation_events:
        lines.append(repr(event.model_dump(exclude_none=True, exclude={"invocation_id", "timestamp"})))
    if turn.final_response is not None:
        lines.append(f"= {turn.final_response.model_dump(exclude_none=True)}")
    lines += [f"reported by {error.author} after {error.after} events: {error}" for error in turn.errors]
    for span in turn.spans or ():
        lines.append(repr(span.model_dump(exclude_defaults=True, exclude={"start", "end", "call_id"})))
    for name, agent in turn.app_details.agent_details.items() if turn.app_details else ():
        tools = [tool["name"] for each in agent.tool_declarations for tool in each["function_declarations"]]
        lines.append(f"{name}, with {tools}: {agent.instructions.splitlines()[0]}")
    return lines


class Decider:
    """`CallDecider` of one session, on top of a TapeSession, which keeps no order of events here."""

    late, seconds = "", 0.2
    """An agent whose questions for a model arrive later by that."""

    def __init__(
        self,
        mode: Mode = "record",
        tape: Tape | None = None,
        rules: ToolRules | None = None,
        by_hand: TapeIndex | None = None,
    ) -> None:
        rules = rules or ToolRules()
        index = None if tape is None else TapeIndex(tape, rules)
        self.session = TapeSession(mode=mode, rules=rules, index=index, by_hand=by_hand, order=Order(patience=60))
        self.tools: list[str] = []
        self.asked: list[ModelAsked] = []
        self.results: list[ModelRan] = []
        self.unanswerable: list[Unanswerable] = []

    async def ask(self, call: ToolAsked, so_far: Any, look: Any) -> Any:
        self.tools.append(call.name)
        return await self._answered(self.session.ask(call, look), FailureKind.NOT_RECORDED)

    async def model(self, asked: ModelAsked) -> Any:
        self.asked.append(asked)
        await asyncio.sleep(self.seconds if asked.agent == self.late else 0)
        return await self._answered(self.session.model(asked), FailureKind.MODEL_NOT_RECORDED)

    async def _answered(self, decision: Any, kind: FailureKind) -> Any:
        try:
            return await decision
        except Unanswerable as error:
            self.unanswerable.append(error)
            message = error.difference.place if error.difference else str(error)
            raise AgentFailure(message, kind=kind, owner=Owner.GATE) from None

    def model_news(self, news: Any) -> None:
        self.session.model_news(news)

    def model_ran(self, result: ModelRan) -> None:
        self.results.append(result)
        self.session.model_ran(result)

    def held(self) -> None: ...

    def ran(self, result: ToolRan) -> None:
        self.session.ran(result)

    def event(self, event: Any) -> None: ...

    def toolset(self, toolset: ToolsetAsked) -> Any:
        return self.session.toolset(toolset)

    def listed(self, listing: ToolsetListed) -> None:
        self.session.listed(listing)

    def of(self, agent: str) -> list[ModelRan]:
        """What the models of an agent answered."""
        calls = [asked.call for asked in self.asked if asked.agent == agent]
        return [result for result in self.results if result.call in calls and not result.is_dealt]

    def tape(self) -> Tape:
        """The recorded tape, as it is after it was written and read."""
        assert self.session.why_not_taped is None
        taped = tape_of([self.session], ToolRules(), chosen=self.session)
        assert not taped.varying
        facts: dict[str, Any] = {"tools": taped.tools, "calls": taped.calls, "toolsets": taped.toolsets}
        facts |= {"model_calls": taped.model_calls, "parts": taped.parts}
        tape = Tape.model_validate_json(tape_text(Tape(eval_set_id="s", eval_id="c", recorded_at=0, **facts)))
        assert tape.flaw() is None
        return tape
