"""`/eval` of docs/recipes.md: the script of its job, with a double of `gh`; and the gate."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from docs_pages import blocks, page
from fake_github import FakeGitHub
from gate_runs import Repository, program
from golden_files import check
from pull_requests import job_of
from recorded_evals import AGENT, write_evals
from ruamel.yaml import YAML

[WORKFLOW] = [text for text in blocks(page("recipes.md"), "yaml") if text.startswith("name: Eval on request\n")]
PARSED = YAML(typ="safe").load(WORKFLOW)
JOBS = PARSED["jobs"]
GH = """
import json, os, subprocess, sys
arguments = sys.argv[1:]
with open("asked", "a") as file:
    print(*arguments, file=file)
answers = json.load(open("answers.json"))
if arguments[:2] == ["issue", "list"]:
    subprocess.run(["jq", "-r", arguments[-1]], input=json.dumps(answers["issues"]), text=True, check=True)
if arguments[0] == "api":
    if arguments[1] not in answers:
        sys.exit(f"gh: Not Found (HTTP 404): {arguments[1]}")
    query = arguments[3] if "--jq" in arguments else "."
    subprocess.run(["jq", "-r", query], input=json.dumps(answers[arguments[1]]), text=True, check=True)
"""
HEAD, AT = "a" * 40, "2026-11-29T12:00:00Z"
RUN = {"id": 5, "event": "pull_request", "created_at": "2026-11-29T11:00:00Z"}
LATER = {"id": 6, "event": "pull_request", "created_at": "2026-11-29T12:00:01Z"}
OTHER = {"id": 4, "event": "push", "created_at": "2026-11-29T10:00:00Z"}
COMMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("/eval", {}),
    "all, with a text below, as a browser sends it": ("/eval\r\nplease", {}),
    "cases": ("/eval evals/home.evalset.json:lamp,fan", {}),
    "the base branch": ("/eval refresh-base", {}),
    "by somebody who may triage": ("/eval", {"role": "read"}),
    "by a stranger": ("/eval evals/home.evalset.json:lamp", {"role": None}),
    "of a fork": ("/eval", {"owner": "mallory"}),
    "cases of a fork": ("/eval evals/home.evalset.json:lamp", {"owner": "mallory"}),
    "pushed to since": ("/eval", {"runs": [LATER]}),
    "no run of this commit": ("/eval", {"runs": [OTHER]}),
    "run again since": ("/eval", {"runs": [LATER, RUN, OTHER]}),
    "another word": ("/evaluate", {}),
    "more than one word": ("/eval a:b c", {}),
    "a word that is nothing": ("/eval everything", {}),
    "a command": ('/eval "$(touch pwned)":x', {}),
    "a command without spaces": ("/eval `touch${IFS}pwned`:x;touch${IFS}pwned", {}),
    "an output": ("/eval a:b\ncases=evil:x", {}),
    "an option": ("/eval --repo=mallory/shop:x", {}),
}


def script(text: str, folder: Path, answers: dict[str, Any], **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a step's script as GitHub's runner does, with the double of `gh`, which writes into `asked`."""
    (folder / "answers.json").write_text(json.dumps(answers), "utf-8")
    (folder / "gh").write_text(f"#!{sys.executable}{GH}", "utf-8")
    (folder / "gh").chmod(0o755)
    env = {"PATH": f"{folder}:/usr/bin:/bin", "GITHUB_OUTPUT": str(folder / "output"), **environment}
    return program("bash", "-e", "-c", text, cwd=folder, env=env, code=None)


NEEDS_JQ = pytest.mark.skipif(shutil.which("jq") is None, reason="jq is missing; GitHub's runners have it")


@NEEDS_JQ
def test_eval_recipe__who_starts_what_with_which_comment(tmp_path: Path) -> None:
    [step] = JOBS["request"]["steps"]
    # Texts of people reach the script as variables alone.
    assert "${{" not in step["run"]
    assert set(step["env"]) == {"GH_TOKEN", "GH_REPO", "NUMBER", "AUTHOR", "AT", "COMMENT"}
    story = []
    for name, (comment, facts) in COMMENTS.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        repo = "repos/octo/shop"
        owner = f"{facts.get('owner', 'octo')}/shop"
        answers: dict[str, Any] = {
            f"{repo}/collaborators/ada/permission": {"permission": facts.get("role", "write")},
            f"{repo}/pulls/7": {"head": {"sha": HEAD, "repo": {"full_name": owner}}, "base": {"ref": "main"}},
            f"{repo}/actions/workflows/evals.yml/runs?head_sha={HEAD}": {"workflow_runs": facts.get("runs", [RUN])},
        }
        if facts.get("role", "") is None:
            answers.pop(f"{repo}/collaborators/ada/permission")
        facts = {"GH_REPO": "octo/shop", "NUMBER": "7", "AUTHOR": "ada", "AT": AT, "COMMENT": comment}
        done = script(step["run"], folder, answers, **facts)
        assert not (folder / "pwned").exists(), name
        output = (folder / "output").read_text("utf-8") if (folder / "output").exists() else ""
        asked = (folder / "asked").read_text("utf-8") if (folder / "asked").exists() else ""
        lines = [line for line in asked.splitlines() if not line.startswith("api ")] + output.splitlines()
        errors = [line for line in done.stdout.splitlines() if line.startswith("::error::")]
        story.append(f"{name}: exit {done.returncode}; {'; '.join(lines + errors) or 'nothing'}\n")
    check("golden_eval_comments.txt", "".join(story))


def test_eval_recipe__the_job_with_the_key_holds_no_token_that_writes_and_runs_the_named_cases(
    repository: Repository, github: FakeGitHub, tmp_path: Path
) -> None:
    assert "permissions" not in JOBS["cases"] and PARSED["permissions"] == {"contents": "read"}
    inputs = JOBS["cases"]["steps"][1]["with"]
    assert inputs == {"mode": "gate", "paths": "${{ needs.request.outputs.cases }}"}
    write_evals(repository.root, "evals/home.evalset.json", {"lamp": ["lamp"], "fan": ["lamp"], "door": ["fan"]})
    environment = {
        **job_of(github, tmp_path, "issue_comment", {"action": "created"}, 9),
        "GITHUB_ACTIONS": "true",
        "INPUT_MODE": inputs["mode"],
        "INPUT_PATHS": "evals/home.evalset.json:lamp,fan",
        "INPUT_AGENT": AGENT,
    }
    done = repository.gate("action", environment=environment, code=0)
    assert done.statuses == {"lamp": "passed", "fan": "passed"}
    assert github.writes() == [], "no comment: the others of the pull request's cases were not run"


@NEEDS_JQ
def test_nightly_recipe__one_issue_is_opened_and_then_commented_on(tmp_path: Path) -> None:
    [text] = [text for text in blocks(page("recipes.md"), "yaml") if text.startswith("jobs:\n  issue:\n")]
    [step] = YAML(typ="safe").load(text)["jobs"]["issue"]["steps"]
    for issues in ([], [{"number": 12}]):
        assert script(step["run"], tmp_path, {"issues": issues}, RUN="https://github.example/run").returncode == 0
    writes = [line for line in (tmp_path / "asked").read_text("utf-8").splitlines() if " list " not in line]
    assert writes == [
        "label create nightly-evals --force",
        "issue create --label nightly-evals --title The nightly evals fail --body https://github.example/run",
        "issue comment 12 --body https://github.example/run",
    ]
