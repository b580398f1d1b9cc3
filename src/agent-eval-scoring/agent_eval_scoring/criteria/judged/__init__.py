"""Criteria that a model judges: prompts, votes and how they become a score."""

from agent_eval_scoring.criteria.judged._hallucinations import CUTTING_SCHEMA
from agent_eval_scoring.criteria.judged.building import build_judged, judge_calls
from agent_eval_scoring.criteria.judged.judge import QUESTIONS_VERSION, Judge, Options, judge_options
from agent_eval_scoring.criteria.judged.quality import verdict_scale
from agent_eval_scoring.criteria.judged.rubrics import RUBRIC_SCALE, level_scale
from agent_eval_scoring.criteria.judged.settling import NO_VERDICT, tally
