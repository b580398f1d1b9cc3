"""Models of config files as in google-adk 2.13.0, with additional fields of agent-eval.

Criteria keep unknown keys, as in ADK. Validation reports those that look like mistakes.
"""

from __future__ import annotations

import enum
import math
from dataclasses import KW_ONLY, dataclass
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
    """Parses every spelling that ADK accepts: a name in any case with `_`, `-` or spaces, or its number.

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
    """The judge model, and the number of its votes."""

    judge_model: str = "gemini-2.5-flash"
    judge_model_config: dict[str, Any] | None = None
    """Generation settings for the judge, e.g. `temperature`."""
    num_samples: int = Field(default=5, ge=1)
    """Number of votes on each turn."""
    parallelism_limit: int = Field(default=1, ge=1)
    """Number of concurrent votes."""


class BaseCriterion(WireModel):
    """The fields of every criterion."""

    model_config = _KEEP_UNKNOWN

    threshold: float
    """The minimum score that passes."""
    include_intermediate_responses_in_final: bool = False
    """Also judge the intermediate responses."""


class ToolTrajectoryCriterion(BaseCriterion):
    """Compares tool calls with the expected ones."""

    match_type: AnyMatchType = MatchType.EXACT
    """EXACT: the same calls in the same order; IN_ORDER and ANY_ORDER: additional calls are allowed."""
    ignore_args: bool = False
    """Compare only the names."""


class TrajectoryShareCriterion(BaseCriterion):
    """The share of calls that were expected (precision), or of expected calls that were made (recall)."""

    ignore_args: bool = False
    """Compare only the names."""


class SingleToolUseCriterion(BaseCriterion):
    """Whether one tool was called at all."""

    tool_name: str
    """The tool's name."""


class LlmAsAJudgeCriterion(BaseCriterion):
    """Judged by a model."""

    judge_model_options: JudgeModelOptions = Field(default_factory=JudgeModelOptions)


class RubricsBasedCriterion(LlmAsAJudgeCriterion):
    """Judged by a model, one rubric after the other."""

    rubrics: list[Rubric] = Field(default_factory=list)
    """Rubrics for every case; cases and turns may add others."""
    rubric_weights: dict[str, PositiveWeight] = Field(default_factory=dict)
    """Weight by rubric id. Default: 1. Not in ADK."""


class HallucinationsCriterion(LlmAsAJudgeCriterion):
    """A model checks every sentence against the agent's context."""

    evaluate_intermediate_nl_responses: bool = False
    """Also check the intermediate responses."""


class LlmBackedUserSimulatorCriterion(LlmAsAJudgeCriterion):
    """A model judges the simulated user."""

    stop_signal: str = "</finished>"
    """The text with which the simulated user ends the conversation."""


class ServiceBackedCriterion(LlmAsAJudgeCriterion):
    """Judged by a judge model, or by Vertex AI's evaluation service as in ADK."""

    backend: Literal["judge", "vertex"] = "judge"
    """`judge` or `vertex`. Not in ADK, which always uses Vertex AI."""


class Family(enum.Enum):
    """Kind of scorer."""

    DETERMINISTIC = "deterministic"
    JUDGE = "judge"
    INFORMATIONAL = "informational"


@dataclass(frozen=True)
class MetricSpec:
    """The declaration of a metric. Its scorer is in criteria/registry.py, which checks that none is missing.

    Raises:
        ValueError: An informational metric has options, or another one has none.
    """

    name: str
    family: Family
    options: type[BaseCriterion] | None = None
    """The object form in a config; None for informational metrics, which can't be configured."""
    _: KW_ONLY
    low: float = 0.0
    high: float = 1.0
    """The closed range of scores and thresholds."""
    needs_reference: bool = False
    """Whether it compares with expected turns, which a scenario lacks."""
    needs_final_response: bool = False
    """Whether it compares with the text of expected final responses. A case without any can't pass. (This is not true
    of trajectories: without `intermediate_data` no calls are expected.)"""
    needs_scenario: bool = False
    needs_tool_calls: bool = False
    """Whether the actual tool calls decide the score, which some agents don't show."""
    rubric_type: str | None = None
    """The `type` of the rubrics of cases and turns that apply to this metric; None: it has no rubrics."""
    source: str = "adk"
    """`adk`: registered by google-adk 2.13.0; `vertex`: named by Vertex AI, not part of ADK."""

    def __post_init__(self) -> None:
        """Checks that exactly the metrics that can be configured have options."""
        if (self.options is None) is not (self.family is Family.INFORMATIONAL):
            raise ValueError(f"the metric {self.name!r} must {'not ' if self.options else ''}declare options")


METRICS: dict[str, MetricSpec] = {
    spec.name: spec
    for spec in (
        MetricSpec(
            "tool_trajectory_avg_score",
            Family.DETERMINISTIC,
            ToolTrajectoryCriterion,
            needs_reference=True,
            needs_tool_calls=True,
        ),
        MetricSpec(
            "response_match_score", Family.DETERMINISTIC, BaseCriterion, needs_reference=True, needs_final_response=True
        ),
        MetricSpec(
            "trajectory_precision",
            Family.DETERMINISTIC,
            TrajectoryShareCriterion,
            needs_reference=True,
            source="vertex",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "trajectory_recall",
            Family.DETERMINISTIC,
            TrajectoryShareCriterion,
            needs_reference=True,
            source="vertex",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "trajectory_single_tool_use",
            Family.DETERMINISTIC,
            SingleToolUseCriterion,
            source="vertex",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "response_evaluation_score", Family.JUDGE, ServiceBackedCriterion, low=1.0, high=5.0, needs_reference=True
        ),
        MetricSpec("safety_v1", Family.JUDGE, ServiceBackedCriterion),
        MetricSpec(
            "final_response_match_v2",
            Family.JUDGE,
            LlmAsAJudgeCriterion,
            needs_reference=True,
            needs_final_response=True,
        ),
        MetricSpec(
            "rubric_based_final_response_quality_v1",
            Family.JUDGE,
            RubricsBasedCriterion,
            rubric_type="FINAL_RESPONSE_QUALITY",
        ),
        MetricSpec(
            "rubric_based_tool_use_quality_v1",
            Family.JUDGE,
            RubricsBasedCriterion,
            rubric_type="TOOL_USE_QUALITY",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "rubric_based_multi_turn_trajectory_quality_v1",
            Family.JUDGE,
            RubricsBasedCriterion,
            rubric_type="TRAJECTORY_QUALITY",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "hallucinations_v1",
            Family.JUDGE,
            HallucinationsCriterion,
            needs_tool_calls=True,
        ),
        MetricSpec(
            "per_turn_user_simulator_quality_v1", Family.JUDGE, LlmBackedUserSimulatorCriterion, needs_scenario=True
        ),
        MetricSpec("multi_turn_task_success_v1", Family.JUDGE, ServiceBackedCriterion),
        MetricSpec(
            "multi_turn_trajectory_quality_v1",
            Family.JUDGE,
            ServiceBackedCriterion,
            needs_tool_calls=True,
        ),
        MetricSpec(
            "multi_turn_tool_use_quality_v1",
            Family.JUDGE,
            ServiceBackedCriterion,
            needs_tool_calls=True,
        ),
        MetricSpec(
            "tool_call_count_v1",
            Family.INFORMATIONAL,
            high=math.inf,
            needs_tool_calls=True,
        ),
        MetricSpec(
            "inference_call_count_v1",
            Family.INFORMATIONAL,
            high=math.inf,
            needs_tool_calls=True,
        ),
        MetricSpec("token_usage_v1", Family.INFORMATIONAL, high=math.inf),
        MetricSpec("invocation_duration_v1", Family.INFORMATIONAL, high=math.inf),
    )
}
"""All built-in metrics by name. Ranges and needs are those of google-adk 2.13.0 (docs/adk-compatibility.md)."""

CRITERION_MODELS = {name: spec.options for name, spec in METRICS.items() if spec.options is not None}
"""The object form of each metric that can be configured."""
JUDGED_METRICS = tuple(name for name, spec in METRICS.items() if spec.family is Family.JUDGE)
INFORMATIONAL_METRICS = tuple(name for name, spec in METRICS.items() if spec.family is Family.INFORMATIONAL)
"""Reported after the configured ones, in this order. They can't be configured and don't affect the gate."""


class CodeConfig(BaseModel):
    """A Python function."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    name: str
    """`package.module.function`, importable in the agent's interpreter."""


class CustomMetricConfig(BaseModel):
    """A custom metric."""

    model_config = _IGNORE_UNKNOWN

    code_config: CodeConfig
    metric_info: dict[str, Any] | None = None
    """Documentation of the metric; ignored."""
    description: str = ""


SIMULATOR_THINKING = 10_240
"""Default thinking budget of a simulated user, in tokens (google-adk 2.13.0)."""


class LlmBackedUserSimulatorConfig(BaseModel):
    """Options of the simulated user."""

    model_config = _KEEP_UNKNOWN

    type: Literal["llm_backed"] | None = "llm_backed"
    model: str = "gemini-2.5-flash"
    model_configuration: dict[str, Any] = Field(
        default_factory=lambda: {"thinking_config": {"thinking_budget": SIMULATOR_THINKING}}
    )
    """Fields of google-genai's GenerateContentConfig."""
    max_allowed_invocations: int = 20
    """Maximum number of turns, including the starting prompt; -1: no limit."""
    custom_instructions: str | None = None
    """A Jinja template that replaces the built-in instructions."""
    include_function_calls: bool = False
    """Show tool calls to the simulated user."""


class LlmAudioUserSimulatorConfig(LlmBackedUserSimulatorConfig):
    """Options of a simulated user that speaks."""

    type: Literal["llm_audio"]  # type: ignore[assignment]
    audio_model: str = "cloud_tts"
    audio_model_configuration: dict[str, Any] = Field(default_factory=dict)
    include_text_with_audio: bool = True


def _simulator_type(value: Any) -> str | None:
    """The tag of a simulator config; a missing one means `llm_backed`, as in ADK."""
    if isinstance(value, dict):
        tag = value.get("type")
        return "llm_backed" if tag is None else tag if isinstance(tag, str) else None
    return "llm_backed"


UserSimulatorConfig = Annotated[
    Annotated[LlmBackedUserSimulatorConfig, Tag("llm_backed")]
    | Annotated[LlmAudioUserSimulatorConfig, Tag("llm_audio")],
    Discriminator(_simulator_type),
]


class LiveModelConfig(BaseModel):
    """Live mode, which this object enables."""

    model_config = _IGNORE_UNKNOWN

    timeout_seconds: int = 300
    """Timeout of a turn, in seconds."""


class ConfigFile(BaseModel):
    """`test_config.json`: criteria, custom metrics and the simulated user."""

    model_config = _IGNORE_UNKNOWN

    criteria: dict[str, Any] = Field(default_factory=dict)
    """A threshold, or an object with a `threshold`, by metric name."""
    custom_metrics: dict[str, CustomMetricConfig] | None = None
    user_simulator_config: UserSimulatorConfig | None = None
    live_model_config: LiveModelConfig | None = None
