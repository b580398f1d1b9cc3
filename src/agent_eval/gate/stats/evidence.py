"""What the gate decides on: the runs of each case on both sides, as plain numbers. Pure.

Four kinds of runs are kept apart because they count for different things. The *screening* runs of the head say which
cases to look at again; the *confirmation* runs of the head, made afterwards for those cases alone, say whether they got
worse. *Stored* runs of the base were made on other days, *fresh* ones beside the head's confirmation runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PASS = "pass"  # noqa: S105 - the name of a series
"""The name of the series that says whether the case passed: 1.0 or 0.0 a run. All others are scores of metrics."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """What one case gave for one metric, one value per judged run. Runs that errored have no value and are left out."""

    head_screen: tuple[float, ...] = ()
    """The head's ordinary runs (`num_runs`). Higher is better: whoever has a cost turns its sign."""
    head_confirm: tuple[float, ...] = ()
    """The head's extra runs, in the order in which they were made."""
    base: tuple[float, ...] = ()
    """The base's stored runs, newest last."""
    base_screen: tuple[float, ...] = ()
    """The base's runs of today of every case, made beside `head_screen` (`baseline: rerun`)."""
    base_confirm: tuple[float, ...] = ()
    """The base's runs of today of suspicious cases, made in its worktree beside `head_confirm`."""
    base_days: tuple[str, ...] | None = None
    """Which record (commit or run id) each value of `base` is from; as long as `base`. None when nobody knows."""
    before: Literal["", "suspicious", "blocked"] = ""
    """How the pull request's previous attempt left this case: it raises suspicion, and no run of then is counted."""
    threshold: float | None = None
    """What a score must reach to pass; None for the `pass` series, where 1.0 is a pass."""

    def __post_init__(self) -> None:
        """Checks what would make every later number wrong.

        Raises:
            ValueError: `base_days` is not as long as `base`.
        """
        if self.base_days is not None and len(self.base_days) != len(self.base):
            raise ValueError(f"base_days has {len(self.base_days)} entries for {len(self.base)} runs")


@dataclass(frozen=True, kw_only=True)
class CaseEvidence:
    """Everything the gate knows of one case."""

    case_id: str
    metrics: Mapping[str, Series] = field(default_factory=dict)
    """By metric; `PASS` is the case's own pass or fail."""
