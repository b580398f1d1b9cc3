"""The pytest plugin: eval cases as test items, and the fixture `adk_evals`. Documented in docs/pytest.md.

pytest imports this module in every session in which agent-eval is installed. It must stay cheap: everything else is
imported when evals are collected or run.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from agent_eval.pytest_plugin._fixture import AdkEvals

__all__ = ["adk_evals", "pytest_addoption", "pytest_configure"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options and ini keys."""
    group = parser.getgroup("adk-evals", "evals of Google ADK agents (agent-eval)")
    group.addoption(
        "--adk-evals",
        action="store_true",
        dest="adk_evals",
        help="collect *.test.json and *.evalset.json, and run their cases against the agent",
    )
    group.addoption(
        "--adk-evals-set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        dest="adk_evals_set",
        help="a setting of `agent-eval run`, e.g. num-runs=3; may be repeated",
    )
    parser.addini("adk_evals", "collect eval files in every session, as --adk-evals does", type="bool", default=False)
    parser.addini(
        "adk_evals_paths", "collect only these eval files and directories, relative to the rootdir", "linelist", []
    )
    parser.addini("adk_evals_options", "settings of `agent-eval run`, one KEY=VALUE per line", "linelist", [])


def pytest_configure(config: pytest.Config) -> None:
    """Registers the marker and, if eval files are to be collected, the rest of the plugin."""
    config.addinivalue_line("markers", "adk_eval: an eval case of an ADK agent, collected by agent-eval")
    if config.getoption("adk_evals") or config.getini("adk_evals"):
        if sys.platform == "win32":
            raise pytest.UsageError("--adk-evals needs Linux or macOS. On Windows, use WSL.")
        from agent_eval.pytest_plugin._session import EvalSession

        config.pluginmanager.register(EvalSession(config), "adk-evals-session")


@pytest.fixture
def adk_evals(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> AdkEvals:
    """Runs eval files from a test, and raises if the agent does not pass (docs/pytest.md)."""
    from agent_eval.pytest_plugin._fixture import AdkEvals

    return AdkEvals(pytestconfig, tmp_path_factory)
