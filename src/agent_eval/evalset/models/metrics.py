"""The metrics that a config file can name: their ranges, what they need, and which fields they take."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass


class Family(enum.Enum):
    """Which kind of scorer a metric has."""

    DETERMINISTIC = "deterministic"
    JUDGE = "judge"
    INFORMATIONAL = "informational"


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """What is known about a metric before anything runs."""

    name: str
    family: Family
    low: float = 0.0
    high: float = 1.0
    """The closed range of the score, and so of a threshold."""
    needs_reference: bool = False
    """Scores against expected turns: a scenario has none."""
    needs_final_response: bool = False
    """Scores against the texts of expected final responses: a case without any can't pass. (A trajectory metric can:
    no `intermediate_data` means that no calls are expected.)"""
    needs_scenario: bool = False
    rubric_type: str | None = None
    """Rubrics of cases and turns count for this metric when they have this `type`; None: it reads no rubrics."""
    source: str = "adk"
    """`adk`: registered by google-adk 2.13.0; `vertex`: named by Vertex AI, absent from ADK."""


def _spec(name: str, family: Family, **facts: bool | float | str) -> tuple[str, MetricSpec]:
    return name, MetricSpec(name=name, family=family, **facts)  # type: ignore[arg-type]


METRICS: dict[str, MetricSpec] = dict(
    [
        _spec("tool_trajectory_avg_score", Family.DETERMINISTIC, needs_reference=True),
        _spec("response_match_score", Family.DETERMINISTIC, needs_reference=True, needs_final_response=True),
        _spec("trajectory_precision", Family.DETERMINISTIC, needs_reference=True, source="vertex"),
        _spec("trajectory_recall", Family.DETERMINISTIC, needs_reference=True, source="vertex"),
        _spec("trajectory_single_tool_use", Family.DETERMINISTIC, source="vertex"),
        _spec("response_evaluation_score", Family.JUDGE, low=1.0, high=5.0, needs_reference=True),
        _spec("safety_v1", Family.JUDGE),
        _spec("final_response_match_v2", Family.JUDGE, needs_reference=True, needs_final_response=True),
        _spec("rubric_based_final_response_quality_v1", Family.JUDGE, rubric_type="FINAL_RESPONSE_QUALITY"),
        _spec("rubric_based_tool_use_quality_v1", Family.JUDGE, rubric_type="TOOL_USE_QUALITY"),
        _spec("rubric_based_multi_turn_trajectory_quality_v1", Family.JUDGE, rubric_type="TRAJECTORY_QUALITY"),
        _spec("hallucinations_v1", Family.JUDGE),
        _spec("per_turn_user_simulator_quality_v1", Family.JUDGE, needs_scenario=True),
        _spec("multi_turn_task_success_v1", Family.JUDGE),
        _spec("multi_turn_trajectory_quality_v1", Family.JUDGE),
        _spec("multi_turn_tool_use_quality_v1", Family.JUDGE),
        _spec("tool_call_count_v1", Family.INFORMATIONAL, high=math.inf),
        _spec("inference_call_count_v1", Family.INFORMATIONAL, high=math.inf),
        _spec("token_usage_v1", Family.INFORMATIONAL, high=math.inf),
        _spec("invocation_duration_v1", Family.INFORMATIONAL, high=math.inf),
    ]
)
"""Ranges and needs: google-adk 2.13.0's registry, measured (docs/adk-compatibility.md)."""

INFORMATIONAL_METRICS = tuple(name for name, spec in METRICS.items() if spec.family is Family.INFORMATIONAL)
"""Reported after the configured ones, in this order; they gate nothing and can't be configured."""
