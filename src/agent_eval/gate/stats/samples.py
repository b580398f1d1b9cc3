"""Samples: the runs of each case on both sides, as plain numbers. Pure.

There are four kinds of runs with different uses. *Screening* runs of the head select the suspected regressions.
*Confirmation* runs of the head, made afterwards, decide whether they got worse. *Stored* runs of the base branch are
from earlier days; *fresh* ones run beside the head's confirmation runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

PASS = "pass"  # noqa: S105 - the name of a series
"""The name of the series of passed (1.0) and failed (0.0) runs. All other series are scores of metrics."""


@dataclass(frozen=True, kw_only=True)
class Series:
    """The values of one case and metric, one per evaluated run. Runs without a result are omitted."""

    head_screen: tuple[float, ...] = ()
    """The head's ordinary runs (`num_runs`). Higher is better: costs are negated."""
    head_confirm: tuple[float, ...] = ()
    """The head's extra runs, in chronological order."""
    head_rounds: tuple[int, ...] = ()
    """The round of each value of `head_confirm`; as long as it. Runs of one round are made at the same time, so one bad
    moment can make all of them fail."""
    base: tuple[float, ...] = ()
    """The base branch's stored runs, newest last."""
    base_screen: tuple[float, ...] = ()
    """Today's base runs of every case, made beside `head_screen` (`baseline: rerun`)."""
    base_confirm: tuple[float, ...] = ()
    """Today's base runs of suspected regressions, made beside `head_confirm`."""
    base_days: tuple[str, ...] | None = None
    """The record (commit or run id) of each value of `base`; as long as `base`. None if unknown."""
    before: Literal["", "suspicious", "blocked"] = ""
    """The case's result in the pull request's previous attempt. It raises suspicion, but its runs don't count."""
    threshold: float | None = None
    """The score that a run must reach to pass; None for the `pass` series, where 1.0 is a pass."""

    def __post_init__(self) -> None:
        """Checks the lengths.

        Raises:
            ValueError: `base_days` is not as long as `base`, or `head_rounds` not as long as `head_confirm`.
        """
        if len(self.head_rounds) != len(self.head_confirm):
            raise ValueError(f"head_rounds has {len(self.head_rounds)} entries for {len(self.head_confirm)} runs")
        if self.base_days is not None and len(self.base_days) != len(self.base):
            raise ValueError(f"base_days has {len(self.base_days)} entries for {len(self.base)} runs")


@dataclass(frozen=True, kw_only=True)
class CaseEvidence:
    """All samples of one case."""

    case_id: str
    metrics: Mapping[str, Series] = field(default_factory=dict)
    """By metric; `PASS` is the case's own pass or fail."""
