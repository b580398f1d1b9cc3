from __future__ import annotations

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


@pytest.mark.parametrize(("value", "shown"), [(0.8, "0.80"), (1, "1.00"), (0.875, "0.875"), (None, "–")])
def test_numbers__threshold_text(value: float | None, shown: str) -> None:
    assert threshold_text(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (0.0, "0%"),
        (1.0, "100%"),
        (11 / 12, "92%"),
        (0.29, "29%"),
        (9999 / 10000, "99.99%"),
        (0.996, "99.6%"),
        (0.004, "0.4%"),
        (1 - 1e-12, "<100%"),
    ],
)
def test_numbers__percent_text(value: float | None, shown: str) -> None:
    assert percent_text(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ms"),
        (-1, "0 ms"),
        (0.0849, "85 ms"),
        (0.9999, "1.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (125, "2 min 5 s"),
        (3599.7, "1 h"),
        (3720, "1 h 2 min"),
    ],
)
def test_numbers__duration_text(seconds: float, shown: str) -> None:
    assert duration_text(seconds) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(None, "–"), (3.0, "3"), (2.5, "2.5"), (12345.0, "12,345"), (1 / 3, "0.33"), (0.001, "0.001")]
)
def test_numbers__count_text(value: float | None, shown: str) -> None:
    assert count_text(value) == shown


def test_measurement_text__uses_the_metric_s_unit() -> None:
    assert measurement_text("invocation_duration_v1", 1.25) == "1.2 s"
    assert measurement_text("token_usage_v1", 1250.0) == "1,250"
    assert measurement_text("invocation_duration_v1", None) == "–"
