"""Asks the judge about labelled responses as a run would, and compares its verdicts with the labels."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from pydantic import Field

from agent_eval.core.wire import WireModel
from agent_eval.criteria import NotEvaluated, Result, build
from agent_eval.criteria.judged import NO_VERDICT, Judge, tally
from agent_eval_workbench.calibration.agreement import Pair
from agent_eval_workbench.calibration.labels import Kind, Label, LabelledResponse, LabelSet
from agent_eval_workbench.calibration.target import TargetCriterion


class Opinion(WireModel):
    """One label with the judge's verdict."""

    line: int
    id: str | None = None
    rubric: str | None = None
    label: float
    """1 or 0 for pass and fail, else a score."""
    verdict: float | None = None
    """The judge's, on the same scale; None: not judged."""
    score: float | None = None
    """The criterion's score before it is compared with the threshold."""
    votes: list[str] = Field(default_factory=list)
    """The votes on each question, e.g. `5:0` or `3:2, close`."""
    rationale: list[str] = Field(default_factory=list)
    """The judge's rationales, those that contradict the label first. A model wrote them that has read hostile text."""
    note: str = ""
    """The reason for the human label."""
    prompt: str = ""
    response: str = ""
    reason: str | None = None
    """The code of why there is no verdict."""
    message: str | None = None
    """The same in words."""
    close: bool = False
    """Whether a single vote could have changed the verdict, e.g. 3:2."""
    confidence: float | None = None
    """The mean share of votes for the outcome, 0..1."""
    response_line: int
    """The first line about this response."""

    @property
    def distance(self) -> float | None:
        """The absolute difference between label and verdict; None without a verdict."""
        return None if self.verdict is None else abs(self.verdict - self.label)


async def ask(labels: LabelSet, target: TargetCriterion, judge: Judge) -> list[Opinion]:
    """Judges all responses concurrently; the model limits the number of calls in flight.

    Returns:
        One opinion per label, in the order of `labels.labels`.
    """
    # For pass and fail the gate's own threshold applies, also to whether a missing vote matters. Otherwise each verdict
    # counts by itself, and the lowest threshold keeps the criterion from skipping any.
    whole = labels.kind == "verdict" and not labels.by_rubric
    threshold = target.threshold if whole and target.threshold is not None else target.span[0]
    criterion = build(replace(target.config, threshold=threshold), judge=judge)
    results = await asyncio.gather(
        *(criterion.score(response.conversation(labels.file)) for response in labels.responses)
    )
    return [
        _opinion(label, response, result, labels.kind, threshold)
        for response, result in zip(labels.responses, results, strict=True)
        for label in response.labels
    ]


def _opinion(label: Label, response: LabelledResponse, result: Result, kind: Kind, threshold: float) -> Opinion:
    opinion = Opinion(
        line=label.line,
        id=label.id,
        rubric=label.rubric or None,
        label=label.value(kind),
        note=label.note,
        prompt=response.prompt,
        response=response.answer,
        response_line=response.line,
    )
    if isinstance(result, NotEvaluated):
        opinion.reason, opinion.message = result.code, result.message
        return opinion
    judgements = [each for each in result.judgements if not label.rubric or each.subject == label.rubric]
    shares = [judgement.agreement or 0.0 for judgement in judgements]
    opinion.confidence = sum(shares) / len(shares) if shares else None
    opinion.close = any(judgement.close for judgement in judgements)
    score = result.score
    if label.rubric:
        # In a conversation the rubric must hold on every turn.
        scores = [judgement.score for judgement in judgements if judgement.score is not None]
        score = min(scores) if scores and len(scores) == len(judgements) else None
    missing = next((judgement for judgement in judgements if judgement.score is None), None)
    if score is None or (missing is not None and (label.rubric or kind == "score")):
        failed = next((vote.failure for vote in missing.votes if vote.failure), None) if missing is not None else None
        opinion.reason = failed or NO_VERDICT
        opinion.message = missing.rationale if missing is not None else "the judge gave no verdict on this"
    else:
        opinion.score = score
        opinion.verdict = score if label.rubric or kind == "score" else float(score >= threshold)
        if opinion.verdict != opinion.label:
            too_high = opinion.verdict > opinion.label
            judgements.sort(key=lambda judgement: judgement.score or 0.0, reverse=too_high)
    opinion.votes = [tally(judgement) or "no vote" for judgement in judgements]
    opinion.rationale = [judgement.rationale for judgement in judgements]
    return opinion


def pairs_by_response(opinions: Sequence[Opinion]) -> list[list[Pair]]:
    """Labels with verdicts, grouped by response; unjudged labels are left out."""
    groups: dict[int, list[Pair]] = {}
    for opinion in opinions:
        if opinion.verdict is not None:
            groups.setdefault(opinion.response_line, []).append((opinion.label, opinion.verdict))
    return list(groups.values())


def imputed(opinions: Sequence[Opinion], span: tuple[float, float], *, agree: bool) -> list[Pair]:
    """All pairs, with missing verdicts filled in.

    Args:
        opinions: All of them.
        span: The lowest and the highest value.
        agree: Whether a missing verdict equals its label, or is as far from it as possible.
    """
    low, high = span
    pairs = []
    for opinion in opinions:
        farthest = low if opinion.label - low > high - opinion.label else high
        assumed = opinion.label if agree else farthest
        pairs.append((opinion.label, assumed if opinion.verdict is None else opinion.verdict))
    return pairs
