"""A criterion under another name in reports, beside one of the same metric with other options."""

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
        """The criterion's."""
        return self.criterion.threshold

    async def score(self, conversation: Conversation) -> Result:
        """Scores as the criterion does."""
        return await self.criterion.score(conversation)


def unlabelled(criterion: Criterion) -> Criterion:
    """The criterion that does the work."""
    return criterion.criterion if isinstance(criterion, Relabelled) else criterion
