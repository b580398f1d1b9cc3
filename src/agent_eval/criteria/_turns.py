"""Shared by criteria that score turns: pairing turns with references, the loop over them, and averaging."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, NotEvaluated, Result, Scored, TurnFinding

TurnPair = tuple[Invocation, Invocation]
"""The actual turn, then the expected one."""
TurnResult = tuple[float | None, TurnFinding | None]
"""The score of a turn, None if the metric leaves it out; what lowered the score, None if it reaches the threshold."""


def paired(conversation: Conversation) -> list[TurnPair] | NotEvaluated:
    """The turns of a run with their references, at least one pair; or the reason why there are none."""
    expected = conversation.expected
    if expected is None:
        return NotEvaluated.of("needs-reference")
    if len(conversation.actual) != len(expected):
        return NotEvaluated.of("turn-count", expected=len(expected), count=len(conversation.actual))
    if not expected:
        return no_turns()
    return list(zip(conversation.actual, expected, strict=True))


def score_turns(
    conversation: Conversation,
    score_turn: Callable[[int, Invocation, Invocation], TurnResult | NotEvaluated],
    *,
    mean: Callable[[Sequence[float]], float] | None = None,
    without_scores: NotEvaluated | None = None,
) -> Result:
    """Scores each turn against its reference, and the run as the mean of its turns.

    Args:
        conversation: The run.
        score_turn: Called with the 0-based turn, the actual and the expected invocation. NotEvaluated ends the loop.
        mean: Combines the turns' scores; None for `running_mean`.
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
    return Scored(score=(mean or running_mean)(present), turn_scores=tuple(scores), findings=tuple(findings))


def no_turns() -> NotEvaluated:
    """The result for a conversation without turns."""
    return NotEvaluated.of("no-turns")


def running_mean(scores: Sequence[float]) -> float:
    """The mean of at least one score, summed from the left as in ADK: `sum` rounds differently since Python 3.12."""
    return running_sum(scores) / len(scores)


def running_sum(values: Iterable[float]) -> float:
    """The sum, added from the left."""
    total = 0.0
    for value in values:
        total += value
    return total


def _too_deep() -> NotEvaluated:
    """The result for args that exceed Python's recursion limit."""
    return NotEvaluated.of("too-deep")
