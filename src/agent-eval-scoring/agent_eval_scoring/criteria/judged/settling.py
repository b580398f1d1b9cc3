"""Turns judgements into a result: the score as ADK computes it, and the handling of missing verdicts.

ADK ignores missing verdicts. An agent could exploit this: a turn that confuses the judge would not count. Here a score
with missing verdicts is valid only if they can't matter: if the criterion passes with each of them at its worst, or
fails with each of them at its best. Otherwise it is not evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

from agent_eval_scoring.core.means import mean_of_present
from agent_eval_scoring.core.reason import Reason
from agent_eval_scoring.core.text import shorten
from agent_eval_scoring.criteria.base import Judgement, NotEvaluated, Result, Scored, TurnFinding
from agent_eval_scoring.criteria.judged.judge import Panel

Measure = Callable[[float | None], float | None]
"""The score if each missing verdict had this score; None ignores missing verdicts, as in ADK."""

NO_VERDICT = "no-verdict"
"""The judge replied without a verdict on some subject."""

_RATIONALE, _LISTED = 240, 50
"""Maximum length of a rationale, and number of judgements, in results.json."""


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
    passed: bool | None = None,
) -> Result:
    """The result of a criterion.

    Args:
        judgements: All of them.
        measure: The score; monotone in its argument.
        panel: The panel that voted.
        threshold: The minimum score.
        turn_scores: One per turn, as in ADK.
        findings: The turns that lowered the score.
        span: The lowest and the highest score of a verdict.
        extra: More details for the report.
        passed: The criterion's own decision; None: the threshold decides.
    """
    score = measure(None)
    details = {"judge": panel.summary(), **(extra or {}), **_details(judgements)}
    missing = [judgement for judgement in judgements if judgement.score is None]
    if missing:
        worst, best = measure(span[0]), measure(span[1])
        certain = worst is not None and best is not None and (worst >= threshold or best < threshold)
        if score is None or not certain:
            return replace(_not_evaluated(missing, len(judgements), score, worst, best), details=details)
    if score is None:
        return NotEvaluated.of("nothing-to-judge")
    return Scored(
        score=score,
        passed=passed,
        turn_scores=tuple(turn_scores),
        findings=tuple(findings),
        details=details,
        judgements=tuple(judgements),
    )


def _not_evaluated(
    missing: Sequence[Judgement], total: int, score: float | None, worst: float | None, best: float | None
) -> NotEvaluated:
    failures = Counter(vote.failure for judgement in missing for vote in judgement.votes if vote.failure)
    # A reply without a verdict takes precedence over failed calls.
    silent = any(not vote.failure for judgement in missing for vote in judgement.votes)
    code = NO_VERDICT if silent or not failures else failures.most_common(1)[0][0]
    first = missing[0]
    reason = one_line(first.rationale)
    return NotEvaluated.of(
        code,
        phrase="no-verdict" if code == NO_VERDICT or not reason else "votes-failed",
        count=len(missing),
        total=total,
        turn=0 if first.turn is None else first.turn + 1,
        subject=shorten(first.subject, 80),
        message=reason,
        span=[] if score is None or worst is None or best is None else [worst, best],
    )


def one_line(text: str, limit: int = _RATIONALE) -> str:
    """A rationale on one line: whitespace collapsed, shortened."""
    return shorten(" ".join(text.split()), limit)


def tally(judgement: Judgement) -> str:
    """The votes, e.g. `3:0` or `3:2, close`; "" without votes."""
    agreeing, others = judgement.tally
    if not agreeing:
        return ""
    return f"{agreeing}:{others}" + (", close" if judgement.close else "")


def why(judgement: Judgement) -> Reason:
    """A judgement: subject, verdict, votes, rationale."""
    return Reason.of(
        "judged",
        subject=one_line(judgement.subject, 120),
        result=judgement.verdict or "",
        votes=tally(judgement) if judgement.planned > 1 else "",  # A single vote says nothing about agreement.
        message=one_line(judgement.rationale),
    )


def _details(judgements: Sequence[Judgement]) -> dict[str, Any]:
    # If there are too many, keep the lowest: they explain the score.
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
    """The weighted mean without intermediate rounding (like ADK's `statistics.mean`); None if nothing has weight.

    Args:
        values: Any number of them.
        weights: One weight per value, not negative; None: equal weights.
    """
    if not values or (weights is not None and not any(weights)):
        return None
    factors = [Fraction(weight) for weight in weights] if weights is not None else [Fraction(1)] * len(values)
    return float(sum(f * Fraction(value) for f, value in zip(factors, values, strict=True)) / sum(factors))


def mean_score(judgements: Sequence[Judgement], fill: float | None) -> float | None:
    """The mean of the scores, with `fill` for missing ones; those are left out if it is None. None without scores."""
    return mean_of_present(filled(judgement.score, fill) for judgement in judgements)


def filled(score: float | None, fill: float | None) -> float | None:
    """The score, or `fill` if it is missing."""
    return fill if score is None else score
