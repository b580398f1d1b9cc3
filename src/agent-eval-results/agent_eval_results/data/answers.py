"""Finds agents and runs without an answer, which were not evaluated and are not compared. Pure.

An agent was not evaluated if it can't be started, if its process dies, or if its recording does not have the case. An
exception or a timeout of the agent is a result and can be compared, unless all of its cases end this way: then nothing
shows that the agent works at all, and it was not evaluated either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent_eval_results import CaseReport, RunReport, RunResult

CANNOT_START = frozenset(
    {"agent-environment", "agent-import", "agent-server-down", "custom-metric-environment", "custom-metric-import"}
)
"""Kinds of permanent errors that occur before the agent gets a prompt."""
_NOT_EVALUATED = CANNOT_START | {"agent-crash", "agent-no-answer", "agent-protocol"}
"""Kinds of errors that leave nothing to compare if they occur before the first answer."""


def answered(run: RunResult) -> bool:
    """Whether the agent answered at least one turn."""
    return run.turns > 0 or (run.error is None and not run.did_not_run)


def never_started(case: CaseReport) -> bool:
    """Whether every run of a case failed with a permanent error before the agent got a prompt."""
    return bool(case.runs) and all(run.ended_by(CANNOT_START) for run in case.runs)


def is_scored(case: CaseReport) -> bool:
    """Whether a metric that can fail the case has a score in some run."""
    return any(metric.is_configured and any(run.score is not None for run in metric.runs) for metric in case.metrics)


def silent_cases(cases: Iterable[CaseReport], agents: Mapping[str, str]) -> dict[str, CaseReport]:
    """The cases of agents that answered in none of their cases, by id.

    An agent without a prompt (the gate was stopped, the judge has no key) is not silent.

    Args:
        cases: The cases with all runs, in any number of parts.
        agents: By file.
    """
    by_agent: dict[str, list[CaseReport]] = {}
    for case in cases:
        by_agent.setdefault(agents.get(case.file, ""), []).append(case)
    return {case.case_id: case for own in by_agent.values() if _silent(own) for case in own}


def _silent(cases: Sequence[CaseReport]) -> bool:
    runs = [run for case in cases for run in case.runs]
    asked = any(run.error is not None and run.error.owner != "gate" for run in runs)
    return asked and not any(map(answered, runs))


def unevaluated(cases: Sequence[CaseReport], more: Iterable[CaseReport], agents: Mapping[str, str]) -> dict[str, str]:
    """The failed cases without any evaluated run: the kind of their error, by case id.

    Args:
        cases: The head's cases.
        more: The head's extra runs, with the same ids. A case that answers there was evaluated.
        agents: By file.
    """
    silent = silent_cases([*cases, *(more := list(more))], agents)
    spoken = {case.case_id for case in more if any(map(answered, case.runs))}
    error_kinds: dict[str, str] = {}
    for case in cases:
        if not case.failed or not case.error_kinds or case.case_id in spoken or any(map(answered, case.runs)):
            continue
        if case.case_id in silent or _NOT_EVALUATED.intersection(case.error_kinds):
            error_kinds[case.case_id] = next(filter(_NOT_EVALUATED.__contains__, case.error_kinds), case.error_kinds[0])
    return error_kinds


def without_silent(report: RunReport) -> RunReport:
    """The baseline with the cases of silent agents marked as `errored`."""
    silent = silent_cases(report.cases, report.agents_by_file)
    if not silent:
        return report
    cases = [
        case.model_copy(update={"status": "errored"}) if case.case_id in silent and not case.did_not_run else case
        for case in report.cases
    ]
    return report.model_copy(update={"cases": cases})
