"""Why nothing is written."""

from __future__ import annotations

from collections.abc import Sequence

from agent_eval.core.problem import Problem, Severity


class Refused(Exception):
    """Nothing is written, for these reasons."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(problem.message for problem in problems))
        self.problems = tuple(problems)

    @property
    def text(self) -> str:
        """The reasons with their places and hints."""
        return "\n".join(map(str, self.problems))


def error(code: str, message: str, hint: str | None = None, *, file: str | None = None) -> Refused:
    """The refusal for one reason; see `Problem`."""
    return Refused([Problem(severity=Severity.ERROR, code=code, message=message, hint=hint, file=file)])
