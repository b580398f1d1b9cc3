"""A workflow run for real: our own self-test, by act, on a copy of the repository."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from container_engine import REPOSITORY, Engine

pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

RUNNER_IMAGE = "agent-eval-test-runner:1"


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


@pytest.fixture
def repository(tmp_path: Path, base: str, image: str) -> Path:
    """A copy of what git has, with the self-test as its only workflow."""
    root = tmp_path / "repository"
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={REPOSITORY}", "-C", str(REPOSITORY), "ls-files", "-z"],
        check=True,
        capture_output=True,
        timeout=30,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (REPOSITORY / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, root / name)
    dockerfile = root / "Dockerfile"
    dockerfile.write_text(
        re.sub(r"^ARG BASE_IMAGE=.*$", f"ARG BASE_IMAGE={base}", dockerfile.read_text("utf-8"), flags=re.MULTILINE),
        "utf-8",
    )
    # Other actions can't be downloaded everywhere; the upload is the last step and none of ours.
    workflow = root / ".github/workflows/self-test.yml"
    steps, upload = workflow.read_text("utf-8").split("      - uses: actions/upload-artifact@")
    assert "- " not in upload, "the upload is no longer the last step"
    workflow.write_text(steps, "utf-8")
    for other in root.glob(".github/workflows/*.yml"):
        if other != workflow:
            other.unlink()
    git = ["git", "-C", str(root), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "start"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True, timeout=30)
    return root


def test_workflow__self_test_runs_by_uses(engine: Engine, repository: Path, runner_image: str, tmp_path: Path) -> None:
    act = Path(sys.executable).with_name("act")
    assert act.exists(), "act is in the dependency group `container`"
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": {"ref": "x"}, "base": {"ref": "main"}}}))
    done = subprocess.run(
        [
            act, "pull_request", "--pull=false", "-P", f"ubuntu-24.04={runner_image}", "-e", str(event),
            "-s", "GITHUB_TOKEN=not-a-token", "--container-daemon-socket", "-", "--no-cache-server", "--json",
        ],
        cwd=repository,
        env={**engine.environment(), "HOME": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=400,
        check=False,
    )  # fmt: skip
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-6000:]
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    said = [line["msg"].strip() for line in lines if line.get("stage") == "Main"]
    assert "good: passed, broken: failed (failure)" in said
