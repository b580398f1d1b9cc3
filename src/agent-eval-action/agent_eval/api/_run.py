"""`agent_eval.run`: runs eval files from Python."""

from __future__ import annotations

import dataclasses
import glob
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent_eval.api._engine import EngineRequest, run_engine
from agent_eval.api._result import EvalResult, result_of
from agent_eval.settings import BY_INPUT, Setting, Settings, read_settings
from agent_eval_scoring.core.errors import AgentEvalError
from agent_eval_scoring.core.problem import errors_of, has_error
from agent_eval_scoring.core.selectors import nearby

_NOT_HERE = "CI only"
"""The group of settings that concern a job of GitHub Actions."""
_LIST = "exclude"


class InvalidOptions(AgentEvalError, ValueError):
    """A setting is unknown, not available here, or has an invalid value."""


def setting_named(name: str) -> Setting:
    """A setting of a run by its name, with dashes or underscores.

    Raises:
        InvalidOptions: There is no such setting, or it has no effect outside of a CI job.
    """
    key = name.strip().replace("_", "-")
    available = [
        setting.input
        for setting in BY_INPUT.values()
        if setting.group != _NOT_HERE and setting.secret is None and setting.input != "paths"
    ]
    if key in available:
        return BY_INPUT[key]
    setting = BY_INPUT.get(key)
    if setting is None:
        close = nearby(key, available)
        hint = f"Did you mean {' or '.join(close)}?" if close else f"The settings are {', '.join(available)}."
        raise InvalidOptions(f"There is no setting {key}. {hint}")
    if setting.secret is not None:
        raise InvalidOptions(f"{key} is a secret. Set the variable {setting.secret} instead.")
    if key == "paths":
        raise InvalidOptions("paths is not a setting here: name the eval files as arguments.")
    raise InvalidOptions(f"{key} has no effect here: it concerns a job of `agent-eval action`.")


def option_text(setting: Setting, value: object) -> str | tuple[str, ...]:
    """The value of a setting as a flag's text, or as texts for a list of patterns."""
    if setting.input == _LIST:
        values = [value] if isinstance(value, str | Path) or not isinstance(value, Sequence) else value
        return tuple(map(str, values))
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def engine_request(
    root: Path, flags: Mapping[str, str | tuple[str, ...]], defaults: Mapping[str, str]
) -> tuple[EngineRequest, Settings]:
    """Reads and checks the settings of a run.

    Args:
        root: The directory with agent-eval.toml. Paths are relative to it.
        flags: Values by input name. They have precedence over agent-eval.toml.
        defaults: Values of settings that no source sets. `agent-python` also yields to `agent-requirements`.

    Returns:
        The request without paths, and the settings. The report of the run has warnings about them.

    Raises:
        InvalidOptions: A setting is invalid. The message lists all errors.
    """
    settings, problems = read_settings(root, flags=flags, secrets=os.environ)
    if has_error(problems):
        errors = [*map(str, errors_of(problems))]
        raise InvalidOptions("\n".join(errors))
    missing = {name: value for name, value in defaults.items() if name not in settings.sources}
    if "agent-requirements" in settings.sources:
        missing.pop("agent-python", None)
    return EngineRequest(root=root, flags={**missing, **flags}), settings


def test_files(path: Path) -> str:
    """What ADK's evaluator runs: a file, or the `*.test.json` of a directory."""
    return os.path.join(glob.escape(str(path)), "**", "*.test.json") if path.is_dir() else str(path)  # noqa: PTH118


def default_options() -> dict[str, str]:
    """Defaults that differ from the command line's: the agent runs with the interpreter that the caller runs with."""
    return {"agent-python": sys.executable}


def run(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    *,
    root: str | os.PathLike[str] | None = None,
    check: bool = True,
    initial_session_file: str | os.PathLike[str] | None = None,
    **settings: object,
) -> EvalResult:
    """Runs eval files against an agent, as `agent-eval run` does, and waits for the result.

    Runs in a process of its own and blocks until it has ended, also inside an event loop. The result can be awaited,
    but has been computed either way: a forgotten `await` changes nothing.

    Args:
        paths: Eval files, directories or globs, optionally with cases (`file.json:case1,case2`). Empty: all eval files
            below the root.
        root: The directory with agent-eval.toml, which paths are relative to. Default: the current directory.
        check: Whether to raise if the verdict is not green. False: look at `verdict` and `cases`.
        initial_session_file: JSON file with the initial session of legacy test files (lists of turns).
        **settings: Settings of a run by name with underscores (docs/configuration.md), e.g. `agent="agents/weather"`,
            `num_runs=3`. None means not set. Two defaults differ from the command line's: `agent_python` is the
            interpreter that this runs with, and without `output_dir` the result files are removed.

    Returns:
        The result.

    Raises:
        InvalidOptions: A setting is unknown or has an invalid value. Nothing was run.
        EvalFailed: A case failed.
        EvalInconclusive: Nothing failed, but not everything could be evaluated.
        EvalInvalid: An eval file or a config is wrong. Nothing was run.
        RuntimeError: The engine ended without results.
    """
    __tracebackhide__ = True
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    directory = Path.cwd() if root is None else Path(root).absolute()
    flags = {
        setting_named(name).input: option_text(setting_named(name), value)
        for name, value in settings.items()
        if value is not None
    }
    request, _ = engine_request(directory, flags, default_options())
    if listed:
        request = request.with_flags(paths=tuple(os.fspath(path) for path in listed))
    if initial_session_file is not None:
        request = dataclasses.replace(request, initial_session=os.fspath(initial_session_file))
    if "output-dir" in flags:
        result = result_of(run_engine(request), output=request.output)
    else:
        with tempfile.TemporaryDirectory(prefix="agent-eval-results-") as output:
            result = result_of(run_engine(request.with_flags(output_dir=output)), output=None)
    if check:
        result.check()
    return result
