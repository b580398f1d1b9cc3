"""When a request is sent again, and what a service asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_eval_agents.http._retries import RETRY as OF_AGENTS
from agent_eval_scoring.net.retry import Retry, seconds_asked

NOON = 1_790_000_000.0  # Mon, 21 Sep 2026 14:13:20 GMT


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "Mon, 21 Sep 2026 14:13:50 GMT"}, 30.0),
        ({"retry-after": "Mon, 21 Sep 2026 14:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 21 Sep 2026 14:00:09 GMT", "date": "Mon, 21 Sep 2026 14:00:00 GMT"}, 9.0),
        ({"retry-after": "9", "date": "soon"}, 9.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
    ],
)
def test_seconds_asked__header_in_all_forms(headers: dict[str, str], seconds: float | None) -> None:
    assert seconds_asked(headers, now=NOON) == seconds


@given(st.text(max_size=40))
def test_seconds_asked__any_text(value: str) -> None:
    seconds = seconds_asked({"retry-after": value, "date": value}, now=NOON)
    assert seconds is None or 0 <= seconds < float("inf")


@pytest.mark.parametrize(
    ("asked", "attempt", "seconds"),
    [
        (7.0, 1, 7.0),
        (0.0, 1, 0.0),
        (0.0, 2, 0.5),  # a server that always says 0 is not asked in a busy loop
        (0.0, 5000, 3.75),
        (1e9, 1, 60.0),
        (None, 1, 1.0),
        (None, 3, 4.0),
        (None, 5000, 15.0),
    ],
)
def test_pause__as_asked_or_exponential(asked: float | None, attempt: int, seconds: float) -> None:
    assert OF_AGENTS.pause(attempt, asked) == seconds


def test_pause__jitter_only_lengthens_it() -> None:
    retry = Retry(jitter=0.25)
    assert (retry.pause(2, chance=lambda: 0.0), retry.pause(2, chance=lambda: 1.0)) == (2.0, 2.5)
    assert (retry.pause(1, 10.0, chance=lambda: 0.0), retry.pause(1, 10.0, chance=lambda: 1.0)) == (10.0, 11.0)
