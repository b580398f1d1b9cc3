"""`/eval` of docs/recipes.md: the page's workflow, run by act without a container.

Real: the workflow, its `gh`, the gate's processes, git. Stand-ins: a server for GitHub, which `gh` reaches as the host
`github.localhost` through a proxy's variable; actions/checkout; a recording for the agent.
"""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from base_repos import Repo, new_repo
from container_engine import REPOSITORY
from container_workflows import gate_stand_in, run_act, stand_in
from docs_pages import blocks, page
from fake_github import FakeGitHub, Run
from golden_files import check
from recorded_evals import AGENT, write_evals
from ruamel.yaml import YAML

pytestmark = pytest.mark.container

[WORKFLOW] = [text for text in blocks(page("recipes.md"), "yaml") if text.startswith("name: Eval on request\n")]
PARSED = YAML(typ="safe").load(WORKFLOW)
JOBS = PARSED["jobs"]
EVENTS = json.loads((REPOSITORY / "tests/data/github/events.json").read_text("utf-8"))
CHECKOUT = """
    - shell: bash
      env: {REF: "${{ inputs.ref }}"}
      run: git init -q . && git fetch -q "$ORIGIN" "$REF" && git checkout -q --force --detach FETCH_HEAD
"""
GATE = """
    - id: gate
      shell: bash
      env: {INPUTS: "${{ toJSON(inputs) }}"}
      run: |
        echo "$(git rev-parse HEAD) $GOOGLE_API_KEY" >>"$NOTED/gates"
        code=0
        "$PYTHON" "$NOTED/started.py" || code=$?
        cp agent-eval-results/results.json "$NOTED"
        exit "$code"
"""
STARTED = """
import json, os, sys

# As the runner does it for a container action.
os.environ |= {f"INPUT_{name.upper()}": value for name, value in json.loads(os.environ.pop("INPUTS")).items()}
os.execv(sys.executable, [sys.executable, "-m", "agent_eval", "action"])
"""
AT, BEFORE, SINCE, FIRST = "2026-02-01T00:00:00Z", 2_000, 9_000_000, 1_000
"""When the comment was written, and ids of runs, which the stand-in dates by them."""
CASES = "/eval evals/home.evalset.json:"
COMMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "all": ("/eval", {}),
    "all, with a text below, as a browser sends it": ("/eval\r\nplease", {}),
    "cases": (f"{CASES}lamp,fan", {}),
    "a case that fails": (f"{CASES}door", {}),
    "no such case": (f"{CASES}window", {}),
    "the base branch": ("/eval refresh-base", {}),
    "the base branch of a release": ("/eval refresh-base", {"base_ref": "release/1"}),
    "by an admin": ("/eval", {"role": "admin"}),
    "by somebody who may triage, whom GitHub calls a member": (f"{CASES}lamp", {"role": "read", "called": "MEMBER"}),
    "by a stranger": (f"{CASES}lamp", {"role": "none", "called": "NONE"}),
    "by somebody who is gone": ("/eval", {"role": None}),
    "by the author of a fork's pull request": ("/eval", {"role": "read", "head_repository": "mallory/shop"}),
    "of a fork": ("/eval", {"head_repository": "mallory/shop"}),
    "cases of a fork": (f"{CASES}lamp", {"head_repository": "mallory/shop"}),
    "cases of a fork that is gone": (f"{CASES}lamp", {"head_repository": None}),
    "cases of Dependabot's": (f"{CASES}lamp", {"author": "dependabot[bot]", "author_kind": "Bot"}),
    "on an issue": ("/eval", {"number": 8}),
    "edited": ("/eval", {"action": "edited"}),
    "pushed to since": (f"{CASES}lamp", {"runs": {SINCE: "pull_request"}}),
    "tested by a push alone": ("/eval", {"runs": {BEFORE: "push"}}),
    "run again since": ("/eval", {"runs": {SINCE: "pull_request", BEFORE: "pull_request", FIRST: "push"}}),
    "while it runs": ("/eval", {"status": "in_progress"}),
    "another word": ("/evaluate", {}),
    "in the middle of a text": ("Write /eval to run it", {}),
    "more than one word": ("/eval a:b c", {}),
    "a word that is nothing": ("/eval everything", {}),
    "a command": ('/eval "$(touch $NOTED/pwned)":x', {}),
    "an option, commands, an expression, and an output below": (
        "/eval --repo=x:`touch${IFS}$NOTED/pwned`;touch${IFS}$NOTED/pwned;${{secrets.GOOGLE_API_KEY}}\ncases=a:b",
        {},
    ),
    "as long as GitHub lets it be": (f"{CASES}{'x' * 65_000}", {}),
    "longer than a variable may be": (f"{CASES}{'🦊' * 65_000}", {}),
}
"""The comment, and what differs from a writer's on a pull request of the repository's own."""


@pytest.fixture
def origin(tmp_path: Path) -> Repo:
    """What is on GitHub: the workflow on main, and a pull request's branch."""
    repo = new_repo(tmp_path / "origin")
    write_evals(repo.root, "evals/home.evalset.json", {"lamp": ["lamp"], "fan": ["lamp"], "door": ["fan"]})
    repo.commit({"agent-eval.toml": f'agent = "{AGENT}"\n', ".github/workflows/eval-on-request.yml": WORKFLOW})
    repo.git("branch", "-M", "main")
    repo.git("branch", "release/1")
    repo.branch("feature")
    repo.commit({"README.md": "More.\n"})
    return repo


class OnRequest:
    """Comments on a pull request, and what becomes of them."""

    def __init__(self, folder: Path, origin: Repo, github: FakeGitHub) -> None:
        self.folder, self.origin, self.github = folder, origin, github
        stand_in(folder / "checkout", ["ref", "persist-credentials"], CHECKOUT)
        gate_stand_in(folder, GATE)
        (folder / "started.py").write_text(STARTED, "utf-8")
        (folder / "home").mkdir()
        github.state.take_git(origin.root)

    def event(self, comment: str, facts: dict[str, Any]) -> dict[str, Any]:
        """What GitHub sends of a comment, by its own example."""
        payload: dict[str, Any] = copy.deepcopy(EVENTS["issue_comment"])
        payload["action"] = facts.get("action", "created")
        payload["issue"] |= {"number": facts.get("number", 7)}
        if payload["issue"]["number"] == 7:
            payload["issue"]["pull_request"] = {"url": f"{self.github.api_url}/repos/octo/shop/pulls/7"}
        called = facts.get("called", "COLLABORATOR")
        payload["comment"] |= {"body": comment, "created_at": AT, "author_association": called}
        payload["comment"]["user"]["login"] = "ada"
        return payload

    def comment(self, comment: str, facts: dict[str, Any]) -> str:
        """Runs what a comment starts, and says what that was."""
        github, state, head = self.github, self.github.state, self.origin.head
        github.requests, state.asked, state.runs, state.roles = [], [], {}, {"ada": facts.get("role", "write")}
        pull = {name: facts[name] for name in ("head_repository", "author", "author_kind", "base_ref") if name in facts}
        state.pull(7, head_sha=head, **pull)
        for number, event in facts.get("runs", {BEFORE: "pull_request"}).items():
            run = Run(
                id=number, path=".github/workflows/evals.yml", event=event, branch="x", sha=head, head_repository=None
            )
            run.status = facts.get("status", run.status)
            state.runs[number] = run
        for left in ("gates", "results.json"):
            (self.folder / left).unlink(missing_ok=True)
        event = self.event(comment, facts)
        # GitHub starts a workflow for the types that it lists; act starts it for all.
        log = self.act(event) if event["action"] in PARSED["on"]["issue_comment"]["types"] else ""
        assert not (self.folder / "pwned").exists(), comment
        jobs = re.findall(r"\[Eval on request/(\w+) *\] 🏁  Job (\w+)", log)
        lines = [f"{name} {how}" for name, how in jobs]
        lines += state.asked
        if jobs and not state.asked:  # What a step prints last, act can lose.
            lines.append(
                f"nothing after {github.requests[-1].path.rpartition('/')[2] if github.requests else 'reading'}"
            )
        if (self.folder / "gates").exists():
            assert (self.folder / "gates").read_text() == f"{head} a-key\n"
            report = json.loads((self.folder / "results.json").read_text())
            lines += [f"{case['eval_id']} {case['status']}" for case in report["cases"]] or [report["verdict"]]
        return "; ".join(lines) or "no job"

    def act(self, event: dict[str, Any]) -> str:
        (self.folder / "event.json").write_text(json.dumps(event), "utf-8")
        self.origin.git("clone", "-q", "--branch", "main", str(self.origin.root), str(self.folder / "work"))
        local = {"actions/checkout@v6": "checkout", "org/agent-eval-action@v1": "ours"}
        variables = {
            "PYTHON": sys.executable,
            "NOTED": str(self.folder),
            "ORIGIN": str(self.origin.root),
            "GH_HOST": "github.localhost",
            "HTTP_PROXY": self.github.server_url,
            "GITHUB_REPOSITORY": self.github.state.repository,
            "GITHUB_RUN_ID": "9",
        }
        try:
            done = run_act(
                "issue_comment", "-P", "ubuntu-latest=-self-hosted", "-e", str(self.folder / "event.json"),
                "-s", f"GITHUB_TOKEN={self.github.token}", "-s", "GOOGLE_API_KEY=a-key",
                *(word for name, to in local.items() for word in ("--local-repository", f"{name}={self.folder / to}")),
                *(word for name, value in variables.items() for word in ("--env", f"{name}={value}")),
                cwd=self.folder / "work",
                environment={
                    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
                    "HOME": str(self.folder / "home"),
                },
                timeout=120,
            )  # fmt: skip
        finally:
            shutil.rmtree(self.folder / "work")
        return done.stdout.decode("utf-8", "replace")


def test_eval_on_request__who_starts_what_with_which_comment(tmp_path: Path, origin: Repo) -> None:
    with FakeGitHub() as github:
        there = OnRequest(tmp_path, origin, github)
        story = [f"{name}: {there.comment(*situation)}\n" for name, situation in COMMENTS.items()]
        check("golden_eval_comments.txt", "".join(story).replace(origin.head, "HEAD"))


def test_eval_on_request__texts_of_people_are_no_script_and_the_job_with_the_key_has_no_rights() -> None:
    [request], [status] = (JOBS[name]["steps"] for name in ("request", "status"))
    assert "${{" not in request["run"] + status["run"]
    assert "permissions" not in JOBS["cases"] and PARSED["permissions"] == {"contents": "read"}
    assert [name for name, job in JOBS.items() if "secrets." in json.dumps(job)] == ["cases"]
    # A stranger's comment must not wait for, replace or cancel somebody else's.
    assert PARSED["concurrency"] == {"group": "eval-on-request-${{ github.event.comment.id }}"}
