"""Fixtures of the container tests: the engine, the image, and a runner that starts it as GitHub does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from base_repos import new_repo
from container_engine import REPOSITORY, Engine, NoEngine, base_image, find_engine
from container_pull_requests import Project, reachable
from fake_github import FakeGitHub
from git_server import GitServer
from github_runner import Runner
from upload_server import upload_server

IMAGE = "agent-eval-action:test"
RUNNER_IMAGE = "agent-eval-test-runner:1"


@pytest.fixture(scope="session")
def engine() -> Engine:
    """The machine's engine; in CI its absence is a failure, elsewhere the tests are skipped."""
    try:
        return find_engine()
    except NoEngine as error:
        return _none(error)


def _none(error: NoEngine) -> Engine:
    if os.environ.get("CI") == "true":
        pytest.fail(f"the container part can't run: {error}")
    pytest.skip(f"NOT TESTED, the container part can't run: {error}")


@pytest.fixture(scope="session")
def base(engine: Engine) -> str:
    """The image that ours is built on."""
    try:
        return base_image(engine)
    except NoEngine as error:
        _none(error)
        raise


@pytest.fixture(scope="session")
def image(engine: Engine, base: str) -> str:
    """Our image, built from the working tree."""
    engine.check("build", "--build-arg", f"BASE_IMAGE={base}", "--tag", IMAGE, str(REPOSITORY), timeout=900)
    return IMAGE


@pytest.fixture(scope="session")
def runner_image(engine: Engine, base: str) -> str:
    """What jobs run on: the base with what actions need. GitHub's own image has 20 GB more."""
    if not engine.has_image(RUNNER_IMAGE):
        recipe = (
            f"FROM {base}\n"
            "RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends git nodejs >/dev/null\n"
        )
        engine.check("build", "--tag", RUNNER_IMAGE, "-", timeout=300, stdin=recipe.encode())
    return RUNNER_IMAGE


@pytest.fixture(scope="session")
def agent_cache(engine: Engine, image: str) -> Iterator[str]:
    """A volume with agents' environments, so that google-adk is installed once for all tests."""
    name = f"agent-eval-test-{os.getpid()}"
    engine.check("volume", "create", name)
    yield name
    engine.run("volume", "rm", "--force", name)


@pytest.fixture
def runner(engine: Engine, image: str, agent_cache: str, tmp_path: Path) -> Runner:
    """Starts the image as a GitHub runner does."""
    return Runner(engine=engine, image=image, scratch=tmp_path / "runner", cache_volume=agent_cache)


@pytest.fixture
def workspace(tmp_path: Path, runner: Runner) -> Callable[..., Path]:
    """Makes a workspace with copies of examples and other files, owned by the runner's user."""

    def make(*examples: str, files: Mapping[str, str] | None = None) -> Path:
        return runner.workspace(tmp_path / "workspace", examples, files or {})

    return make


@pytest.fixture
def github(engine: Engine) -> Iterator[FakeGitHub]:
    """Of octo/agent, where containers reach it."""
    address, name = reachable(engine)
    with FakeGitHub(repository="octo/agent", address=address, name=name) as fake:
        yield fake


@pytest.fixture
def forge(engine: Engine, github: FakeGitHub, tmp_path: Path) -> Iterator[GitServer]:
    """Git's server, for that repository and its token."""
    address, name = reachable(engine)
    made = GitServer(root=tmp_path / "forge", repository=github.state.repository, token=github.token)
    with upload_server(made.answer, address=address) as server:
        made.url = server.url.replace(address, name)
        yield made


@pytest.fixture
def project(tmp_path: Path, github: FakeGitHub, forge: GitServer, runner: Runner) -> Project:
    """octo/agent, still empty."""
    origin = new_repo(tmp_path / "origin")
    forge.serve(origin.root)
    return Project(origin=origin, github=github, forge=forge, runner=runner, scratch=tmp_path)
