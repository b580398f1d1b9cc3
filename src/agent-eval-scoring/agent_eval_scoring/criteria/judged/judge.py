"""The judge, which is one model for all criteria, and the votes of one criterion on one conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.prompt_fence import Draft, Render, fenced
from agent_eval_scoring.criteria.base import Conversation, Judgement, NotEvaluated, Vote
from agent_eval_scoring.evalset.models import DEFAULT_JUDGE, CriterionConfig, JudgeModelOptions
from agent_eval_scoring.models import VERTEX_EVAL, FailureKind, Model, ModelFailure, ModelReply, ModelRequest

CODES: Mapping[FailureKind, str] = {
    "unavailable": "judge-unavailable",
    "deadline": "judge-deadline",
    "malformed": "judge-malformed",
    "refused": "judge-refused",
    "budget": "budget",
    "invalid-request": "judge-invalid-request",
    "no-credentials": "judge-no-credentials",
    "replay-miss": "judge-replay-miss",
}
"""The code of a missing score by kind of failure."""

_DROPS_OUT: frozenset[FailureKind] = frozenset({"unavailable", "deadline", "malformed", "refused"})
"""Failures that affect a single sample. All others affect every sample and end the criterion."""

Opinions = Mapping[int, tuple[str, str]]
"""Verdict and rationale by subject. A subject that is missing was skipped."""

T = TypeVar("T")


class Unjudgeable(AgentEvalError):
    """The criterion gets no score, regardless of the other turns."""

    def __init__(self, failure: ModelFailure) -> None:
        super().__init__(failure.message)
        message = f"{failure.message.rstrip('.')}. {failure.hint}" if failure.hint else failure.message
        self.result = NotEvaluated.of(CODES[failure.kind], phrase="judge-failed", message=message)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Judge model and number of votes of one criterion."""

    model: str
    samples: int = 5
    config: Mapping[str, Any] = field(default_factory=dict)


def judge_options(config: CriterionConfig, default_model: str = DEFAULT_JUDGE) -> Options:
    """The options of a configured criterion. Its own `judge_model` takes precedence over the default.

    `parallelism_limit` is ignored, since concurrency is limited for the whole run. With `"backend": "vertex"` Vertex
    AI's evaluation service is asked once, because it votes by itself.
    """
    if config.options.get("backend") == "vertex":
        return Options(model=VERTEX_EVAL, samples=1)
    options = config.options.get("judge_model_options") or JudgeModelOptions()
    # Only a model that the criterion names itself: ADK's default must not overrule `judge-model`.
    model = options.judge_model if "judge_model" in options.model_fields_set else default_model
    if model == VERTEX_EVAL:
        return Options(model=VERTEX_EVAL, samples=1)
    return Options(model=model, samples=options.num_samples, config=options.judge_model_config or {})


@dataclass(frozen=True, kw_only=True)
class Judge:
    """The judge of all criteria."""

    model: Model
    default_model: str = DEFAULT_JUDGE
    """For criteria that name no model."""
    render: Render = fenced

    def options(self, config: CriterionConfig) -> Options:
        """The options of a criterion with this judge."""
        return judge_options(config, self.default_model)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question for a panel. Each vote has a verdict on each of one or more subjects."""

    turn: int | None
    subjects: Sequence[str]
    draft: Draft
    schema: Mapping[str, Any]
    scale: Mapping[str, float]
    """The allowed verdicts with their scores."""
    other_scales: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    """By subject, for those with other verdicts."""
    read: Callable[[Any], Opinions]
    """Reads a reply that matches the schema."""
    again: Callable[[Sequence[int]], Draft] | None = None
    """The follow-up question about skipped subjects; None if no subject can be skipped."""

    def scale_of(self, subject: int) -> Mapping[str, float]:
        """The allowed verdicts on a subject with their scores."""
        return self.other_scales.get(subject, self.scale)


class Panel:
    """Collects the votes of one criterion on one conversation, and counts the calls."""

    def __init__(self, judge: Judge, options: Options, metric: str, conversation: Conversation) -> None:
        self._judge = judge
        self._options = options
        self._metric = metric
        self._run = conversation.run
        self._replies = conversation.replies
        self._case_id = conversation.case_id or conversation.case.eval_id
        self._versions: set[str] = set()
        self.calls = 0
        """Number of requests to the provider, retries included."""
        self.cached = 0
        """Number of replies from the cache or a tape."""
        self.saved = 0
        """Number of samples that were not needed."""

    def summary(self) -> dict[str, Any]:
        """Model and number of calls, for the report."""
        return {
            "model": self._options.model,
            "versions": sorted(self._versions),
            "calls": self.calls,
            "cached": self.cached,
            "saved": self.saved,
        }

    async def ask(self, draft: Draft, schema: Mapping[str, Any], sample: int = 0) -> ModelReply:
        """Sends one request.

        Raises:
            ModelFailure: There is no reply, but another sample may get one.
            Unjudgeable: There is no reply, and no other sample would get one.
        """
        request = ModelRequest(
            model=self._options.model,
            prompt=self._judge.render(draft),
            schema=schema,
            config=self._options.config,
            sample=sample,
            run=self._run,
            case_id=self._case_id,
            purpose=self._metric,
            replies=self._replies,
        )
        try:
            reply = await self._judge.model.generate(request)
        except ModelFailure as failure:
            self.calls += failure.calls
            if failure.kind in _DROPS_OUT:
                raise
            raise Unjudgeable(failure) from failure
        self.calls += reply.calls
        self.cached += reply.cached
        self._versions.add(reply.model_version)
        return reply

    async def poll(self, question: Question) -> list[Judgement]:
        """Takes samples until every subject is decided. The outcome is the same as with all samples, with fewer calls.

        Returns:
            One judgement per subject, in order.

        Raises:
            Unjudgeable: See `ask`.
        """
        total = self._options.samples
        scales = [sorted(set(question.scale_of(subject).values())) for subject in range(len(question.subjects))]
        votes: list[list[Vote]] = [[] for _ in question.subjects]
        taken = 0
        while taken < total:
            missing = [
                needed(_scores(of_subject), total - taken, scale)
                for of_subject, scale in zip(votes, scales, strict=True)
            ]
            # As many at once as the most open subject needs: fewer would take another round, more could be wasted.
            wave = max(missing, default=0)
            if not wave:
                break
            open_ = [subject for subject, count in enumerate(missing) if count]
            samples = [self._sample(question, sample, open_) for sample in range(taken, taken + wave)]
            for ballot in await together(samples):
                # Also for subjects that are decided: the reply has them, and reports show how sure the judge was.
                for of_subject, vote in zip(votes, ballot, strict=True):
                    of_subject.append(vote)
            taken += wave
        self.saved += total - taken
        return [
            _judgement(question.turn, subject, of_subject, total)
            for subject, of_subject in zip(question.subjects, votes, strict=True)
        ]

    async def _sample(self, question: Question, sample: int, open_: Sequence[int]) -> list[Vote]:
        """One vote on each subject. Skipped subjects are asked again once, if their outcome is still open."""
        everything = range(len(question.subjects))
        try:
            reply = await self.ask(question.draft, question.schema, sample)
        except ModelFailure as failure:
            return [_no_vote(sample, failure.message, CODES[failure.kind]) for _ in everything]
        opinions = _valid_opinions(question, reply.value)
        skipped = [subject for subject in open_ if subject not in opinions]
        failed: str | None = None
        if skipped and question.again is not None:
            try:
                # The same vote, which the second question completes.
                reply = await self.ask(question.again(skipped), question.schema, sample)
            except ModelFailure as failure:
                failed = CODES[failure.kind]
            else:
                more = _valid_opinions(question, reply.value)
                opinions |= {subject: more[subject] for subject in skipped if subject in more}
        return [
            Vote(
                sample=sample,
                verdict=opinions[subject][0],
                score=question.scale_of(subject)[opinions[subject][0]],
                rationale=opinions[subject][1],
            )
            if subject in opinions
            else _no_vote(sample, "the judge gave no verdict on this", failed)
            for subject in everything
        ]


def _valid_opinions(question: Question, value: Any) -> dict[int, tuple[str, str]]:
    """The opinions with an allowed verdict."""
    return {
        subject: opinion
        for subject, opinion in question.read(value).items()
        if opinion[0] in question.scale_of(subject)
    }


def counted_from_0(number: Any) -> int | None:
    """The 0-based index of a 1-based number in a reply (2.0 is an integer in JSON Schema); None for anything else."""
    if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
        return None
    return int(number) - 1


def _no_vote(sample: int, why: str, failure: str | None) -> Vote:
    return Vote(sample=sample, verdict=None, score=None, rationale=why, failure=failure)


def _scores(votes: Iterable[Vote]) -> list[float]:
    return [vote.score for vote in votes if vote.score is not None]


def _judgement(turn: int | None, subject: str, votes: Sequence[Vote], planned: int) -> Judgement:
    # The lower of two: with a tie, an answer that half of the votes refuse does not pass.
    score = lower_median(_scores(votes))
    # Without any vote this is the first sample, with the reason.
    deciding = next((vote for vote in votes if vote.score == score), None)
    return Judgement(
        turn=turn,
        subject=subject,
        verdict=deciding.verdict if deciding else None,
        score=score,
        rationale=deciding.rationale if deciding else "",
        votes=tuple(votes),
        planned=planned,
    )


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Runs all coroutines concurrently and returns their results in order.

    Raises:
        Unjudgeable: One of them raised it; the others are cancelled.
    """
    stopped: Unjudgeable | None = None
    try:
        # Not gather(): it would let the other calls go on, and be paid for, after the first one has failed.
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(coroutine) for coroutine in work]
    except* Unjudgeable as error:
        stopped = _first(error)
    if stopped is not None:  # Raised inside the `except*` it would become a group again.
        raise stopped
    return [task.result() for task in tasks]


def _first(group: BaseExceptionGroup[Unjudgeable]) -> Unjudgeable:
    error: BaseException = group
    # Groups nest, since a panel's votes are a group of their own.
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, Unjudgeable)
    return error


QUESTIONS_VERSION = 4
"""Incremented whenever the questions about the same answer change, since scores are then not comparable."""


def lower_median(scores: Sequence[float]) -> float | None:
    """The middle score, the lower of two middle scores; None without scores."""
    # A median and no mean: a verdict has to be one that some vote gave.
    return sorted(scores)[(len(scores) - 1) // 2] if scores else None


def decided(scores: Sequence[float], left: int, scale: Sequence[float]) -> bool:
    """Whether the remaining votes can't change the outcome.

    Args:
        scores: The votes so far.
        left: Number of remaining samples. Each may give any score of the scale, or no vote.
        scale: The possible scores.
    """
    if left <= 0:
        return True
    # The median is lowest if all remaining votes are the minimum, and highest if they are the maximum. If both medians
    # are equal, the outcome is decided.
    lowest = lower_median([*scores, *[min(scale)] * left])
    return bool(scores) and lowest == lower_median([*scores, *[max(scale)] * left])


def needed(scores: Sequence[float], left: int, scale: Sequence[float]) -> int:
    """The minimum number of further samples that can decide the outcome.

    Taking that many at once wastes none, because fewer can't be enough.
    """
    if decided(scores, left, scale):
        return 0
    for count in range(1, left):
        if any(decided([*scores, *[score] * count], left - count, scale) for score in scale):
            return count
    return left
