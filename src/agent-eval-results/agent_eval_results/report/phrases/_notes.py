"""Remarks on a comparison and on a history: what can't be compared, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from agent_eval_scoring.core.text import plural

SENTENCES: Mapping[str, str] = {
    "needs": "needs {here:g}, on the base {there:g}",
    "options-differ": "its options, or what its judge is asked, have changed since the base",
    "scoring-differs": "the base was scored by other rules",
    "side-unjudged": "the case could not be evaluated on one of the sides",
    "new-criterion": "it is no criterion on the base",
    "criterion-gone": "it is no criterion any more",
    "not-in-base-run": "was not part of the base branch's run",
    "scores-not-compared": "The base was scored by other rules (scoring version {there:g}, now {here:g}): no scores "
    "are compared.",
    "min-pass-rate-differs": "min-pass-rate is {here:g} now and was {there:g} on the base.",
    "nothing-was-run": "nothing was run",
    "was-replayed": "it was replayed from recordings",
    "is-a-part": "it is {message}",
    "is-of-a-pull-request": "it is a {change}'s",
    "answers-unexplained": "What is answered differently is so in all runs; whether a change of the agent explains it "
    "is not known here.",
    "answers-unrecorded": "Not all answers were compared: recordings of {subject} are missing or damaged.",
}


def judge_differs(models: Sequence[str] = ()) -> str:
    if len(models) != 2:
        return "its judge is another one than on the base"
    return f"its judge is {models[0]}, on the base {models[1]}"


def unmeasured(side: str = "") -> str:
    return f"it was not evaluated{ {'here': '', 'base': ' on the base'}.get(side, ' on one of the sides') }"


def left_out(because: str, count: int, more: int = 0, total: int = 0) -> str:
    prefix = f"{plural(count, 'case')}: " if total or more else ""
    return f"{prefix}{because}" + (f"; and {plural(more, 'more case')}" if more else "")


_NO_RESULT: Mapping[str, str] = {"errored": "could not be evaluated", "not_run": "was not run"}


def no_result(result: str, side: Literal["here", "base", "both"]) -> str:
    quarantined = "was quarantined" if side == "base" else "is quarantined"
    where = {"here": "", "base": " on the base", "both": " on both sides"}[side]
    return f"{_NO_RESULT.get(result, quarantined)}{where}"


def metric_not_compared(metric: str, because: str, side: Literal["here", "base", "both"]) -> str:
    return f"{metric} {'fails' if side == 'here' else 'failed on the base'}, and {because}"


def threshold_moved(metric: str, here: float, there: float, count: int) -> str:
    verb = "raised" if here > there else "lowered"
    return f"The threshold of {metric} was {verb} from {there:g} to {here:g} ({plural(count, 'case')})."


def outside_selection(count: int) -> str:
    return f"{plural(count, 'case')} of the base branch not compared: this run is limited by paths or patterns."


def compared_by_name(count: int) -> str:
    return (
        f"{plural(count, 'case was', 'cases were')} compared by name alone: one of the results does not say what was "
        "asked."
    )


def num_runs_differ(here: float, there: float, count: int = 0) -> str:
    cases = "Each case" if not count else "The live case" if count == 1 else "Each live case"
    return f"{cases} ran {_times(here)} now and {_times(there)} on the base."


def _times(count: float) -> str:
    return {1: "once", 2: "twice"}.get(int(count)) or f"{count:g} times"


def broken_off(count: int) -> str:
    return f"{plural(count, 'case')} did not run to the end"
