"""What a host tells, as the gate reads it (docs/host-protocol.md).

Unknown keys are left out: a newer host may tell more.
"""

from __future__ import annotations

from typing import Any

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


class Waiting(_Message):
    """Params of `waiting`: what a turn waited for when it was cancelled."""

    turn: int
    where: str = ""
    """The stack there."""
    kind: str = Field("", alias="for")
    """`model` or `tool`."""
    name: str = ""
    seconds: NonNegativeFloat = 0.0
    attempts: list[int] = Field(default_factory=list)
    """HTTP statuses of the failed attempts of the model call that is under way."""


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
