"""A workflow run for real: our own self-test, by act, on a copy of the repository."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from container_engine import Engine
from container_workflows import copied, run_act

pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container


@pytest.fixture
def repository(tmp_path: Path, base: str, image: str) -> Path:
    """A copy of what git has, with the self-test as its only workflow."""
    root = copied(tmp_path / "repository", base)
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
    event = tmp_path / "event.json"
    event.write_text(json.dumps({"pull_request": {"number": 7, "head": {"ref": "x"}, "base": {"ref": "main"}}}))
    done = run_act(
        "pull_request", "--pull=false", "-P", f"ubuntu-24.04={runner_image}", "-e", str(event),
        "-s", "GITHUB_TOKEN=not-a-token", "--container-daemon-socket", "-", "--json",
        cwd=repository,
        environment={**engine.environment(), "HOME": str(tmp_path)},
    )  # fmt: skip
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-6000:]
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    said = [line["msg"].strip() for line in lines if line.get("stage") == "Main"]
    assert "good: passed, broken: failed (failure)" in said
