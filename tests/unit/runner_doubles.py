"""An agent in the test's own process, and plans for it: what a user says decides what it does."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_eval.runner.execution import Execution, Limits
from agent_eval.runner.journal import Journal
from agent_eval.runner.plan import Plan, PlannedCase
from agent_eval_agents.protocol import Agent, AgentFailure, FailureKind, Owner, Session, SessionRequest
from agent_eval_results.data.report import CaseReport
from agent_eval_scoring.core.content import Content, model_message, text_of, user_message
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.limiter import Limiter
from agent_eval_scoring.criteria.registry import build
from agent_eval_scoring.evalset.models.schema import ConversationScenario, CriterionConfig, EvalCase, SessionInput
from agent_eval_scoring.models.protocol import Model, ModelReply, ModelRequest, ModelUsage

RESPONSE = build(CriterionConfig(metric="response_match_score", threshold=0.9))


def turn(message: str, expected: str | None = None) -> Invocation:
    """A turn of an eval case; by default it expects what the agent will answer."""
    return Invocation(user_content=user_message(message), final_response=model_message(expected or message))


def planned(eval_id: str, *messages: str, agent: str = "agent", wrong: bool = False, **facts: Any) -> PlannedCase:
    """A case whose turns say this; `wrong` if its answers don't match."""
    turns = [turn(message, "something else entirely" if wrong else None) for message in messages or ("hello",)]
    case = EvalCase(eval_id=eval_id, conversation=turns, session_input=facts.pop("session_input", None))
    return PlannedCase(
        case_id=f"a.test.json:{eval_id}",
        file="a.test.json",
        line=3,
        eval_set_id="set",
        case=case,
        criteria=(RESPONSE,),
        agent=agent,
        **{"fingerprint": "f", **facts},
    )


def session_input(**facts: Any) -> SessionInput:
    return SessionInput(**{"app_name": "app", "user_id": "somebody", **facts})


@dataclass(kw_only=True)
class EchoAgent:
    """Answers with what it was told, after doing what that says: `sleep:0.1`, `raise`, `outage`, `crash`, `hang`."""

    refuses: AgentFailure | None = None
    """Why it can't be started."""
    start_seconds: float = 0.0
    first_runs_fail: int = 0
    """`flaky` raises, and `learning` answers badly, in so many runs."""
    opened: list[SessionRequest] = field(default_factory=list)
    sent: list[str] = field(default_factory=list)
    closed: int = 0
    shows_tool_calls: bool = True
    in_flight: int = 0
    most: int = 0
    crashed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def metrics(self) -> None:
        return None

    @property
    def provenance(self) -> Mapping[str, str]:
        return {"driver": "echo"}

    async def start(self) -> None:
        await asyncio.sleep(self.start_seconds)
        if self.refuses is not None:
            raise self.refuses

    async def open(self, request: SessionRequest) -> Session:
        self.opened.append(request)
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        if request.eval_id == "closed-door":
            self.in_flight -= 1
            raise AgentFailure("No session for you", kind=FailureKind.CRASH)
        return EchoSession(agent=self, request=request, shows_tool_calls=self.shows_tool_calls)

    async def close(self) -> None:
        pass


@dataclass(kw_only=True)
class EchoSession:
    agent: EchoAgent
    request: SessionRequest
    shows_tool_calls: bool = True

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        message = text_of(content)
        self.agent.sent.append(message)
        word, _, value = message.partition(":")
        match word:
            case "sleep":
                await self._within(timeout, float(value))
            case "hang":
                await self._within(timeout, 1e6, content)
            case "raise":
                raise AgentFailure(
                    "The tool broke" + value, kind=FailureKind.EXCEPTION, traceback="Trace " * 2_000, hint="Mend"
                )
            case "outage":
                raise AgentFailure("503", kind=FailureKind.PROVIDER, owner=Owner.PROVIDER)
            case "flaky" if self.request.run < self.agent.first_runs_fail:
                raise AgentFailure("Not yet", kind=FailureKind.EXCEPTION)
            case "crash":
                await asyncio.sleep(0.02)
                self._crash()
            case "bystander" if not self.request.isolated:
                async with asyncio.timeout(5):
                    await self.agent.crashed.wait()
                self._crash()
            case "learning" if self.request.run < self.agent.first_runs_fail:
                return Invocation(user_content=content, final_response=model_message("nothing of the kind"))
            case "bug":
                raise RuntimeError("a bug of the driver")
            case _:
                pass
        return Invocation(user_content=content, final_response=model_message(message))

    def _crash(self) -> None:
        self.agent.crashed.set()
        raise AgentFailure("It left", kind=FailureKind.CRASH, collateral=not self.request.isolated)

    async def _within(self, timeout: float, seconds: float, content: Content | None = None) -> None:
        await asyncio.sleep(min(timeout, seconds))
        if seconds > timeout:
            failure = AgentFailure(f"More than {timeout:g} s", kind=FailureKind.DEADLINE)
            failure.unfinished = None if content is None else Invocation(user_content=content)
            raise failure

    async def close(self) -> None:
        self.agent.in_flight -= 1
        self.agent.closed += 1


@dataclass(kw_only=True)
class TalkativeUser:
    """The model of a simulated user that always has more to say."""

    seconds: float
    """That it takes for it."""
    says: str = "and more"

    async def generate(self, request: ModelRequest) -> ModelReply:
        await asyncio.sleep(self.seconds)
        return ModelReply(text=self.says, value=None, usage=ModelUsage(), model_version="t", calls=1, cached=False)

    async def close(self) -> None:
        pass


def endless(eval_id: str, first: str = "hello") -> PlannedCase:
    """A case whose simulated user may talk for ever."""
    case = EvalCase(
        eval_id=eval_id, conversation_scenario=ConversationScenario(starting_prompt=first, conversation_plan="Go on.")
    )
    return dataclasses.replace(planned(eval_id), case=case, user_config={"max_allowed_invocations": -1})


def execution(
    folder: Path,
    cases: Sequence[PlannedCase],
    *,
    num_runs: int = 1,
    agents: Mapping[str, Agent] | None = None,
    resume: bool = False,
    model: Model | None = None,
    **limits: Any,
) -> Execution:
    """Ready to run. The journal lies in `folder`."""
    chosen = Limits(**limits)
    plan = Plan(cases=tuple(cases), num_runs=num_runs)
    return Execution(
        plan=dataclasses.replace(plan, weights={case.case_id: float(case.turns) for case in cases}),
        agents=agents or {"agent": EchoAgent()},
        journal=Journal(folder / "journal.jsonl", resume=resume),
        limits=chosen,
        limiter=Limiter(chosen.concurrency),
        model=model,
    )


async def run(folder: Path, cases: Sequence[PlannedCase], **options: Any) -> list[CaseReport]:
    """Runs a plan to its end."""
    run = execution(folder, cases, **options)
    try:
        async with asyncio.timeout(20):
            return await run.run()
    finally:
        run.journal.close()


def statuses(reports: Sequence[CaseReport]) -> dict[str, str]:
    """By eval id."""
    return {report.eval_id: report.status for report in reports}
