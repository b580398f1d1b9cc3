"""Kappa and its interval, against other people's software and in cases whose result is known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval_workbench.calibration.judging import (
    Pair,
    agreement,
    kappa_interval,
    kappa_of,
    share_interval,
    tabulate,
)

REFERENCE = [
    # counts, then kappa with squared weights and its standard error: statsmodels 0.15.0, inter_rater.cohens_kappa.
    # The kappas are scikit-learn 1.9.1's, too. The first table is the example of Fleiss, Levin and Paik (2003), 18.1.
    (
        [[75, 1, 4], [5, 4, 1], [0, 0, 10]],
        (0.7553191489361702, 0.08670713249380735),
    ),
    ([[20, 5], [10, 15]], (0.4, 0.12699606293110036)),
    (
        [[44, 2, 0, 0], [3, 21, 6, 1], [0, 4, 17, 5], [0, 0, 3, 30]],
        (0.9301423027166882, 0.016266399745446025),
    ),
    ([[1, 9], [8, 2]], (-0.7, 0.15888675212238476)),
]


def pairs_of(counts: Sequence[Sequence[int]]) -> list[Pair]:
    return [(float(i), float(j)) for i, row in enumerate(counts) for j, count in enumerate(row) for _ in range(count)]


@pytest.mark.parametrize(("counts", "expected"), REFERENCE)
def test_agreement__matches_statsmodels(counts: list[list[int]], expected: tuple[float, float]) -> None:
    pairs = pairs_of(counts)
    terms = agreement(tabulate(pairs))
    variance = sum(terms.influence[pair] ** 2 for pair in pairs) / len(pairs) ** 2

    assert (terms.kappa, math.sqrt(variance)) == pytest.approx(expected, abs=1e-12)


def test_kappa__undefined() -> None:
    assert kappa_of([]) is None
    assert kappa_of([(1.0, 1.0)] * 9) is None, "all labels and verdicts are equal"
    assert kappa_interval([[(1.0, 1.0)], [(1.0, 1.0)]]) is None
    assert kappa_interval([[(1.0, 1.0), (0.0, 0.0)]]) is None, "one response has no variance"
    constant = [(1.0, 1.0)] * 7 + [(0.0, 1.0)] * 3
    assert kappa_of(constant) == pytest.approx(0)
    assert kappa_interval([[pair] for pair in constant]) is None, "kappa would be 0 in every sample"


def test_kappa_interval__full_agreement() -> None:
    """5 of 5 may well be luck, 500 of 500 not."""
    intervals = [kappa_interval([[(float(i % 2),) * 2] for i in range(count)]) for count in (6, 50, 500)]

    lows = [interval.low for interval in intervals if interval is not None]
    assert all(interval is not None and interval.high == 1 for interval in intervals)
    assert lows == pytest.approx([0.0815, 0.8577, 0.9853], abs=1e-3)
    assert lows[1] == pytest.approx((0.025 ** (1 / 50) - 0.5) / 0.5)


def test_kappa_interval__labels_on_one_response_are_one_observation() -> None:
    """Four copies of each label are no more to go by than one."""
    pairs = pairs_of(REFERENCE[0][0])
    alone = kappa_interval([[pair] for pair in pairs])
    copied = kappa_interval([[pair] * 4 for pair in pairs])
    naive = kappa_interval([[pair] for pair in pairs for _ in range(4)])

    assert alone is not None
    assert copied is not None
    assert naive is not None
    assert (copied.low, copied.high) == pytest.approx((alone.low, alone.high))
    assert naive.high - naive.low < 0.55 * (alone.high - alone.low)
    assert "summed by response" in copied.method


@given(st.integers(0, 60), st.integers(1, 60))
def test_share_interval__inverts_the_score_test(count: int, total: int) -> None:
    """Wilson's interval holds just those shares from which the observed one is within 1.96 standard errors."""
    count = min(count, total)
    interval = share_interval(count, total)
    assert interval is not None
    for share in (number / 500 for number in range(1, 500)):
        distance = abs(count / total - share) / math.sqrt(share * (1 - share) / total)
        if abs(distance - 1.959963984540054) > 1e-6:
            assert (interval.low <= share <= interval.high) is (distance < 1.959963984540054)


def test_share_interval__edges() -> None:
    assert share_interval(0, 0) is None
    interval = share_interval(0, 10)
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((0.0, 0.27753279986288926))  # statsmodels 0.15.0
