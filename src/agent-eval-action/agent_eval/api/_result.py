"""The result of a run, for Python code."""

from __future__ import annotations

from collections.abc import Coroutine, Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, Self

from agent_eval.api._engine import EngineOutcome
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.selectors import nearby
from agent_eval_scoring.core.text import shorten

if TYPE_CHECKING:
    from agent_eval_results import AgentChange, CaseReport, CaseStatus, CauseReport, RunReport, VerdictValue
    from agent_eval_results.data.outcome import RunOutcome

_LONGEST_TEXT = 30_000


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """One eval case over all its runs."""

    report: CaseReport
    """Everything that results.json has about the case (docs/results.md)."""

    @property
    def case_id(self) -> str:
        """`FILE:EVAL_ID`."""
        return self.report.case_id

    @property
    def eval_id(self) -> str:
        """The id in the eval file."""
        return self.report.eval_id

    @property
    def status(self) -> CaseStatus:
        """passed, failed, errored (could not be evaluated), not_run or quarantined."""
        return self.report.status

    @property
    def passed(self) -> bool:
        """Whether every gating metric reached its threshold in enough runs."""
        return self.report.passed

    def __bool__(self) -> bool:
        """Whether it passed, for `assert`."""
        return self.passed

    @property
    def reason(self) -> str:
        """Why it did not pass; "" if it passed."""
        return self.report.reason.message if self.report.reason is not None else ""

    @property
    def duration(self) -> float:
        """Wall-clock seconds of all runs."""
        return self.report.duration

    @property
    def scores(self) -> Mapping[str, float | None]:
        """Mean score over the runs by metric; None if the metric could not be evaluated."""
        return {metric.name: metric.score for metric in self.report.metrics}

    def score(self, metric: str) -> float | None:
        """The mean score of a metric over the runs; None if it could not be evaluated.

        Raises:
            KeyError: The case has no such metric.
        """
        if metric not in self.scores:
            raise KeyError(f"{self.case_id} has no metric {metric!r}. It has {', '.join(self.scores) or 'none'}.")
        return self.scores[metric]

    @property
    def text(self) -> str:
        """The scores and, if it did not pass, what went wrong turn by turn. Safe to print."""
        from agent_eval_results.report.renderers import explanation_lines, score_lines
        from agent_eval_results.report.views import visible

        lines = list(score_lines(self.report))
        if not self.passed:
            lines += list(explanation_lines(self.report))[1:]
        return shorten(visible("\n".join(lines)), _LONGEST_TEXT)


class Cases(Mapping[str, CaseResult]):
    """The cases of a run by case id (`FILE:EVAL_ID`). An eval id that is unique in the run is a key, too."""

    def __init__(self, reports: list[CaseReport]) -> None:
        """Takes the cases in the order of the report."""
        self._by_id = {report.case_id: CaseResult(report=report) for report in reports}

    def __getitem__(self, key: str) -> CaseResult:
        if key in self._by_id:
            return self._by_id[key]
        matches = [case for case in self._by_id.values() if case.eval_id == key]
        if len(matches) == 1:
            return matches[0]
        names = [case.case_id for case in matches] or nearby(key, [case.eval_id for case in self._by_id.values()])
        names = names or list(self._by_id)[:5]
        problem = "is ambiguous" if matches else "is no case of this run"
        raise KeyError(f"{key!r} {problem}. Use {' or '.join(map(repr, names))}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)


class Finished(Coroutine[Any, Any, Any]):
    """It can be awaited, and is its own result.

    `asyncio.run`, `create_task` and `gather` accept it, too. Unlike a native coroutine, it has run even if it isn't
    awaited.
    """

    def __await__(self) -> Generator[Any, Any, Self]:
        return self
        yield

    def send(self, value: Any, /) -> Never:
        """Ends the coroutine with its result."""
        raise StopIteration(self)

    def throw(self, kind: Any, value: Any = None, traceback: TracebackType | None = None, /) -> Never:
        """Raises the exception."""
        raise kind if value is None else value

    def close(self) -> None:
        """Does nothing: everything is done."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EvalResult(Finished):
    """The result of a run, which can be awaited."""

    report: RunReport
    """Everything that results.json has (docs/results.md)."""
    output: Path | None = None
    """The directory with the result files; None if it was temporary and is removed."""

    def __bool__(self) -> bool:
        """Whether the run is green, as `check` decides, for `assert`."""
        return self.exit_code == 0

    def __repr__(self) -> str:
        """Without the report, which pytest would show of a failed assertion."""
        return f"EvalResult(verdict={self.verdict!r}, exit_code={self.exit_code})"

    @property
    def verdict(self) -> VerdictValue:
        """passed, failed, inconclusive or invalid."""
        return self.report.verdict

    @property
    def outcome(self) -> RunOutcome | None:
        """The headline, what to do next (`next`) and counts, as codes with data and a `message`."""
        return self.report.outcome

    @property
    def text(self) -> str:
        """The console report: what failing cases share, the verdict last. Safe to print."""
        from agent_eval_results import FILES
        from agent_eval_results.report.renderers import console

        files = {} if self.output is None else {"results": str(self.output / FILES["results-file"])}
        return console(self.report, files=files, kept=self.output is not None)

    @property
    def exit_code(self) -> int:
        """0 passed, 1 failed, 2 invalid, 3 inconclusive; 0 for an inconclusive run with `on_inconclusive="pass"`."""
        assert self.report.exit_code is not None  # Every run of the engine writes it.
        return self.report.exit_code

    @property
    def cases(self) -> Cases:
        """The cases by case id or eval id."""
        return Cases(self.report.cases)

    @property
    def causes(self) -> list[CauseReport]:
        """What failing cases have in common, the largest group first; each has a `message`, data and `cases`."""
        return self.report.causes

    @property
    def agent_changes(self) -> list[AgentChange]:
        """What differs between the base branch's agent and this one, e.g. a tool's source; each has a `message`."""
        return self.report.agent_changes

    def score(self, metric: str) -> float | None:
        """The mean score of a metric over all cases that have one; None if no case has.

        Raises:
            KeyError: No case has such a metric.
        """
        metrics = [entry for case in self.report.cases for entry in case.metrics]
        if all(entry.name != metric for entry in metrics):
            names = ", ".join(dict.fromkeys(entry.name for entry in metrics)) or "none"
            raise KeyError(f"No case has the metric {metric!r}. The metrics are {names}.")
        scores = [entry.score for entry in metrics if entry.name == metric and entry.score is not None]
        return fmean(scores) if scores else None

    def check(self) -> None:
        """Raises the verdict unless the exit code is 0.

        Raises:
            EvalFailed: A case failed.
            EvalInconclusive: Nothing failed, but not everything could be evaluated.
            EvalInvalid: An eval file, a config or a setting is wrong. Nothing was run.
        """
        __tracebackhide__ = True
        if self.exit_code != 0:
            kinds = {"failed": EvalFailed, "inconclusive": EvalInconclusive, "invalid": EvalInvalid}
            raise kinds.get(self.verdict, EvalFailed)(self)


class _Verdict(AgentEvalError, AssertionError):
    """A verdict other than passed."""

    def __init__(self, result: EvalResult) -> None:
        """The message is the console report."""
        super().__init__(f"the evals did not pass: {result.verdict} (exit code {result.exit_code})\n{result.text}")
        self.result = result


class EvalFailed(_Verdict):
    """A score is below its threshold, or the agent failed."""


class EvalInconclusive(_Verdict):
    """Nothing failed, but some cases could not be evaluated, e.g. because a model provider was unavailable."""


class EvalInvalid(_Verdict):
    """An eval file, a config or a setting is wrong. Nothing was run."""


def result_of(outcome: EngineOutcome, *, output: Path | None) -> EvalResult:
    """The result of a run of the engine.

    Args:
        outcome: What the engine left.
        output: The directory with the result files; None if it is removed.

    Raises:
        RuntimeError: The engine ended without results.
    """
    if outcome.report is None:
        raise RuntimeError(
            f"agent-eval ended with exit code {outcome.exit_code} and no results, so there is no verdict.\n"
            f"{outcome.log}\n{outcome.console}".rstrip()
        )
    return EvalResult(report=outcome.report, output=output)
