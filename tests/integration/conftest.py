"""What most tests of the gate begin with; a file with needs of its own has a fixture of the same name."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_github import FakeGitHub
from gate_runs import Repository, repository_in
from pull_requests import Lab


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """An empty one, in a directory without anything else."""
    with repository_in(tmp_path / "repo") as made:
        yield made


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
