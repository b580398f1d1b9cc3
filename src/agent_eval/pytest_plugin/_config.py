"""The plugin's settings, from the command line and pytest's configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_eval.api import InvalidOptions, option_text, setting_named


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
