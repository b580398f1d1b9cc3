"""Criteria that a model judges: prompts, votes and how they become a score."""

from agent_eval.criteria.judged.building import JUDGED, refusal, verdict_scale
from agent_eval.criteria.judged.estimate import judge_calls
from agent_eval.criteria.judged.final_response import VALIDITY_SCALE
from agent_eval.criteria.judged.judge import DEFAULT_JUDGE, Judge, Options, judge_options
from agent_eval.criteria.judged.quality import YARDSTICKS
from agent_eval.criteria.judged.rubrics import RUBRIC_SCALE
from agent_eval.criteria.judged.sentences import SCHEMA
from agent_eval.criteria.judged.settling import NO_VERDICT, tally
from agent_eval.criteria.judged.version import QUESTIONS_VERSION

__all__ = [
    "DEFAULT_JUDGE",
    "JUDGED",
    "NO_VERDICT",
    "QUESTIONS_VERSION",
    "RUBRIC_SCALE",
    "SCHEMA",
    "VALIDITY_SCALE",
    "YARDSTICKS",
    "Judge",
    "Options",
    "judge_calls",
    "judge_options",
    "refusal",
    "tally",
    "verdict_scale",
]
