"""Shared by criteria that score turns: pairing turns with references, and averaging."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_eval.core.invocation import Invocation
from agent_eval.criteria.base import Conversation, NotEvaluated

TurnPair = tuple[Invocation, Invocation]
"""The actual turn, then the expected one."""


def paired(conversation: Conversation) -> list[TurnPair] | NotEvaluated:
    """The turns of a run with their references, at least one pair; or the reason why there are none."""
    expected = conversation.expected
    if expected is None:
        return NotEvaluated(code="needs-reference", message="this metric needs expected turns, and a scenario has none")
    if len(conversation.actual) != len(expected):
        return NotEvaluated(
            code="turn-count",
            message=f"expected {len(expected)} turns, recorded {len(conversation.actual)}; "
            "a score of some of them would be meaningless",
        )
    if not expected:
        return no_turns()
    return list(zip(conversation.actual, expected, strict=True))


def no_turns() -> NotEvaluated:
    """The result for a conversation without turns."""
    return NotEvaluated(code="no-turns", message="the conversation has no turns")


def running_mean(scores: Sequence[float]) -> float:
    """The mean of at least one score, summed from the left as in ADK: `sum` rounds differently since Python 3.12."""
    return running_sum(scores) / len(scores)


def running_sum(values: Iterable[float]) -> float:
    """The sum, added from the left."""
    total = 0.0
    for value in values:
        total += value
    return total


def too_deep() -> NotEvaluated:
    """The result for args that exceed Python's recursion limit."""
    return NotEvaluated(code="too-deep", message="the args of a tool call are nested too deeply to compare")
