"""What most tests of the gate begin with; a file with needs of its own has a fixture of the same name."""

import sys
from collections.abc import Iterator
from pathlib import Path

import gate_server
import pytest
from base_repos import Repo, new_repo
from fake_github import FakeGitHub
from gate_runs import Repository, repository_in
from pull_requests import Lab
from recorded_evals import WITHOUT_PLUGINS


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """An empty one, in a directory without anything else."""
    with repository_in(tmp_path / "repo") as made:
        yield made


@pytest.fixture
def forked_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of the Python API is a fork, not a new interpreter."""
    monkeypatch.setattr(sys, "executable", str(gate_server.script(tmp_path.with_name(f"{tmp_path.name}-python"))))


@pytest.fixture
def root(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, forked_engine: None) -> Path:
    """A project for sessions of pytest that a test starts."""
    for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GITHUB_ACTIONS", "GITHUB_EVENT_NAME", "PYTEST_XDIST_WORKER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTEST_ADDOPTS", WITHOUT_PLUGINS)
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\nasyncio_default_fixture_loop_scope = 'function'\n")
    return pytester.path


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """A git repository without a commit."""
    return new_repo(tmp_path / "repo")


@pytest.fixture
def github() -> Iterator[FakeGitHub]:
    with FakeGitHub() as fake:
        yield fake


@pytest.fixture
def lab(tmp_path: Path, github: FakeGitHub, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A repository on GitHub whose cases are the CASES of the test's file."""
    made = Lab.make(tmp_path / "shop", github, *request.module.CASES)
    yield made
    made.repository.end()
