"""Which runs and agents gave an answer. What never answered was not evaluated, and nothing is compared with it. Pure.

An agent that can't be started, whose process dies, or whose recording has no such case was not evaluated. One that
raised or was too slow showed what it does, and that can be compared. But if it did so in every one of its cases,
nothing shows that it works at all, so it was not evaluated either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from agent_eval.results import CaseReport, RunReport, RunResult

CANNOT_START = frozenset({"agent-environment", "agent-import", "custom-metric-environment", "custom-metric-import"})
"""Kinds of errors that come before anything is asked, and come again however often it is tried."""
_NOT_EVALUATED = CANNOT_START | {"agent-crash", "agent-no-answer", "agent-protocol"}
"""Kinds of errors that, before the first answer, leave nothing to compare."""


def agents_by_file(report: RunReport) -> dict[str, str]:
    """The agent of each eval file; files of which a report doesn't say it share one."""
    return {file.file: file.agent for file in report.files}


def answered(run: RunResult) -> bool:
    """Whether the agent ended at least one turn with an answer."""
    return run.turns > 0 or (run.error is None and run.status != "not_run")


def never_started(case: CaseReport) -> bool:
    """Whether no run of a case came as far as asking the agent, and none ever would."""
    return bool(case.runs) and all(run.error is not None and run.error.kind in CANNOT_START for run in case.runs)


def is_scored(case: CaseReport) -> bool:
    """Whether a metric that has a threshold has a score in some run."""
    return any(
        metric.threshold is not None and any(run.score is not None for run in metric.runs) for metric in case.metrics
    )


def silent_cases(cases: Iterable[CaseReport], agents: Mapping[str, str]) -> dict[str, CaseReport]:
    """The cases of agents that answered in none of their cases, by id.

    An agent that was not asked (the gate was stopped, its judge has no key) is not silent.

    Args:
        cases: All runs of them, in any number of parts.
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
    """The failed cases of which no run shows what the agent does, with the kind of their error.

    Args:
        cases: Those of the head.
        more: Its extra runs, by the same ids: a case that answers there was evaluated.
        agents: By file.
    """
    silent = silent_cases([*cases, *(more := list(more))], agents)
    spoken = {case.case_id for case in more if any(map(answered, case.runs))}
    error_kinds: dict[str, str] = {}
    for case in cases:
        kinds = [run.error.kind for run in case.runs if run.error is not None and run.error.owner == "agent"]
        if case.status != "failed" or not kinds or case.case_id in spoken or any(map(answered, case.runs)):
            continue
        if case.case_id in silent or _NOT_EVALUATED.intersection(kinds):
            error_kinds[case.case_id] = next((kind for kind in kinds if kind in _NOT_EVALUATED), kinds[0])
    return error_kinds


def without_silent(report: RunReport) -> RunReport:
    """A baseline in which the cases of agents that answered in none of them count as not judged."""
    silent = silent_cases(report.cases, agents_by_file(report))
    if not silent:
        return report
    cases = [
        case.model_copy(update={"status": "errored"}) if case.case_id in silent and case.status != "not_run" else case
        for case in report.cases
    ]
    return report.model_copy(update={"cases": cases})
