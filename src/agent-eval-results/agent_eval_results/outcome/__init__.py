"""What each case is to the gate, and what a run is: the decision, its cause and what to do next. Pure.

This is the only place that derives it: from the verdict, the mode, the statistics, the comparison and the statuses. It
takes a report, so that results of older versions have outcomes, too.
"""

from __future__ import annotations

from collections import Counter

from agent_eval_results import RunReport
from agent_eval_results.data.outcome import RunOutcome
from agent_eval_results.outcome._cases import (
    Cause,
    Groups,
    Lookups,
    Outcome,
    Trend,
    causes,
    change_counts,
    compares_answers,
    has_cause,
    has_crashed,
    has_timed_out,
    is_unanswered,
    log_of,
    never_ran,
    shown_word,
)
from agent_eval_results.outcome._headline import failing_ids, further_reasons, headline_of
from agent_eval_results.outcome._steps import actor_of, again_helps, can_accept, next_of, waits_for_none


def has_news(report: RunReport) -> bool:
    """Whether results differ from those of the base branch, so that a comment is worth writing. True without any."""
    if report.comparison is None:
        return True
    if report.decision is not None and any(case.word != "flaky as before" for case in report.decision.cases):
        return True
    return any(case.change != "still_failing" for case in report.comparison.cases)


def run_outcome(found: Lookups) -> RunOutcome:
    """What a run is to a reader."""
    report, outcomes = found.report, found.outcomes.values()
    steps = next_of(found)
    return RunOutcome(
        verdict=report.verdict,
        exit_code=report.exit_code,
        standings=dict(Counter(outcome.standing for outcome in outcomes)),
        blocking=sum(outcome.blocks for outcome in outcomes),
        counting=sum(outcome.counts for outcome in outcomes),
        headline=headline_of(found),
        next=steps,
        actor=actor_of(steps[0]) if steps else "",
    )
