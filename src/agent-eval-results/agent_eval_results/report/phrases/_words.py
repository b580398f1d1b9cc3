"""Parts of sentences that several phrases have in common."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from agent_eval_results import PASS, NoMoreRuns, Numbers
from agent_eval_scoring.core.text import listed, plural, short_name

MOST_NAMES = 3
Words = TypeVar("Words")

LIMITS: Mapping[NoMoreRuns, str] = {
    "limit": "`max-extra-runs`",
    "time": "`run-timeout`",
    "cost": "the budget (`max-cost`, `max-tokens` or `max-judge-calls`)",
}
"""The settings that end extra runs."""
REMEDIES: Mapping[NoMoreRuns, str] = {
    **{limit: f"More runs may decide it: raise {setting}" for limit, setting in LIMITS.items()},
    "outage": "Its fresh runs have no result, since a service that they need failed: start the job again",
    "recorded": "A recorded answer can't be run again: record the answers again, or use `gate: thresholds`",
    "thresholds": "Nothing is run again, since the thresholds decide",
    "decided": "It was not run again, since the run fails without it",
}
"""By what keeps a case from running again."""


class Look(NamedTuple):
    """How a status or a verdict is shown."""

    words: str
    emoji: str
    """In Markdown."""
    style: str
    """On a terminal."""
    sign: str = ""
    """In plain text."""
    on_merge: str = ""
    """What a verdict means for a merge."""


STATUSES: Mapping[str, Look] = {
    "failed": Look("failed", "❌", "bold red", "✗"),
    "errored": Look("not evaluated", "⚠️", "bold yellow", "!"),
    "not_run": Look("not run", "⏭️", "dim", "-"),
    "quarantined": Look("quarantined", "🟡", "yellow", "~"),
    "passed": Look("passed", "✅", "green", "✓"),
}
"""By a case's status, in the order of columns."""
VERDICTS: Mapping[str, Look] = {
    "passed": Look("Passed", "✅", "bold green", on_merge="Does not block"),
    "failed": Look("Failed", "❌", "bold red", on_merge="Blocks the merge"),
    "inconclusive": Look("Can't tell", "⚠️", "bold yellow", on_merge="Can't tell yet, blocks until it can"),
    "invalid": Look("Invalid", "⛔", "bold red", on_merge="Blocks the merge"),
}


def about(cases: Sequence[str], what: str) -> str:
    """E.g. `2 cases failed: a, b`."""
    return f"{plural(len(cases), 'case')} {what}: {listed(cases, MOST_NAMES)}"


def parts(missing: Sequence[int], total: int) -> str:
    """E.g. `part 3 of 5`, `parts 2 and 3 of 5`."""
    names = [str(index) for index in missing]
    named = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{'part' if len(names) == 1 else 'parts'} {named} of {total}"


def lacking(lacks: int | NoMoreRuns, base: str) -> str:
    """What would decide: a number of runs of the base branch, or what to do about missing runs of both sides."""
    if not isinstance(lacks, int):
        return REMEDIES[lacks]
    passes = "it passes" if lacks == 1 else "all of them pass"
    return f"{plural(lacks, 'more run')} of {base} would decide if {passes}"


def evidence(numbers: Numbers, base: str) -> str:
    """E.g. `0 of 5 now, 10 of 10 on main`."""
    head, head_runs = numbers["head"] or 0.0, numbers["head_runs"]
    there, base_runs = numbers["base"] or 0.0, numbers["base_runs"]
    if numbers["metric"] == PASS:
        now = f"{round(head * head_runs)} of {head_runs} {'when run again' if numbers['again'] else 'now'}"
        return f"{now}, {f'{round(there * base_runs)} of {base_runs}' if base_runs else 'no run'} on {base}"
    now = f"{score(head)} now ({plural(head_runs, 'run')})"
    if not base_runs:
        return f"{now}, no run on {base}"
    return f"{now}, {score(there)} on {base} ({plural(base_runs, 'run')})"


def as_often(branch: str) -> str:
    """Of cases that fail now and then on both sides."""
    return f"not clearly more often than on {branch}"


def names(numbers: Sequence[Numbers], count: int, base: str) -> str:
    """Cases with their numbers, of which the data has the first ones."""
    named = [f"{short_name(case['case'])} ({evidence(case, base)})" for case in numbers]
    return listed([*named, *[""] * (count - len(named))], len(named))


def score(value: float) -> str:
    """`0.83`, `4.20`; without decimals from 100: `1,500`."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.2f}"


def filled(function: Callable[..., Words], facts: Mapping[str, Any]) -> Words:
    """The phrase of a function that takes some of the facts."""
    return function(**{name: facts[name] for name in inspect.signature(function).parameters if name in facts})
