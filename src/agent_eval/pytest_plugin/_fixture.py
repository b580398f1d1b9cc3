"""The fixture `adk_evals`."""

from __future__ import annotations

import os

import pytest

from agent_eval.api import EvalResult, evaluate, run
from agent_eval.pytest_plugin._config import flags_of, root_of


class AdkEvals:
    """Runs eval files from a test."""

    evaluate = staticmethod(evaluate)
    """As `AgentEvaluator.evaluate` of google-adk: runs at once, with or without `await`."""

    def __init__(self, config: pytest.Config, directories: pytest.TempPathFactory) -> None:
        """Made for each test by the fixture."""
        self._config = config
        self._directories = directories

    def __call__(self, *paths: str | os.PathLike[str], check: bool = True, **settings: object) -> EvalResult:
        """Runs eval files at once.

        Args:
            *paths: Eval files, directories or globs relative to the rootdir, optionally with cases
                (`file.json:case1,case2`). None: all eval files below the rootdir.
            check: Whether to raise if the verdict is not green.
            **settings: Settings of a run, with underscores. They have precedence over the session's. The result files
                are in a directory of pytest's temporary files unless `output_dir` is set.

        Raises:
            EvalFailed: A case failed.
            EvalInconclusive: Nothing failed, but not everything could be evaluated.
            EvalInvalid: An eval file or a config is wrong. Nothing was run.
            InvalidOptions: A setting is unknown or has an invalid value.
        """
        __tracebackhide__ = True
        of_session = {name.replace("-", "_"): value for name, value in flags_of(self._config).items()}
        of_session["output_dir"] = str(self._directories.mktemp("adk_evals"))
        return run(paths, root=root_of(self._config), check=check, **{**of_session, **settings})
