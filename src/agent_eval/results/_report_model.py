"""The base of a report's models."""

from __future__ import annotations

from typing import Any

from agent_eval.core.wire import WireModel

_UNUSED: set[str] = set()


class ReportModel(WireModel):
    """Base class of a report's models.

    No one needs to know which fields were set explicitly, and that set would take most of the memory of 10,000 cases:
    all models share one.
    """

    def model_post_init(self, context: Any, /) -> None:
        """Replaces the set of explicitly set fields."""
        object.__setattr__(self, "__pydantic_fields_set__", _UNUSED)
