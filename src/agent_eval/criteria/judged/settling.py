"""From judgements to a result: the score as ADK computes it, and what to do about verdicts that are missing.

ADK leaves out what nobody voted on. An agent could profit: a turn that confuses the judge would not count. Here a score
with gaps stands only if the gaps can't matter: if the criterion passes with each missing verdict counted as the worst,
or fails with each counted as the best. Else it is not evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from agent_eval.core.text import plural, shorten
from agent_eval.criteria.base import Judgement, NotEvaluated, Result, Scored, TurnFinding
from agent_eval.criteria.judged.judge import Panel

Measure = Callable[[float | None], float | None]
"""The score if each missing verdict counted so much; None leaves it out, as ADK does."""

NO_VERDICT = "no-verdict"
"""The judge answered, and gave no verdict on something."""

NO_VOTE = "no vote"
"""How the rationale of a sample that failed begins (judge.py)."""

_RATIONALE, _LISTED = 240, 50
"""Characters of a rationale and number of judgements that results.json gets."""


def settle(
    judgements: Sequence[Judgement],
    measure: Measure,
    *,
    panel: Panel,
    threshold: float,
    turn_scores: Sequence[float | None],
    findings: Sequence[TurnFinding] = (),
    span: tuple[float, float] = (0.0, 1.0),
    extra: Mapping[str, Any] | None = None,
) -> Result:
    """The result of a criterion.

    Args:
        judgements: Everything that was asked.
        measure: The score; monotone in its argument.
        panel: Who was asked.
        threshold: What the score must reach.
        turn_scores: As ADK gives them, one per turn.
        findings: The turns that lowered the score.
        span: The worst and the best that a verdict can count.
        extra: More details for the report.
    """
    score = measure(None)
    details = {"judge": panel.summary(), **(extra or {}), **_details(judgements)}
    missing = [one for one in judgements if one.score is None]
    if missing:
        worst, best = measure(span[0]), measure(span[1])
        certain = worst is not None and best is not None and (worst >= threshold or best < threshold)
        if score is None or not certain:
            return replace(_not_evaluated(missing, len(judgements), score, worst, best), details=details)
    if score is None:
        return NotEvaluated(code="nothing-to-judge", message="the agent said nothing that this metric judges")
    return Scored(
        score=score,
        turn_scores=tuple(turn_scores),
        findings=tuple(findings),
        details=details,
        judgements=tuple(judgements),
    )


def _not_evaluated(
    missing: Sequence[Judgement], total: int, score: float | None, worst: float | None, best: float | None
) -> NotEvaluated:
    failures = Counter(vote.failure for one in missing for vote in one.votes if vote.failure)
    # What the judge said, though it was no verdict, weighs more than calls that failed beside it.
    silent = any(not vote.failure for one in missing for vote in one.votes)
    code = NO_VERDICT if silent or not failures else failures.most_common(1)[0][0]
    first = missing[0]
    where = "the conversation" if first.turn is None else f"turn {first.turn + 1}"
    about = f", {shorten(first.subject, 80)!r}" if first.subject else ""
    gap = "" if score is None else f"; the score could be anything from {worst:.4g} to {best:.4g}"
    lost = f"{len(missing)} of {plural(total, 'verdict')} could not be had, the first on {where}{about}"
    said = one_line(first.rationale) or NO_VOTE
    if code == NO_VERDICT:
        return NotEvaluated(code=code, message=f"{lost} ({said}){gap}")
    # What is wrong with the judge comes first: it is told once for all cases that share it.
    return NotEvaluated(code=code, message=f"The judge: {said.removeprefix(f'{NO_VOTE}: ')}; {lost}{gap}")


def one_line(text: str, limit: int = _RATIONALE) -> str:
    """A rationale for a list: whitespace collapsed, cut to size."""
    return shorten(" ".join(text.split()), limit)


def tally(judgement: Judgement) -> str:
    """How the votes fell, e.g. `3:0` or `3:2, close`; "" without votes."""
    agreeing, others = judgement.tally
    if not agreeing:
        return ""
    return f"{agreeing}:{others}" + (", close" if judgement.close else "")


def why(judgement: Judgement) -> str:
    """One line on a judgement: what about, which verdict, by which votes, why."""
    about = f"{one_line(judgement.subject, 120)}: " if judgement.subject else ""
    votes = tally(judgement) if judgement.planned > 1 else ""  # One vote is no agreement.
    verdict = judgement.verdict or "no verdict"
    return f"{about}{verdict}{f' ({votes})' if votes else ''}: {one_line(judgement.rationale) or 'no reason given'}"


def _details(judgements: Sequence[Judgement]) -> dict[str, Any]:
    # The lowest first if there are too many: they are what a reader looks for.
    order = sorted(range(len(judgements)), key=lambda at: (judgements[at].score or 0.0, at))[:_LISTED]
    listed = [_detail(judgements[at]) for at in sorted(order)]
    left_out = len(judgements) - len(listed)
    return {"judgements": listed, **({"judgements_left_out": left_out} if left_out else {})}


def _detail(judgement: Judgement) -> dict[str, Any]:
    return {
        "turn": judgement.turn,
        "subject": shorten(judgement.subject, 200),
        "verdict": judgement.verdict,
        "score": judgement.score,
        "agreement": judgement.agreement,
        "close": judgement.close,
        "planned": judgement.planned,
        "votes": [
            {"sample": vote.sample, "verdict": vote.verdict, "rationale": one_line(vote.rationale)}
            for vote in judgement.votes
        ],
    }


def exact_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    """The weighted mean without rounding on the way (as `statistics.mean`, which ADK uses); None for no values.

    Args:
        values: Any number of them.
        weights: One positive weight per value; None: all alike.
    """
    if not values:
        return None
    factors = [Fraction(weight) for weight in weights] if weights is not None else [Fraction(1)] * len(values)
    return float(sum(f * Fraction(value) for f, value in zip(factors, values, strict=True)) / sum(factors))


def filled(score: float | None, fill: float | None) -> float | None:
    """The score, or what counts instead of a missing one."""
    return fill if score is None else score
