"""Asks the judge about labelled responses, as a run of the gate would, and puts its verdicts beside the labels."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from agent_eval.calibration.agreement import Pair
from agent_eval.calibration.choosing import Chosen
from agent_eval.calibration.labels import LabelledResponse, LabelSet
from agent_eval.calibration.meaning import Kind, Label
from agent_eval.criteria import Judgement, NotEvaluated, Result, build
from agent_eval.criteria.judged import NO_VERDICT, Judge


@dataclass(frozen=True, kw_only=True)
class Opinion:
    """What the judge says where a label is."""

    label: Label
    response: LabelledResponse
    wanted: float
    """What the label says: 1 or 0 for pass and fail, else a score."""
    value: float | None = None
    """What the judge says, in the same terms; None: nothing."""
    score: float | None = None
    """What it came to before the threshold was looked at."""
    judgements: tuple[Judgement, ...] = ()
    """What was asked, with the votes."""
    code: str = ""
    """Why there is no value, stable; "" if there is one."""
    message: str = ""
    """The same in words."""

    @property
    def distance(self) -> float | None:
        """How far the two are apart; None without a value."""
        return None if self.value is None else abs(self.value - self.wanted)

    @property
    def close(self) -> bool:
        """Whether one vote more or less could have changed something, e.g. 3:2."""
        return any(judgement.close for judgement in self.judgements)


async def ask(labels: LabelSet, chosen: Chosen, judge: Judge) -> list[Opinion]:
    """Has every response judged, all at once: how many calls are under way is the model's to say.

    Returns:
        An opinion for each label, in the order of `labels.labels`.
    """
    # Where labels give a verdict the gate's own rule is_gating_file, also on whether a missing vote matters. Else every
    # verdict is wanted for itself, and the lowest threshold keeps the rule from looking away.
    whole = labels.kind == "verdict" and not labels.by_rubric
    threshold = chosen.threshold if whole and chosen.threshold is not None else chosen.span[0]
    criterion = build(chosen.with_threshold(threshold), judge=judge)
    results = await asyncio.gather(
        *(criterion.score(response.conversation(labels.file)) for response in labels.responses)
    )
    return [
        _opinion(label, response, result, labels.kind, threshold)
        for response, result in zip(labels.responses, results, strict=True)
        for label in response.labels
    ]


def _opinion(label: Label, response: LabelledResponse, result: Result, kind: Kind, threshold: float) -> Opinion:
    wanted = label.value(kind)
    if isinstance(result, NotEvaluated):
        return Opinion(label=label, response=response, wanted=wanted, code=result.code, message=result.message)
    concerned = [one for one in result.judgements if not label.subject or one.subject == label.subject]
    score = result.score
    if label.subject:
        # Of several turns, the rubric holds if it holds in each.
        scores = [one.score for one in concerned]
        score = None if None in scores or not scores else min(one for one in scores if one is not None)
    missing = next((one for one in concerned if one.score is None), None)
    if score is None or (missing is not None and (label.subject or kind == "score")):
        failed = next((vote.failure for vote in missing.votes if vote.failure), None) if missing is not None else None
        return Opinion(
            label=label,
            response=response,
            wanted=wanted,
            judgements=tuple(concerned),
            code=failed or NO_VERDICT,
            message=missing.rationale if missing is not None else "the judge gave no verdict on this",
        )
    value = score if label.subject or kind == "score" else float(score >= threshold)
    return Opinion(label=label, response=response, wanted=wanted, value=value, score=score, judgements=tuple(concerned))


def pairs_by_response(opinions: Sequence[Opinion]) -> list[list[Pair]]:
    """Labels beside verdicts, grouped by the response they are about; what wasn't judged is left out."""
    groups: dict[int, list[Pair]] = {}
    for one in opinions:
        if one.value is not None:
            groups.setdefault(id(one.response), []).append((one.wanted, one.value))
    return list(groups.values())


def supposing(opinions: Sequence[Opinion], span: tuple[float, float], *, agree: bool) -> list[Pair]:
    """The pairs if the judge had said something everywhere: what the label says, or what is farthest from it.

    Args:
        opinions: All of them.
        span: The lowest and the highest value.
        agree: Which of the two.
    """
    low, high = span
    pairs = []
    for one in opinions:
        value = one.value
        if value is None:
            farthest = low if one.wanted - low > high - one.wanted else high
            value = one.wanted if agree else farthest
        pairs.append((one.wanted, value))
    return pairs
