"""Criteria, which score recorded conversations."""

from agent_eval_scoring.criteria._alignment import Alignment, align
from agent_eval_scoring.criteria._depth import explained, with_hidden
from agent_eval_scoring.criteria._differences import describe_differences, literal, name_of, render_call, visible
from agent_eval_scoring.criteria._sequences import common_length, edit_distance
from agent_eval_scoring.criteria._trajectory import ToolTrajectory
from agent_eval_scoring.criteria.base import (
    Conversation,
    Criterion,
    Judgement,
    NotEvaluated,
    Relabelled,
    Result,
    Scored,
    TurnFinding,
    Withheld,
    calls_not_visible,
    reads_state,
    unlabelled,
)
from agent_eval_scoring.criteria.calls import match_calls
from agent_eval_scoring.criteria.code import CodeMetric
from agent_eval_scoring.criteria.custom import CustomMetric, error_of
from agent_eval_scoring.criteria.efficiency import inference_call_count, token_usage
from agent_eval_scoring.criteria.packages import Packaged, PackageFault
from agent_eval_scoring.criteria.registry import INFORMATIONAL, build, judge_of, supported, why_not
from agent_eval_scoring.evalset.metric_runner import MetricCall, MetricFailure, MetricRunner
