"""Carries regressions of a pull request's previous attempt over to this one. Pure.

Every new push or re-run of the job is another chance to pass by luck. A regression or suspected regression of the
previous attempt is therefore suspected in this attempt too, even if its screening run passes. A case that blocked the
previous attempt is tested separately. Only runs of today count: a push that fixes the case passes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from agent_eval.gate.stats import PASS
from agent_eval.results import CaseDecisionReport

Before = Literal["", "suspicious", "blocked"]


def held_against(cases: Iterable[CaseDecisionReport]) -> dict[str, Before]:
    """The cases that the next attempt must check again, by id."""
    return {
        case.case_id: "blocked" if case.blocking else "suspicious"
        for case in cases
        if case.metric == PASS and case.word in {"broken", "worse", "suspicious"}
    }
