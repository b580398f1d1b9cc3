"""README's workflow as it stands there, from the checkout to the comment.

By act, with the real `action.yml`, the real image and a real clone of a server's repository. Stand-ins are GitHub and
what can't be downloaded everywhere: actions/checkout, which fetches as the real one does, the cache, and the artifacts.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from container_engine import REPOSITORY, Engine
from container_pull_requests import AS_GOOD, BROKEN, TOOLS, Project
from container_workflows import copied, run_act
from root_action import replaced_actions, stand_in, stand_ins

pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

(README,) = re.findall(r"^```yaml\n(name: Evals\n.*?)^```", (REPOSITORY / "README.md").read_text("utf-8"), re.M | re.S)
(CHECKOUT,) = re.findall(r"uses: (actions/checkout@\w+)", README)
CHECKS_OUT = """
    - shell: bash
      env:
        TOKEN: "${{ github.token }}"
        PERSISTED: "${{ inputs.persist-credentials }}"
      run: |
        [ "$PERSISTED" = false ] || exit 1
        git init -q -b main .
        git remote add origin "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY"
        basic=$(printf %s "x-access-token:$TOKEN" | base64 -w0)
        git -c "http.extraheader=AUTHORIZATION: basic $basic" fetch -q --depth=1 origin "$GITHUB_SHA"
        git checkout -q --detach FETCH_HEAD
"""
UPLOADS = """
    - id: upload
      shell: bash
      run: |
        cp -r "${{ inputs.path }}" /uploads/
        echo "artifact-url=$GITHUB_SERVER_URL/$GITHUB_REPOSITORY/actions/runs/1/artifacts/9" >>"$GITHUB_OUTPUT"
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """How the workflow's job ended."""

    succeeded: bool
    log: list[str]
    uploads: Path


@dataclass(frozen=True, kw_only=True)
class Workflow:
    """README's workflow on a project."""

    engine: Engine
    runner_image: str
    project: Project
    actions: Path
    """Ours, and what stands for the others."""

    def run(self, event: str, payload: object) -> Job:
        """On the commit that is checked out in the origin."""
        root, github = self.project.origin.root, self.project.github
        file, uploads = self.actions.parent / f"{event}.json", self.actions.parent / f"uploads-{event}"
        file.write_text(json.dumps(payload), "utf-8")
        uploads.mkdir()
        variables = {
            "GITHUB_API_URL": github.api_url,
            "GITHUB_SERVER_URL": self.project.forge.url,
            "GITHUB_REPOSITORY": github.state.repository,
            "GITHUB_RUN_ID": str(max(github.state.runs)),
            "GITHUB_WORKFLOW_REF": f"{github.state.repository}/.github/workflows/evals.yml@refs/heads/main",
        }
        done = run_act(
            event, "--no-skip-checkout", "--pull=false", "-P", f"ubuntu-latest={self.runner_image}", "-e", str(file),
            "-s", f"GITHUB_TOKEN={github.token}", "-s", "GOOGLE_API_KEY=a-key", "--container-daemon-socket", "-",
            "--json", "--container-options", f"-v {uploads}:/uploads",
            *(part for name, value in variables.items() for part in ("--env", f"{name}={value}")),
            "--local-repository", f"{CHECKOUT}={self.actions / 'checkout'}", *replaced_actions(self.actions),
            cwd=root,
            environment={**self.engine.environment(), "HOME": str(self.actions.parent)},
        )  # fmt: skip
        log = done.stdout.decode("utf-8", "replace")
        assert github.token not in log
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        return Job(succeeded=done.returncode == 0, log=[line["msg"].strip() for line in lines], uploads=uploads)


@pytest.fixture
def workflow(engine: Engine, base: str, runner_image: str, project: Project, tmp_path: Path) -> Workflow:
    actions = tmp_path / "actions"
    copied(actions / "ours", base)
    stand_ins(actions, upload=UPLOADS)
    stand_in(actions / "checkout", ["persist-credentials"], CHECKS_OUT)
    return Workflow(engine=engine, runner_image=runner_image, project=project, actions=actions)


def test_container_readme__a_push_records_the_baseline_and_a_pull_request_is_compared(workflow: Workflow) -> None:
    project, github = workflow.project, workflow.project.github
    example = project.example("home_automation")
    sha = project.commit({**example, ".github/workflows/evals.yml": README, ".gitignore": "agent-eval-results/\n"})
    run = github.state.run(sha)
    named = {"default_branch": "main", "full_name": github.state.repository}

    pushed = workflow.run("push", {"ref": "refs/heads/main", "repository": named, "after": sha})

    assert pushed.succeeded, pushed.log[-60:]
    github.state.upload(run, pushed.uploads / "agent-eval-results")
    project.origin.branch("change")
    head = project.origin.commit({TOOLS: example[TOOLS].decode().replace(AS_GOOD, BROKEN)})
    project.origin.merge("change", "main")
    github.state.take_git(project.origin.root)
    github.state.pull(7, head_sha=head, head_ref="change")
    github.state.run(head, event="pull_request", branch="change", pulls=(7,))

    changed = workflow.run("pull_request", github.state.event_of(7))

    assert not changed.succeeded, changed.log[-60:]
    results = json.loads((changed.uploads / "agent-eval-results/results.json").read_text("utf-8"))
    assert (results["verdict"], results["gate"], results["baseline"]["source"]) == ("failed", "regressions", "artifact")
    [comment] = github.state.comments_of(7)
    assert comment.body.splitlines()[1].startswith("## ❌ Blocks the merge: 12 regressions "), comment.body
    assert "`tool_trajectory_avg_score` 1.00 → **" in comment.body, comment.body[:4000]
    page = f"{project.forge.url}/octo/agent/actions/runs/1/artifacts/9"
    assert page in comment.body, comment.body
    assert (changed.uploads / "agent-eval-results-report.html").is_file()
    assert any("git-upload-pack" in path for path in project.forge.fetched)
