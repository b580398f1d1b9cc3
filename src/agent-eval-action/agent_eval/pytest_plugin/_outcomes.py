"""What an eval case is to pytest: passed, failed, an error, a skip or an expected failure."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Literal

import pytest

from agent_eval.api import CaseResult, EngineOutcome
from agent_eval_results import CaseReport, RunReport
from agent_eval_results.report import phrases
from agent_eval_results.report.views import location, one_line, reason_lines, view_of
from agent_eval_scoring.core.text import harmless, plural, shorten

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
    if case.is_quarantined:
        quarantine = case.reason.message if case.reason is not None else "quarantined"
        return "pass" if case.had_in_quarantine("passed") else "fail", quarantine, quarantine
    if case.did_not_run:
        return "skip", reason, ""
    outcome = view_of(report).outcomes[case.case_id]
    if case.errored:
        # With on-inconclusive=pass, or where the gate only advises, an outage does not fail the session.
        return "skip" if outcome.excused else "error", reason, ""
    if case.failed:
        return "fail", reason, f"does not block: {reason}" if outcome.excused else ""
    if outcome.blocks:
        return "fail", "worse than on the base branch", ""
    return "pass", "", ""


def _not_planned(report: RunReport, case_id: str) -> CaseOutcome:
    errors = [problem for problem in report.problems if problem.is_error]
    if not errors:
        return CaseOutcome(kind="error", reason=f"the results have no case {one_line(case_id)}")
    lines = []
    for problem in errors[:_MOST_PROBLEMS]:
        where = location(problem.file, problem.line)
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


def session_fails(outcome: EngineOutcome, passed_again: Set[str]) -> bool:
    """Whether the verdict fails the session, even if no item failed.

    Args:
        outcome: The run of all cases.
        passed_again: Ids of the cases that were run again alone, and passed.
    """
    if outcome.exit_code == 0:
        return False
    report = outcome.report
    if report is None or report.is_invalid:
        return True
    responsible = _responsible(report)
    return not responsible or not responsible <= passed_again


def _responsible(report: RunReport) -> set[str]:
    """The cases because of which the verdict is not green; empty if it is for another reason."""
    outcomes = view_of(report).outcomes
    return {case.case_id for case in report.cases if outcomes[case.case_id].counts or case.did_not_run}


def write_summary(
    reporter: pytest.TerminalReporter, outcome: EngineOutcome, output: str, passed_again: Set[str]
) -> None:
    """Writes the verdict, its exit code, and where the results are."""
    reporter.section("ADK evals")
    report = outcome.report
    if report is None:
        reporter.line(
            f"agent-eval ended with exit code {outcome.exit_code} and no results: there is no verdict", red=True
        )
        return
    view = view_of(report)
    for problem in [problem for problem in report.problems if not problem.is_notice][:_MOST_PROBLEMS]:
        where = location(problem.file, problem.line)
        reporter.line(harmless(f"{where + ': ' if where else ''}{problem.severity} [{problem.code}] {problem.message}"))
    for line in [*report.warnings, *report.notices, *phrases.other_reasons(view), *phrases.changed_overview(view)]:
        reporter.line(harmless(line))
    counts = report.totals
    parts = {
        "passed": counts.passed,
        "failed": counts.failed,
        "could not be evaluated": counts.errored,
        "not run": counts.not_run,
        "quarantined": counts.quarantined,
    }
    listed = ", ".join(f"{count:,} {name}" for name, count in parts.items() if count)
    reporter.line(f"{plural(counts.cases, 'case')}{': ' if listed else ''}{listed}; results in {output}")
    green = report.exit_code == 0
    reporter.line(harmless(phrases.headline(view)), green=green, red=not green, bold=True)
    if not green:
        reporter.line(harmless(f"{phrases.next_label(view)}: {phrases.next_text(phrases.next_step(view))}."))
    reporter.line(f"verdict: {report.verdict}, exit code {report.exit_code}")
    if passed_again:
        reporter.line(
            f"{plural(len(passed_again), 'case')} passed when run again alone; the verdict is that of the first run"
        )
