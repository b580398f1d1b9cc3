"""Voting: what several verdicts on one thing come to, and when the rest of the votes can be saved.

The outcome is the lower median of the votes that were cast. For yes and no (1 and 0) that is ADK's majority in which
a tie counts as no; for a scale it is the middle vote, which one stray vote doesn't move.
"""

from __future__ import annotations

from collections.abc import Sequence


def lower_median(scores: Sequence[float]) -> float | None:
    """The middle score; of two middle ones the lower; None for no scores."""
    return sorted(scores)[(len(scores) - 1) // 2] if scores else None


def decided(scores: Sequence[float], left: int, scale: Sequence[float]) -> bool:
    """Whether no votes to come can change the outcome.

    Args:
        scores: The votes so far.
        left: How many samples are still to come. Each may vote anything on the scale, or not at all.
        scale: What a vote can count.
    """
    if left <= 0:
        return True
    # A vote at the bottom never raises the median, and one at the top never lowers it. With all of them at one end
    # the median is at its extreme; if both extremes are equal, so is everything between.
    lowest = lower_median([*scores, *[min(scale)] * left])
    return bool(scores) and lowest == lower_median([*scores, *[max(scale)] * left])


def needed(scores: Sequence[float], left: int, scale: Sequence[float]) -> int:
    """How many samples must be taken, at the least, until the outcome can be decided.

    Taking so many at once wastes none: whatever they say, fewer would not have been enough.
    """
    if decided(scores, left, scale):
        return 0
    for count in range(1, left):
        if any(decided([*scores, *[score] * count], left - count, scale) for score in scale):
            return count
    return left
