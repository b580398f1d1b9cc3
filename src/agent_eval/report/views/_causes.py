"""What kept cases from a score: each cause once, with all its cases. Pure; plain text, as in `digest`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_eval.core.text import first_line
from agent_eval.report.views._findings import log_of
from agent_eval.results import CaseReport, RunError, RunReport

NEVER_RAN = frozenset({"agent-import", "agent-environment"})
"""Kinds of errors that come before the first question."""
_LINE = 300
_FRAME = re.compile(r'^ {0,8}File "([^"\n]{1,400})", line ([0-9]{1,7})', re.MULTILINE)
_CHANGING = re.compile(r"[0-9a-f]{8,}|[0-9]+(?:\.[0-9]+)?", re.IGNORECASE)
"""What differs between two messages about the same thing: counts, seconds, identifiers of requests."""
_MOST_LOG = 20_000
"""Characters of a traceback, from its end, that are searched for a line of the agent."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One thing that went wrong, in one case or in many."""

    kind: str
    """The error's kind, or the code of the reason."""
    owner: str
    """`agent`, `provider` or `gate`; "" where no run ended with an error."""
    message: str
    """One line, as the first of the cases has it."""
    cases: Sequence[CaseReport]
    """In the order of the report."""
    agent: str = ""
    """The agent's path; "" where it is unknown."""
    hint: str = ""
    log: str = ""
    """A traceback and the end of the agent's log, those of the first case."""
    file: str | None = None
    """Where in the agent's code it happened, relative to the repository."""
    line: int | None = None


def causes(report: RunReport, cases: Iterable[CaseReport]) -> list[Cause]:
    """Groups cases by agent, kind and message of what kept them from a score; those with the most cases first.

    Args:
        report: The report, which knows the agent of each file.
        cases: Of it. Those that only scored too low have no cause; `is_broken_off` sorts them out.
    """
    agents = {file.file: file.agent for file in report.files}
    found: dict[tuple[str, ...], list[tuple[CaseReport, Cause]]] = {}
    for case in cases:
        cause = _cause(case, agents.get(case.file, ""))
        if cause is not None:
            at = (cause.file or "", str(cause.line)) if cause.owner == "agent" else ()
            key = (cause.agent, cause.kind, cause.hint, _CHANGING.sub("0", cause.message), *at)
            found.setdefault(key, []).append((case, cause))
    groups = [_together(members) for members in found.values()]
    return sorted(groups, key=lambda cause: -len(cause.cases))


def has_cause(case: CaseReport) -> bool:
    """Whether an error, rather than a score, is what kept a case from passing."""
    if case.status == "errored":
        return True
    scored_low = any(run.status == "failed" for metric in case.metrics for run in metric.runs if run.error is None)
    return case.status == "failed" and not scored_low and _error(case) is not None


def _together(members: Sequence[tuple[CaseReport, Cause]]) -> Cause:
    first = members[0][1]
    return Cause(**{**first.__dict__, "cases": tuple(case for case, _ in members)})


def _cause(case: CaseReport, agent: str) -> Cause | None:
    if not has_cause(case):
        return None
    error = _error(case)
    if error is not None:
        log = log_of(error)
        file, line = _place(error.traceback or "", agent)
        return Cause(
            kind=error.kind,
            owner=error.owner,
            message=first_line(error.message, _LINE),
            cases=(case,),
            agent=agent,
            hint=first_line(error.hint or "", _LINE),
            log=log,
            file=file,
            line=line,
        )
    missing = [metric for metric in case.metrics if metric.status == "not_evaluated" and metric.reason is not None]
    for metric in missing[:1]:
        assert metric.reason is not None
        # A judge that is down is the same trouble for all its metrics.
        shared = metric.reason.code == "budget" or metric.reason.code.startswith("judge-")
        message = first_line(metric.reason.message, _LINE)
        message = message if shared else f"{metric.name} not evaluated: {message}"
        return Cause(kind=metric.reason.code, owner="", message=message, cases=(case,), agent="" if shared else agent)
    reason = case.reason
    message = first_line(reason.message, _LINE) if reason is not None else "no reason was recorded"
    return Cause(kind=reason.code if reason is not None else "", owner="", message=message, cases=(case,), agent=agent)


def _error(case: CaseReport) -> RunError | None:
    errors = [run.error for run in case.runs if run.error is not None]
    errors += [run.error for metric in case.metrics for run in metric.runs if run.error is not None]
    blamed = [error for error in errors if error.owner == "agent"]
    return next(iter([*blamed, *errors]), None)


def _place(traceback: str, agent: str) -> tuple[str | None, int | None]:
    """The innermost line of a traceback that is the agent's own, as far as the path tells."""
    for match in reversed(list(_FRAME.finditer(traceback[-_MOST_LOG:]))):
        path = _in_repository(match.group(1), agent)
        if path is not None:
            return path, int(match.group(2))
    return None, None


def _in_repository(path: str, agent: str) -> str | None:
    """The path relative to the repository; None for what is not the agent's."""
    if "site-packages" in path or path.startswith("<") or not agent:
        return None
    if not path.startswith("/"):
        return path if path.startswith(f"{agent}/") else None
    before, found, after = path.rpartition(f"/{agent}/")
    return f"{agent}/{after}" if found and before != "" else None


def error_examples(found: Sequence[Cause]) -> list[CaseReport]:
    """The first case of each error of a run of which is known what the agent did before it.

    Where a judge or a budget failed, the agent did nothing that explains it.
    """
    firsts = (cause.cases[0] for cause in found if cause.owner)
    return [
        case
        for case in firsts
        if case.conversation is not None and any(turn.steps or turn.answer for turn in case.conversation.turns)
    ]
