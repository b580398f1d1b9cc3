"""Voting: the outcome of several votes, and when further votes can't change it.

The outcome is the lower median of the votes. For yes and no (1 and 0) this is ADK's majority, in which a tie counts as
no. For a scale it is the middle vote, which is robust against a single outlier.
"""

from __future__ import annotations

from collections.abc import Sequence


def lower_median(scores: Sequence[float]) -> float | None:
    """The middle score, the lower of two middle scores; None without scores."""
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
