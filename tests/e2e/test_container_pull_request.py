"""Pull requests and workflows in the container."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from container_engine import REPOSITORY, Engine
from container_pull_requests import AS_GOOD, BROKEN, TOOLS, Project, changed_in, evil_files, git_in, strangers
from container_workflows import copied, replaced_actions, run_act, stand_in, stand_ins
from github_runner import SECRETS, Finished

# Pull requests in the container: the base's run recorded, the comment made and brought up to date, the base run
# again.
#
# The clone is of depth 1 as by default, so that the base's commit is fetched with the token, by the container's git.


pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

SCHEDULED = '    return {"job": len(jobs), **device, "device_id": device_id, "status": status, "time": time}\n'
DOWN = '    return {"error": "the scheduler is down"}\n'


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


def test_container_pull_request__a_worse_agent_is_compared_with_the_bases(project: Project) -> None:
    example = project.example("home_automation")
    good = example[TOOLS].decode()
    assert SCHEDULED in good

    base = project.push({**example, ".gitignore": "agent-eval-results/\n"})

    assert base.exit_code == 0, base.log
    assert base.results()["history"]["records"][0]["commit"] == base.results()["origin"]["commit"]
    check_left(project, base)

    worse = project.pull_request(7, {TOOLS: good.replace(SCHEDULED, DOWN)})

    results = worse.results()
    assert (worse.exit_code, results["verdict"], results["gate"]) == (1, "failed", "regressions"), worse.log
    found = {name: results["baseline"][name] for name in ("status", "source", "distance")}
    assert found == {"status": "found", "source": "artifact", "distance": 0}
    failing = {case["eval_id"] for case in results["comparison"]["cases"] if case["change"] == "newly_failing"}
    # One recorded run says little, and one case is no suite: the base's own agent was asked too, in the container.
    assert failing == {case["eval_id"] for case in results["base_runs"]} == {"schedule_the_lamp"}, worse.log
    assert {run["status"] for case in results["base_runs"] for run in case["runs"]} == {"passed"}
    assert any("git-upload-pack" in path for path in project.forge.fetched), "the base was fetched with the token"
    assert project.forge.refused == []
    [comment] = project.github.state.comments_of(7)
    assert "schedule_the_lamp" in comment.body.replace("\\", "")
    assert worse.outputs["comment-url"].endswith(str(comment.id))
    check_left(project, worse)


def test_container_pull_request__neither_side_can_read_the_other_or_the_token(project: Project) -> None:
    """Both agents run at the same time: the pull request's, and the base's in its worktree (`baseline: rerun`)."""
    basic = base64.b64encode(f"x-access-token:{project.github.token}".encode()).decode()
    files = evil_files("wait", 1, {**SECRETS, "token": project.github.token, "basic": basic})
    project.commit(
        {
            **files,
            "evil/requirements.txt": "google-adk>=1.18\n",
            "evil/test_config.json": json.dumps({"criteria": {"response_match_score": 1.0}}),
            ".gitignore": "agent-eval-results/\n",
        }
    )

    done = project.pull_request(7, {"evil/agent.py": files["evil/agent.py"] + "\n# Another one.\n"}, baseline="rerun")

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


def test_container_readme__a_push_records_the_baseline_and_a_pull_request_is_compared(
    engine: Engine, base: str, runner_image: str, project: Project, tmp_path: Path
) -> None:
    actions, origin, github = tmp_path / "actions", project.origin, project.github
    copied(actions / "ours", base)
    stand_ins(actions, upload=UPLOADS)
    stand_in(actions / "checkout", ["persist-credentials"], CHECKS_OUT)

    def workflow(event: str, payload: object) -> tuple[bool, list[str], Path]:
        """Runs it on the commit that is checked out in the origin: whether it succeeded, its log, what it uploaded."""
        file, uploads = tmp_path / f"{event}.json", tmp_path / f"uploads-{event}"
        file.write_text(json.dumps(payload), "utf-8")
        uploads.mkdir()
        variables = {
            "GITHUB_API_URL": github.api_url,
            "GITHUB_SERVER_URL": project.forge.url,
            "GITHUB_REPOSITORY": github.state.repository,
            "GITHUB_RUN_ID": str(max(github.state.runs)),
            "GITHUB_WORKFLOW_REF": f"{github.state.repository}/.github/workflows/evals.yml@refs/heads/main",
        }
        done = run_act(
            event, "--no-skip-checkout", "--pull=false", "-P", f"ubuntu-latest={runner_image}", "-e", str(file),
            "-s", f"GITHUB_TOKEN={github.token}", "-s", "GOOGLE_API_KEY=a-key", "--container-daemon-socket", "-",
            "--json", "--container-options", f"-v {uploads}:/uploads",
            *(part for name, value in variables.items() for part in ("--env", f"{name}={value}")),
            "--local-repository", f"{CHECKOUT}={actions / 'checkout'}", *replaced_actions(actions),
            cwd=origin.root,
            environment={**engine.environment(), "HOME": str(tmp_path)},
        )  # fmt: skip
        log = done.stdout.decode("utf-8", "replace")
        assert github.token not in log
        lines = [json.loads(line)["msg"].strip() for line in log.splitlines() if line.startswith("{")]
        return done.returncode == 0, lines[-60:], uploads

    example = project.example("home_automation")
    sha = project.commit({**example, ".github/workflows/evals.yml": README, ".gitignore": "agent-eval-results/\n"})
    run = github.state.run(sha)
    named = {"default_branch": "main", "full_name": github.state.repository}

    succeeded, log, uploads = workflow("push", {"ref": "refs/heads/main", "repository": named, "after": sha})

    assert succeeded, log
    github.state.upload(run, uploads / "agent-eval-results")
    origin.branch("change")
    head = origin.commit({TOOLS: example[TOOLS].decode().replace(AS_GOOD, BROKEN)})
    origin.merge("change", "main")
    github.state.take_git(origin.root)
    github.state.pull(7, head_sha=head, head_ref="change")
    github.state.run(head, event="pull_request", branch="change", pulls=(7,))

    succeeded, log, uploads = workflow("pull_request", github.state.event_of(7))

    assert not succeeded, log
    results = json.loads((uploads / "agent-eval-results/results.json").read_text("utf-8"))
    assert (results["verdict"], results["gate"], results["baseline"]["source"]) == ("failed", "regressions", "artifact")
    [comment] = github.state.comments_of(7)
    assert comment.body.splitlines()[1].startswith("## ❌ Blocks the merge: 12 regressions "), comment.body
    assert "`tool_trajectory_avg_score` mean 1.00 → **" in comment.body, comment.body[:4000]
    page = f"{project.forge.url}/octo/agent/actions/runs/1/artifacts/9"
    assert page in comment.body, comment.body
    assert (uploads / "agent-eval-results-report.html").is_file()
    assert any("git-upload-pack" in path for path in project.forge.fetched)
