"""Tries the sources of baselines in order; the first baseline wins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent_eval.baseline.lookup import Baseline, BaselineOutcome, Found, Step, outcome_of
from agent_eval.baseline.request import BaselineRequest
from agent_eval.results import BaselineSource


class Resolver(Protocol):
    """A source of baselines."""

    @property
    def source(self) -> BaselineSource:
        """The source's name."""
        ...

    async def find(self, request: BaselineRequest) -> Baseline:
        """Looks for the baseline. Returns failures instead of raising them."""
        ...


async def resolve(resolvers: Sequence[Resolver], request: BaselineRequest) -> BaselineOutcome:
    """Tries the sources in order until one returns a baseline."""
    steps: list[Step] = []
    for resolver in resolvers:
        answer = await resolver.find(request)
        steps.append(Step(source=resolver.source, baseline=answer))
        if isinstance(answer, Found):
            break
    return outcome_of(steps)
