"""ADK's eval set: cases with conversations or scenarios, and initial sessions."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, WrapSerializer, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import PydanticCustomError

from agent_eval_scoring.core.content import Content, text_of
from agent_eval_scoring.core.invocation import Invocation, Rubric
from agent_eval_scoring.core.problem import Problem, errors_of
from agent_eval_scoring.core.wire import WireModel
from agent_eval_scoring.evalset.models.dataset import DatasetCase
from agent_eval_scoring.evalset.models.packed import unpacked

_KEEP_UNKNOWN = ConfigDict(
    alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="allow", defer_build=True
)


class SeededEvent(WireModel):
    """An event of the past: appended to the new session, not run. Not in ADK's format."""

    author: str
    """`user`, or an agent; `model` means the root agent."""
    content: Content


class SessionInput(WireModel):
    """The initial session of a case."""

    model_config = _KEEP_UNKNOWN

    app_name: str
    user_id: str
    session_id: str | None = None
    """Id of the session; None lets the driver choose it."""
    state: dict[str, Any] = Field(default_factory=dict)
    events: SkipJsonSchema[list[SeededEvent]] = Field(default_factory=list, exclude_if=lambda value: not value)
    """What happened before the first turn. Not in ADK's format."""


class UserBehavior(BaseModel):
    """A trait of a persona. snake_case only, as in ADK."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    name: str
    description: str
    behavior_instructions: list[str]
    violation_rubrics: list[str]


class UserPersona(BaseModel):
    """The persona of the simulated user."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    id: str
    description: str
    behaviors: list[UserBehavior]


PERSONA_IDS = ("EXPERT", "NOVICE", "EVALUATOR")
"""Ids of ADK 2.13.0's personas, case-sensitive."""


def _persona_form(value: Any) -> str:
    return "id" if isinstance(value, str) else "inline"


class ConversationScenario(WireModel):
    """A conversation led by a simulated user."""

    starting_prompt: str
    conversation_plan: str
    user_persona: (
        Annotated[Annotated[UserPersona, Tag("inline")] | Annotated[str, Tag("id")], Discriminator(_persona_form)]
        | None
    ) = None
    """Inline, or one of PERSONA_IDS."""


class EvalCase(WireModel):
    """One case: either a conversation of turns or a scenario."""

    model_config = _KEEP_UNKNOWN

    eval_id: str
    # In a run of the gate it is `PackedTurns`.
    conversation: Annotated[
        list[Invocation] | None, WrapSerializer(lambda value, handler: handler(unpacked(value)))
    ] = None
    conversation_scenario: ConversationScenario | None = None
    session_input: SessionInput | None = None
    creation_timestamp: float = 0.0
    rubrics: list[Rubric] | None = None
    """Apply to every turn of the case."""
    final_session_state: dict[str, Any] | None = Field(default_factory=dict)
    """Read by the criterion `final_session_state`, which ADK has not."""
    dataset_case: SkipJsonSchema[DatasetCase | None] = Field(default=None, exclude_if=lambda value: value is None)
    """The case as agents-cli's dataset has it; None for ADK's files."""

    @property
    def expected_state(self) -> dict[str, Any]:
        """What is expected of the session's state at the end; not of keys that last for one turn."""
        return {key: value for key, value in (self.final_session_state or {}).items() if not key.startswith("temp:")}

    @property
    def user_texts(self) -> list[str]:
        """What the user says in each fixed turn; empty for a scenario."""
        return [text_of(turn.user_content).strip() for turn in self.conversation or ()]

    @property
    def past(self) -> Sequence[SeededEvent]:
        """What was said before the first turn."""
        return () if self.session_input is None else self.session_input.events

    @model_validator(mode="after")
    def _exactly_one_conversation(self) -> Self:
        if self.conversation is not None and self.conversation_scenario is not None:
            raise PydanticCustomError("two_conversations", "The case has both a conversation and a scenario.")
        if self.conversation is None and self.conversation_scenario is None:
            raise PydanticCustomError("no_conversation", "The case has neither a conversation nor a scenario.")
        return self


class EvalSet(BaseModel):
    """The content of an eval file. snake_case only, unknown keys ignored, as in ADK."""

    model_config = ConfigDict(extra="ignore", defer_build=True)

    eval_set_id: str
    name: str | None = None
    description: str | None = None
    eval_cases: list[EvalCase]
    creation_timestamp: float = 0.0


class MatchType(enum.Enum):
    """How the actual tool calls must match the expected ones."""

    EXACT = 0
    IN_ORDER = 1
    ANY_ORDER = 2


@dataclass(frozen=True, kw_only=True)
class CriterionConfig:
    """One configured criterion, validated."""

    metric: str
    """ADK's name, e.g. `tool_trajectory_avg_score`."""
    threshold: float | None
    """None: only compared with the base branch."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Every other field of the criterion in snake_case, with defaults filled in and values typed
    (`match_type` is a MatchType)."""
    label: str = ""
    """The name in reports if it is not the metric's: agents-cli's, or another one beside the same metric."""
    direction: Literal["higher", "lower", "none"] = "higher"
    """Which scores are better; none: the score is only reported."""

    @property
    def name(self) -> str:
        """The name in reports."""
        return self.label or self.metric

    @property
    def bound(self) -> float:
        """The threshold as a number: any score reaches one that is missing."""
        return -math.inf if self.threshold is None else self.threshold


@dataclass(frozen=True, kw_only=True)
class EvalConfig:
    """The criteria that apply to a file."""

    source: str | None
    """The config file, relative to the root; None for ADK's defaults."""
    criteria: tuple[CriterionConfig, ...]
    """In the order of the file."""
    custom_metrics: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the criterion; with `code`, the source of a function of agents-cli's."""
    user_simulator_config: Mapping[str, Any] | None = None
    places: Mapping[str, str] = field(default_factory=dict, compare=False)
    """`file:line` of the function of each custom metric, of the turn limit, and of each criterion's weights."""

    @property
    def compares_state(self) -> bool:
        """Whether `final_session_state` of a case counts."""
        return any(criterion.metric == "final_session_state" for criterion in self.criteria)

    def at(self, place: str, problem: Problem) -> Problem:
        """The problem of a case at the one of `places` that causes it, so that it is the same for all cases."""
        file, _, line = self.places.get(place, "").rpartition(":")
        return replace(problem, file=file, line=int(line), column=None, path=None) if file else problem


@dataclass(frozen=True, kw_only=True)
class LoadedFile:
    """A validated eval file with its selected cases."""

    path: str
    """Relative to the root, with forward slashes."""
    eval_set: EvalSet
    config: EvalConfig
    cases: tuple[EvalCase, ...]
    lines: Mapping[str, int] = field(default_factory=dict)
    """The first line of each case, from 1, by its eval id. Every case of a well-formed file has one."""
    legacy: bool = False
    """Whether it was converted in memory from one of ADK's legacy formats."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """All files of a run in path order, and all problems."""

    files: tuple[LoadedFile, ...]
    problems: tuple[Problem, ...]
    """In file, line, column order. A file with an error is not in `files`."""
    file_count: int = 0
    """Number of eval files, including those with errors."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """The problems that prevent a run."""
        return tuple(errors_of(self.problems))
