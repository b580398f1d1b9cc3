"""The trend of the base branch, with this run as the last point."""

from __future__ import annotations

from typing import Any

from agent_eval.report.html._source import Facts


def trend(facts: Facts) -> dict[str, Any] | None:
    """The rows of `history.trend`; None if nothing is recorded yet."""
    return None
