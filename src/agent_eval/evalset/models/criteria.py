"""The objects that a config file may hold, as google-adk 2.13.0 reads them, and the fields that are ours.

A criterion keeps keys that it does not know, as ADK's does; validation says which of them look like mistakes.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Discriminator, Field, Tag, WithJsonSchema
from pydantic.alias_generators import to_camel

from agent_eval.core.invocation import Rubric
from agent_eval.core.wire import WireModel
from agent_eval.evalset.models.suite import MatchType

_KEEP_UNKNOWN = ConfigDict(
    alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="allow", defer_build=True
)
_IGNORE_UNKNOWN = ConfigDict(
    alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="ignore", defer_build=True
)


def parse_match_type(value: Any) -> MatchType:
    """Reads every spelling that ADK accepts: a name in any case with `_`, `-` or spaces, or its number.

    Raises:
        ValueError: For anything else.
    """
    if isinstance(value, MatchType):
        return value
    if isinstance(value, str):
        name = value.strip().upper().replace("-", "_").replace(" ", "_")
        if name in MatchType.__members__:
            return MatchType[name]
    elif isinstance(value, int | float) and value in (0, 1, 2):
        return MatchType(value)
    raise ValueError(f"must be EXACT, IN_ORDER or ANY_ORDER, not {value!r}")


_MATCH_TYPE_SCHEMA = {
    "anyOf": [
        {"enum": ["EXACT", "IN_ORDER", "ANY_ORDER", 0, 1, 2]},
        {
            "type": "string",
            "pattern": r"^\s*([eE][xX][aA][cC][tT]|([iI][nN]|[aA][nN][yY])[-_ ][oO][rR][dD][eE][rR])\s*$",
        },
        {"type": "boolean", "const": True},
        {"type": "boolean", "const": False},
    ]
}
AnyMatchType = Annotated[MatchType, BeforeValidator(parse_match_type), WithJsonSchema(_MATCH_TYPE_SCHEMA)]
PositiveWeight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class JudgeModelOptions(WireModel):
    """Which model judges, and how often it is asked."""

    judge_model: str = "gemini-2.5-flash"
    judge_model_config: dict[str, Any] | None = None
    """Generation settings for the judge, e.g. `temperature`."""
    num_samples: int = Field(default=5, ge=1)
    """How many answers vote on each turn."""
    parallelism_limit: int = Field(default=1, ge=1)
    """How many of them are asked for at the same time."""


class BaseCriterion(WireModel):
    """A threshold, and what every criterion may say besides."""

    model_config = _KEEP_UNKNOWN

    threshold: float
    """The score that passes; so does any higher one."""
    include_intermediate_responses_in_final: bool = False
    """Judge the texts on the way to the final response too."""


class ToolTrajectoryCriterion(BaseCriterion):
    """Compares tool calls with the expected ones."""

    match_type: AnyMatchType = MatchType.EXACT
    """EXACT: the same calls in the same order; IN_ORDER and ANY_ORDER: calls besides the expected ones are fine."""
    ignore_args: bool = False
    """Compare names only."""


class TrajectoryShareCriterion(BaseCriterion):
    """The share of calls that were expected (precision), or of expected calls that were made (recall)."""

    ignore_args: bool = False
    """Compare names only."""


class SingleToolUseCriterion(BaseCriterion):
    """Whether one tool was called at all."""

    tool_name: str
    """The tool's name."""


class LlmAsAJudgeCriterion(BaseCriterion):
    """A model judges."""

    judge_model_options: JudgeModelOptions = Field(default_factory=JudgeModelOptions)


class RubricsBasedCriterion(LlmAsAJudgeCriterion):
    """A model judges one property after the other."""

    rubrics: list[Rubric] = Field(default_factory=list)
    """Apply to every case; cases and turns may add theirs."""
    rubric_weights: dict[str, PositiveWeight] = Field(default_factory=dict)
    """Weight by rubric id; 1 for those that are not named. Not in ADK."""


class HallucinationsCriterion(LlmAsAJudgeCriterion):
    """A model checks every sentence against what the agent knew."""

    evaluate_intermediate_nl_responses: bool = False
    """Check the texts on the way to the final response too."""


class LlmBackedUserSimulatorCriterion(LlmAsAJudgeCriterion):
    """A model judges the simulated user."""

    stop_signal: str = "</finished>"
    """What the simulated user says to end the conversation."""


class ServiceBackedCriterion(LlmAsAJudgeCriterion):
    """Judged by a model of ours, or by Vertex AI's evaluation service as in ADK."""

    backend: Literal["judge", "vertex"] = "judge"
    """Who judges. Not in ADK, which always asks Vertex AI."""


CRITERION_MODELS: dict[str, type[BaseCriterion]] = {
    "tool_trajectory_avg_score": ToolTrajectoryCriterion,
    "response_match_score": BaseCriterion,
    "trajectory_precision": TrajectoryShareCriterion,
    "trajectory_recall": TrajectoryShareCriterion,
    "trajectory_single_tool_use": SingleToolUseCriterion,
    "response_evaluation_score": ServiceBackedCriterion,
    "safety_v1": ServiceBackedCriterion,
    "final_response_match_v2": LlmAsAJudgeCriterion,
    "rubric_based_final_response_quality_v1": RubricsBasedCriterion,
    "rubric_based_tool_use_quality_v1": RubricsBasedCriterion,
    "rubric_based_multi_turn_trajectory_quality_v1": RubricsBasedCriterion,
    "hallucinations_v1": HallucinationsCriterion,
    "per_turn_user_simulator_quality_v1": LlmBackedUserSimulatorCriterion,
    "multi_turn_task_success_v1": ServiceBackedCriterion,
    "multi_turn_trajectory_quality_v1": ServiceBackedCriterion,
    "multi_turn_tool_use_quality_v1": ServiceBackedCriterion,
}
"""The object form of each metric that can be configured."""


class CodeConfig(BaseModel):
    """A function of the user's."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: str
    """`package.module.function`, importable in the agent's interpreter."""


class CustomMetricConfig(BaseModel):
    """A metric that the user wrote."""

    model_config = _IGNORE_UNKNOWN

    code_config: CodeConfig
    metric_info: dict[str, Any] | None = None
    """Documents the metric; nothing reads it."""
    description: str = ""


SIMULATOR_THINKING = 10_240
"""Tokens that a simulated user may think, unless its config says otherwise (google-adk 2.13.0)."""


class LlmBackedUserSimulatorConfig(BaseModel):
    """How the simulated user is played."""

    model_config = _KEEP_UNKNOWN

    type: Literal["llm_backed"] | None = "llm_backed"
    model: str = "gemini-2.5-flash"
    model_configuration: dict[str, Any] = Field(
        default_factory=lambda: {"thinking_config": {"thinking_budget": SIMULATOR_THINKING}}
    )
    """Fields of google-genai's GenerateContentConfig."""
    max_allowed_invocations: int = 20
    """Turns after which the conversation ends, the starting prompt included; -1: no limit."""
    custom_instructions: str | None = None
    """A Jinja template that replaces the built-in instructions."""
    include_function_calls: bool = False
    """Show tool calls to the simulated user."""


class LlmAudioUserSimulatorConfig(LlmBackedUserSimulatorConfig):
    """The same, speaking."""

    type: Literal["llm_audio"]  # type: ignore[assignment]
    audio_model: str = "cloud_tts"
    audio_model_configuration: dict[str, Any] = Field(default_factory=dict)
    include_text_with_audio: bool = True


def _simulator_type(value: Any) -> str | None:
    """The tag of a simulator config; a missing one means `llm_backed`, as in ADK."""
    if isinstance(value, dict):
        named = value.get("type")
        return "llm_backed" if named is None else named if isinstance(named, str) else None
    return "llm_backed"


UserSimulatorConfig = Annotated[
    Annotated[LlmBackedUserSimulatorConfig, Tag("llm_backed")]
    | Annotated[LlmAudioUserSimulatorConfig, Tag("llm_audio")],
    Discriminator(_simulator_type),
]


class LiveModelConfig(BaseModel):
    """Live mode; its presence switches it on."""

    model_config = _IGNORE_UNKNOWN

    timeout_seconds: int = 300
    """How long to wait for a turn to end."""


class ConfigFile(BaseModel):
    """`test_config.json`: what gates the cases."""

    model_config = _IGNORE_UNKNOWN

    criteria: dict[str, Any] = Field(default_factory=dict)
    """A threshold, or an object with a `threshold`, by metric name."""
    custom_metrics: dict[str, CustomMetricConfig] | None = None
    user_simulator_config: UserSimulatorConfig | None = None
    live_model_config: LiveModelConfig | None = None
