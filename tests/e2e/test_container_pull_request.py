"""Pull requests and workflows in the container."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from base_repos import new_repo
from container_engine import REPOSITORY, Engine
from container_pull_requests import AS_GOOD, BROKEN, TOOLS, Project, changed_in, git_in, strangers
from container_workflows import copied, run_act
from gate_runs import eval_set
from github_runner import SECRETS, Finished
from root_action import replaced_actions, stand_in, stand_ins

# Pull requests in the container: the base's run recorded, the comment made and brought up to date, the base run
# again.
#
# The clone is of depth 1 as by default, so that the base's commit is fetched with the token, by the container's git.


pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

SCHEDULED = '    return {"job": len(jobs), **device, "device_id": device_id, "status": status, "time": time}\n'
DOWN = '    return {"error": "the scheduler is down"}\n'


def ours(project: Project, number: int = 7) -> list[str]:
    return [item.body for item in project.github.state.comments_of(number) if item.body.startswith("<!-- agent-eval ")]


def newly_failing(done: Finished) -> set[str]:
    return {case["eval_id"] for case in done.results()["comparison"]["cases"] if case["change"] == "newly_failing"}


def check_left(project: Project, done: Finished) -> None:
    """Nothing is left of the run but its results, and those belong to whom the workspace belongs."""
    assert strangers(done.workspace) == []
    assert len(git_in(done.workspace, "worktree", "list")) == 1
    assert not (done.workspace / ".git/worktrees").exists() or not list((done.workspace / ".git/worktrees").iterdir())
    assert changed_in(done.workspace) == []
    message = done.log + done.summary + "".join(done.file_commands.values())
    folder = done.workspace / "agent-eval-results"
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert project.github.token not in message and project.github.token.encode() not in written


def test_container_pull_request__one_comment_reports_a_worse_agent_and_then_its_fix(project: Project) -> None:
    for number in range(250):
        project.github.state.comment(7, f"Comment {number}")
    example = project.example("home_automation")
    good = example[TOOLS].decode()
    assert AS_GOOD in good and SCHEDULED in good

    base = project.push({**example, ".gitignore": "agent-eval-results/\n"})

    assert base.exit_code == 0, base.log
    assert base.results()["history"]["records"][0]["commit"] == base.results()["origin"]["commit"]
    check_left(project, base)

    broken = project.pull_request(7, {TOOLS: good.replace(AS_GOOD, BROKEN)})

    results = broken.results()
    assert (broken.exit_code, results["verdict"], results["gate"]) == (1, "failed", "regressions"), broken.log
    assert (results["baseline"]["status"], results["baseline"]["source"]) == ("found", "artifact")
    assert results["baseline"]["distance"] == 0
    worse = newly_failing(broken)
    assert len(worse) == 12
    [comment] = ours(project)
    assert all(name in comment.replace("\\", "") for name in sorted(worse)[:3])
    assert broken.outputs["verdict"] == "failed"
    assert broken.outputs["comment-url"].endswith(str(project.github.state.comments_of(7)[-1].id))
    check_left(project, broken)

    single = project.pull_request(7, {TOOLS: good.replace(SCHEDULED, DOWN)})

    results = single.results()
    assert (single.exit_code, results["verdict"], results["gate"]) == (1, "failed", "regressions"), single.log
    assert newly_failing(single) == {"schedule_the_lamp"}
    # One recorded run says little, and one case is no suite: the base's own agent was asked too, in the container.
    assert {case["eval_id"] for case in results["base_runs"]} == {"schedule_the_lamp"}, single.log
    assert {run["status"] for case in results["base_runs"] for run in case["runs"]} == {"passed"}
    assert any("git-upload-pack" in path for path in project.forge.fetched), "the base was fetched with the token"
    assert project.forge.refused == []
    [updated] = ours(project)
    assert updated != comment
    assert single.outputs["comment-url"] == broken.outputs["comment-url"]
    check_left(project, single)

    repaired = project.pull_request(7, {TOOLS: good + "\n# As it was.\n"})

    assert (repaired.exit_code, repaired.results()["verdict"]) == (0, "passed"), repaired.log
    assert ours(project)[0].splitlines()[1].startswith("## ✅ Does not block: no regressions")
    assert len(project.github.state.comments_of(7)) == 251
    check_left(project, repaired)


def test_container_pull_request__neither_side_can_read_the_other_or_the_token(project: Project) -> None:
    """Both agents run at the same time: the pull request's, and the base's in its worktree (`baseline: rerun`)."""
    secrets = [project.github.token, base64.b64encode(f"x-access-token:{project.github.token}".encode()).decode()]
    source = Path(__file__).with_name("evil_sides.py").read_text("utf-8")
    agent = source.replace('"@SECRETS@"', repr(json.dumps([*secrets, *SECRETS.values()])))
    project.commit(
        {
            "evil/__init__.py": "from . import agent as agent\n",
            "evil/agent.py": agent,
            "evil/requirements.txt": "google-adk>=1.18\n",
            "evil/evil.test.json": json.dumps(eval_set("evil", {"attempts": [("go", "nothing")]})),
            "evil/test_config.json": json.dumps({"criteria": {"response_match_score": 1.0}}),
            ".gitignore": "agent-eval-results/\n",
        }
    )

    done = project.pull_request(7, {"evil/agent.py": agent + "\n# Another one.\n"}, baseline="rerun")

    results, folder = done.results(), done.workspace / "agent-eval-results"
    assert done.answers() == ["nothing"], done.log[-4000:]
    assert results["baseline"]["source"] == "rerun" and results["baseline"]["status"] == "found", results["baseline"]
    logs = {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.log")}
    assert results["comparison"]["pass_rate"] == {"head": 1.0, "base": 1.0, "delta": 0.0}, logs
    assert done.exit_code == 0, done.log[-4000:]
    assert list(done.workspace.rglob("planted")) == []
    check_left(project, done)


# README's workflow as it stands there, from the checkout to the comment.
#
# By act, with the real `action.yml`, the real image and a real clone of a server's repository. Stand-ins are GitHub
# and what can't be downloaded everywhere: actions/checkout, which fetches as the real one does, the cache, and the
# artifacts.


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


# A workflow run for real: our own self-test, by act, on a copy of the repository.


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
    new_repo(root).commit({})
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
