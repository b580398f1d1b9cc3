"""`agent_eval.run`: runs eval files from Python."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agent_eval.api._engine import run_engine
from agent_eval.api._options import default_options, engine_request, option_text, setting_named
from agent_eval.api._result import EvalResult, result_of


def run(
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]] = (),
    *,
    root: str | os.PathLike[str] | None = None,
    check: bool = True,
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
    if "output-dir" in flags:
        result = result_of(run_engine(request), output=request.output)
    else:
        with tempfile.TemporaryDirectory(prefix="agent-eval-results-") as output:
            result = result_of(run_engine(request.with_flags(output_dir=output)), output=None)
    if check:
        result.check()
    return result
