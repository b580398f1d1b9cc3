"""The hooks of a session in which evals are collected."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Callable, Generator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent_eval.api import EngineOutcome, InvalidOptions, default_options, engine_request, run_engine
from agent_eval.pytest_plugin._fixture import flags_of, root_of
from agent_eval.pytest_plugin._items import NO_CASES, CaseItem, EvalFile, EvalItem, selectors
from agent_eval.pytest_plugin._shared_run import SharedRun
from agent_eval_scoring.core.problem import errors_of
from agent_eval_scoring.core.selectors import select
from agent_eval_scoring.core.text import plural
from agent_eval_scoring.evalset.discovery import SUFFIXES, discover
from agent_eval_scoring.evalset.loading import load_suite
from agent_eval_scoring.evalset.models import LoadedFile, Suite
from agent_eval_scoring.evalset.paths import absolute

if TYPE_CHECKING:
    from agent_eval.pytest_plugin._outcomes import CaseOutcome

_SHARED = "adk_evals_directory"
_FILES = "adk_evals_files"
_SELECTED = "adk_evals_selected"
_GREEN = frozenset({pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED})
"""No item has failed."""


class EvalSession:
    """Collects and runs the evals of one process of pytest."""

    def __init__(self, config: pytest.Config) -> None:
        """Reads the settings.

        Raises:
            pytest.UsageError: They are invalid.
        """
        self.config = config
        self.root = absolute(root_of(config))
        defaults = {**default_options(), "without-keys": "inconclusive"}
        try:
            self.request, self.settings = engine_request(self.root, flags_of(config), defaults)
        except InvalidOptions as error:
            raise pytest.UsageError(str(error)) from None
        self.worker: dict[str, Any] | None = getattr(config, "workerinput", None)
        directory = tempfile.mkdtemp(prefix="adk-evals-") if self.worker is None else self.worker[_SHARED]
        self.shared = SharedRun(Path(directory))
        self.items: list[CaseItem] = []
        self.files = 0
        """Number of collected eval files, without those that have no case."""
        self.selected = 0
        """Number of items of eval files that were not deselected."""
        if self.worker is None:
            config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))

    # Collection

    @cached_property
    def _discovered(self) -> dict[Path, tuple[str, ...]]:
        """The eval files that a run would select, with ids or globs of their cases."""
        targets = self.config.getini("adk_evals_paths") or self.settings.paths
        settings = self.settings
        skip = [settings.output]
        discovery = discover(self.root, targets, exclude=settings.exclude, skip=skip)
        problems = list(discovery.problems)
        if any(selector.ids for selector, _ in discovery.groups):  # A misspelt id would select nothing.
            suite = load_suite(self.root, targets, exclude=settings.exclude, skip=skip)
            problems += [problem for problem in suite.problems if problem.code == "unknown-eval-id"]
        errors = errors_of(problems)
        if errors := [problem for problem in errors if problem.code != "no-eval-files"]:
            raise pytest.UsageError("\n".join(map(str, errors)))
        return {file.path: file.ids for file in discovery.files}

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection(self) -> None:
        """Checks the paths before anything is collected."""
        self._discovered  # noqa: B018 - raises

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> EvalFile | None:
        """Collects an eval file that a run would select, or that an argument of pytest names."""
        named = file_path.name.endswith(SUFFIXES) and parent.session.isinitpath(file_path)
        if file_path not in self._discovered and not named:
            return None
        self.files += 1
        node: EvalFile = EvalFile.from_parent(parent.session, path=file_path)
        node.evals = self
        return node

    def load(self, path: Path) -> Suite:
        """Reads one eval file with the session's settings."""
        settings = self.settings
        suite = load_suite(
            self.root, [str(path)], exclude=settings.exclude, config=settings.config, tool_args=settings.tool_args
        )
        self.files -= any(problem.code == NO_CASES for problem in suite.problems)
        return suite

    def selected_ids(self, path: Path) -> Callable[[LoadedFile], set[str]] | None:
        """Selects the ids of a file's cases that `paths` name; None for all cases."""
        ids = self._discovered.get(path, ())
        return (lambda file: select([case.eval_id for case in file.cases], ids)) if ids else None

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remembers the cases that were not deselected: the engine runs them together."""
        self.items = [item for item in session.items if isinstance(item, CaseItem)]
        self.selected = sum(isinstance(item, EvalItem) for item in session.items)

    # Execution

    def outcome_of(self, item: CaseItem) -> CaseOutcome:
        """The outcome of an item. The first item that is executed starts the run of all; an item that is executed
        again (pytest-rerunfailures) runs alone.
        """
        from agent_eval.pytest_plugin._outcomes import outcome_in

        if item.executions == 1:
            return outcome_in(self.shared.outcome(lambda: self._run(self.items)), item.case_id)
        worker = "main" if self.worker is None else str(self.worker["workerid"])
        output = self.request.output / "reruns" / f"{worker}-{self._next_rerun()}"
        outcome = outcome_in(self._run([item], output_dir=str(output)), item.case_id)
        self.shared.add_rerun(item.case_id, worker, passed=outcome.kind == "pass")
        return outcome

    _reruns = 0

    def _next_rerun(self) -> int:
        self._reruns += 1
        return self._reruns

    def _run(self, items: Sequence[CaseItem], **flags: str) -> EngineOutcome:
        request = self.request.with_flags(paths=tuple(selectors(items)), **flags)
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        capture = self.config.pluginmanager.get_plugin("capturemanager")

        def show(line: str) -> None:
            if reporter is None or self.worker is not None:
                return
            if capture is None:
                reporter.write_line(line)
                return
            with capture.global_and_fixture_disabled():
                reporter.write_line(line)

        return run_engine(request, show)

    def command(self, item: CaseItem) -> str:
        """The command that runs an item alone."""
        flag = ["--adk-evals"] if self.config.getoption("adk_evals") else []
        options = [f"--adk-evals-set={option}" for option in self.config.getoption("adk_evals_set")]
        return shlex.join(["pytest", *flag, *options, item.nodeid])

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Completes the reports of cases."""
        report = yield
        if isinstance(item, CaseItem):
            item.complete(report, call.excinfo)
        return report

    # The end

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Fails a session whose verdict is not green though no item failed, and one that has nothing to evaluate."""
        if self.worker is not None:
            counts = {_FILES: self.files, _SELECTED: self.selected}
            session.config.workeroutput.update(counts)  # type: ignore[attr-defined]
            return
        if exitstatus not in _GREEN:
            return
        outcome = self.shared.stored()
        if outcome is not None and self._fails(outcome):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        elif self._nothing_evaluated:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED

    def _fails(self, outcome: EngineOutcome) -> bool:
        from agent_eval.pytest_plugin._outcomes import session_fails

        return session_fails(outcome, self.shared.passed_again())

    @property
    def _nothing_evaluated(self) -> str:
        """Why a session that was to evaluate something has evaluated nothing; "" if it has, or was only to list."""
        if self.shared.stored() is not None:
            return ""
        if self.selected:
            options = self.config.option
            if options.collectonly or getattr(options, "setuponly", False):
                return ""
            return (
                f"None of {plural(self.selected, 'eval case')} was run, so nothing was evaluated: marks of the "
                "project skip all of them. To leave evals out of a session, deselect them: -m 'not adk_eval'."
            )
        if self.config.getoption("adk_evals") and self.files == 0:
            return (
                "No eval case was collected, so nothing was evaluated. --adk-evals collects *.test.json and "
                f"*.evalset.json below pytest's arguments (or testpaths), in {self.root}."
            )
        return ""

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Writes the verdict."""
        outcome = self.shared.stored()
        if outcome is not None:
            from agent_eval.pytest_plugin._outcomes import write_summary
            from agent_eval_results import relative

            output = relative(outcome.output, self.root)
            write_summary(terminalreporter, outcome, output, self.shared.passed_again())
        elif exitstatus in _GREEN and (reason := self._nothing_evaluated):
            terminalreporter.section("ADK evals")
            terminalreporter.line(reason, red=True)

    # pytest-xdist

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: Any) -> None:
        """Gives a worker the shared directory."""
        node.workerinput[_SHARED] = str(self.shared.directory)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Takes over a worker's numbers of eval files and items."""
        counts = getattr(node, "workeroutput", None) or {}
        self.files = max(self.files, counts.get(_FILES, 0))
        self.selected = max(self.selected, counts.get(_SELECTED, 0))
