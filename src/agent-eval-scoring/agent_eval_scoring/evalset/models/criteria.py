"""The declarations of all built-in metrics, and the models of config files as in google-adk 2.13.0."""

from __future__ import annotations

import enum
import math
from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag
from pydantic.alias_generators import to_camel

from agent_eval_scoring.evalset.models.criterion_options import (
    KEEP_UNKNOWN,
    BaseCriterion,
    FinalStateCriterion,
    HallucinationsCriterion,
    JudgePromptCriterion,
    LlmAsAJudgeCriterion,
    LlmBackedUserSimulatorCriterion,
    PartialTrajectoryCriterion,
    ResponseFactsCriterion,
    ResponseSimilarityCriterion,
    RubricsBasedCriterion,
    ServiceBackedCriterion,
    SingleToolUseCriterion,
    ToolRulesCriterion,
    ToolTrajectoryCriterion,
    TrajectoryShareCriterion,
)

_IGNORE_UNKNOWN = ConfigDict(
    alias_generator=to_camel, validate_by_name=True, validate_by_alias=True, extra="ignore", defer_build=True
)


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
    needs_state: bool = False
    """Whether it compares the session's state, which some agents don't show, with that of the case."""
    rubric_type: str | None = None
    """The `type` of the rubrics of cases and turns that apply to this metric; None: it has no rubrics."""
    source: str = "adk"
    """`adk`: registered by google-adk 2.13.0; `vertex`: named by Vertex AI, not part of ADK; `agent-eval`: ours."""

    def __post_init__(self) -> None:
        """Checks that exactly the metrics that can be configured have options."""
        # CRITERION_MODELS would lack it, and its config would be read as a threshold whose other fields do nothing.
        if (self.options is None) is not (self.family is Family.INFORMATIONAL):
            raise ValueError(f"the metric {self.name!r} must {'not ' if self.options else ''}declare options")


_PLAIN, _JUDGE = Family.DETERMINISTIC, Family.JUDGE
METRICS: dict[str, MetricSpec] = {
    spec.name: spec
    for spec in (
        MetricSpec(
            "tool_trajectory_avg_score", _PLAIN, ToolTrajectoryCriterion, needs_reference=True, needs_tool_calls=True
        ),
        MetricSpec("response_match_score", _PLAIN, BaseCriterion, needs_reference=True, needs_final_response=True),
        MetricSpec(
            "trajectory_precision",
            _PLAIN,
            TrajectoryShareCriterion,
            needs_reference=True,
            source="vertex",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "trajectory_recall",
            _PLAIN,
            TrajectoryShareCriterion,
            needs_reference=True,
            source="vertex",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "trajectory_single_tool_use", _PLAIN, SingleToolUseCriterion, source="vertex", needs_tool_calls=True
        ),
        MetricSpec("tool_rules", _PLAIN, ToolRulesCriterion, source="agent-eval", needs_tool_calls=True),
        MetricSpec("final_session_state", _PLAIN, FinalStateCriterion, source="agent-eval", needs_state=True),
        MetricSpec(
            "tool_trajectory_partial",
            _PLAIN,
            PartialTrajectoryCriterion,
            needs_reference=True,
            source="agent-eval",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "response_similarity",
            _PLAIN,
            ResponseSimilarityCriterion,
            needs_reference=True,
            needs_final_response=True,
            source="agent-eval",
        ),
        MetricSpec(
            "response_facts",
            _PLAIN,
            ResponseFactsCriterion,
            needs_reference=True,
            needs_final_response=True,
            source="agent-eval",
        ),
        MetricSpec(
            "intermediate_response_similarity",
            _PLAIN,
            ResponseSimilarityCriterion,
            needs_reference=True,
            source="agent-eval",
            needs_tool_calls=True,
        ),
        # 1 to 5 is the scale of Vertex AI's coherence: a threshold of 0.8 would let every answer pass.
        MetricSpec(
            "response_evaluation_score", _JUDGE, ServiceBackedCriterion, low=1.0, high=5.0, needs_reference=True
        ),
        MetricSpec("safety_v1", _JUDGE, ServiceBackedCriterion),
        MetricSpec(
            "final_response_match_v2", _JUDGE, LlmAsAJudgeCriterion, needs_reference=True, needs_final_response=True
        ),
        MetricSpec(
            "rubric_based_final_response_quality_v1",
            _JUDGE,
            RubricsBasedCriterion,
            rubric_type="FINAL_RESPONSE_QUALITY",
        ),
        MetricSpec(
            "rubric_based_tool_use_quality_v1",
            _JUDGE,
            RubricsBasedCriterion,
            rubric_type="TOOL_USE_QUALITY",
            needs_tool_calls=True,
        ),
        MetricSpec(
            "rubric_based_multi_turn_trajectory_quality_v1",
            _JUDGE,
            RubricsBasedCriterion,
            rubric_type="TRAJECTORY_QUALITY",
            needs_tool_calls=True,
        ),
        MetricSpec("hallucinations_v1", _JUDGE, HallucinationsCriterion, needs_tool_calls=True),
        MetricSpec("per_turn_user_simulator_quality_v1", _JUDGE, LlmBackedUserSimulatorCriterion, needs_scenario=True),
        MetricSpec("multi_turn_task_success_v1", _JUDGE, ServiceBackedCriterion),
        MetricSpec("multi_turn_trajectory_quality_v1", _JUDGE, ServiceBackedCriterion, needs_tool_calls=True),
        MetricSpec("multi_turn_tool_use_quality_v1", _JUDGE, ServiceBackedCriterion, needs_tool_calls=True),
        # The repository's prompt decides the scale, so that no threshold is out of range.
        MetricSpec("judge_prompt", _JUDGE, JudgePromptCriterion, low=-math.inf, high=math.inf, source="agent-eval"),
        # google-adk's efficiency metrics: they measure, and a threshold for them is an error of the config.
        MetricSpec("tool_call_count_v1", Family.INFORMATIONAL, high=math.inf, needs_tool_calls=True),
        MetricSpec("inference_call_count_v1", Family.INFORMATIONAL, high=math.inf, needs_tool_calls=True),
        MetricSpec("token_usage_v1", Family.INFORMATIONAL, high=math.inf),
        MetricSpec("invocation_duration_v1", Family.INFORMATIONAL, high=math.inf),
    )
}
"""All built-in metrics by name. Ranges and needs are those of google-adk 2.13.0 (docs/adk-compatibility.md)."""

CRITERION_MODELS = {name: spec.options for name, spec in METRICS.items() if spec.options is not None}
"""The object form of each metric that can be configured."""
CALL_METRICS = tuple(name for name, model in CRITERION_MODELS.items() if "args" in model.model_fields)
"""Those that compare args by rules."""
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

    model_config = KEEP_UNKNOWN

    type: Literal["llm_backed"] | None = "llm_backed"
    model: str = "gemini-2.5-flash"
    model_configuration: dict[str, Any] = Field(
        default_factory=lambda: {"thinking_config": {"thinking_budget": SIMULATOR_THINKING}}
    )
    """Fields of google-genai's GenerateContentConfig."""
    # Not bounded here: ADK takes any number, and what ends a conversation before it begins is `scenario-without-turns`.
    max_allowed_invocations: int = 20
    """Maximum number of turns, including the starting prompt; -1: no limit."""
    custom_instructions: str | None = None
    """A Jinja template that replaces the built-in instructions."""
    include_function_calls: bool = False
    """Show tool calls to the simulated user."""


class LlmAudioUserSimulatorConfig(LlmBackedUserSimulatorConfig):
    """Options of a simulated user that speaks."""

    # Refused (parse/scenarios.py), but read, so that the finding is that it speaks and not an unknown key.
    type: Literal["llm_audio"]  # type: ignore[assignment]
    audio_model: str = "cloud_tts"
    audio_model_configuration: dict[str, Any] = Field(default_factory=dict)
    include_text_with_audio: bool = True


def _simulator_type(value: Any) -> str | None:
    """The tag of a simulator config; a missing one means `llm_backed`, as in ADK."""
    if isinstance(value, dict):
        # None of what is no text: pydantic then reports `union_tag_not_found`, for which shape.py has words.
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

    # Any value: each criterion is read on its own, so that one mistake does not hide those of the others.
    criteria: dict[str, Any] = Field(default_factory=dict)
    """A threshold, or an object with a `threshold`, by metric name."""
    custom_metrics: dict[str, CustomMetricConfig] | None = None
    user_simulator_config: UserSimulatorConfig | None = None
    live_model_config: LiveModelConfig | None = None


GROUP = "agent_eval.criteria"
"""Group of the entry points."""


def is_packaged(metric: str) -> bool:
    """Whether an installed package has an entry point with this name."""
    # Imported here: only a name that is not built in needs it.
    from importlib.metadata import entry_points

    return bool(entry_points(group=GROUP, name=metric))
