"""A judge: one model for all criteria, and the panel of votes that a criterion gets for one conversation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agent_eval.criteria.base import Conversation, Judgement, NotEvaluated, Vote
from agent_eval.criteria.judged._ballot import lower_median, needed
from agent_eval.criteria.judged._fence import Draft, Render, fenced
from agent_eval.evalset.models import CriterionConfig, JudgeModelOptions
from agent_eval.models import VERTEX_EVAL, FailureKind, Model, ModelFailure, ModelReply, ModelRequest

DEFAULT_JUDGE = "gemini-2.5-flash"
"""google-adk 2.13.0."""

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
"""The code of a missing score by what the model's failure was."""

_DROPS_OUT: frozenset[FailureKind] = frozenset({"unavailable", "deadline", "malformed", "refused"})
"""Failures of one sample. The others would meet every sample alike, and end the criterion at once."""

Opinions = Mapping[int, tuple[str, str]]
"""A verdict and its rationale by subject. A subject that isn't there was skipped."""

T = TypeVar("T")


class Unjudgeable(Exception):
    """The criterion gets no score, whatever the other turns say."""

    def __init__(self, failure: ModelFailure) -> None:
        super().__init__(failure.message)
        message = f"{failure.message.rstrip('.')}. {failure.hint}" if failure.hint else failure.message
        self.result = NotEvaluated(code=CODES[failure.kind], message=f"The judge: {message}")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How one criterion is judged."""

    model: str
    samples: int = 5
    config: Mapping[str, Any] = field(default_factory=dict)


def judge_options(config: CriterionConfig, default_model: str = DEFAULT_JUDGE) -> Options:
    """How a configured criterion is judged: its own `judge_model` wins over the default.

    `parallelism_limit` is not among it: how many calls are under way is decided for the whole run. With
    `"backend": "vertex"` Vertex AI's evaluation service is asked, and once, as it takes its votes by itself.
    """
    if config.options.get("backend") == "vertex":
        return Options(model=VERTEX_EVAL, samples=1)
    options = config.options.get("judge_model_options") or JudgeModelOptions()
    model = options.judge_model if "judge_model" in options.model_fields_set else default_model
    if model == VERTEX_EVAL:
        return Options(model=VERTEX_EVAL, samples=1)
    return Options(model=model, samples=options.num_samples, config=options.judge_model_config or {})


@dataclass(frozen=True, kw_only=True)
class Judge:
    """Whom the criteria ask."""

    model: Model
    default_model: str = DEFAULT_JUDGE
    """For criteria that name none."""
    render: Render = fenced

    def options(self, config: CriterionConfig) -> Options:
        """How a criterion is judged here."""
        return judge_options(config, self.default_model)


@dataclass(frozen=True, kw_only=True)
class Question:
    """What each vote of a panel answers: a verdict on each of one or more subjects."""

    turn: int | None
    subjects: Sequence[str]
    draft: Draft
    schema: Mapping[str, Any]
    scale: Mapping[str, float]
    """The closed words of a verdict, and what they count."""
    read: Callable[[Any], Opinions]
    """Reads a reply that fits the schema."""
    again: Callable[[Sequence[int]], Draft] | None = None
    """The question about the subjects that a reply skipped; None: nothing can be skipped."""


class Panel:
    """The votes of one criterion on one conversation, and what they cost."""

    def __init__(self, judge: Judge, options: Options, metric: str, conversation: Conversation) -> None:
        self._judge = judge
        self._options = options
        self._metric = metric
        self._run = conversation.run
        self._case_id = conversation.case_id or conversation.case.eval_id
        self._versions: set[str] = set()
        self.calls = 0
        """Attempts that were sent to the provider."""
        self.cached = 0
        """Replies that came from the cache."""
        self.saved = 0
        """Samples that were not needed any more."""

    def summary(self) -> dict[str, Any]:
        """For the report: who judged, and at what effort."""
        return {
            "model": self._options.model,
            "versions": sorted(self._versions),
            "calls": self.calls,
            "cached": self.cached,
            "saved": self.saved,
        }

    async def ask(self, draft: Draft, schema: Mapping[str, Any], sample: int = 0) -> ModelReply:
        """Asks once.

        Raises:
            ModelFailure: There is no reply, and another sample may have one.
            Unjudgeable: There is no reply, and there won't be one.
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
        """Takes samples until every subject is decided; the outcome is that of all samples, the calls are fewer.

        Returns:
            One judgement per subject, in their order.

        Raises:
            Unjudgeable: See `ask`.
        """
        total = self._options.samples
        scale = sorted(set(question.scale.values()))
        votes: list[list[Vote]] = [[] for _ in question.subjects]
        taken = 0
        while taken < total:
            wanted = [needed(_cast(of), total - taken, scale) for of in votes]
            wave = max(wanted, default=0)
            if not wave:
                break
            open_ = [subject for subject, count in enumerate(wanted) if count]
            samples = [self._sample(question, sample, open_) for sample in range(taken, taken + wave)]
            for ballot in await together(samples):
                for of, vote in zip(votes, ballot, strict=True):
                    of.append(vote)
            taken += wave
        self.saved += total - taken
        return [
            _judgement(question.turn, subject, of, total) for subject, of in zip(question.subjects, votes, strict=True)
        ]

    async def _sample(self, question: Question, sample: int, open_: Sequence[int]) -> list[Vote]:
        """One vote on each subject. What the reply skipped is asked again once, if its outcome is still open."""
        everything = range(len(question.subjects))
        try:
            reply = await self.ask(question.draft, question.schema, sample)
        except ModelFailure as failure:
            return [_no_vote(sample, f"no vote: {failure.message}", CODES[failure.kind]) for _ in everything]
        opinions = dict(_closed(question, reply.value))
        skipped = [subject for subject in open_ if subject not in opinions]
        failed: str | None = None
        if skipped and question.again is not None:
            try:
                reply = await self.ask(question.again(skipped), question.schema, sample)
            except ModelFailure as failure:
                failed = CODES[failure.kind]
            else:
                found = _closed(question, reply.value)
                opinions |= {subject: found[subject] for subject in skipped if subject in found}
        return [
            Vote(
                sample=sample,
                verdict=opinions[subject][0],
                score=question.scale[opinions[subject][0]],
                rationale=opinions[subject][1],
            )
            if subject in opinions
            else _no_vote(sample, "no vote: the judge gave no verdict on this", failed)
            for subject in everything
        ]


def _closed(question: Question, value: Any) -> dict[int, tuple[str, str]]:
    """The opinions whose verdict is one of the closed words."""
    return {subject: opinion for subject, opinion in question.read(value).items() if opinion[0] in question.scale}


def counted_from_0(number: Any) -> int | None:
    """The index that a reply's number stands for (JSON Schema calls 2.0 an integer too); None for anything else."""
    if isinstance(number, bool) or not isinstance(number, int | float) or number != int(number):
        return None
    return int(number) - 1


def _no_vote(sample: int, why: str, failure: str | None) -> Vote:
    return Vote(sample=sample, verdict=None, score=None, rationale=why, failure=failure)


def _cast(votes: Iterable[Vote]) -> list[float]:
    return [vote.score for vote in votes if vote.score is not None]


def _judgement(turn: int | None, subject: str, votes: Sequence[Vote], planned: int) -> Judgement:
    score = lower_median(_cast(votes))
    # Without any vote the first sample tells why.
    speaks = next((vote for vote in votes if vote.score == score), None)
    return Judgement(
        turn=turn,
        subject=subject,
        verdict=speaks.verdict if speaks else None,
        score=score,
        rationale=speaks.rationale if speaks else "",
        votes=tuple(votes),
        planned=planned,
    )


async def together(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Does all of it at once; results in order.

    Raises:
        Unjudgeable: One of them did; the others are cancelled, since nothing that they say would count.
    """
    stopped: Unjudgeable | None = None
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one) for one in work]
    except* Unjudgeable as found:
        stopped = _first(found)
    if stopped is not None:  # Raised in there, it would become a group again.
        raise stopped
    return [task.result() for task in tasks]


def _first(group: BaseExceptionGroup[Unjudgeable]) -> Unjudgeable:
    found: BaseException = group
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, Unjudgeable)
    return found
