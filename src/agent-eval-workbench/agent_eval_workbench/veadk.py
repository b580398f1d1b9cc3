"""VeADK's `ADKEvaluator` and `DeepevalEvaluator` with the same calls: only the import of an existing test changes.

Source of names, defaults and variables: veadk-python 1.1.19, veadk/evaluation. Unlike VeADK's, both run the agent in a
process of its own and raise if it does not pass: a test without an assertion would be green. They run at once, so that
a forgotten `await` changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agent_eval.api import EvalResult, Finished, agent_location, run, test_files
from agent_eval.commands.stored_run import expected_cases, recording_store
from agent_eval_scoring.core.errors import AgentEvalError


@dataclass(frozen=True, kw_only=True)
class Score:
    """The score of one metric."""

    case_id: str
    """`FILE:EVAL_ID`."""
    turn: int | None = None
    """0-based; None for the whole case."""
    metric_name: str
    threshold: float | None
    overall_score: float | None
    """0 to 1; None if it could not be measured."""
    passed: bool
    reason: str = ""
    """The judge's words, or why there is no score."""


class Outcome(tuple[list[list[Score]], list[str]], Finished):
    """`(results, failures)` as VeADK's: the scores of each eval file, and a sentence for each failure."""

    __slots__ = ()


class Scores(list[Score], Finished):
    """The scores of all turns, in the order of the cases."""


class MetricsFailed(AgentEvalError, AssertionError):
    """A metric failed, or could not be measured. `scores` has them all."""

    def __init__(self, scores: Sequence[Score]) -> None:
        """The message has a line for each score that did not pass."""
        self.scores = scores
        lines = [
            f"{score.case_id}, turn {(score.turn or 0) + 1}: {score.metric_name} "
            + ("could not be measured" if score.overall_score is None else f"{score.overall_score:.2f} failed")
            + (f": {' '.join(score.reason.split())}" if score.reason else "")
            for score in scores
            if not score.passed
        ]
        super().__init__("\n".join(lines))


class _Evaluator:
    def __init__(self, agent: object, name: str) -> None:
        self.name = name
        self.agent = agent
        self._agent = agent_location(agent, Path.cwd()) if isinstance(agent, str) else _source_of(agent)

    @contextmanager
    def _run(
        self, eval_set: object, path: str | os.PathLike[str] | None, criteria: Mapping[str, Any], num_runs: int = 1
    ) -> Iterator[tuple[EvalResult, Path]]:
        """The result of a run with these criteria, and its directory, which stays until the block ends."""
        if eval_set is None and path is None:
            raise ValueError("eval_set or eval_set_file_path is required")
        with tempfile.TemporaryDirectory(prefix="agent-eval-") as folder:
            config = Path(folder, "test_config.json")
            config.write_text(json.dumps({"criteria": criteria}), "utf-8")
            file = Path(os.fspath(path)) if path is not None else Path(folder)
            if eval_set is not None:  # As in VeADK, it has precedence.
                file = Path(folder, "eval_set.evalset.json")
                file.write_text(_as_json(eval_set), "utf-8")
            output = Path(folder, "results")
            result = run(
                test_files(file), check=False, agent=self._agent, config=config, num_runs=num_runs, output_dir=output
            )
            yield replace(result, output=None), output  # Texts must not name what is removed.


class ADKEvaluator(_Evaluator):
    """VeADK's evaluator by tool trajectory and ROUGE-1."""

    def __init__(self, agent: object, name: str = "veadk_adk_evaluator") -> None:
        """Finds the agent's source, because the agent runs in a process of its own.

        Args:
            agent: The dotted name or directory of an agent, or an agent object that is a global variable of an imported
                agent.py or __init__.py, e.g. `root_agent`.
            name: Without effect.

        Raises:
            TypeError: The agent object is no such variable.
        """
        super().__init__(agent, name)

    def evaluate(
        self,
        eval_set: object = None,
        eval_set_file_path: str | os.PathLike[str] | None = None,
        eval_id: str = "",
        tool_score_threshold: float = 1.0,
        response_match_score_threshold: float = 0.8,
        num_runs: int = 2,
        print_detailed_results: bool = True,
        *,
        check: bool = True,
    ) -> Outcome:
        """Evaluates the agent by `tool_trajectory_avg_score` (exact) and `response_match_score`.

        `test_config.json` is ignored, as in VeADK.

        Args:
            eval_set: An eval set as a pydantic model of ADK or as a mapping; has precedence over the file.
            eval_set_file_path: An eval file, or a directory, of which all `*.test.json` are run.
            eval_id: Without effect.
            tool_score_threshold: 0 to 1.
            response_match_score_threshold: 0 to 1.
            num_runs: Runs of each case.
            print_detailed_results: Whether to print the report.
            check: Whether to raise if a case failed. False: look at the failures.

        Raises:
            ValueError: Neither an eval set nor a file is given.
            EvalFailed: A case failed.
            EvalInconclusive: Nothing failed, but not everything could be evaluated; also without `check`.
            EvalInvalid: An eval file is wrong. Nothing was run.
        """
        __tracebackhide__ = True
        criteria = {
            "tool_trajectory_avg_score": tool_score_threshold,
            "response_match_score": response_match_score_threshold,
        }
        with self._run(eval_set, eval_set_file_path, criteria, num_runs) as (result, _):
            if print_detailed_results:
                print(result.text)  # noqa: T201 - as in VeADK
            if check or not result.report.failed:
                result.check()
            return Outcome(_results_and_failures(result))


def _results_and_failures(result: EvalResult) -> tuple[list[list[Score]], list[str]]:
    by_file: dict[str, list[Score]] = {file.file: [] for file in result.report.files}
    failures = []
    for case in result.report.cases:
        scores = [
            Score(
                case_id=case.case_id,
                metric_name=metric.name,
                threshold=metric.threshold,
                overall_score=metric.score,
                passed=metric.passed,
            )
            for metric in case.metrics
            if metric.threshold is not None
        ]
        by_file[case.file] += scores
        failed = [
            f"{score.metric_name} for {case.case_id} Failed. Expected {score.threshold}, but got {score.overall_score}."
            for score in scores
            if not score.passed
        ]
        if not case.passed and not failed:  # e.g. the agent raised
            failed.append(f"{case.case_id} Failed. {case.reason.message if case.reason is not None else case.status}")
        failures += failed
    return list(by_file.values()), failures


class DeepevalEvaluator(_Evaluator):
    """VeADK's evaluator by metrics of DeepEval, which are objects of the test. Needs deepeval and google-adk here."""

    def __init__(
        self,
        agent: object,
        judge_model_api_key: str = "",
        judge_model_name: str = "",
        judge_model_api_base: str = "",
        name: str = "veadk_deepeval_evaluator",
    ) -> None:
        """Makes the judge: `judge_model`, for metrics that take a `model`.

        Args:
            agent: As for `ADKEvaluator`.
            judge_model_api_key: Default: MODEL_JUDGE_API_KEY, else MODEL_AGENT_API_KEY.
            judge_model_name: Default: MODEL_JUDGE_NAME, else doubao-seed-1-6-250615.
            judge_model_api_base: Default: MODEL_JUDGE_API_BASE, else https://ark.cn-beijing.volces.com/api/v3/.
            name: Without effect.

        Raises:
            TypeError: As for `ADKEvaluator`.
        """
        super().__init__(agent, name)
        from deepeval.models import LocalModel

        import agent_eval_deepeval  # noqa: F401 - switches telemetry off before deepeval is imported

        environ = os.environ
        self.judge_model = LocalModel(
            model=judge_model_name or environ.get("MODEL_JUDGE_NAME") or "doubao-seed-1-6-250615",
            base_url=judge_model_api_base
            or environ.get("MODEL_JUDGE_API_BASE")
            or "https://ark.cn-beijing.volces.com/api/v3/",
            api_key=judge_model_api_key
            or environ.get("MODEL_JUDGE_API_KEY")
            or environ.get("MODEL_AGENT_API_KEY")
            or "none",
        )

    def evaluate(
        self,
        metrics: Sequence[Any],
        eval_set: object = None,
        eval_set_file_path: str | os.PathLike[str] | None = None,
        eval_id: str = "",
        *,
        check: bool = True,
    ) -> Scores:
        """Runs the agent once on each case, and measures every turn with every metric.

        Args:
            metrics: Objects of `deepeval.metrics` classes for single turns.
            eval_set: As for `ADKEvaluator.evaluate`.
            eval_set_file_path: Likewise.
            eval_id: Without effect.
            check: Whether to raise if a metric failed or could not be measured.

        Raises:
            ValueError: Neither an eval set nor a file is given, or there are no metrics.
            MetricsFailed: A metric failed, or could not be measured.
            EvalFailed: The agent failed in a case. `EvalInconclusive`, `EvalInvalid`: as for `ADKEvaluator`.
        """
        __tracebackhide__ = True
        if not metrics:
            raise ValueError("metrics is empty")
        # Each run is recorded; this criterion passes with any score.
        with self._run(eval_set, eval_set_file_path, {"tool_trajectory_partial": 0.0}) as (result, output):
            result.check()
            scores = Scores(_in_own_loop(_measured(result, output, metrics)))
        if check and any(not score.passed for score in scores):
            raise MetricsFailed(scores)
        return scores


async def _measured(result: EvalResult, output: Path, metrics: Sequence[Any]) -> list[Score]:
    from agent_eval_deepeval import measure, turn_cases

    scores = []
    with recording_store(output) as store:
        cases = expected_cases(result.report.cases, output, Path.cwd())
        for report in result.report.cases:
            recording = store.get(report.runs[0].run_id)
            assert recording is not None  # `check`: every case was run.
            actual = recording.invocations  # Not ADK's: an older google-adk refuses what newer ones record.
            expected: Sequence[Any] = cases[report.case_id].conversation or [None] * len(actual)
            for turn, case in enumerate(turn_cases(actual, expected, {})):
                for metric in metrics:
                    score, status, reason = await measure(metric, case)
                    scores.append(
                        Score(
                            case_id=report.case_id,
                            turn=turn,
                            metric_name=str(getattr(metric, "name", None) or type(metric).__name__),
                            threshold=getattr(metric, "threshold", None),
                            overall_score=score,
                            passed=status.name == "PASSED",
                            reason=reason,
                        )
                    )
    return scores


def _in_own_loop(work: Coroutine[Any, Any, list[Score]]) -> list[Score]:
    """Runs a coroutine to its end, also where an event loop runs already, e.g. in a test with pytest-asyncio."""
    done: list[list[Score]] = []
    raised: list[BaseException] = []

    def target() -> None:
        try:
            done.append(asyncio.run(work))
        except BaseException as error:  # for the caller's thread
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return done[0]


def _as_json(eval_set: object) -> str:
    if isinstance(eval_set, Mapping):
        return json.dumps(eval_set)
    dump = getattr(eval_set, "model_dump_json", None)
    if dump is None:
        raise TypeError(f"eval_set must be an eval set of ADK or a mapping, not {type(eval_set).__name__}")
    return str(dump(by_alias=False, exclude_none=True))


def _source_of(agent: object) -> str:
    """The directory of the module that has an agent as a global variable, preferably as `root_agent`."""
    holders = [
        (name != "root_agent", str(file))
        for module in list(sys.modules.values())
        if (file := getattr(module, "__file__", None)) is not None
        for name, value in list(vars(module).items())
        if value is agent
    ]
    # A test that imports the agent holds it, too: its directory is no agent, unlike that of `agent.py`.
    agents = [file for _, file in sorted(holders) if Path(file).name in {"agent.py", "__init__.py"}]
    if not agents:
        raise TypeError(
            f"The source of this {type(agent).__name__} can't be found: it is no global variable of an agent.py or "
            "__init__.py. Pass the agent's dotted module name or directory instead."
        )
    return str(Path(agents[0]).parent)
