"""What the runner and the criteria need from an agent, whichever driver runs it."""

from __future__ import annotations

import enum
import functools
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, Self, TypeVar

from agent_eval.agents.messages import (
    Evaluated,
    ModelAsked,
    ModelNews,
    ModelRan,
    ToolAsked,
    ToolRan,
    ToolsetAsked,
    ToolsetListed,
)
from agent_eval.core.content import Content, FunctionCall
from agent_eval.core.errors import AgentEvalError
from agent_eval.core.invocation import Invocation, Raised
from agent_eval.core.limiter import Place
from agent_eval.core.problem import Problem
from agent_eval.evalset.models import ConversationScenario
from agent_eval.results import Waited

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
    place: Place | None = None
    """The run's concurrency slot. A driver may release it while the agent only waits to retry a model call."""
    turn_limit: float | None = None
    """Seconds that a whole turn may take. A turn that begins late in its case has less time."""
    tools: CallDecider | None = None
    """Decides whether tools run and models are asked; None: all of them. For drivers with `Driver.replays_tools`."""
    isolated: bool = False
    """Run this session in its own process: it was in flight when another process died."""


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


class Owner(enum.StrEnum):
    """Who has to act on a failure (docs/verdict.md)."""

    AGENT = "agent"
    """The pull request: the run failed."""
    PROVIDER = "provider"
    """An external service: the run says nothing about the pull request."""
    GATE = "gate"
    """The evaluation itself: it must be set up again before the run says anything."""


class FailureKind(enum.StrEnum):
    """What happened to the agent."""

    IMPORT = "agent-import"
    """The agent can't be loaded."""
    ENVIRONMENT = "agent-environment"
    """Its environment can't be created."""
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


class MetricFailureKind(enum.StrEnum):
    """What happened to a custom metric (docs/problems.md)."""

    ENVIRONMENT = "custom-metric-environment"
    """There is no interpreter for it, or its google-adk does not support custom metrics."""
    IMPORT = "custom-metric-import"
    """The function can't be imported."""
    EXCEPTION = "custom-metric-exception"
    """The function raised an exception."""
    RESULT = "custom-metric-invalid-result"
    """The function returned something that is not a result, or has no score."""
    DEADLINE = "custom-metric-deadline"
    """The function did not return in time."""
    CRASH = "custom-metric-crash"
    """Its process ended."""
    PROVIDER = "custom-metric-provider"
    """A model that it called was unavailable."""


_OF_A_PROVIDER = frozenset({FailureKind.PROVIDER, FailureKind.SERVER, MetricFailureKind.PROVIDER})
Kind = TypeVar("Kind", FailureKind, MetricFailureKind)


class _Failure(AgentEvalError, Generic[Kind]):
    """What the failures of agents and of their metrics have in common."""

    def __init__(
        self,
        message: str,
        *,
        kind: Kind,
        owner: Owner | None = None,
        traceback: str | None = None,
        log_tail: str | None = None,
        hint: str | None = None,
        collateral: bool = False,
        no_key: bool = False,
        served: Sequence[str] = (),
    ) -> None:
        """Describes the failure.

        Args:
            message: One sentence; of a metric without a full stop.
            kind: What happened.
            owner: Who has to act; None: the provider, if the kind names one, else the pull request.
            traceback: The agent's or the function's own traceback, or its stack if it hangs.
            log_tail: The last lines of its process's log.
            hint: What to do next.
            collateral: Other sessions may have caused it, also those that have ended: they had the same process, or
                overloaded a server. Try it once more with `isolated=True`.
            no_key: The model got no key, or refused it, and no variable of the job is withheld from the agent.
            served: The cases of all sessions that its process has had, in order.
        """
        super().__init__(message)
        self.message = message
        self.kind: Kind = kind
        self.owner = owner or (Owner.PROVIDER if kind in _OF_A_PROVIDER else Owner.AGENT)
        self.traceback = traceback
        self.log_tail = log_tail
        self.hint = hint
        self.collateral = collateral
        self.no_key = no_key
        self.served = served
        self.raised: Raised | None = None
        """The exception behind it."""
        self.waited: Waited | None = None
        """What a turn that ran out of time was waiting for."""
        self.unfinished: Invocation | None = None
        """The turn as far as it went."""

    def ran_before(self, case_id: str, most: int = 20) -> list[str]:
        """The cases that the process had served, other runs of this case among them; the latest first."""
        others = list(self.served)
        if case_id in others:
            others.remove(case_id)
        return list(dict.fromkeys(reversed(others)))[:most]

    def copy(self) -> Self:
        """The same failure for another task: raising one exception in many tasks would mix their Python tracebacks."""
        copied = type(self).__new__(type(self), *self.args)
        copied.__dict__.update(self.__dict__)
        return copied


class AgentFailure(_Failure[FailureKind]):
    """A turn, a session or the agent as a whole failed."""


class LateLoad(AgentFailure):
    """A process did not load in time, which a busy machine may have caused."""


EnvironmentFailure = functools.partial(AgentFailure, kind=FailureKind.ENVIRONMENT)
"""An AgentFailure: the agent's environment can't be created."""


class MetricFailure(_Failure[MetricFailureKind]):
    """A custom metric, which is code of the pull request, returned no result."""


class AgentRefused(AgentEvalError):
    """An agent can't be evaluated as it is configured. This is a mistake, not a result: the run ends with exit 2."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


@dataclass(frozen=True, kw_only=True)
class MetricCall:
    """One call of a custom metric: the arguments that ADK passes, not yet converted to ADK's types."""

    metric: str
    """The name in `criteria`."""
    function: str
    """`code_config.name`: `package.module.function`."""
    criterion: Mapping[str, Any]
    """The criterion's JSON object: `threshold` and any other fields."""
    actual: Sequence[Invocation]
    expected: Sequence[Invocation] | None
    """None for a scenario."""
    scenario: ConversationScenario | None


class MetricRunner(Protocol):
    """Runs custom metrics in a process with the agent's user and interpreter."""

    async def prepare(self, function: str) -> None:
        """Checks that a function can be called. Repeating the check is cheap.

        Raises:
            MetricFailure: The function can't be called.
        """
        ...

    async def evaluate(self, call: MetricCall) -> Evaluated:
        """Calls a function.

        Returns:
            The function's result, unchecked.

        Raises:
            MetricFailure: The function returned no result.
        """
        ...
