"""Enumerations of a report."""

from __future__ import annotations

from typing import Literal

MetricStatus = Literal["passed", "failed", "not_evaluated", "informational"]
CaseStatus = Literal["passed", "failed", "errored", "not_run", "quarantined"]
VerdictValue = Literal["passed", "failed", "inconclusive", "invalid"]
GateMode = Literal["thresholds", "regressions", "both", "advisory"]
"""The rule that decides. `auto` becomes one of the first two, depending on whether there is a baseline."""
CaseWord = Literal["broken", "worse", "suspicious", "flaky as before", "fixed", "better", "unchanged"]
"""broken: significantly worse, and no confirmation run passed; or every run failed, and the base has too few runs for a
comparison. worse: significantly worse. suspicious: a suspected regression, not significant. flaky as before: failed,
but not more often than on the base branch. fixed: no run of the base passed, every run of the head passes, and the
difference is significant. better: significantly better. unchanged: none of these. See docs/statistics.md."""
