"""Remarks by their text, and the text of remarks."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval_results.report.phrases import evidence_line
from agent_eval_scoring.core.reason import Reason


def notes(*texts: str) -> list[Reason]:
    """Remarks that are their own words."""
    return [Reason(code="note", message=shown) for shown in texts]


def lines(why: Iterable[Reason | str]) -> tuple[str, ...]:
    """The lines of an explanation."""
    return tuple(line if isinstance(line, str) else evidence_line(line) for line in why)
