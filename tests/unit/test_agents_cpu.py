"""When a host process counts as busy."""

from __future__ import annotations

import os
import time

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


def test_cpu_share__is_high_after_two_busy_spans_and_then_begins_again() -> None:
    process = Process()
    assert [process.passes(0.5, share=0.95) for _ in range(8)] == [False, False, False, True] * 2


def test_cpu_share__one_busy_span_is_the_import_of_the_first_turn() -> None:
    process = Process()
    assert [process.passes(2.0, share=share) for share in (1.0, 0.3, 1.0, 0.3)] == [False] * 4


def test_cpu_share__unknown_is_not_high() -> None:
    process = Process()
    process.cpu = None
    assert [process.passes(2.0, share=1.0) for _ in range(4)] == [False] * 4


def test_cpu_seconds__of_this_process_and_of_none() -> None:
    before = cpu_seconds(os.getpid())
    until = time.process_time() + 0.05
    while time.process_time() < until:
        pass
    after = cpu_seconds(os.getpid())
    assert before is not None and after is not None and 0.02 <= after - before < 5
    assert cpu_seconds(2**22 + 1) is None
