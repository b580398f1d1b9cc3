"""The issue that a failing nightly run opens, of docs/recipes.md: the script of its job, with a double of `gh`."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from docs_pages import blocks, page
from gate_runs import program
from ruamel.yaml import YAML

GH = """
import json, os, subprocess, sys
arguments = sys.argv[1:]
with open("asked", "a") as file:
    print(*arguments, file=file)
if arguments[:2] == ["issue", "list"]:
    subprocess.run(["jq", "-r", arguments[-1]], input=os.environ["ISSUES"], text=True, check=True)
"""


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing; GitHub's runners have it")
def test_nightly_recipe__one_issue_is_opened_and_then_commented_on(tmp_path: Path) -> None:
    [text] = [text for text in blocks(page("recipes.md"), "yaml") if text.startswith("jobs:\n  issue:\n")]
    job = YAML(typ="safe").load(text)["jobs"]["issue"]
    assert "needs.evals.outputs.worse" in job["if"]
    [step] = job["steps"]
    (tmp_path / "gh").write_text(f"#!{sys.executable}{GH}", "utf-8")
    (tmp_path / "gh").chmod(0o755)
    for issues in ([], [{"number": 12}]):
        env = {"PATH": f"{tmp_path}:/usr/bin:/bin", "ISSUES": json.dumps(issues), "RUN": "https://github.example/run"}
        program("bash", "-e", "-c", step["run"], cwd=tmp_path, env=env)
    writes = [line for line in (tmp_path / "asked").read_text("utf-8").splitlines() if " list " not in line]
    assert writes == [
        "label create nightly-evals --force",
        "issue create --label nightly-evals --title The nightly evals fail or got worse --body https://github.example/run",
        "issue comment 12 --body https://github.example/run",
    ]
