"""Remarks by their text, and the text of remarks."""

from __future__ import annotations

from collections.abc import Iterable

from agent_eval.core.reason import Reason
from agent_eval.report.phrases import evidence_line


def notes(*texts: str) -> list[Reason]:
    """Remarks that are their own words."""
    return [Reason(code="note", message=shown) for shown in texts]


def lines(why: Iterable[Reason | str]) -> tuple[str, ...]:
    """The lines of an explanation."""
    return tuple(line if isinstance(line, str) else evidence_line(line) for line in why)
