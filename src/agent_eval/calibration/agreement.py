"""How far two raters agree beyond chance: Cohen's kappa, its interval, and shares with theirs. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

Pair = tuple[float, float]
"""What people said, then what the judge said."""

Weights = Literal["none", "linear", "quadratic"]
"""How much a near miss counts as agreement (Cohen 1968): nothing, or less with the distance, or with its square."""

LEVEL = 0.95
"""Of all intervals, two-sided."""


@dataclass(frozen=True, kw_only=True)
class Table:
    """How often which label met which verdict."""

    categories: tuple[float, ...]
    """Everything that either of them said, ascending."""
    counts: tuple[tuple[int, ...], ...]
    """By label, then by verdict; both in the order of `categories`."""

    @property
    def total(self) -> int:
        """How many pairs there are."""
        return sum(map(sum, self.counts))

    @property
    def said(self) -> tuple[list[int], list[int]]:
        """How often each category was said by people, and by the judge."""
        return [sum(row) for row in self.counts], [sum(column) for column in zip(*self.counts, strict=True)]


@dataclass(frozen=True, kw_only=True)
class Interval:
    """Where the true value lies, with the confidence LEVEL."""

    low: float
    high: float
    method: str
    """In words, with its source."""


def tabulate(pairs: Sequence[Pair]) -> Table:
    """Counts pairs."""
    categories = tuple(sorted({value for pair in pairs for value in pair}))
    at = {category: number for number, category in enumerate(categories)}
    counts = [[0] * len(categories) for _ in categories]
    for label, verdict in pairs:
        counts[at[label]][at[verdict]] += 1
    return Table(categories=categories, counts=tuple(map(tuple, counts)))


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Kappa and what it is made of."""

    kappa: float | None
    """1 agrees always, 0 as often as chance would, below 0 less; None: they can only agree, since both said the same
    one thing all the time, or there are no pairs."""
    observed: float | None
    """The (weighted) share of agreement, 0..1; None without pairs."""
    expected: float | None
    """The same, if the judge spread its verdicts over the responses at random."""
    influence: dict[Pair, float]
    """By pair: how far one such observation pulls kappa, times the number of pairs. They add up to 0."""


def agreement(table: Table, weights: Weights = "none") -> Agreement:
    """Cohen's kappa (1960), weighted (1968), with the terms of its large-sample variance.

    The variance of the influences over all pairs, divided by the number of pairs, is that of Fleiss, Cohen and
    Everitt, "Large sample standard errors of kappa and weighted kappa", Psychological Bulletin 72 (1969), equation 11.

    Args:
        table: Of at least one pair; an empty one has no agreement.
        weights: What a near miss counts.
    """
    total = table.total
    if not total:
        return Agreement(kappa=None, observed=None, expected=None, influence={})
    worth = _worth(table.categories, weights)
    size = range(len(table.categories))
    people, judge = ([count / total for count in counts] for counts in table.said)
    observed = math.fsum(worth[i][j] * table.counts[i][j] for i in size for j in size) / total
    expected = math.fsum(worth[i][j] * people[i] * judge[j] for i in size for j in size)
    if len(table.categories) == 1:
        return Agreement(kappa=None, observed=observed, expected=expected, influence={})
    kappa = (observed - expected) / (1 - expected)
    of_row = [math.fsum(worth[i][j] * judge[j] for j in size) for i in size]
    of_column = [math.fsum(worth[i][j] * people[i] for i in size) for j in size]
    centre = observed * expected - 2 * expected + observed
    influence = {
        (table.categories[i], table.categories[j]): (
            worth[i][j] * (1 - expected) - (of_row[i] + of_column[j]) * (1 - observed) - centre
        )
        / (1 - expected) ** 2
        for i in size
        for j in size
    }
    return Agreement(kappa=kappa, observed=observed, expected=expected, influence=influence)


def kappa_of(pairs: Sequence[Pair], weights: Weights = "none") -> float | None:
    """Kappa alone; None where it has no value."""
    return agreement(tabulate(pairs), weights).kappa


def kappa_interval(groups: Sequence[Sequence[Pair]], weights: Weights = "none") -> Interval | None:
    """Where kappa lies.

    The standard error is that of Fleiss, Cohen and Everitt (1969). Labels on one response (one for each rubric) are no
    independent observations, so influences are added up by response first; with one label each that changes nothing
    but the factor n/(n-1). The interval is made on the scale of Fisher's z, artanh(kappa), and brought back: on the
    plain scale it is too narrow, and far too narrow where kappa is high or a label rare (docs/calibration.md has the
    simulated coverage of this and of the bootstrap). Raters who agree on everything leave no variance to go by: then
    the lower end is what the exact binomial bound on the share of agreement, (1-LEVEL)/2 ** (1/n), comes to.

    Args:
        groups: The pairs of each response.
        weights: As for `agreement`.

    Returns:
        None if there is no kappa, or nothing to tell its spread by: less than two responses, or a judge who always said
        the same.
    """
    pairs = [pair for group in groups for pair in group]
    found = agreement(tabulate(pairs), weights)
    if found.kappa is None or found.observed is None or found.expected is None or len(groups) < 2:
        return None
    if all(label == verdict for label, verdict in pairs):
        least = ((1 - LEVEL) / 2) ** (1 / len(groups))
        low = (least - found.expected) / (1 - found.expected)
        method = "full agreement: exact binomial bound on its share, at the labels' own frequencies"
        return Interval(low=max(low, -1.0), high=1.0, method=method)
    spread = math.fsum(math.fsum(found.influence[pair] for pair in group) ** 2 for group in groups)
    error = math.sqrt(spread * len(groups) / (len(groups) - 1)) / len(pairs)
    if error < 1e-9 or abs(found.kappa) > 1 - 1e-9:
        return None
    centre, reach = math.atanh(found.kappa), _z() * error / (1 - found.kappa**2)
    summed = "" if len(groups) == len(pairs) else ", summed by response"
    method = f"standard error of Fleiss, Cohen and Everitt (1969){summed}, on Fisher's z scale"
    return Interval(low=math.tanh(centre - reach), high=math.tanh(centre + reach), method=method)


def share_interval(count: int, total: int) -> Interval | None:
    """Where a share lies, by Wilson (1927); None without observations.

    Args:
        count: How many of them.
        total: How many there are.
    """
    if not total:
        return None
    share, z = count / total, _z()
    centre = (share + z * z / (2 * total)) / (1 + z * z / total)
    reach = z / (1 + z * z / total) * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    low = 0.0 if count == 0 else max(centre - reach, 0.0)
    high = 1.0 if count == total else min(centre + reach, 1.0)
    return Interval(low=low, high=high, method="Wilson (1927)")


def _worth(categories: Sequence[float], weights: Weights) -> list[list[float]]:
    """What each pair of categories counts as agreement, 0..1."""
    if weights == "none" or len(categories) < 2:
        return [[float(one == other) for other in categories] for one in categories]
    power = 1 if weights == "linear" else 2
    span = categories[-1] - categories[0]
    return [[1 - (abs(one - other) / span) ** power for other in categories] for one in categories]


def _z() -> float:
    return NormalDist().inv_cdf((1 + LEVEL) / 2)
