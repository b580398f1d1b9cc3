"""Pull requests in the container: the base's run recorded, the comment made and brought up to date, the base run again.

The clone is of depth 1 as by default, so that the base's commit is fetched with the token, by the container's git.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from container_pull_requests import AS_GOOD, BROKEN, TOOLS, Project, changed_in, git_in, strangers
from gate_runs import eval_set
from github_runner import SECRETS, Finished

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
