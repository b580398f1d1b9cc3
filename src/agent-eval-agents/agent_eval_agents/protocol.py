"""What the runner and the criteria need from an agent, whichever driver runs it."""

from __future__ import annotations

import enum
import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_eval_agents.messages import ModelAsked, ModelNews, ModelRan, ToolAsked, ToolRan, ToolsetAsked, ToolsetListed
from agent_eval_scoring.core.content import Content, FunctionCall
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.limiter import Place
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.recording import Failure
from agent_eval_scoring.core.recording import Owner as Owner
from agent_eval_scoring.evalset.metric_runner import MetricRunner
from agent_eval_scoring.evalset.models import EvalCase, SeededEvent

Look = Callable[[Collection[str]], Awaitable[Mapping[str, str]]]
"""Asks the host of a call what this would see now; see `look` in docs/host-protocol.md."""


SoFar = Callable[[], Sequence[FunctionCall]]
"""Returns all calls of a turn that the agent's events show."""


class CallDecider(Protocol):
    """Decides about the calls of tools and models of one session."""

    async def ask(self, call: ToolAsked, so_far: SoFar, look: Look) -> Mapping[str, Any]:
        """Decides about a call whose body is about to run. It may wait: it is cancelled when the turn ends.

        Args:
            call: The call.
            so_far: Returns all calls of the turn that the agent's events show, this one included.
            look: Asks its host.

        Returns:
            The result of `tool` (docs/host-protocol.md).

        Raises:
            AgentFailure: The call has no answer and must not run. The turn ends.
        """
        ...

    def held(self) -> AgentFailure | None:
        """Of a turn whose time is over: why its calls wait for a decision; None if none does."""
        ...

    def ran(self, result: ToolRan) -> None:
        """Receives the outcome of a body that has run.

        Raises:
            AgentFailure: It is not what was recorded. The turn ends.
        """
        ...

    async def model(self, asked: ModelAsked) -> Mapping[str, Any]:
        """Decides about a call of a model, as `ask` does about one of a tool.

        Returns:
            The result of `model` (docs/host-protocol.md).

        Raises:
            AgentFailure: The call has no answer and must not be made. The turn ends.
        """
        ...

    def model_ran(self, result: ModelRan) -> None:
        """Receives what a model has answered; of some calls twice (see ModelRan)."""
        ...

    def event(self, event: Mapping[str, Any]) -> None:
        """Receives each event of the session as the host sends it."""
        ...

    def model_news(self, news: ModelNews) -> None:
        """Receives that a model was asked, also by code that the gate can't answer.

        Raises:
            AgentFailure: No model may be asked. The turn ends.
        """
        ...

    def toolset(self, toolset: ToolsetAsked) -> Mapping[str, Any]:
        """The result of `toolset` (docs/host-protocol.md): which tools an MCP server has, or that it is asked."""
        ...

    def listed(self, listing: ToolsetListed) -> None:
        """Receives the tools of an MCP server that was asked."""
        ...


@dataclass(frozen=True, kw_only=True)
class SessionRequest:
    """A session to open: one run of one case."""

    case_id: str = ""
    """`file:eval_id`; empty if the case comes from no file."""
    eval_set_id: str
    eval_id: str
    run: int
    """0-based."""
    app_name: str
    user_id: str
    session_id: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    case: EvalCase | None = None
    """The case: what was said before is appended to the new session; traces without ids are known by its messages."""
    place: Place | None = None
    """The run's concurrency slot. A driver may release it while the agent only waits to retry a model call."""
    turn_limit: float | None = None
    """Seconds that a whole turn may take. A turn that begins late in its case has less time."""
    tools: CallDecider | None = None
    """Decides whether tools run and models are asked; None: all of them. For drivers with `Driver.replays_tools`."""
    reads_state: bool = False
    """Whether a criterion reads the session's state. A driver that has it at hand gives it anyway."""
    isolated: bool = False
    """Run this session in its own process: it was in flight when another process died."""

    @property
    def events(self) -> Sequence[SeededEvent]:
        """What was said before. For drivers with `Driver.takes_state`."""
        return () if self.case is None else self.case.past

    @property
    def past(self) -> dict[str, list[dict[str, Any]]]:
        """The events as JSON, for a host; nothing if there are none."""
        events = [event.model_dump(mode="json", exclude_none=True) for event in self.events]
        return {"events": events} if events else {}


class Session(Protocol):
    """One conversation with the agent. Turns are sent one after another."""

    @property
    def shows_tool_calls(self) -> bool:
        """Whether the turns so far hold all tool calls of the agent; False if a turn without calls proves nothing."""
        ...

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Sends a user's message and waits for the turn to end.

        Cancelling is safe: the driver stops the turn, or ends its process if the turn can't be stopped.

        Args:
            content: The message, as written in the eval case.
            timeout: Seconds that the turn may take.

        Raises:
            AgentFailure: The turn did not end with an answer. If a process that no longer responds has other sessions
                in flight, the failure is `collateral`, because any of the sessions may have blocked the process.
        """
        ...

    async def close(self) -> None:
        """Ends the session. Never raises; may be called twice."""
        ...


class Agent(Protocol):
    """An agent that can hold many sessions at once."""

    @property
    def provenance(self) -> Mapping[str, str]:
        """Versions that explain a score: interpreter, ADK, driver. Complete after `start`."""
        ...

    @property
    def metrics(self) -> MetricRunner | None:
        """Runs the custom metrics that come with the agent; None if the agent's code does not run here."""
        ...

    async def start(self) -> None:
        """Makes the agent ready.

        Raises:
            AgentFailure: The agent can't be started, so none of its cases can run.
            AgentRefused: The agent is configured wrongly.
        """
        ...

    async def open(self, request: SessionRequest) -> Session:
        """Opens a session.

        Raises:
            AgentFailure: The session can't be opened.
            AgentRefused: The agent can't open such a session.
        """
        ...

    async def close(self) -> None:
        """Ends everything that belongs to the agent. Never raises. One with processes here can be started again."""
        ...


class FailureKind(enum.StrEnum):
    """What happened to the agent."""

    IMPORT = "agent-import"
    """The agent can't be loaded."""
    ENVIRONMENT = "agent-environment"
    """Its environment can't be created."""
    SERVER_DOWN = "agent-server-down"
    """The server that this job starts, or that the gate starts for it, does not answer."""
    EXCEPTION = "agent-exception"
    """The agent or one of its tools raised an exception."""
    NO_ANSWER = "agent-no-answer"
    """The turn ended without an event, or a recording has no such turn."""
    DEADLINE = "deadline"
    """A turn or the case took too long."""
    CRASH = "agent-crash"
    """Its process ended."""
    PROTOCOL = "agent-protocol"
    """Its process sent something that is not our protocol."""
    PROVIDER = "provider-unavailable"
    """Its model provider refused or was unreachable, after retries."""
    SERVER = "server-unavailable"
    """The server of a remote agent, or an MCP server, refused, was overloaded, unreachable or broke off."""
    NOT_RECORDED = "tool-not-recorded"
    """A tool call is not on the case's tape."""
    TAPE_MISSING = "tool-tape-missing"
    """The case has no tape."""
    TAPE_STALE = "tool-tape-stale"
    """A tool has changed since its answers were recorded."""
    NOT_REPLAYABLE = "tool-not-replayable"
    """A recorded tool call can't be replayed."""
    MODEL_NOT_RECORDED = "model-not-recorded"
    """What the agent asks its model is not on the case's tape."""
    MODEL_CALLS_LEFT = "model-calls-left"
    """The conversation ended, and the agent has not made all recorded calls."""
    TAPE_CHANGED = "tape-changed"
    """The case's tape is not the base branch's."""


class AgentFailure(Failure[FailureKind]):
    """A turn, a session or the agent as a whole failed."""


class LateLoad(AgentFailure):
    """A process did not load in time, which a busy machine may have caused."""


EnvironmentFailure = functools.partial(AgentFailure, kind=FailureKind.ENVIRONMENT)
"""An AgentFailure: the agent's environment can't be created."""


class AgentRefused(AgentEvalError):
    """An agent can't be evaluated as it is configured. This is a mistake, not a result: the run ends with exit 2."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem
