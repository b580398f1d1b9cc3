"""A judged criterion where its judge has no key: it says so instead of a score."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.criteria.base import Conversation, NotEvaluated, Result


@dataclass(frozen=True, kw_only=True)
class Withheld:
    """Implements `Criterion`."""

    name: str
    threshold: float | None
    code: str
    """`results.merge.WITHOUT_KEY` when the gate does without it."""
    message: str

    async def score(self, conversation: Conversation) -> Result:
        """Nobody could be asked."""
        return NotEvaluated(code=self.code, message=self.message)
