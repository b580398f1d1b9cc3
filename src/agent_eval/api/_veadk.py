"""VeADK's `ADKEvaluator`, with the same arguments.

Source of names and defaults: veadk-python 1.1.19, veadk/evaluation/adk_evaluator.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agent_eval.api._agent_evaluator import agent_location
from agent_eval.api._result import EvalResult, Finished
from agent_eval.api._run import run, test_files

_ADK_SETTLED = ("passed", "failed")


@dataclass(frozen=True, kw_only=True)
class MetricScore:
    """The score of one metric of one case."""

    case_id: str
    metric_name: str
    threshold: float | None
    overall_score: float | None
    """Mean over the runs."""
    passed: bool


class _Outcome(tuple[list[list[MetricScore]], list[str]], Finished[tuple[list[list[MetricScore]], list[str]]]):
    """`(results, failures)`, which can be awaited."""

    def _awaited(self) -> tuple[list[list[MetricScore]], list[str]]:
        return self


class ADKEvaluator:
    """Stands in for VeADK's class: only the import of an existing script changes."""

    def __init__(self, agent: object, name: str = "veadk_adk_evaluator") -> None:
        """Finds the agent's source, because the agent runs in a process of its own.

        Args:
            agent: The dotted name or directory of an agent, or an agent object that is a global variable of an imported
                module, e.g. `root_agent`.
            name: Without effect.

        Raises:
            TypeError: The agent object is no global variable of a module with a file.
        """
        self.name = name
        self._agent = agent_location(agent, Path.cwd()) if isinstance(agent, str) else _source_of(agent)

    def evaluate(
        self,
        eval_set: object = None,
        eval_set_file_path: str | os.PathLike[str] | None = None,
        eval_id: str = "",
        tool_score_threshold: float = 1.0,
        response_match_score_threshold: float = 0.8,
        num_runs: int = 2,
        print_detailed_results: bool = True,
        check: bool = True,
    ) -> _Outcome:
        """Evaluates the agent by tool trajectory (exact) and ROUGE-1 response match.

        `test_config.json` is ignored, as in VeADK. Runs at once; the result can be awaited. Unlike VeADK, it runs each
        case `num_runs` times, and raises if the agent does not pass: a test without an assertion would be green.

        Args:
            eval_set: An eval set as a pydantic model of ADK or as a mapping; has precedence over the file.
            eval_set_file_path: An eval file, or a directory, of which all `*.test.json` are run.
            eval_id: Without effect.
            tool_score_threshold: Threshold of `tool_trajectory_avg_score`, 0..1.
            response_match_score_threshold: Threshold of `response_match_score`, 0..1.
            num_runs: Runs of each case.
            print_detailed_results: Whether to print the report.
            check: Whether to raise if a case failed. False: look at the failures.

        Returns:
            `(results, failures)`: for each eval file the scores of its cases, and a sentence for each failed case and
            metric. No failures mean that the agent passed.

        Raises:
            ValueError: Neither an eval set nor a file is given.
            EvalFailed: A case failed.
            EvalInconclusive: Nothing failed, but not everything could be evaluated.
            EvalInvalid: An eval file is wrong. Nothing was run.
        """
        __tracebackhide__ = True
        if eval_set is None and eval_set_file_path is None:
            raise ValueError("eval_set or eval_set_file_path is required")
        with tempfile.TemporaryDirectory(prefix="agent-eval-") as folder:
            criteria = {
                "tool_trajectory_avg_score": tool_score_threshold,
                "response_match_score": response_match_score_threshold,
            }
            config = Path(folder, "test_config.json")
            config.write_text(json.dumps({"criteria": criteria}), "utf-8")
            path = Path(os.fspath(eval_set_file_path)) if eval_set_file_path is not None else Path(folder)
            if eval_set is not None:
                path = Path(folder, "eval_set.evalset.json")
                path.write_text(_as_json(eval_set), "utf-8")
            result = run(
                test_files(path),
                check=False,
                agent=self._agent,
                config=config,
                num_runs=num_runs,
            )
        if print_detailed_results:
            print(result.text)  # noqa: T201 - as in VeADK
        if check or result.verdict != "failed":
            result.check()
        return _Outcome(_results_and_failures(result))


def _results_and_failures(result: EvalResult) -> tuple[list[list[MetricScore]], list[str]]:
    by_file: dict[str, list[MetricScore]] = {file.file: [] for file in result.report.files}
    failures = []
    for case in result.report.cases:
        scores = [
            MetricScore(
                case_id=case.case_id,
                metric_name=metric.name,
                threshold=metric.threshold,
                overall_score=metric.score,
                passed=metric.status == "passed",
            )
            for metric in case.metrics
            if metric.threshold is not None
        ]
        by_file.setdefault(case.file, []).extend(scores)
        failed = [
            f"{score.metric_name} for {case.case_id} Failed. Expected {score.threshold}, but got {score.overall_score}."
            for score in scores
            if not score.passed
        ]
        if case.status not in _ADK_SETTLED or (case.status == "failed" and not failed):
            reason = case.reason.message if case.reason is not None else case.status
            failed.append(f"{case.case_id} Failed. {reason}")
        failures += failed
    return list(by_file.values()), failures


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
