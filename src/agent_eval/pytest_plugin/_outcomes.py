"""What an eval case is to pytest: passed, failed, an error, a skip or an expected failure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent_eval.api import CaseResult, EngineOutcome
from agent_eval.core.text import harmless, plural, shorten
from agent_eval.report.views import grouping, one_line, reason_lines
from agent_eval.results import CaseReport, RunReport

_LONGEST_REASON = 300
_MOST_PROBLEMS = 10
_LONGEST_LOG = 4_000


@dataclass(frozen=True, kw_only=True)
class CaseOutcome:
    """The result of a case for pytest."""

    kind: Literal["pass", "fail", "error", "skip"]
    """error: it could not be evaluated, and the session fails for that."""
    reason: str = ""
    """One line."""
    text: str = ""
    """The scores and the turns, or what prevented the run."""
    expected_failure: str = ""
    """Why a failure does not count: the reason of an `xfail` that is not strict."""
    duration: float = 0.0
    """Seconds of the case's runs."""
    properties: tuple[tuple[str, object], ...] = ()
    """`metric:NAME` and mean score, for each metric that has one."""


def outcome_in(engine: EngineOutcome, case_id: str) -> CaseOutcome:
    """The outcome of a case in a run of the engine."""
    report = engine.report
    if report is None:
        return _without_report(engine)
    case = next((case for case in report.cases if case.case_id == case_id), None)
    if case is None:
        return _not_planned(report, case_id)
    details = CaseResult(report=case)
    kind, reason, expected_failure = _kind(case, report)
    return CaseOutcome(
        kind=kind,
        reason=harmless(shorten(one_line(reason), _LONGEST_REASON)),
        text=details.text,
        expected_failure=harmless(shorten(one_line(expected_failure), _LONGEST_REASON)),
        duration=case.duration,
        properties=tuple((f"metric:{name}", score) for name, score in details.scores.items() if score is not None),
    )


def _kind(case: CaseReport, report: RunReport) -> tuple[Literal["pass", "fail", "error", "skip"], str, str]:
    """Kind, reason and reason of an expected failure."""
    reason = "; ".join(reason_lines(case, 2)) or (case.reason.message if case.reason is not None else case.status)
    if case.status == "quarantined":
        failed = any(run.status != "passed" for run in case.runs)
        quarantine = case.reason.message if case.reason is not None else "quarantined"
        return "fail" if failed else "pass", quarantine, quarantine
    if case.status == "not_run":
        return "skip", reason, ""
    if case.status == "errored":
        # With on-inconclusive=pass, or where the gate only advises, an outage does not fail the session.
        return "skip" if report.exit_code == 0 else "error", reason, ""
    blocking = grouping.blocking_ids(report)
    if case.status == "failed":
        return "fail", reason, f"does not block: {reason}" if grouping.is_excused(case, report, blocking) else ""
    if case.case_id in blocking:
        return "fail", "worse than on the base branch", ""
    return "pass", "", ""


def _not_planned(report: RunReport, case_id: str) -> CaseOutcome:
    errors = [problem for problem in report.problems if problem.severity == "error"]
    if not errors:
        return CaseOutcome(kind="error", reason=f"the results have no case {one_line(case_id)}")
    lines = []
    for problem in errors[:_MOST_PROBLEMS]:
        where = ":".join(str(part) for part in (problem.file, problem.line) if part is not None)
        lines.append(f"{where + ': ' if where else ''}error [{problem.code}] {problem.message}")
        lines += [f"    {line}" for line in (problem.hint or "").splitlines()]
    if len(errors) > _MOST_PROBLEMS:
        lines.append(f"and {plural(len(errors) - _MOST_PROBLEMS, 'more error')}")
    return CaseOutcome(kind="error", reason=f"nothing was run: {one_line(errors[0].message)}", text="\n".join(lines))


def _without_report(engine: EngineOutcome) -> CaseOutcome:
    return CaseOutcome(
        kind="error",
        reason=f"agent-eval ended with exit code {engine.exit_code} and no results",
        text=shorten(f"{engine.log}\n{engine.console}".strip(), _LONGEST_LOG),
    )
