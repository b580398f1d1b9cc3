"""ADK's `AgentEvaluator`, with the same parameters.

Source of names, defaults and meaning: google-adk 2.13.0, evaluation/agent_evaluator.py.
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from agent_eval.api._result import EvalResult
from agent_eval.api._run import run, test_files
from agent_eval_scoring.core.problem import docs_page


def evaluate(
    agent_module: str,
    eval_dataset_file_path_or_dir: str | os.PathLike[str],
    num_runs: int = 2,
    agent_name: str | None = None,
    initial_session_file: str | os.PathLike[str] | None = None,
    print_detailed_results: bool = True,
    artifact_service: object = None,
    output_file: str | os.PathLike[str] | None = None,
    app_name: str | None = None,
    eval_set_results_manager: object = None,
    **settings: Any,
) -> EvalResult:
    """Evaluates an agent with the parameters of ADK's `AgentEvaluator.evaluate`.

    In ADK this is a coroutine: a call that isn't awaited does nothing, and its test is green. This function runs at
    once and raises if the agent does not pass. Its result can be awaited, so both forms are right.

    Args:
        agent_module: Dotted name of the agent's module or package, searched in the current directory and in `sys.path`
            without importing it; or a directory.
        eval_dataset_file_path_or_dir: An eval file, or a directory, of which all `*.test.json` are run, also those in
            subdirectories.
        num_runs: Runs of each case.
        agent_name: Name of the agent in the tree to evaluate as the root. None: the root agent.
        initial_session_file: JSON file with the initial session of legacy test files.
        print_detailed_results: Whether to print the report.
        artifact_service: Must be None: the agent runs in a process of its own, to which no object can be passed.
        output_file: A CSV file to which the rows of `agent-eval export csv` are appended. Its first eleven columns are
            ADK's.
        app_name: Without effect, as in ADK without `eval_set_results_manager`.
        eval_set_results_manager: Must be None, as `artifact_service`.
        **settings: More settings of a run, as for `run`, e.g. `agent_env="+CRM_TOKEN"`: the agent gets the variables of
            model providers only.

    Returns:
        The result, which can be awaited.

    Raises:
        EvalFailed: A case failed. Like all verdicts, it is an AssertionError.
        EvalInconclusive: Nothing failed, but not everything could be evaluated.
        EvalInvalid: An eval file or a config is wrong. Nothing was run.
        NotImplementedError: An argument has no equivalent here.
    """
    __tracebackhide__ = True
    refused = {"artifact_service": artifact_service, "eval_set_results_manager": eval_set_results_manager}
    if names := [name for name, value in refused.items() if value is not None]:
        raise NotImplementedError(f"{', '.join(names)}: not supported by agent-eval. See {docs_page('python-api')}.")
    agent = agent_location(agent_module, Path.cwd())
    path = Path(eval_dataset_file_path_or_dir)
    with tempfile.TemporaryDirectory(prefix="agent-eval-results-") as temporary:
        result = run(
            test_files(path),
            check=False,
            agent=agent if agent_name is None else f"{agent}#{agent_name}",
            num_runs=num_runs,
            initial_session_file=initial_session_file,
            **{"output_dir": temporary, **settings},
        )
        if output_file is not None:
            assert result.output is not None  # It has an `output_dir`.
            _append_rows(result.output, Path(temporary, "scores.csv"), Path(output_file))
    if "output_dir" not in settings:
        result = dataclasses.replace(result, output=None)
    if print_detailed_results:
        print(result.text)  # noqa: T201 - as in ADK
    result.check()
    return result


def _append_rows(results: Path, exported: Path, file: Path) -> None:
    """Appends the scores to a CSV file, as ADK does: the header is written once."""
    command = [sys.executable, "-P", "-m", "agent_eval", "export", "csv", str(results), "--output", str(exported)]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"`agent-eval export csv` failed: {done.stderr.decode(errors='replace').strip()}")
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = exported.read_bytes()
    with file.open("ab") as out:
        out.write(lines.partition(b"\n")[2] if out.tell() else lines)


class AgentEvaluator:
    """Stands in for ADK's class: only the import of an existing test changes."""

    evaluate = staticmethod(evaluate)


def agent_location(module: str, root: Path) -> str:
    """The directory of an agent's module, or the name itself if it isn't found.

    Nothing is imported: importing the parents of a package would run the agent's code here.

    Args:
        module: A dotted name (`pkg.agents.weather` or `pkg.agents.weather.agent`), or a path.
        root: The directory that a path is relative to.
    """
    if not all(part.isidentifier() for part in module.split(".")):
        return module
    parts = module.split(".")
    for folder in dict.fromkeys([root, *(Path(entry or ".").absolute() for entry in sys.path)]):
        place = folder.joinpath(*parts)
        for candidate in (place, place.with_suffix(".py")):
            if candidate.is_dir() or (candidate.name == "agent.py" and candidate.is_file()):
                return str(candidate.relative_to(root)) if candidate.is_relative_to(root) else str(candidate)
    return module
