"""Which models a run will call, and what for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class ModelUse:
    """A use of a model by a criterion or a simulated user."""

    model: str
    config: Mapping[str, Any] = field(default_factory=dict)
    """The `judge_model_config`."""
    case_id: str
    purpose: str
    """The criterion, or `user-simulator`."""
    file: str | None = None
    """The file that configures the criterion."""
