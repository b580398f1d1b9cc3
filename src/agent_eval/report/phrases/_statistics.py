"""What the statistics of a run and of the base branch's history say, and which runs they need."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.core.text import listed, plural, short_name
from agent_eval.gate.history import CASE_ALPHA, Drift
from agent_eval.gate.stats import Runs
from agent_eval.results import HistoryRecord, PassRates

_MOST_CASES = 5


def extra_runs(step: Runs) -> str:
    """The runs that a decision needs, for the log."""
    count = plural(sum(step.head.values()) + sum(step.base.values()), "run")
    cases = len({*step.head, *step.base})
    match step.why:
        case "suspects":
            return f"{count} to confirm {plural(cases, 'suspected regression')}"
        case "suite":
            return f"{count} of half of the suite to see whether it got worse as a whole"
        case "retrials":
            return f"{count} of {plural(cases, 'failed case')} that can't be compared with the base"
        case "base-error":
            return f"{count} of the base branch to check whether its agent has this error"
        case "base-stored":
            return f"{count} of the base branch to check its stored runs"


def pass_rates_notices(rates: Sequence[PassRates]) -> list[str]:
    """`Of 3 runs of a case at least one passes with 97.0% (pass@3), ...`; nothing without rates."""
    if not rates:
        return []
    first, last = rates[0], rates[-1]
    return [
        f"Of {last.k} runs of a case at least one passes with {last.any:.1%} (pass@{last.k}), all pass with "
        f"{last.all:.1%} (pass^{last.k}); a single run with {first.any:.1%}"
    ]


def drift_notices(trend: Drift) -> list[str]:
    """Notices without statistical terms; empty without drift."""
    notices = []
    if trend.worse and trend.older is not None and trend.newer is not None and trend.p_value is not None:
        where = _named(trend.since)
        notices.append(
            f"The base branch got worse: {trend.older:.1%} of its runs passed before {where}, {trend.newer:.1%} since. "
            "Chance alone says so within 20 merges in about 1 of 12 repositories"
        )
    if trend.cases:
        names = [
            f"{short_name(case.case_id)} ({_of(case.newer)} lately, {_of(case.older)} before)" for case in trend.cases
        ]
        notices.append(
            f"On the base branch {plural(len(trend.cases), 'case')} passed less often lately: "
            f"{listed(names, _MOST_CASES)}. Chance alone names 1 of {1 / CASE_ALPHA:.0f} cases"
        )
    return notices


def _of(counts: tuple[int, int]) -> str:
    return f"{counts[0]} of {counts[1]}"


def _named(record: HistoryRecord | None) -> str:
    if record is None:
        return "some time"
    return record.commit[:8] or f"run {record.run_id}" if record.commit or record.run_id else "its newer runs"
