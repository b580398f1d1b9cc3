"""Replaces a judged criterion whose judge has no API key."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.criteria.base import Conversation, NotEvaluated, Result


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
