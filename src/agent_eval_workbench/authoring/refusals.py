"""Why the expectation of a case is not changed: problems with a code of docs/problems.md."""

from __future__ import annotations

from agent_eval.core.problem import Problem, Severity
from agent_eval.results import CaseReport


class CaseRefused(Exception):
    """A case is left as it is."""

    def __init__(self, problem: Problem, case: CaseReport) -> None:
        super().__init__(problem.message)
        self.problem = problem
        self.case = case


def refuse(code: str, case: CaseReport, message: str, hint: str, severity: Severity = Severity.ERROR) -> CaseRefused:
    """The refusal of a case.

    Args:
        code: A code of docs/problems.md.
        case: The case.
        message: A sentence that begins in lower case and continues `FILE:EVAL_ID`.
        hint: What to do instead.
        severity: A notice if nothing is left to do.
    """
    problem = Problem(severity=severity, code=code, message=f"`{case.eval_id}` {message}", hint=hint, file=case.file)
    return CaseRefused(problem, case)
