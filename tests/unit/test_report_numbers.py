from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval.report.views.numbers import (
    count_text,
    duration_text,
    measurement_text,
    percent_text,
    score_text,
    threshold_text,
)

unit = st.floats(0, 1, allow_nan=False)


@pytest.mark.parametrize(
    ("value", "threshold", "shown"),
    [
        (None, 0.8, "–"),
        (float("nan"), 0.8, "–"),
        (1.0, 1.0, "1.00"),
        (0.5, None, "0.50"),
        (0.7996, 0.8, "0.7996"),
        (0.795, 0.8, "0.795"),
        (0.8, 0.8, "0.80"),
        (0.8004, 0.8, "0.80"),
        (0.7949, 0.8, "0.79"),
        (0.876, 0.875, "0.88"),
        (0.8746, 0.875, "0.87"),
        (0.79999999999, 0.8, "<0.80"),
        (0.9996, None, "0.9996"),
        (0.9999999999, None, "<1.00"),
        (0.0004, None, "0.0004"),
        (1e-9, None, ">0.00"),
        (0.0, 0.5, "0.00"),
        (4.25, 4.0, "4.25"),
        (3.9999, 4.0, "3.9999"),
    ],
)
def test_numbers__score_text(value: float | None, threshold: float | None, shown: str) -> None:
    assert score_text(value, threshold) == shown


@given(unit, unit)
def test_score_text__never_crosses_the_threshold(value: float, threshold: float) -> None:
    shown = score_text(value, threshold)
    if shown[0] == "<":
        assert value < float(shown[1:])
    elif shown[0] == ">":
        assert value > float(shown[1:])
    else:
        assert (float(shown) >= threshold) == (value >= threshold)
        assert abs(float(shown) - value) <= 0.005 + 1e-12
        assert (float(shown) == 1.0) == (value == 1.0)
        assert (float(shown) == 0.0) == (value == 0.0)


@given(unit)
def test_threshold_text__is_exact(value: float) -> None:
    assert float(threshold_text(value)) == value


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        (threshold_text, 0.8, "0.80"),
        (threshold_text, 1, "1.00"),
        (threshold_text, 0.875, "0.875"),
        (threshold_text, None, "–"),
        (percent_text, None, "–"),
        (percent_text, 0.0, "0%"),
        (percent_text, 1.0, "100%"),
        (percent_text, 11 / 12, "92%"),
        (percent_text, 9999 / 10000, "99.99%"),
        (percent_text, 0.996, "99.6%"),
        (percent_text, 0.004, "0.4%"),
        (percent_text, 1 - 1e-12, "<100%"),
        (duration_text, -1, "0 ms"),
        (duration_text, 0.0849, "85 ms"),
        (duration_text, 0.9999, "1.0 s"),
        (duration_text, 9.94, "9.9 s"),
        (duration_text, 9.96, "10 s"),
        (duration_text, 59.6, "1 min"),
        (duration_text, 125, "2 min 5 s"),
        (duration_text, 3599.7, "1 h"),
        (duration_text, 3720, "1 h 2 min"),
        (count_text, None, "–"),
        (count_text, 3.0, "3"),
        (count_text, 2.5, "2.5"),
        (count_text, 12345.0, "12,345"),
        (count_text, 1 / 3, "0.33"),
        (count_text, 0.001, "0.001"),
        (partial(measurement_text, "invocation_duration_v1"), 1.25, "1.2 s"),
        (partial(measurement_text, "invocation_duration_v1"), None, "–"),
        (partial(measurement_text, "token_usage_v1"), 1250.0, "1,250"),
    ],
)
def test_numbers__text(text: Callable[[float | None], str], value: float | None, shown: str) -> None:
    assert text(value) == shown
