"""Criteria that can't be scored, or not under their own name: calls that are not visible, keys that are withheld."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.criteria.base import Conversation, Criterion, NotEvaluated, Result
from agent_eval.evalset.models import METRICS


@dataclass(frozen=True, kw_only=True)
class Relabelled:
    """Implements `Criterion`."""

    name: str
    criterion: Criterion

    @property
    def threshold(self) -> float | None:
        """The threshold of the wrapped criterion."""
        return self.criterion.threshold

    async def score(self, conversation: Conversation) -> Result:
        """Scores with the wrapped criterion."""
        return await self.criterion.score(conversation)


def unlabelled(criterion: Criterion) -> Criterion:
    """The wrapped criterion."""
    return criterion.criterion if isinstance(criterion, Relabelled) else criterion


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """Implements `Criterion`."""

    name: str
    threshold: float | None
    code: str
    """`results.merge.WITHOUT_KEY` if the gate ignores the missing score."""
    message: str

    async def score(self, conversation: Conversation) -> Result:
        """Returns NotEvaluated."""
        return NotEvaluated(code=self.code, message=self.message)


def calls_not_visible(criterion: Criterion, conversation: Conversation) -> NotEvaluated | None:
    """Why a criterion can't score a conversation whose tool calls are not known; None if it can."""
    spec = METRICS.get(unlabelled(criterion).name)
    if conversation.calls_visible or spec is None or not spec.needs_tool_calls:
        return None
    return NotEvaluated.of("calls-not-visible")
