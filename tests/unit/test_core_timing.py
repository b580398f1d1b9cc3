"""How long something took, whatever happens to the clock meanwhile."""

from __future__ import annotations

import time

import pytest

from agent_eval.core.process import Begun


@pytest.mark.parametrize("jump", [400 * 24 * 3600.0, -3600.0])
def test_a_clock_that_is_set__changes_no_duration(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    now = time.time()
    begun = Begun()
    assert abs(begun.at - now) < 60
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert 0 <= begun.duration() < 60
