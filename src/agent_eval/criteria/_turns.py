"""What the criteria that look at turns share: pairing turns with their references, and averaging."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, NotEvaluated

Pair = tuple[Invocation, Invocation]
"""The actual turn, then the expected one."""


def paired(conversation: Conversation) -> list[Pair] | NotEvaluated:
    """The turns of a run, each with its reference; at least one, or the reason why there are none."""
    expected = conversation.expected
    if expected is None:
        return NotEvaluated(
            code="needs-reference", message="this metric compares with expected turns, and a scenario has none"
        )
    if len(conversation.actual) != len(expected):
        return NotEvaluated(
            code="turn-count",
            message=f"{len(expected)} turns were expected and {len(conversation.actual)} recorded; "
            "a score over some of them would say nothing about the case",
        )
    if not expected:
        return no_turns()
    return list(zip(conversation.actual, expected, strict=True))


def no_turns() -> NotEvaluated:
    """For a conversation without a turn."""
    return NotEvaluated(code="no-turns", message="the conversation has no turn to score")


def running_mean(scores: Sequence[float]) -> float:
    """The mean, summed one by one from the left: `sum` rounds differently since Python 3.12, and ADK adds up so.

    Args:
        scores: At least one.
    """
    return running_sum(scores) / len(scores)


def running_sum(values: Iterable[float]) -> float:
    """The sum, one by one from the left."""
    total = 0.0
    for value in values:
        total += value
    return total


def too_deep() -> NotEvaluated:
    """For args whose comparison exceeds Python's recursion limit."""
    return NotEvaluated(code="too-deep", message="the args of a tool call are nested too deeply to be compared")
