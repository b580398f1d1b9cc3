"""Criteria that need the agent's tool calls, for agents that don't show them."""

from __future__ import annotations

from agent_eval.criteria.base import Conversation, Criterion, NotEvaluated
from agent_eval.criteria.relabelled import unlabelled
from agent_eval.evalset.models import METRICS


def calls_not_visible(criterion: Criterion, conversation: Conversation) -> NotEvaluated | None:
    """Why a criterion can't score a conversation whose tool calls are not known; None if it can."""
    spec = METRICS.get(unlabelled(criterion).name)
    if conversation.calls_visible or spec is None or not spec.needs_tool_calls:
        return None
    return NotEvaluated(
        code="calls-not-visible",
        message="the agent's server does not show tool calls, so it is not known whether there were any. Use criteria "
        "that score the answer, or a server that shows its calls",
    )
