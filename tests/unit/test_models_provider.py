"""Provider errors, and the detection of outages."""

from __future__ import annotations

import pytest

from agent_eval.models._limits import Health
from agent_eval.models._provider import status_error
from agent_eval.models.protocol import ModelFailure


@pytest.mark.parametrize(
    ("status", "message", "then"),
    [
        (408, "", "retry"),
        (429, "quota", "slow-down"),
        (500, "", "retry"),
        (503, "overloaded", "retry"),
        (529, "overloaded", "slow-down"),
        (400, "bad schema", "fail"),
        (400, "API key not valid. Please pass a valid API key.", "give-up"),
        (401, "", "give-up"),
        (403, "denied", "give-up"),
        (404, "no such model", "give-up"),
        (413, "too large", "fail"),
        (501, "", "fail"),
    ],
)
def test_provider__status_error(status: int, message: str, then: str) -> None:
    error = status_error(status, message, {})
    assert error.then == then
    assert error.kind == ("unavailable" if then in {"retry", "slow-down"} else "invalid-request")
    assert str(status) in error.message and message in error.message


def test_status_error__the_header_wins_over_the_body() -> None:
    assert status_error(429, "", {"retry-after": "2"}, wait=9.0).retry_after == 2.0
    assert status_error(429, "", {}, wait=9.0).retry_after == 9.0


def test_health__down_after_an_outage() -> None:
    health = Health("m", outage=60.0, enough=3, now=0.0)
    for now in (10.0, 20.0, 69.0):
        health.failed(now, "503")
        health.check()
    health.failed(70.0, "503")
    with pytest.raises(ModelFailure, match=r"`m` is down.* 60 seconds .*503") as failure:
        health.check()
    health.failed(99.0, "another cause")
    with pytest.raises(ModelFailure) as later:
        health.check()
    assert later.value.message == failure.value.message


def test_health__an_answer_clears_it() -> None:
    health = Health("m", outage=60.0, enough=3, now=0.0)
    for now in (10.0, 30.0, 60.0):
        health.failed(now, "503")
    health.answered(61.0)
    for now in (100.0, 110.0, 120.0, 159.0):
        health.failed(now, "503")
    health.check()
    health.failed(160.0, "503")
    with pytest.raises(ModelFailure):
        health.check()


def test_health__few_failures_are_no_outage() -> None:
    health = Health("m", outage=1.0, enough=3, now=0.0)
    health.failed(50.0, "503")
    health.failed(90.0, "503")
    health.check()
    health.failed(91.0, "503")
    with pytest.raises(ModelFailure):
        health.check()


def test_health__disabled_at_once() -> None:
    health = Health("m", outage=60.0, enough=3, now=0.0)
    health.disable("invalid-request", "401", "Check the key.")
    with pytest.raises(ModelFailure, match="can't be used: 401") as failure:
        health.check()
    assert (failure.value.kind, failure.value.hint) == ("invalid-request", "Check the key.")
