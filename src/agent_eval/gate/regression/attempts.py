"""What a pull request's previous attempt says about this one. Pure.

Someone who pushes until the check is green, or starts the job again, gets a new chance of being lucky each time. So a
case that was held against the previous attempt is suspicious in this one too, though its screening run passes, and one
that blocked it is tested by itself. Only runs of today count: a push that repairs the case passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, Protocol

from agent_eval.gate.stats import PASS

Before = Literal["", "suspicious", "blocked"]


class _Case(Protocol):
    """`decision.CaseDecision`, or what a report keeps of it."""

    @property
    def case_id(self) -> str: ...
    @property
    def metric(self) -> str: ...
    @property
    def word(self) -> str: ...
    @property
    def blocking(self) -> bool: ...


def held_against(cases: Iterable[_Case]) -> dict[str, Before]:
    """By case id what the next attempt should look at again."""
    return {
        case.case_id: "blocked" if case.blocking else "suspicious"
        for case in cases
        if case.metric == PASS and case.word in {"broken", "worse", "suspicious"}
    }
