"""Which runs a look at the whole suite needs, and which it takes."""

from __future__ import annotations

import pytest

from agent_eval.gate.stats.looks import missing, second_look
from agent_eval.gate.stats.samples import Series


def series(base_screen: int, head: int, base: int) -> Series:
    return Series(
        head_screen=(1.0,), base=(0.5,), base_screen=(0.6,) * base_screen, head_confirm=(0.0,) * head,
        base_confirm=(0.9,) * base,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fresh_only", "base_screen", "head", "base", "expected"),
    [
        (False, 0, 0, 0, (1, 0)),
        (False, 0, 3, 0, (0, 0)),
        (True, 1, 0, 0, (1, 1)),
        (True, 1, 1, 0, (0, 1)),
        (True, 1, 0, 2, (1, 0)),
        (True, 0, 0, 0, (2, 2)),
        (True, 0, 1, 0, (1, 2)),
        (True, 0, 3, 1, (0, 1)),
    ],
)
def test_looks__what_a_second_look_needs_still(
    fresh_only: bool, base_screen: int, head: int, base: int, expected: tuple[int, int]
) -> None:
    assert missing(series(base_screen, head, base), fresh_only=fresh_only) == expected


@pytest.mark.parametrize(
    ("fresh_only", "base_screen", "expected"),
    [
        (False, 1, ((1.0, 0.0), (0.5, 0.6))),
        (True, 1, ((1.0, 0.0), (0.6, 0.9))),
        (True, 0, ((0.0, 0.0), (0.9, 0.9))),
    ],
)
def test_looks__runs_of_other_days_are_never_compared_with_runs_of_today(
    fresh_only: bool, base_screen: int, expected: tuple[tuple[float, ...], tuple[float, ...]]
) -> None:
    assert second_look(series(base_screen, 3, 3), fresh_only=fresh_only) == expected
