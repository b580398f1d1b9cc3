"""The garbage collector while many objects are made, and how long something took."""

from __future__ import annotations

import gc
import subprocess
import sys
import time

import pytest

from agent_eval.core.process import Begun, collector_paused

CODE = """
import gc
from agent_eval.core.process import collector_paused

def collections():
    return sum(generation["collections"] for generation in gc.get_stats())

gc.collect()
with collector_paused():
    few = [[] for _ in range(1_000)]
print("few", gc.get_freeze_count())
before = collections()
with collector_paused():
    many = [[] for _ in range(200_000)]
print("many", gc.get_freeze_count() >= 200_000, collections() - before, gc.isenabled())
del few, many  # Reference counts free what is frozen.
print("freed", gc.get_freeze_count() < 100_000)
"""


def test_collector_paused__many_new_objects_are_never_scanned() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=True)
    assert done.stdout.splitlines() == ["few 0", "many True 0 True", "freed True"]


def test_collector_paused__leaves_a_disabled_collector_disabled() -> None:
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("jump", [400 * 24 * 3600.0, -3600.0])
def test_a_clock_that_is_set__changes_no_duration(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    now = time.time()
    begun = Begun()
    assert abs(begun.at - now) < 60
    monkeypatch.setattr(time, "time", lambda: now + jump)
    assert 0 <= begun.duration() < 60
