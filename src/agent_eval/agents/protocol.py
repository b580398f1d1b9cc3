"""What the runner needs of an agent, whatever it is and wherever it runs."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_eval.core.content import Content
from agent_eval.core.invocation import Invocation
from agent_eval.core.limiter import Place


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a driver can do; criteria and the plan ask before they rely on it."""

    state: bool = False
    """Session state from `session_input` reaches the agent."""
    tool_mocks: bool = False
    """Tool calls can be answered from a recording."""
    app_details: bool = False
    """Invocations carry instructions and tool declarations."""


@dataclass(frozen=True, kw_only=True)
class SessionRequest:
    """A session to open: one run of one case."""

    case_id: str = ""
    """File and eval id, which identify a case; empty where there is no file."""
    eval_set_id: str
    eval_id: str
    run: int
    """0-based."""
    app_name: str
    user_id: str
    session_id: str | None = None
    state: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = None
    """What the run holds of the gate's concurrency. A driver may lend it while the agent only waits to ask its model
    again."""
    turn_limit: float | None = None
    """Seconds that a whole turn may take; a turn that begins late in its case is given less."""
    isolated: bool = False
    """Give this session a process of its own: it was in flight when another one died."""


class Session(Protocol):
    """One conversation with the agent. Turns are sent one after another."""

    async def send(self, content: Content, *, timeout: float) -> Invocation:
        """Sends a user's message and waits for the turn to end.

        Cancelling is safe: the driver stops the turn, or gives up its process if it can't.

        Args:
            content: The message, as it stands in the eval case.
            timeout: Seconds that the turn may take.

        Raises:
            AgentFailure: The turn did not end with an answer. On a time-out of a process that no longer reacts, with
                other sessions in flight, it is `collateral`: nobody knows yet which session hangs it.
        """
        ...

    async def close(self) -> None:
        """Ends the session. Never raises, may be called twice."""
        ...


class Agent(Protocol):
    """An agent that can hold many sessions at once."""

    @property
    def capabilities(self) -> Capabilities:
        """Known after `start`."""
        ...

    @property
    def provenance(self) -> Mapping[str, str]:
        """Versions that explain a score: interpreter, ADK, driver. Known after `start`."""
        ...

    async def start(self) -> None:
        """Makes the agent ready.

        Raises:
            AgentFailure: It can't be; no case of it can run.
        """
        ...

    async def open(self, request: SessionRequest) -> Session:
        """Opens a session.

        Raises:
            AgentFailure: It could not be opened.
        """
        ...

    async def close(self) -> None:
        """Ends everything that belongs to the agent. Never raises."""
        ...


class Owner(enum.StrEnum):
    """Whose failure it is (docs/verdict.md)."""

    AGENT = "agent"
    """The pull request's own: the run failed."""
    PROVIDER = "provider"
    """The world's: the run says nothing about the pull request."""


class FailureKind(enum.StrEnum):
    """What happened to the agent."""

    IMPORT = "agent-import"
    """The agent can't be loaded."""
    ENVIRONMENT = "agent-environment"
    """Its environment can't be made."""
    EXCEPTION = "agent-exception"
    """It, or a tool of it, raised."""
    NO_ANSWER = "agent-no-answer"
    """The turn ended without an event, or a recording has no such turn."""
    DEADLINE = "deadline"
    """A turn or the case took too long."""
    CRASH = "agent-crash"
    """Its process ended."""
    PROTOCOL = "agent-protocol"
    """Its process wrote something else than our protocol."""
    PROVIDER = "provider-unavailable"
    """Its model provider refused or could not be reached, after retries."""


class AgentFailure(Exception):
    """A turn, a session or the agent as a whole failed."""

    def __init__(
        self,
        message: str,
        *,
        kind: FailureKind,
        owner: Owner = Owner.AGENT,
        traceback: str | None = None,
        log_tail: str | None = None,
        hint: str | None = None,
        collateral: bool = False,
    ) -> None:
        """Describes the failure.

        Args:
            message: One sentence.
            kind: What happened.
            owner: Whose failure it is.
            traceback: The agent's own traceback.
            log_tail: The last lines that its process wrote.
            hint: What to do next.
            collateral: The process went down with several sessions in flight, so this one may be innocent; it is
                worth one more try with `isolated=True`.
        """
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.owner = owner
        self.traceback = traceback
        self.log_tail = log_tail
        self.hint = hint
        self.collateral = collateral
