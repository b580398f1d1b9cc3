"""The scorer of each judged metric, and how many questions it asks about a case.

Importing this module fails if one of evalset/models/criteria.py has none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agent_eval_scoring.criteria.base import Criterion, check_complete
from agent_eval_scoring.criteria.judged._hallucinations import Hallucinations
from agent_eval_scoring.criteria.judged._prompt import JudgePrompt
from agent_eval_scoring.criteria.judged._rubric_criteria import TRAJECTORY, RubricCriterion
from agent_eval_scoring.criteria.judged._simulator import SimulatorQuality
from agent_eval_scoring.criteria.judged._vertex import VertexQuality
from agent_eval_scoring.criteria.judged.final_response import FinalResponseMatch
from agent_eval_scoring.criteria.judged.judge import Judge, needed
from agent_eval_scoring.criteria.judged.quality import JUDGE_SPECS, Quality
from agent_eval_scoring.criteria.judged.rubrics import Weights
from agent_eval_scoring.evalset.models import JUDGED_METRICS, METRICS, CriterionConfig, Family
from agent_eval_scoring.models import VERTEX_EVAL


def _final_response(config: CriterionConfig, judge: Judge) -> Criterion:
    return FinalResponseMatch(
        threshold=config.bound,
        judge=judge,
        options=judge.options(config),
        include_intermediate=config.options.get("include_intermediate_responses_in_final", False),
    )


def _rubrics(config: CriterionConfig, judge: Judge) -> Criterion:
    return RubricCriterion(
        name=config.metric,
        threshold=config.bound,
        judge=judge,
        options=judge.options(config),
        rubrics=tuple(config.options.get("rubrics", ())),
        weights=Weights(by_id=config.options.get("rubric_weights", {})),
        levels=config.options.get("rubric_levels", {}),
        include_intermediate=config.options.get("include_intermediate_responses_in_final", False),
    )


def _hallucinations(config: CriterionConfig, judge: Judge) -> Criterion:
    return Hallucinations(
        threshold=config.bound,
        judge=judge,
        options=replace(judge.options(config), samples=1),
        intermediate=config.options.get("evaluate_intermediate_nl_responses", False),
        only_context=config.options.get("only_context", False),
    )


def _simulator(config: CriterionConfig, judge: Judge) -> Criterion:
    return SimulatorQuality(
        threshold=config.bound,
        judge=judge,
        options=judge.options(config),
        stop_signal=config.options.get("stop_signal", "</finished>"),
    )


def _prompt(config: CriterionConfig, judge: Judge) -> Criterion:
    return JudgePrompt(
        name=config.metric,
        threshold=config.bound,
        judge=judge,
        options=judge.options(config),
        template=config.options["prompt_template"],
        system=config.options.get("system_instruction", ""),
        scale=tuple(config.options.get("scale") or (-math.inf, math.inf)),
        direction=config.direction,
    )


def _quality(config: CriterionConfig, judge: Judge) -> Criterion:
    options = judge.options(config)
    scorer = VertexQuality if options.model == VERTEX_EVAL else Quality
    return scorer(name=config.metric, threshold=config.bound, judge=judge, options=options)


_SCORERS: Mapping[str, Callable[[CriterionConfig, Judge], Criterion]] = {
    "final_response_match_v2": _final_response,
    "rubric_based_final_response_quality_v1": _rubrics,
    "rubric_based_tool_use_quality_v1": _rubrics,
    "rubric_based_multi_turn_trajectory_quality_v1": _rubrics,
    "hallucinations_v1": _hallucinations,
    "per_turn_user_simulator_quality_v1": _simulator,
    "judge_prompt": _prompt,
    **dict.fromkeys(JUDGE_SPECS, _quality),
}

check_complete({Family.JUDGE: set(_SCORERS)})


def build_judged(config: CriterionConfig, judge: Judge) -> Criterion:
    """Builds the scorer of a configured judged metric.

    Args:
        config: Validated; its options are typed.
        judge: Asks the model.

    Raises:
        KeyError: The metric is not judged.
    """
    return _SCORERS[config.metric](config, judge)


_BINARY = (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class CallBounds:
    """Number of questions to the judge, without retries after provider errors and malformed replies."""

    least: int
    """If all votes agree on the verdict that needs the fewest votes."""
    most: int
    """If all votes are needed and each reply skips a subject."""


def judge_calls(metric: str, samples: int, *, turns: int, texts: int) -> CallBounds:
    """The number of questions in one run of a case.

    Args:
        metric: A judged metric.
        samples: `num_samples`.
        turns: Number of turns of the conversation.
        texts: Number of texts that `hallucinations_v1` checks: final responses with text, and intermediate texts if
            they are included.

    Raises:
        ValueError: The metric isn't judged.
    """
    if metric not in JUDGED_METRICS:
        raise ValueError(f"{metric!r} is not judged")
    if metric == "hallucinations_v1":
        return CallBounds(least=2 * texts, most=3 * texts)
    if metric == "judge_prompt":  # The mean of all samples, of the whole conversation.
        return CallBounds(least=min(turns, 1) * samples, most=min(turns, 1) * samples)
    spec = JUDGE_SPECS.get(metric)
    once = metric == TRAJECTORY or (spec is not None and spec.conversation)
    # For simulated users there is no question about the first turn, but one about the ending.
    questions = min(turns, 1) if once else turns
    scale = tuple(spec.scale.values()) if spec is not None else _BINARY
    again = 2 if METRICS[metric].rubric_type else 1
    return CallBounds(least=questions * needed((), samples, scale), most=questions * samples * again)
