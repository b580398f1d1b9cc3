"""What a host tells, as the gate reads it (docs/host-protocol.md).

Unknown keys are left out: a newer host may tell more.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, FiniteFloat, NonNegativeFloat

from agent_eval.core.wire import WireModel


class _Message(WireModel):
    model_config = ConfigDict(extra="ignore", defer_build=True, alias_generator=None, validate_by_name=True)


class Hello(_Message):
    """Params of `hello`."""

    role: str
    """What the host is if nobody asks for anything else."""
    roles: list[str] = Field(default_factory=list)
    """Everything that it can be; empty: `role` alone."""
    versions: list[int]
    capabilities: list[str] = Field(default_factory=list)
    python: str = ""


class Loaded(_Message):
    """Result of `load`."""

    adk: str = ""
    genai: str = Field("", alias="google-genai")
    agent: str = ""
    """The root agent's name."""
    seconds: dict[str, FiniteFloat] = Field(default_factory=dict)
    """How long the import of `adk` and of the `agent` took."""


class Attempt(_Message):
    """A failed attempt of a model call."""

    status: int | None = None
    """Of HTTP; None if no answer came."""
    cause: str = ""
    """In a few words that are the same each time: `connection refused`."""


class ModelCallFacts(_Message):
    """A call of the agent's model that has no answer."""

    model: str = ""
    address: str = ""
    """Scheme, host and port; empty where the host does not see attempts (other clients than google-genai)."""
    remote: bool = False
    """Whether code that is not the agent's own asks it over the network."""
    seconds: NonNegativeFloat = 0.0
    """Since its first attempt began."""
    silent: NonNegativeFloat = 0.0
    """Seconds that the attempt under way has waited for an answer, or for the next part of a streamed one."""
    attempts: list[Attempt] = Field(default_factory=list)
    """The failed ones, oldest first."""


class ModelNews(_Message):
    """Params of `model`: an attempt began, ended, or still waits."""

    turn: int
    call: int
    model: str = ""
    address: str = ""
    what: Literal["asked", "answered", "failed", "silent"]
    status: int | None = None
    cause: str = ""
    seconds: NonNegativeFloat = 0.0
    """Of silence."""


class Pause(_Message):
    """Params of `pause`: a model call waits for `resume` before its next attempt."""

    turn: int
    call: int
    seconds: NonNegativeFloat
    """How long it should wait at least."""


class ErrorData(_Message):
    """Data of an error answer: what was raised."""

    type: str = ""
    classes: list[str] = Field(default_factory=list)
    """Full names of the class and its ancestors."""
    traceback: str | None = None
    origin: str = "agent"
    """`model` if it came out of a model call."""
    status: int | None = None
    """HTTP status of the failed model call."""
    exit: int | None = None
    """Code of a `sys.exit()`."""
    call: ModelCallFacts | None = None
    """The model call that it came out of, where known."""


class Waiting(ModelCallFacts):
    """Params of `waiting`: what a turn waited for when it was cancelled; of a model also the facts of its call."""

    turn: int
    where: str = ""
    """The stack there."""
    at: str = ""
    """The agent's own innermost line in it: `agent.py:41: await look_up(room)`."""
    kind: str = Field("", alias="for")
    """`model` or `tool`."""
    name: str = ""
    calls: int = 0
    """Model calls of this turn that had ended."""
    stalled: NonNegativeFloat = 0.0
    """Seconds of the turn in which the host's event loop stood still, blocked by this turn or by another."""


class Stack(_Message):
    """Result of `stack`: where the main thread is."""

    where: str = ""
    at: str = ""


class Started(_Message):
    """Params of `started`: a custom metric is called now."""

    turn: int


class AgentRequest(_Message):
    """The first model request of an agent in a turn."""

    agent: str
    instructions: str = ""
    tools: list[Any] = Field(default_factory=list)


class TurnFacts(_Message):
    """Result of `send`: what the host measured of a turn, besides its events."""

    started_at: FiniteFloat = 0.0
    """Unix time in seconds."""
    duration: FiniteFloat | None = None
    """Wall seconds, as the next two: awaiting a model, and inside tools without awaiting a model."""
    model_duration: FiniteFloat | None = None
    tool_duration: FiniteFloat | None = None
    requests: list[AgentRequest] = Field(default_factory=list)


class RubricTold(_Message):
    """What a custom metric says of one rubric."""

    rubric_id: str = ""
    score: Any = None
    rationale: str = ""


class ScoreTold(_Message):
    """What a custom metric says of a turn."""

    score: Any = None
    """As it was given: it may be anything."""
    status: str = ""
    """Name of ADK's EvalStatus."""
    rubrics: list[RubricTold] = Field(default_factory=list)


class Evaluated(ScoreTold):
    """Result of `evaluate`: what a custom metric returned."""

    type: str = ""
    """Name of the result's class; what follows is known for ADK's EvaluationResult only."""
    shown: str = ""
    """The beginning of another result, as text."""
    turns: list[ScoreTold] = Field(default_factory=list)
