"""Criteria that a model judges: prompts, votes and how they become a score."""

from agent_eval.criteria.judged._hallucinations import Hallucinations
from agent_eval.criteria.judged._rubric_criteria import RubricCriterion
from agent_eval.criteria.judged._simulator import SimulatorQuality
from agent_eval.criteria.judged._vertex import VertexQuality
from agent_eval.criteria.judged.call_bounds import judge_calls
from agent_eval.criteria.judged.final_response import FinalResponseMatch
from agent_eval.criteria.judged.judge import Judge, Options, judge_options
from agent_eval.criteria.judged.quality import JUDGE_SPECS, Quality, verdict_scale
from agent_eval.criteria.judged.rubrics import RUBRIC_SCALE, Weights, level_scale
from agent_eval.criteria.judged.sentences import SCHEMA
from agent_eval.criteria.judged.settling import NO_VERDICT, tally
from agent_eval.criteria.judged.version import QUESTIONS_VERSION

__all__ = [
    "JUDGE_SPECS",
    "NO_VERDICT",
    "QUESTIONS_VERSION",
    "RUBRIC_SCALE",
    "SCHEMA",
    "FinalResponseMatch",
    "Hallucinations",
    "Judge",
    "Options",
    "Quality",
    "RubricCriterion",
    "SimulatorQuality",
    "VertexQuality",
    "Weights",
    "judge_calls",
    "judge_options",
    "level_scale",
    "tally",
    "verdict_scale",
]
