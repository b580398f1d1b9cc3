"""The fixture `adk_evals`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_eval.api import EvalResult, InvalidOptions, evaluate, option_text, run, setting_named


class AdkEvals:
    """Runs eval files from a test."""

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
        output = self._directories.mktemp("adk_evals")
        options = {**self._of_session(), "output_dir": output, **settings}
        return run(paths, root=root_of(self._config), check=check, **options)

    def evaluate(
        self, agent_module: str, eval_dataset_file_path_or_dir: str | os.PathLike[str], *arguments: Any, **settings: Any
    ) -> EvalResult:
        """As `agent_eval.evaluate`, with the settings of the session. Runs at once, with or without `await`."""
        __tracebackhide__ = True
        options = {**self._of_session(), **settings}
        for name in ("agent", "num_runs"):  # They are parameters of `evaluate`.
            if name not in settings:
                options.pop(name, None)
        return evaluate(agent_module, eval_dataset_file_path_or_dir, *arguments, **options)

    def _of_session(self) -> dict[str, Any]:
        """The settings of the session, by name with underscores."""
        return {name.replace("-", "_"): value for name, value in flags_of(self._config).items()}


def root_of(config: pytest.Config) -> Path:
    """The directory that the engine works in: pytest's rootdir.

    Without a configuration file, pytest takes the common directory of its arguments, which may be inside of the agent.
    Then it is the directory that pytest was started in.
    """
    started = config.invocation_params.dir
    if config.inipath is None and config.rootpath.is_relative_to(started):
        return started
    return config.rootpath


def flags_of(config: pytest.Config) -> dict[str, str | tuple[str, ...]]:
    """The settings by input name. The command line has precedence over the configuration file.

    Raises:
        pytest.UsageError: One of them is no setting of a run.
    """
    try:
        in_file = dict(_flags(config.getini("adk_evals_options"), "adk_evals_options"))
        return {**in_file, **dict(_flags(config.getoption("adk_evals_set"), "--adk-evals-set"))}
    except InvalidOptions as error:
        raise pytest.UsageError(str(error)) from None


def _flags(lines: list[str], source: str) -> Iterator[tuple[str, str | tuple[str, ...]]]:
    values: dict[str, list[str]] = {}
    for line in lines:
        key, separator, value = line.partition("=")
        if not separator:
            raise InvalidOptions(f"{source}: {line!r} must have the form KEY=VALUE.")
        try:
            values.setdefault(setting_named(key).input, []).append(value.strip())
        except InvalidOptions as error:
            raise InvalidOptions(f"{source}: {error}") from None
    for name, texts in values.items():
        setting = setting_named(name)
        text = option_text(setting, texts)
        yield name, texts[-1] if isinstance(text, str) else text
