"""The scorer of each metric. Importing this module fails if a metric of evalset/models/criteria.py has none.

The scorers that ask a model are in `judged/building.py`, which is imported if a config names one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent_eval_scoring.criteria import _trajectory, efficiency
from agent_eval_scoring.criteria._depth import Deep
from agent_eval_scoring.criteria._facts import ResponseFacts
from agent_eval_scoring.criteria._final_state import FinalState
from agent_eval_scoring.criteria._responses import IntermediateSimilarity, ResponseMatch, ResponseSimilarity
from agent_eval_scoring.criteria._similarity import similarity_rules
from agent_eval_scoring.criteria._tool_rules import ToolRules
from agent_eval_scoring.criteria.base import Criterion, check_complete
from agent_eval_scoring.criteria.calls import args_match
from agent_eval_scoring.criteria.custom import CustomMetric
from agent_eval_scoring.criteria.packages import build_packaged
from agent_eval_scoring.evalset.models import (
    DEFAULT_JUDGE,
    INFORMATIONAL_METRICS,
    JUDGED_METRICS,
    CriterionConfig,
    Family,
    MatchType,
)

if TYPE_CHECKING:
    from agent_eval_scoring.criteria.judged import Judge, Options

INFORMATIONAL: tuple[Criterion, ...] = (
    efficiency.Count(name="tool_call_count_v1", count=efficiency.tool_call_count),
    efficiency.Count(name="inference_call_count_v1", count=efficiency.inference_call_count),
    efficiency.TokenUsage(),
    efficiency.InvocationDuration(),
)
"""Reported after the configured criteria, in ADK's order. They have no threshold."""


def _tool_trajectory(config: CriterionConfig) -> Criterion:
    return _trajectory.ToolTrajectory(
        threshold=config.bound,
        match_type=config.options.get("match_type", MatchType.EXACT),
        args=args_match(
            ignore_args=config.options.get("ignore_args", False), subset=config.options.get("args_match") == "subset"
        ),
        rules=config.options.get("args", {}),
    )


def _response_match(config: CriterionConfig) -> Criterion:
    return ResponseMatch(threshold=config.bound)


def _trajectory_share(config: CriterionConfig) -> Criterion:
    return _trajectory.TrajectoryShare(
        name=config.metric,
        threshold=config.bound,
        ignore_args=config.options.get("ignore_args", False),
        rules=config.options.get("args", {}),
    )


def _trajectory_partial(config: CriterionConfig) -> Criterion:
    return _trajectory.PartialTrajectory(
        threshold=config.bound,
        strict_order=config.options.get("strict_order", True),
        strict_args=config.options.get("strict_args", False),
        args_credit=config.options.get("args_credit", False),
        rules=config.options.get("args", {}),
    )


def _response_similarity(config: CriterionConfig) -> Criterion:
    return ResponseSimilarity(
        threshold=config.bound,
        rules=similarity_rules(config.options),
        include_intermediate=config.options.get("include_intermediate_responses_in_final", False),
    )


def _response_facts(config: CriterionConfig) -> Criterion:
    options = {
        name: value for name, value in config.options.items() if name in ("names", "states", "negation", "extra")
    }
    include = config.options.get("include_intermediate_responses_in_final", False)
    return ResponseFacts(threshold=config.bound, include_intermediate=include, **options)


def _intermediate_similarity(config: CriterionConfig) -> Criterion:
    return IntermediateSimilarity(threshold=config.bound, rules=similarity_rules(config.options))


def _single_tool_use(config: CriterionConfig) -> Criterion:
    return _trajectory.SingleToolUse(threshold=config.bound, tool_name=config.options["tool_name"])


def _tool_rules(config: CriterionConfig) -> Criterion:
    return ToolRules(threshold=config.bound, rules=config.options["rules"])


def _final_state(config: CriterionConfig) -> Criterion:
    exact = config.options.get("match") == "exact"
    return FinalState(threshold=config.bound, exact=exact, rules=config.options.get("keys", {}))


_DETERMINISTIC: Mapping[str, Callable[[CriterionConfig], Criterion]] = {
    "tool_trajectory_avg_score": _tool_trajectory,
    "response_match_score": _response_match,
    _trajectory.PRECISION: _trajectory_share,
    _trajectory.RECALL: _trajectory_share,
    "tool_trajectory_partial": _trajectory_partial,
    "response_similarity": _response_similarity,
    "response_facts": _response_facts,
    "intermediate_response_similarity": _intermediate_similarity,
    "tool_rules": _tool_rules,
    "final_session_state": _final_state,
    "trajectory_single_tool_use": _single_tool_use,
}


check_complete(
    {Family.DETERMINISTIC: set(_DETERMINISTIC), Family.INFORMATIONAL: {criterion.name for criterion in INFORMATIONAL}}
)


def supported(metric: str, *, judged: bool = False) -> bool:
    """Whether `build` can build the scorer of a built-in metric. Informational ones are not built, see INFORMATIONAL.

    Args:
        metric: ADK's name.
        judged: Whether there is a judge.
    """
    return metric in _DETERMINISTIC or (judged and metric in JUDGED_METRICS)


def judge_of(config: CriterionConfig, default_model: str = DEFAULT_JUDGE) -> Options | None:
    """The judge of a criterion and its number of votes; None if the metric is not judged.

    Args:
        config: Validated.
        default_model: For criteria that name no model.
    """
    if config.metric not in JUDGED_METRICS:
        return None
    from agent_eval_scoring.criteria.judged import judge_options

    return judge_options(config, default_model)


def why_not(config: CriterionConfig) -> str | None:
    """The reason why a criterion can't be scored with its options, as a clause; None if it can."""
    judge = judge_of(config)
    if judge is None:
        return None
    from agent_eval_scoring.models import VERTEX_EVAL
    from agent_eval_scoring.models.vertex_eval import JUDGED_BY_SERVICE

    if judge.model == VERTEX_EVAL and config.metric not in JUDGED_BY_SERVICE:
        return (
            f"`{config.metric}` names `{VERTEX_EVAL}` as its judge, and Vertex AI's evaluation service can't judge it"
        )
    return None


def build(config: CriterionConfig, *, judge: Judge | None = None, function: str | None = None) -> Criterion:
    """Builds the scorer of a configured criterion.

    Args:
        config: Validated; its options are typed.
        judge: For judged metrics.
        function: `code_config.name` of a custom metric.

    Raises:
        PackageFault: The package with the scorer can't provide it.
        ValueError: The metric needs a judge, or is informational; ask `supported` first.
    """
    if function is not None:
        return CustomMetric(name=config.metric, threshold=config.bound, function=function, options=config.options)
    if config.metric in JUDGED_METRICS:
        if judge is None:
            raise ValueError(f"the metric {config.metric!r} needs a judge")
        from agent_eval_scoring.criteria.judged import build_judged

        return build_judged(config, judge)
    if config.metric in _DETERMINISTIC:
        built, depth = _DETERMINISTIC[config.metric](config), config.options.get("depth", "outer")
        return built if depth == "outer" else Deep(criterion=built, paths=["*"] if depth == "all" else depth)
    if config.metric in INFORMATIONAL_METRICS:
        raise ValueError(f"the metric {config.metric!r} is not built from a config")
    return build_packaged(config)
