"""A criterion with another name in reports, for a second criterion of the same metric."""

from __future__ import annotations

from dataclasses import dataclass

from agent_eval.criteria.base import Conversation, Criterion, Result


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
