"""Sums and means that are equal on every Python version."""

from collections.abc import Iterable, Sequence


def running_mean(values: Sequence[float]) -> float:
    """The mean of at least one value, summed from the left as in ADK: `sum` rounds differently since Python 3.12."""
    return running_sum(values) / len(values)


def mean_of_present(values: Iterable[float | None]) -> float | None:
    """The same of the values that are there; None without any."""
    present = [value for value in values if value is not None]
    return running_mean(present) if present else None


def running_sum(values: Iterable[float]) -> float:
    """The sum, added from the left."""
    total = 0.0
    for value in values:
        total += value
    return total
