"""Enumerations of a report."""

from __future__ import annotations

from typing import Literal

MetricStatus = Literal["passed", "failed", "not_evaluated", "informational"]
CaseStatus = Literal["passed", "failed", "errored", "not_run", "quarantined"]
VerdictValue = Literal["passed", "failed", "inconclusive", "invalid"]
GateMode = Literal["thresholds", "regressions", "both", "advisory"]
"""The rule that decides. `auto` becomes one of the first two, depending on whether there is a baseline."""
CaseWord = Literal["broken", "worse", "suspicious", "flaky as before", "fixed", "better", "unchanged"]
"""How a case changed since the base branch, see docs/statistics.md."""
