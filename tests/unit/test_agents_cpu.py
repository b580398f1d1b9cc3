"""When a host process counts as busy."""

from __future__ import annotations

import os
import time

import pytest

from agent_eval.agents.adk._slots import CpuShare, cpu_seconds


class Process:
    """A process whose time passes as the test says."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cpu: float | None = 0.0
        self.share = CpuShare(1, clock=lambda: self.now, used=lambda _: self.cpu)

    def passes(self, seconds: float, *, share: float) -> bool:
        self.now += seconds
        self.cpu = None if self.cpu is None else self.cpu + seconds * share
        return self.share.has_been_high()


@pytest.mark.parametrize(
    ("seconds", "shares", "high"),
    [
        (0.5, [0.95] * 8, [False, False, False, True] * 2),  # after two busy spans; then it begins again
        (2.0, [1.0, 0.3, 1.0, 0.3], [False] * 4),  # one busy span is the import of the first turn
        (2.0, [None, 1.0, 1.0, 1.0], [False] * 4),  # unknown is not high
    ],
)
def test_cpu_share__is_high(seconds: float, shares: list[float | None], high: list[bool]) -> None:
    process = Process()
    if shares[0] is None:
        process.cpu = None
    assert [process.passes(seconds, share=share or 1.0) for share in shares] == high


def test_cpu_seconds__of_this_process_and_of_none() -> None:
    before = cpu_seconds(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = cpu_seconds(os.getpid())
    assert before is not None and after is not None and 0.02 <= after - before < 5
    assert cpu_seconds(2**22 + 1) is None
