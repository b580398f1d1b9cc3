"""Which judged criterion a config stands for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from agent_eval.criteria.base import Criterion
from agent_eval.criteria.judged._hallucinations import Hallucinations
from agent_eval.criteria.judged._rubric_criteria import RUBRIC_TYPES, RubricCriterion
from agent_eval.criteria.judged._simulator import SimulatorQuality
from agent_eval.criteria.judged._vertex import VertexQuality
from agent_eval.criteria.judged.final_response import VALIDITY_SCALE, FinalResponseMatch
from agent_eval.criteria.judged.judge import Judge, judge_options
from agent_eval.criteria.judged.quality import YARDSTICKS, Quality
from agent_eval.criteria.judged.rubrics import Weights
from agent_eval.evalset.models import CriterionConfig
from agent_eval.models import JUDGED_BY_SERVICE, VERTEX_EVAL


def _final_response(config: CriterionConfig, judge: Judge) -> Criterion:
    return FinalResponseMatch(
        threshold=config.threshold,
        judge=judge,
        options=judge.options(config),
        include_intermediate=config.options.get("include_intermediate_responses_in_final", False),
    )


def _rubrics(config: CriterionConfig, judge: Judge) -> Criterion:
    return RubricCriterion(
        name=config.metric,
        threshold=config.threshold,
        judge=judge,
        options=judge.options(config),
        rubrics=tuple(config.options.get("rubrics", ())),
        weights=Weights(by_id=config.options.get("rubric_weights", {})),
        include_intermediate=config.options.get("include_intermediate_responses_in_final", False),
    )


def _hallucinations(config: CriterionConfig, judge: Judge) -> Criterion:
    return Hallucinations(
        threshold=config.threshold,
        judge=judge,
        options=replace(judge.options(config), samples=1),
        intermediate=config.options.get("evaluate_intermediate_nl_responses", False),
    )


def _simulator(config: CriterionConfig, judge: Judge) -> Criterion:
    return SimulatorQuality(
        threshold=config.threshold,
        judge=judge,
        options=judge.options(config),
        stop_signal=config.options.get("stop_signal", "</finished>"),
    )


def _quality(config: CriterionConfig, judge: Judge) -> Criterion:
    options = judge.options(config)
    made = VertexQuality if options.model == VERTEX_EVAL else Quality
    return made(name=config.metric, threshold=config.threshold, judge=judge, options=options)


JUDGED: Mapping[str, Callable[[CriterionConfig, Judge], Criterion]] = {
    "final_response_match_v2": _final_response,
    **dict.fromkeys(RUBRIC_TYPES, _rubrics),
    "hallucinations_v1": _hallucinations,
    "per_turn_user_simulator_quality_v1": _simulator,
    **dict.fromkeys(YARDSTICKS, _quality),
}
"""How each judged metric is built."""


def refusal(config: CriterionConfig) -> str | None:
    """Why a judged criterion can't be scored as configured; None: it can."""
    if judge_options(config).model == VERTEX_EVAL and config.metric not in JUDGED_BY_SERVICE:
        return (
            f"`{config.metric}` names `{VERTEX_EVAL}` as its judge, and Vertex AI's evaluation service can't judge it"
        )
    return None


def verdict_scale(metric: str) -> Mapping[str, float]:
    """The words of a judge's verdict on a whole response, with their scores; empty if the judge has no such words."""
    if metric == "final_response_match_v2":
        return VALIDITY_SCALE
    yardstick = YARDSTICKS.get(metric)
    return {} if yardstick is None else yardstick.scale
