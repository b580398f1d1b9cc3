"""The contract of a criterion: a recorded conversation in, a score or the reason for none out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agent_eval.agents.protocol import MetricRunner
from agent_eval.core.invocation import Invocation
from agent_eval.evalset.models import EvalCase
from agent_eval.results import RunError


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """What a criterion sees of one run."""

    case: EvalCase
    actual: Sequence[Invocation]
    expected: Sequence[Invocation] | None
    """As many as `actual`; None for a scenario."""
    run: int = 0
    """Which run of the case this is, from 0: a judge votes anew on each."""
    case_id: str = ""
    """What the calls of a judge are booked on."""
    metrics: MetricRunner | None = None
    """Runs the pull request's own metrics; None where there is no agent's environment."""


@dataclass(frozen=True, kw_only=True)
class TurnFinding:
    """A turn that lowered the score, with the reasons in words."""

    turn: int
    score: float | None
    expected: str
    actual: str
    why: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Vote:
    """What a judge said once about one thing."""

    sample: int
    """0-based."""
    verdict: str | None
    """One of the closed words of the question; None: this sample doesn't vote."""
    score: float | None
    """What the verdict counts."""
    rationale: str = ""
    """The judge's words, or why there is no vote. Written by a model that has read hostile text: escape it."""
    failure: str | None = None
    """The code of why there is no vote, if the model gave no reply."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the votes on one thing came to."""

    turn: int | None
    """0-based; None for the conversation as a whole."""
    subject: str
    """What was asked about: a rubric's id, a sentence, or "" for the turn itself."""
    verdict: str | None
    """None: nobody voted."""
    score: float | None
    rationale: str
    """Of the first vote that agrees with the outcome."""
    votes: tuple[Vote, ...]
    """By sample, as far as they were needed."""
    planned: int
    """Votes that would have been asked for, had they not been decided before."""

    @property
    def tally(self) -> tuple[int, int]:
        """Votes for the outcome, and votes that count something else."""
        cast = [vote for vote in self.votes if vote.score is not None]
        agreeing = sum(1 for vote in cast if vote.score == self.score)
        return agreeing, len(cast) - agreeing

    @property
    def agreement(self) -> float | None:
        """The share of votes for the outcome, 0..1; None without a vote."""
        agreeing, others = self.tally
        return agreeing / (agreeing + others) if agreeing + others else None

    @property
    def close(self) -> bool:
        """Whether one vote more or less could have changed it, e.g. 3:2."""
        agreeing, others = self.tally
        return others > 0 and agreeing - others <= 1


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A measurement."""

    score: float | None
    """None only for an informational metric that had nothing to count."""
    passed: bool | None = None
    """The metric's own word; None: it passes if the score is at least the threshold."""
    turn_scores: tuple[float | None, ...] = ()
    findings: tuple[TurnFinding, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    """Numbers behind the score, and for a judged one its votes, cut to size for results.json."""
    judgements: tuple[Judgement, ...] = ()
    """What a judge said, in full; `details` has it for the wire."""


@dataclass(frozen=True, kw_only=True)
class NotEvaluated:
    """No measurement: another type than a score, so that it can't be averaged by mistake."""

    code: str
    """Stable, kebab-case."""
    message: str
    error: RunError | None = None
    """What broke, if code did. One that the agent's owner has to mend fails the run."""
    details: dict[str, Any] = field(default_factory=dict)
    """What a judge did say, as `Scored.details` has it."""


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
