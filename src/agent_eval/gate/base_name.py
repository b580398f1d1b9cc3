"""Calls the base branch by its name in what was decided. Pure.

The statistics and the rules know no names, so their texts say "the base". Where it is known they read better with it,
and like every other text.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from agent_eval.gate.verdict import Verdict
from agent_eval.results.decision import DecisionReport
from agent_eval.results.report import Reason

_BASE = re.compile(r"\b(?:(?<=on )base|the base(?: branch)?)\b")


def named(text: str, branch: str) -> str:
    """A sentence of ours about the base branch, with its name."""
    return _BASE.sub(lambda _: branch, text)


def named_verdict(verdict: Verdict, branch: str) -> Verdict:
    """The same for reasons and notes."""
    return dataclasses.replace(verdict, reasons=_named(verdict.reasons, branch), notes=_named(verdict.notes, branch))


def _named(reasons: Iterable[Reason], branch: str) -> tuple[Reason, ...]:
    return tuple(reason.model_copy(update={"message": named(reason.message, branch)}) for reason in reasons)


def named_decision(decision: DecisionReport, branch: str) -> DecisionReport:
    """The same for the statistics' reasons, and for what they say of each case."""
    reasons = [reason.model_copy(update={"message": named(reason.message, branch)}) for reason in decision.reasons]
    cases = [
        case.model_copy(
            update={
                "evidence": named(case.evidence, branch),
                "would_decide": None if case.would_decide is None else named(case.would_decide, branch),
            }
        )
        for case in decision.cases
    ]
    return decision.model_copy(update={"reasons": reasons, "cases": cases})
