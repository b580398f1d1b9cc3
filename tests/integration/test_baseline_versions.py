"""Base and head need different versions of a package: each agent gets an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from gate_runs import AGENT_EVAL
from rerun_repos import two_versions


@pytest.mark.slow
def test_versions__the_whole_gate_compares_the_two(tmp_path: Path) -> None:
    """`agent-eval run --baseline rerun`, as a user starts it on a laptop."""
    made = two_versions(tmp_path)
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "INPUT_", "RUNNER_"))}
    path = f"{Path(sys.executable).resolve().parent}{os.pathsep}{ours['PATH']}"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = subprocess.run(
        [*AGENT_EVAL, "run", "--baseline", "rerun", "--cache-dir", str(tmp_path / "cache")],
        cwd=made.repo.root,
        env={**ours, **made.environment, "PATH": path, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    results = json.loads((made.repo.root / "agent-eval-results" / "results.json").read_text(encoding="utf-8"))
    assert done.returncode == 1, done.stderr
    baseline = results["baseline"]
    assert (baseline["status"], baseline["source"], baseline["distance"]) == ("found", "rerun", 0), baseline["message"]
    assert baseline["commit"] == baseline["wanted_commit"] == made.base
    comparison = results["comparison"]
    assert [(case["eval_id"], case["change"]) for case in comparison["cases"]] == [("hello", "newly_failing")]
    assert (comparison["compared"], comparison["unchanged"]) == (2, 1)  # with the case that only the head's file has
    assert made.repo.git("worktree", "list").count("\n") == 0
    assert list(temporary.glob("agent-eval-base-*")) == []
    assert made.repo.git("status", "--porcelain", "--untracked-files=no") == ""
