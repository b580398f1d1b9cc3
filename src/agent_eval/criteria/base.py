"""The contract of a criterion: a recorded conversation in, a score or the reason for none out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_eval.core.invocation import Invocation
from agent_eval.evalset.schema import EvalCase


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What a criterion sees of one run."""

    case: EvalCase
    actual: Sequence[Invocation]
    expected: Sequence[Invocation] | None
    """As many as `actual`; None for a scenario."""


@dataclass(frozen=True, kw_only=True)
class TurnFinding:
    """A turn that lowered the score, with the reasons in words."""

    turn: int
    score: float | None
    expected: str
    actual: str
    why: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A measurement."""

    score: float | None
    """None only for an informational metric that had nothing to count."""
    turn_scores: tuple[float | None, ...] = ()
    findings: tuple[TurnFinding, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class NotEvaluated:
    """No measurement: another type than a score, so that it can't be averaged by mistake."""

    code: str
    """Stable, kebab-case."""
    message: str


Result = Scored | NotEvaluated


class Criterion(Protocol):
    """One configured metric."""

    @property
    def name(self) -> str:
        """ADK's metric name."""
        ...

    @property
    def threshold(self) -> float | None:
        """None for an informational metric."""
        ...

    async def score(self, conversation: Conversation) -> Result:
        """Scores one run. Raises nothing for bad data: that is a NotEvaluated."""
        ...
