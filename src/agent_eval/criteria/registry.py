"""Which scorer a configured criterion gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from agent_eval.criteria._response_match import ResponseMatch
from agent_eval.criteria._tool_trajectory import ToolTrajectory
from agent_eval.criteria._trajectory_set import PRECISION, RECALL, SingleToolUse, TrajectoryShare
from agent_eval.criteria.base import Criterion
from agent_eval.criteria.custom import CustomMetric
from agent_eval.criteria.efficiency import (
    Count,
    InvocationDuration,
    TokenUsage,
    inference_call_count,
    tool_call_count,
)
from agent_eval.criteria.judged import DEFAULT_JUDGE, JUDGED, Judge, Options, judge_options, refusal
from agent_eval.criteria.packages import build_packaged
from agent_eval.criteria.tokenize import warm_up
from agent_eval.evalset.models import METRICS, CriterionConfig, MatchType

INFORMATIONAL: tuple[Criterion, ...] = (
    Count(name="tool_call_count_v1", count=tool_call_count),
    Count(name="inference_call_count_v1", count=inference_call_count),
    TokenUsage(),
    InvocationDuration(),
)
"""Reported after the configured criteria, in this order (ADK's). They have no threshold."""


def _tool_trajectory(config: CriterionConfig) -> Criterion:
    return ToolTrajectory(
        threshold=config.threshold,
        match_type=config.options.get("match_type", MatchType.EXACT),
        ignore_args=config.options.get("ignore_args", False),
    )


def _response_match(config: CriterionConfig) -> Criterion:
    return ResponseMatch(threshold=config.threshold)


def _share(config: CriterionConfig) -> Criterion:
    return TrajectoryShare(
        name=config.metric, threshold=config.threshold, ignore_args=config.options.get("ignore_args", False)
    )


def _single_tool_use(config: CriterionConfig) -> Criterion:
    return SingleToolUse(threshold=config.threshold, tool_name=config.options["tool_name"])


_FACTORIES: dict[str, Callable[[CriterionConfig], Criterion]] = {
    "tool_trajectory_avg_score": _tool_trajectory,
    "response_match_score": _response_match,
    PRECISION: _share,
    RECALL: _share,
    "trajectory_single_tool_use": _single_tool_use,
}


def supported(metric: str, *, judged: bool = False) -> bool:
    """Whether `build` knows a scorer for a metric. The informational ones are not built, see INFORMATIONAL.

    Args:
        metric: ADK's name.
        judged: Whether there is a judge; without one, metrics that need it have no scorer.
    """
    return metric in _FACTORIES or (judged and metric in JUDGED)


def judge_of(config: CriterionConfig, default_model: str = DEFAULT_JUDGE) -> Options | None:
    """Which model judges a criterion, and with how many votes; None if no model does.

    Args:
        config: Validated.
        default_model: For criteria that name none.
    """
    return judge_options(config, default_model) if config.metric in JUDGED else None


def why_not(config: CriterionConfig) -> str | None:
    """Why a criterion can't be scored with the options it has, in one clause; None: it can."""
    return refusal(config) if config.metric in JUDGED else None


def build(config: CriterionConfig, *, judge: Judge | None = None, function: str | None = None) -> Criterion:
    """Makes the scorer of a configured criterion.

    Args:
        config: Validated; its options are typed.
        judge: Whom judged criteria ask; the others need none.
        function: `code_config.name` of a custom metric.

    Raises:
        PackageFault: A package that is to bring the scorer doesn't.
        ValueError: The metric needs a judge; ask `supported` first.
    """
    if function is not None:
        return CustomMetric(name=config.metric, threshold=config.threshold, function=function, options=config.options)
    if config.metric in JUDGED:
        if judge is None:
            raise ValueError(f"the metric {config.metric!r} needs a judge")
        return JUDGED[config.metric](config, judge)
    factory = _FACTORIES.get(config.metric)
    if factory is not None:
        return factory(config)
    if config.metric in METRICS:
        raise ValueError(f"the metric {config.metric!r} is not built from a config")
    return build_packaged(config)


def prepare(configs: Iterable[CriterionConfig]) -> None:
    """Loads what the criteria will need (0.6 s for the stemmer), for a thread to do while agents start."""
    if any(config.metric == "response_match_score" for config in configs):
        warm_up()
