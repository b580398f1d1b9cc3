"""The closed words of a report."""

from __future__ import annotations

from typing import Literal

MetricStatus = Literal["passed", "failed", "not_evaluated", "informational"]
CaseStatus = Literal["passed", "failed", "errored", "not_run", "quarantined"]
VerdictValue = Literal["passed", "failed", "inconclusive", "invalid"]
GateMode = Literal["thresholds", "regressions", "both", "advisory"]
"""What decides; `auto` is one of the first two, once it is known whether there is a baseline."""
CaseWord = Literal["broken", "worse", "suspicious", "flaky as before", "fixed", "better", "unchanged"]
"""What became of a case since the base, see docs/statistics.md."""
