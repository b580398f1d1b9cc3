"""How cases failed, and what kept them from getting a score: each cause once, with all its cases. Plain text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent_eval.core.reason import NO_REASON
from agent_eval.core.text import first_line
from agent_eval.core.tracebacks import frames_of
from agent_eval.results import CaseReport, RunError, RunReport

NEVER_RAN = frozenset({"agent-import", "agent-environment"})
"""Kinds of errors before the first model call."""
_LINE = 300
_CHANGING = re.compile(r"[0-9a-f]{8,}|[0-9]+(?:\.[0-9]+)?", re.IGNORECASE)
"""Parts in which messages about the same cause differ: counts, seconds, request ids."""
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`")
"""Values in messages of exceptions that one line raises."""


@dataclass(frozen=True, kw_only=True)
class Cause:
    """One error, in one case or in many."""

    kind: str
    """The error's kind, or the code of the reason."""
    owner: str
    """`agent`, `provider` or `gate`; "" if no run ended with an error."""
    message: str
    """One line, from the first case."""
    cases: Sequence[CaseReport]
    """In the order of the report."""
    agent: str = ""
    """The agent's path; "" if unknown."""
    hint: str = ""
    no_key: bool = False
    """Whether the agent's model got no key, or refused it."""
    log: str = ""
    """A traceback and the end of the agent's log, from the first case."""
    file: str | None = None
    """The file of the agent's code that raised it, relative to the repository."""
    line: int | None = None

    @property
    def advice(self) -> str:
        """The hint; "" for an outage of a model, after which there is nothing to do but to run it again."""
        is_outage = self.owner == "provider" and not self.no_key and self.kind not in NEVER_RAN
        return "" if is_outage else self.hint


def causes(report: RunReport, cases: Iterable[CaseReport]) -> list[Cause]:
    """Groups cases by the agent, kind and message of their error; the largest group first.

    Args:
        report: The report, which has the agent of each file.
        cases: Cases of the report. Those without a cause (see `has_cause`) are left out.
    """
    agents = {file.file: file.agent for file in report.files}
    members_by_key: dict[tuple[str, ...], list[tuple[CaseReport, Cause]]] = {}
    for case in cases:
        cause = _cause(case, agents.get(case.file, ""))
        if cause is not None:
            at = (cause.file or "", str(cause.line or "")) if cause.owner == "agent" else ()
            hint = cause.hint.replace(case.case_id, "")
            message = cause.message if not any(at) else _QUOTED.sub("*", cause.message)
            key = (cause.agent, cause.kind, hint, _CHANGING.sub("0", message), *at)
            members_by_key.setdefault(key, []).append((case, cause))
    groups = [_together(members) for members in members_by_key.values()]
    return sorted(groups, key=lambda cause: -len(cause.cases))


def has_cause(case: CaseReport) -> bool:
    """Whether an error, rather than a low score, kept a case from passing."""
    if case.status == "errored":
        return True
    scored_low = any(run.status == "failed" for metric in case.metrics for run in metric.runs if run.error is None)
    return case.status == "failed" and not scored_low and _error(case) is not None


def never_ran(case: CaseReport) -> bool:
    """Whether the agent could not be loaded. Texts report that once for all its cases."""
    return any(run.error is not None and run.error.kind in NEVER_RAN for run in case.runs)


def is_unanswered(case: CaseReport) -> bool:
    """Whether the only error is a missing answer, e.g. because a recording doesn't have the case."""
    return _error_kinds(case) == {"agent-no-answer"}


def has_timed_out(case: CaseReport) -> bool:
    """Whether the agent's only error is that it took too long."""
    return _error_kinds(case) == {"deadline"}


def _error_kinds(case: CaseReport) -> set[str]:
    return {run.error.kind for run in case.runs if run.error is not None and run.error.owner == "agent"}


def has_crashed(case: CaseReport) -> bool:
    """Whether the agent, or a custom metric, raised an error in a run of the case. A tool call that is not recorded is
    no error: it only ended the run early.
    """
    errors = [run.error for run in case.runs] + [run.error for metric in case.metrics for run in metric.runs]
    return any(error is not None and error.owner == "agent" and error.kind != "tool-not-recorded" for error in errors)


def log_of(error: RunError | None) -> str:
    """The traceback of an error and the end of the agent's log; "" where there is neither."""
    texts = (error.traceback, error.log_tail) if error is not None else ()
    return "\n\n".join(text.strip("\n") for text in texts if text and text.strip())


def _together(members: Sequence[tuple[CaseReport, Cause]]) -> Cause:
    case, first = members[0]
    # A command for one case would not do for the others.
    hint = first.hint if len(members) == 1 else first.hint.replace(f" '{case.case_id}'", "")
    return Cause(**{**first.__dict__, "hint": hint, "cases": tuple(case for case, _ in members)})


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
            no_key=error.no_key,
            log=log,
            file=file,
            line=line,
        )
    missing = [metric for metric in case.metrics if metric.status == "not_evaluated" and metric.reason is not None]
    for metric in missing[:1]:
        assert metric.reason is not None
        # An unavailable judge is one cause for all its metrics.
        shared = metric.reason.code == "budget" or metric.reason.code.startswith("judge-")
        message = first_line(metric.reason.message, _LINE)
        message = message if shared else f"{metric.name} not evaluated: {message}"
        return Cause(kind=metric.reason.code, owner="", message=message, cases=(case,), agent="" if shared else agent)
    reason = case.reason
    message = first_line(reason.message, _LINE) if reason is not None else NO_REASON
    return Cause(kind=reason.code if reason is not None else "", owner="", message=message, cases=(case,), agent=agent)


def _error(case: CaseReport) -> RunError | None:
    errors = [run.error for run in case.runs if run.error is not None]
    errors += [run.error for metric in case.metrics for run in metric.runs if run.error is not None]
    blamed = [error for error in errors if error.owner == "agent"]
    return next(iter([*blamed, *errors]), None)


def _place(traceback: str, agent: str) -> tuple[str | None, int | None]:
    """The innermost line of a traceback that is the agent's own."""
    frames = frames_of(traceback, agent)
    return (frames[-1].file, frames[-1].line) if frames else (None, None)
