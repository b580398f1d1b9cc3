"""The nodes that pytest collects: eval files and their cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.problem import Problem
from agent_eval_scoring.core.text import first_line, harmless
from agent_eval_scoring.evalset.models import EvalCase, LoadedFile, Suite

if TYPE_CHECKING:
    from agent_eval.pytest_plugin._outcomes import CaseOutcome


NO_CASES = "no-eval-cases"
"""The code of the error for files without cases. A run accepts such a file beside others."""


class Evals(Protocol):
    """The evals of a session, as its items see them."""

    def load(self, path: Path) -> Suite:
        """Reads one eval file."""

    def selected_ids(self, path: Path) -> Callable[[LoadedFile], set[str]] | None:
        """Selects the ids of the cases to collect; None for all cases."""

    def outcome_of(self, item: CaseItem) -> CaseOutcome:
        """Runs the session's cases unless they have been run."""

    def command(self, item: CaseItem) -> str:
        """The command that runs an item alone."""


class CaseFailed(AgentEvalError):
    """A case did not pass. The message is the report."""


class CaseErrored(AgentEvalError):
    """A case could not be evaluated."""


@dataclass(frozen=True)
class _Place:
    """Where and why an item failed, for the short summary and JUnit; as `ReprFileLocation` of pytest."""

    path: str
    lineno: int
    message: str


class _Report:
    """The text of a failure, as pytest's own representations of exceptions."""

    def __init__(self, text: str, place: _Place) -> None:
        self.text = text
        self.reprcrash = place

    def __str__(self) -> str:
        return self.text

    def toterminal(self, tw: Any) -> None:
        """Writes the text."""
        for line in self.text.split("\n"):
            tw.line(line)


class EvalItem(pytest.Item):
    """An item with a place in an eval file."""

    line: int | None = None

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """The place. pytest would show dots in the name as `::`."""
        return self.path, self.line - 1 if self.line else 0, self.name.replace(".", "_")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report of a case instead of a traceback."""
        if not isinstance(excinfo.value, CaseFailed | CaseErrored):
            return super().repr_failure(excinfo, style)
        summary, _, details = str(excinfo.value).partition("\n")
        return _Report(details or summary, _Place(str(self.path), self.line or 1, summary))


class CaseItem(EvalItem):
    """An eval case."""

    def __init__(self, *, evals: Evals, eval_id: str, file: str, **keywords: Any) -> None:
        """Made with `from_parent`.

        Args:
            evals: Runs the cases of the session.
            eval_id: The id in the file.
            file: The file's name in results, relative to the root.
            **keywords: Those of pytest.Item.
        """
        super().__init__(**keywords)
        self.evals = evals
        self.eval_id = eval_id
        self.file = file
        self.executions = 0
        self.outcome: CaseOutcome | None = None
        self.add_marker(pytest.mark.adk_eval)

    @property
    def case_id(self) -> str:
        """`FILE:EVAL_ID`, as in results."""
        return f"{self.file}:{self.eval_id}"

    def setup(self) -> None:
        """Runs the session's cases unless they have been run. What could not be evaluated is an error or a skip."""
        if self.config.getoption("setuponly", False):
            return
        self.executions += 1
        outcome = self.outcome = self.evals.outcome_of(self)
        self.user_properties[:] = outcome.properties
        if outcome.kind == "skip":
            raise pytest.skip.Exception(outcome.reason)
        if outcome.kind == "error":
            raise CaseErrored(f"{outcome.reason}\n{harmless(outcome.text)}")
        if outcome.expected_failure:
            self.add_marker(pytest.mark.xfail(reason=outcome.expected_failure, strict=False))

    def runtest(self) -> None:
        """Fails if the case did."""
        outcome = self.outcome
        if outcome is not None and outcome.kind == "fail":
            again = f"Run this case alone: {self.evals.command(self)}"
            raise CaseFailed(f"{outcome.reason}\n{harmless(outcome.text)}\n\n{again}")

    def complete(self, report: pytest.TestReport, excinfo: pytest.ExceptionInfo[BaseException] | None) -> None:
        """Completes a report.

        It gets the case's own duration, because the first item waits for all cases; an error in the setup gets the
        case's report, because pytest shows a traceback there; a skip gets the case's place.
        """
        if self.outcome is None:
            return
        ends_here = report.when == "call" or (report.when == "setup" and not report.passed)
        report.duration = self.outcome.duration if ends_here else 0.0
        if excinfo is not None and isinstance(excinfo.value, CaseErrored):
            report.longrepr = self.repr_failure(excinfo)
        elif report.when == "setup" and report.skipped:
            report.longrepr = (str(self.path), self.line or 1, f"Skipped: {self.outcome.reason}")


class InvalidItem(EvalItem):
    """An eval file with errors. It fails with all of them; the other files are run."""

    def __init__(self, *, problems: Sequence[Problem], **keywords: Any) -> None:
        """Made with `from_parent`."""
        super().__init__(**keywords)
        self.problems = problems
        self.add_marker(pytest.mark.adk_eval)
        self.line = next((problem.line for problem in problems if problem.line is not None), None)

    def runtest(self) -> None:
        """Fails with the problems."""
        if not self.config.getoption("setuponly", False):
            lines = "\n".join(map(str, self.problems))
            raise CaseFailed(harmless(f"{first_line(self.problems[0].message)}\n{lines}"))


class EvalFile(pytest.File):
    """An eval file.

    Its parent is the session. Below a `Package` node, pytest would import the package at setup: eval files are inside
    agent packages, and the agent would be imported into pytest's process.
    """

    evals: Evals

    def collect(self) -> Iterable[pytest.Item]:
        """The cases, or one failing item."""
        suite = self.evals.load(self.path)
        errors = [problem for problem in suite.errors if problem.code != NO_CASES]
        if errors:
            yield InvalidItem.from_parent(self, name="invalid", problems=errors)
            return
        ids = self.evals.selected_ids(self.path)
        for file in suite.files:
            for case in file.cases:
                if ids is None or case.eval_id in ids(file):
                    yield self._item(file.path, case, file.lines.get(case.eval_id))

    def _item(self, file: str, case: EvalCase, line: int | None) -> CaseItem:
        eval_id = case.eval_id
        name = " ".join(harmless(eval_id.replace("::", ":")).split())  # pytest splits an argument at `::`.
        # As a text: what pytest reads back (`--lf`) is parsed, and pytest 9 takes a bracket for parameters.
        node_id = f"{self.nodeid}::{name}"
        item: CaseItem = CaseItem.from_parent(
            self, name=name, nodeid=node_id, evals=self.evals, eval_id=eval_id, file=file
        )
        item.line = line
        tags = (case.model_extra or {}).get("tags")
        item.extra_keyword_matches.update(tag for tag in tags or () if isinstance(tag, str))
        return item


def selectors(items: Sequence[CaseItem]) -> Iterable[str]:
    """`FILE:ID,ID` for each file of the items."""
    by_file: dict[str, list[str]] = {}
    for item in items:
        by_file.setdefault(item.file, []).append(pattern(item.eval_id))
    for file, patterns in by_file.items():
        yield f"{file}:{','.join(dict.fromkeys(patterns))}"


def pattern(eval_id: str) -> str:
    """An id or a glob that names it.

    A comma separates ids, and spaces around an id are removed. Such an id is written with `?` for each character that
    has a meaning.
    """
    if "," not in eval_id and eval_id == eval_id.strip():
        return eval_id
    return "".join("?" if char in ",*?[" or char.isspace() else char for char in eval_id)
