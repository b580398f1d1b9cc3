"""The interface of a criterion: a recorded conversation in, a score or the reason for a missing one out.

Also what criteria share that score turns: pairing turns with references, the loop over them, and averaging.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Unpack

from agent_eval_scoring.core.invocation import Invocation
from agent_eval_scoring.core.means import running_mean
from agent_eval_scoring.core.reason import Facts, Reason
from agent_eval_scoring.core.recording import RunError
from agent_eval_scoring.evalset.metric_runner import MetricRunner
from agent_eval_scoring.evalset.models import METRICS, EvalCase, Family
from agent_eval_scoring.models import Replies


def check_complete(scorers: Mapping[Family, set[str]]) -> None:
    """Checks that the metrics with a scorer are exactly the declared ones.

    Args:
        scorers: Names by family.

    Raises:
        ImportError: A metric is declared without a scorer, or a scorer has no declaration in its family.
    """
    for family, names in scorers.items():
        declared = {name for name, spec in METRICS.items() if spec.family is family}
        if declared != names:
            differing = ", ".join(sorted(declared ^ names))
            raise ImportError(
                f"a {family.value} metric needs a declaration in METRICS (evalset/models/criteria.py) and a scorer in "
                f"criteria/registry.py, or for a judged one in criteria/judged/building.py; check {differing}"
            )


@dataclass(frozen=True, kw_only=True)
class Conversation:
    """The input of a criterion: one run of a case."""

    case: EvalCase
    actual: Sequence[Invocation]
    expected: Sequence[Invocation] | None
    """As many as `actual`; None for a scenario."""
    run: int = 0
    """Number of the run, 0-based. A judge votes on each run separately."""
    case_id: str = ""
    """Attributes the judge's calls to the case."""
    calls_visible: bool = True
    """False if the agent's tool calls are not known; `actual` then holds none."""
    metrics: MetricRunner | None = None
    """Runs custom metrics; None if there is no environment of an agent."""
    replies: Replies | None = None
    """Those of judges, if they are replayed or recorded."""


@dataclass(frozen=True, kw_only=True)
class TurnFinding:
    """A turn with a low score, and the reasons."""

    turn: int
    score: float | None
    expected: str
    actual: str
    why: tuple[Reason | str, ...] = ()
    """A line each, the summary first; texts of criteria from outside are their own words."""


@dataclass(frozen=True, kw_only=True)
class Vote:
    """One vote of a judge on one question."""

    sample: int
    """0-based."""
    verdict: str | None
    """One of the question's verdicts; None: no vote."""
    score: float | None
    """The score of the verdict."""
    rationale: str = ""
    """The judge's rationale; without a verdict, why there is none. Written by a model that has read hostile text."""
    failure: str | None = None
    """The code of the reason for no vote, if the model gave no reply."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The outcome of the votes on one question."""

    turn: int | None
    """0-based; None for the whole conversation."""
    subject: str
    """The subject of the question: a rubric's id, a sentence, or "" for the turn itself."""
    verdict: str | None
    """None: there was no vote."""
    score: float | None
    rationale: str
    """Of the first vote for the outcome."""
    votes: tuple[Vote, ...]
    """By sample; samples that could not change the outcome were not asked for."""
    planned: int
    """Maximum number of votes."""

    @property
    def tally(self) -> tuple[int, int]:
        """Number of votes for the outcome, and for other scores."""
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
        """Whether a single vote could have changed the outcome, e.g. 3:2."""
        agreeing, others = self.tally
        # Of 3:2 a single changed vote makes 2:3.
        return others > 0 and agreeing - others <= 1


@dataclass(frozen=True, kw_only=True)
class Scored:
    """A measurement."""

    score: float | None
    """None only for an informational metric without data."""
    passed: bool | None = None
    """The metric's own decision; None: it passes if the score reaches the threshold."""
    turn_scores: tuple[float | None, ...] = ()
    findings: tuple[TurnFinding, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)
    """Details of the score, e.g. votes of a judge, shortened for results.json."""
    judgements: tuple[Judgement, ...] = ()
    """The judge's votes in full; `details` has the shortened form for results.json."""


@dataclass(frozen=True, kw_only=True)
class NotEvaluated:
    """A missing score. It is a separate type so that it can't be averaged by mistake."""

    code: str
    """Stable, kebab-case."""
    message: str = ""
    """Why. "": the report says it, from the code and the facts."""
    facts: Facts = field(default_factory=Facts)
    error: RunError | None = None
    """The failure of code, if any. A failure that the agent's owner has to fix fails the run."""
    details: dict[str, Any] = field(default_factory=dict)
    """The votes that there are, as in `Scored.details`."""

    @classmethod
    def of(cls, code: str, **facts: Unpack[Facts]) -> NotEvaluated:
        """A missing score for a reason that `report/phrases` says."""
        return cls(code=code, facts=facts)

    @property
    def reason(self) -> Reason:
        """The reason for the report."""
        return Reason(code=self.code, message=self.message, data=Reason.of(self.code, **self.facts).data)


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
        """Scores one run. For bad data it returns NotEvaluated instead of raising."""
        ...


@dataclass(frozen=True, kw_only=True)
class Relabelled:
    """Implements `Criterion`."""

    name: str
    threshold: float | None
    criterion: Criterion

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
    """`results.WITHOUT_KEY` if the gate ignores the missing score."""
    message: str
    criterion: Criterion
    """What scores where a tape has all replies that it needs."""

    async def score(self, conversation: Conversation) -> Result:
        """Returns NotEvaluated, unless a tape has the replies."""
        # A tape makes the key unnecessary, also for the criteria of a fork, which gets no secrets.
        if conversation.replies is not None and conversation.replies.taped:
            result = await self.criterion.score(replace(conversation, replies=replace(conversation.replies, only=True)))
            # A tape that lacks a reply is no news without a key: the key is what is missing.
            if not isinstance(result, NotEvaluated) or result.code != "judge-replay-miss":
                return result
        return NotEvaluated(code=self.code, message=self.message)


def reads_state(criterion: Criterion) -> bool:
    """Whether a criterion reads the session's state. One that is not built in may."""
    spec = METRICS.get(unlabelled(criterion).name)
    return spec is None or spec.needs_state


def calls_not_visible(criterion: Criterion, conversation: Conversation) -> NotEvaluated | None:
    """Why a criterion can't score a conversation whose tool calls are not known; None if it can."""
    spec = METRICS.get(unlabelled(criterion).name)
    # Without calls every trajectory is empty: an agent that made none would pass, and one that made all would fail.
    if conversation.calls_visible or spec is None or not spec.needs_tool_calls:
        return None
    return NotEvaluated.of("calls-not-visible")


TurnPair = tuple[Invocation, Invocation]
"""The actual turn, then the expected one."""
TurnResult = tuple[float | None, TurnFinding | None]
"""The score of a turn, None if the metric leaves it out; what lowered the score, None if it reaches the threshold."""


def paired(conversation: Conversation) -> list[TurnPair] | NotEvaluated:
    """The turns of a run with their references, at least one pair; or the reason why there are none."""
    expected = conversation.expected
    if expected is None:
        return NotEvaluated.of("needs-reference")
    # ADK ends the whole evaluation here (Q16); it is this metric's missing score.
    if len(conversation.actual) != len(expected):
        return NotEvaluated.of("turn-count", expected=len(expected), count=len(conversation.actual))
    if not expected:
        return no_turns()
    return list(zip(conversation.actual, expected, strict=True))


def score_turns(
    conversation: Conversation,
    score_turn: Callable[[int, Invocation, Invocation], TurnResult | NotEvaluated],
    *,
    without_scores: NotEvaluated | None = None,
) -> Result:
    """Scores each turn against its reference, and the run as the mean of its turns.

    Args:
        conversation: The run.
        score_turn: Called with the 0-based turn, the actual and the expected invocation. NotEvaluated ends the loop.
        without_scores: The result if every turn was left out; None if `score_turn` leaves none out.
    """
    pairs = paired(conversation)
    if isinstance(pairs, NotEvaluated):
        return pairs
    scores: list[float | None] = []
    findings: list[TurnFinding] = []
    for turn, (actual, expected) in enumerate(pairs):
        try:
            result = score_turn(turn, actual, expected)
        # Args are compared by recursion, and an agent may nest them as deep as it likes.
        except RecursionError:
            return _too_deep()
        if isinstance(result, NotEvaluated):
            return result
        score, finding = result
        scores.append(score)
        findings += [finding] if finding else []
    present = [score for score in scores if score is not None]
    if not present and without_scores is not None:
        return without_scores
    # In ADK's order of additions: its mean may miss a threshold by the last bit, and so must ours (Q20).
    return Scored(score=running_mean(present), turn_scores=tuple(scores), findings=tuple(findings))


def no_turns() -> NotEvaluated:
    """The result for a conversation without turns."""
    return NotEvaluated.of("no-turns")


def _too_deep() -> NotEvaluated:
    """The result for args that exceed Python's recursion limit."""
    return NotEvaluated.of("too-deep")
