"""Time for tests of the client: waiting costs nothing and is written down."""

from __future__ import annotations

from typing import Any

from fake_github import FakeGitHub

from agent_eval.forge.rest import Waiting
from agent_eval.github.forge import GitHub


class Clock:
    """Unix time that passes when somebody sleeps."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


def client(fake: FakeGitHub, clock: Clock | None = None, *, jitter: float = 0.0, **more: Any) -> GitHub:
    """A client of the stand-in, without jitter."""
    clock = clock or Clock()
    waiting = Waiting(clock=clock, sleep=clock.sleep, jitter=lambda: jitter)
    settings = {"api_url": fake.api_url, "token": fake.token, "repository": fake.state.repository, **more}
    return GitHub(waiting=waiting, **settings)
