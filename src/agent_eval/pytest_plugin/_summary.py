"""The end of a session: the section with the verdict, and whether the session fails."""

from __future__ import annotations

from collections.abc import Set

import pytest

from agent_eval.api import EngineOutcome
from agent_eval.core.text import harmless, plural
from agent_eval.report.views import grouping, headline, other_reasons
from agent_eval.results import RunReport

_MOST_PROBLEMS = 10


def session_fails(outcome: EngineOutcome, passed_again: Set[str]) -> bool:
    """Whether the verdict fails the session, even if no item failed.

    Args:
        outcome: The run of all cases.
        passed_again: Ids of the cases that were run again alone, and passed.
    """
    if outcome.exit_code == 0:
        return False
    report = outcome.report
    if report is None or report.verdict == "invalid":
        return True
    responsible = _responsible(report)
    return not responsible or not responsible <= passed_again


def _responsible(report: RunReport) -> set[str]:
    """The cases because of which the verdict is not green; empty if it is for another reason."""
    blocking = grouping.blocking_ids(report)
    unsettled = {
        case.case_id
        for case in report.cases
        if case.status in {"failed", "errored", "not_run"} and not grouping.is_excused(case, report, blocking)
    }
    return unsettled | {case.case_id for case in report.cases if case.case_id in blocking}


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
    base = grouping.base_comparison(report)
    for problem in [problem for problem in report.problems if problem.severity != "notice"][:_MOST_PROBLEMS]:
        where = ":".join(str(part) for part in (problem.file, problem.line) if part is not None)
        reporter.line(harmless(f"{where + ': ' if where else ''}{problem.severity} [{problem.code}] {problem.message}"))
    for line in [*report.warnings, *report.notices, *other_reasons(report, base)]:
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
    reporter.line(harmless(headline(report, base)), green=green, red=not green, bold=True)
    reporter.line(f"verdict: {report.verdict}, exit code {report.exit_code}")
    if passed_again:
        reporter.line(
            f"{plural(len(passed_again), 'case')} passed when run again alone; the verdict is that of the first run"
        )
