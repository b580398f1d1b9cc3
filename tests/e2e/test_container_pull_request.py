"""Pull requests in the container: the base's run recorded, the comment made and brought up to date, the base run again.

The clone is of depth 1 as by default, so that the base's commit is fetched with the token, by the container's git.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from container_engine import Engine
from container_pull_requests import Project, git_in, reachable, strangers
from fake_github import FakeGitHub
from git_server import GitServer
from github_runner import Finished, Runner

pytest_plugins = ["container_fixtures"]
pytestmark = pytest.mark.container

AS_GOOD = 'not wanted or device["room"].casefold() == wanted'
BROKEN = 'not room or device["room"] == room'
"""As in examples/home_automation_broken."""
SCHEDULED = '    return {"job": len(jobs), **device, "device_id": device_id, "status": status, "time": time}\n'
DOWN = '    return {"error": "the scheduler is down"}\n'
TOOLS = "home_automation/tools.py"


@pytest.fixture
def github(engine: Engine) -> Iterator[FakeGitHub]:
    address, name = reachable(engine)
    with FakeGitHub(repository="octo/agent", address=address, name=name) as fake:
        yield fake


@pytest.fixture
def forge(engine: Engine, github: FakeGitHub, tmp_path: Path) -> Iterator[GitServer]:
    address, name = reachable(engine)
    with GitServer(
        tmp_path / "forge", repository=github.state.repository, token=github.token, address=address, name=name
    ) as server:
        yield server


@pytest.fixture
def project(tmp_path: Path, github: FakeGitHub, forge: GitServer, runner: Runner) -> Project:
    return Project.make(tmp_path, github, forge, runner)


def ours(project: Project, number: int = 7) -> list[str]:
    return [one.body for one in project.github.state.comments_of(number) if one.body.startswith("<!-- agent-eval ")]


def newly_failing(done: Finished) -> set[str]:
    return {one["eval_id"] for one in done.results()["comparison"]["cases"] if one["change"] == "newly_failing"}


def check_left(project: Project, done: Finished) -> None:
    """Nothing is left of the run but its results, and those belong to whom the workspace belongs."""
    assert strangers(done.workspace) == []
    assert len(git_in(done.workspace, "worktree", "list").splitlines()) == 1
    assert not (done.workspace / ".git/worktrees").exists() or not list((done.workspace / ".git/worktrees").iterdir())
    status = git_in(done.workspace, "status", "--porcelain").splitlines()
    assert [line for line in status if "agent-eval-results" not in line] == []
    told = done.log + done.summary + "".join(done.file_commands.values())
    folder = done.workspace / "agent-eval-results"
    written = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert project.github.token not in told and project.github.token.encode() not in written


def test_a_worse_agent_is_told_in_one_comment_and_its_mending_too(project: Project) -> None:
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

    mended = project.pull_request(7, {TOOLS: good + "\n# As it was.\n"})

    assert (mended.exit_code, mended.results()["verdict"]) == (0, "passed"), mended.log
    assert ours(project)[0].splitlines()[1].startswith("## ✅ Passed")
    assert len(project.github.state.comments_of(7)) == 251
    check_left(project, mended)
